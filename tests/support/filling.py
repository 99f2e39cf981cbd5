"""Filling a form as a person does: by Tab, arrows, Space and typing, told only which answer belongs to which field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events

from expb_tui.tui.widgets.controls import ChoiceLine, LineButton, PickLines, Tick
from expb_tui.tui.widgets.question import Question
from tests.support.cockpit import PilotCockpit

MOST_STEPS = 80


def question(cockpit: PilotCockpit) -> Question | None:
    """The innermost field with the focus."""
    node = cockpit.app.screen.focused
    for above in node.ancestors_with_self if node is not None else ():
        if isinstance(above, Question):
            return above
    return None


async def fill(cockpit: PilotCockpit, answers: Mapping[str, str | Sequence[str]]) -> None:
    """Go through the fields with Tab and give the answers; a sequence picks lines of a list."""
    left = dict(answers)
    for _ in range(MOST_STEPS):
        here = question(cockpit)
        control = here.control if here is not None else None
        if here is not None and here.field.key in left and control is cockpit.app.screen.focused:
            await _answer(cockpit, control, left.pop(here.field.key))
            if not left:
                return
        await cockpit.key("tab")
    raise AssertionError(f"no field for {sorted(left)}; on the screen:\n{cockpit.text}")


async def paste(cockpit: PilotCockpit, text: str) -> None:
    """What a terminal's paste sends to the control with the focus."""
    focused = cockpit.app.screen.focused
    assert focused is not None
    focused.post_message(events.Paste(text))
    await cockpit.pilot.pause()


async def press_button(cockpit: PilotCockpit, words: str) -> None:
    """Tab to a button of these words and press it."""
    for _ in range(MOST_STEPS):
        focused = cockpit.app.screen.focused
        if isinstance(focused, LineButton) and focused.words == words:
            await cockpit.key("enter")
            return
        await cockpit.key("tab")
    raise AssertionError(f"no button {words!r}; on the screen:\n{cockpit.text}")


async def _answer(cockpit: PilotCockpit, control: object, answer: str | Sequence[str]) -> None:
    if isinstance(control, ChoiceLine):
        while control.value != answer:
            await cockpit.key("right")
    elif isinstance(control, PickLines):
        for value in control.offered:
            if (value in answer) != (value in control.value):
                await cockpit.key("space")
            if value != control.offered[-1]:
                await cockpit.key("down")
    elif isinstance(control, Tick):
        if (answer == "yes") != control.value:
            await cockpit.key("space")
    else:
        assert isinstance(answer, str)
        if len(answer) < 5:
            await cockpit.type(answer)
        else:
            await paste(cockpit, answer)
