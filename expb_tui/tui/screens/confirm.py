"""The question before something is changed: what, which, and what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult

from expb_tui.tui.actions import Action, bindings
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, wrap

_MOST = 18
_WIDTH = 76


class ConfirmScreen(Dialog[bool]):
    """Dismisses with True only for Enter or y. ``lines`` name the target; texts in them are clean."""

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog", "confirm")
    BINDINGS = bindings("confirm")

    def __init__(self, title: str, lines: Sequence[Line], *, verb: str) -> None:
        super().__init__(title, width=_WIDTH)
        self._lines = tuple(lines)
        self.verb = verb

    def compose_body(self) -> ComposeResult:
        self._text = LineText(framed=False, id="question")
        self.show_lines(self._lines)
        yield self._text

    def show_lines(self, lines: Sequence[Line]) -> None:
        """What the question is about; again where that has changed meanwhile."""
        self._text.styles.height = min(_MOST, sum(len(wrap(line, _WIDTH - 8)) for line in lines) + 1)
        self._text.set_lines(((), *lines))

    def hints(self) -> list[Action]:
        labels = {"dialog.accept": self.verb, "dialog.close": "Cancel"}
        return [action._replace(label=labels.get(action.id, action.label)) for action in self.actions_here()]

    def act_dialog_accept(self) -> None:
        self.dismiss(True)

    def act_confirm_yes(self) -> None:
        self.dismiss(True)

    def act_confirm_no(self) -> None:
        self.dismiss(False)
