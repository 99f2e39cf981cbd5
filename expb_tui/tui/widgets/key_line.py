"""One line of keys and what they do here, made from the registry; what does not fit is left out by weight."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from textual.strip import Strip
from textual.widget import Widget

from expb_tui.present.cells import Cell, Tone
from expb_tui.tui.actions import Action, Keymap
from expb_tui.tui.widgets.lines import Line, Pen, width_of
from expb_tui.tui.widgets.look import look_of

_GAP = 2


class KeyLine(Widget):
    """``show`` takes the actions in any order; ``tail`` stands at the right end (a count of unread notices)."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "KeyLine { height: 1; width: 1fr; background: $panel; }"

    def __init__(self, *, on: str = "panel", id: str | None = None) -> None:
        super().__init__(id=id)
        self._on = on
        self._actions: tuple[Action, ...] = ()
        self._tail: Line = ()
        self._drawn: Hashable = None

    def show(self, actions: Iterable[Action], tail: Line = ()) -> None:
        """Draw again where something differs."""
        self._actions = tuple(sorted((action for action in actions if action.footer), key=lambda action: action.footer))
        self._tail = tail
        if self._drawn != (self._actions, self._tail):
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line: as many keys as fit before the tail, the least weighty left out first."""
        self._drawn = (self._actions, self._tail)
        look = look_of(self)
        style = look.palette.style
        keymap: Keymap = getattr(self.app, "keymap", None) or Keymap()
        width = self.size.width
        tail_width = sum(width_of(cell.text) for cell in self._tail)
        room = width - 2 - (tail_width + _GAP if tail_width else 0)
        pen = Pen().put(" ", style("text", self._on), 1)
        for action in self._actions:
            key = keymap.shown(action.id)
            size = width_of(key) + 1 + width_of(action.label)
            if pen.used - 1 + size > room:
                break
            pen.put(key, style("accent", self._on, bold=True)).put(
                " " + action.label + " " * _GAP, style("dim", self._on)
            )
        if tail_width:
            pen.fill(width - tail_width - 1, style("text", self._on))
            for text, tone in self._tail:
                pen.put(text, style(tone, self._on))
        return pen.strip(width, style("text", self._on))


def unread(count: int, worst: Tone) -> Line:
    """The tail that tells of notices not yet looked at."""
    return (Cell(f"! {count} new", worst),) if count else ()
