"""Help is written for every place, with the keys and signs that are in force."""

from __future__ import annotations

import re

import pytest

from expb_tui.present.cells import ASCII, UNICODE, Glyphs
from expb_tui.tui.actions import ACTIONS, BY_ID, SCOPES, Keymap
from expb_tui.tui.screens.help import HelpText
from expb_tui.tui.screens.help_texts import HELP
from expb_tui.tui.theme import find
from expb_tui.tui.widgets.lines import width_of
from expb_tui.tui.widgets.look import Look

PANES = ("profiles", "work", "leases", "package")


class Alone(HelpText):
    """The text without an application."""

    @property
    def look(self) -> Look:
        return Look.of(find("dark"), ascii_only=self._glyphs is ASCII)


def shown(scopes: list[str], width: int, *, keymap: Keymap | None = None, glyphs: Glyphs = UNICODE) -> list[str]:
    text = Alone(scopes, keymap or Keymap(), glyphs)
    return ["".join(cell.text for cell in line) for line in text.wrapped(width)]


def test_every_place_with_keys_is_explained_and_nothing_else_is() -> None:
    assert set(HELP) == set(SCOPES) == {action.scope for action in ACTIONS}
    for pane in PANES:
        assert HELP[pane].shows
        assert HELP[pane].reading
        assert HELP[pane].next


def test_every_mark_in_the_texts_is_an_action_or_a_sign() -> None:
    for scope, help_ in HELP.items():
        texts = [*help_.shows, *help_.next, *(part for pair in help_.reading for part in pair)]
        for sign, name in re.findall(r"\{(sign:)?([^}]*)\}", "\n".join(texts)):
            assert name in (Glyphs._fields if sign else BY_ID), (scope, name)


@pytest.mark.parametrize("width", [40, 74, 98])
def test_it_fits_and_is_prose_before_it_is_keys(width: int) -> None:
    for pane in PANES:
        lines = shown([pane, "list", "global"], width)
        assert max(map(width_of, lines)) <= width
        order = [lines.index(words) for words in ("How to read it", "What one does next", "Keys")]
        assert order == sorted(order)


def test_the_keys_in_the_prose_are_those_in_force() -> None:
    changed = Keymap({"lease.renew": "w"})
    text = " ".join(" ".join(shown(["leases"], 98, keymap=changed)).split())
    assert "w renews now" in text
    assert "R renews now" in " ".join(" ".join(shown(["leases"], 98)).split())


def test_ascii_signs_leave_no_other_character() -> None:
    assert all(line.isascii() for line in shown(list(HELP), 98, glyphs=ASCII))
