"""Widgets of one line: header, tabs, status and keys. Each is drawn again only when what it shows has changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from expb_tui.present.cells import Cell, Tone
from expb_tui.tui.actions import Action, Keymap
from expb_tui.tui.widgets.lines import Line, Pen, fit, width_of
from expb_tui.tui.widgets.look import Look, look_of

_GAP = 2


class OneLine(Widget):
    """Subclasses say what the picture depends on and draw it."""

    ALLOW_SELECT = False
    virtual_size: Reactive[Size] = Reactive(Size(0, 0), repaint=False)
    """As Textual's own, but a new size is not a reason to paint twice: it scrolls nothing here."""
    DEFAULT_CSS = "OneLine { height: 1; width: 1fr; background: $panel; }"
    on = "panel"
    """The background's tone."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: Hashable = None

    def content(self) -> Hashable:
        """All that ``draw`` uses, apart from width and look."""
        raise NotImplementedError

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        """Draw the line in ``width`` cells."""
        raise NotImplementedError

    def update(self) -> None:
        """Draw again where something differs."""
        if self.is_mounted and self._drawn != self.content():
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The one line."""
        self._drawn = self.content()
        look = look_of(self)
        pen = Pen()
        self.draw(pen, self.size.width, look)
        return pen.strip(self.size.width, look.palette.style("text", self.on))


class Piece(NamedTuple):
    """Part of the header; where there is no room, pieces with the highest ``rank`` go first. Rank 0 always stays."""

    cells: Line
    rank: int = 0

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return sum(width_of(cell.text) for cell in self.cells)


class HeadLine(OneLine):
    """Pieces at the left and at the right end."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: tuple[Piece, ...] = ()
        self._right: tuple[Piece, ...] = ()

    def show(self, left: Iterable[Piece], right: Iterable[Piece]) -> None:
        """Draw these."""
        self._left, self._right = tuple(left), tuple(right)
        self.update()

    def content(self) -> Hashable:
        return (self._left, self._right)

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        left, right = _that_fit(self._left, self._right, width - 2)
        plain = look.palette.style("text", self.on)
        pen.put(" ", plain, 1)
        _put(pen, left, look, self.on)
        size = sum(piece.width for piece in right) + _GAP * max(0, len(right) - 1)
        pen.fill(width - size - 1, plain)
        _put(pen, right, look, self.on)


def _that_fit(left: Sequence[Piece], right: Sequence[Piece], room: int) -> tuple[list[Piece], list[Piece]]:
    keep_left, keep_right = list(left), list(right)
    while True:
        pieces = keep_left + keep_right
        if sum(piece.width for piece in pieces) + _GAP * max(0, len(pieces) - 1) <= room:
            return keep_left, keep_right
        worst = max(pieces, key=lambda piece: piece.rank, default=None)
        if worst is None or worst.rank == 0:
            return keep_left, keep_right
        (keep_left if worst in keep_left else keep_right).remove(worst)


def _put(pen: Pen, pieces: Iterable[Piece], look: Look, on: str) -> None:
    for index, piece in enumerate(pieces):
        if index:
            pen.put(" " * _GAP, look.palette.style("text", on), _GAP)
        for text, tone in piece.cells:
            pen.put(text, look.palette.style(tone, on, bold=tone is Tone.ACCENT))


class TabLine(OneLine):
    """The panes by number and name where only one of them is shown; a click goes there."""

    class Chosen(Message):
        """``key`` is that of the tab."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, tabs: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._tabs = tuple(tabs)
        self._active = ""

    def show(self, active: str) -> None:
        """Mark this tab."""
        self._active = active
        self.update()

    def content(self) -> Hashable:
        return (self._tabs, self._active)

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        style = look.palette.style
        for key, title in self._tabs:
            if key == self._active:
                pen.put(f"{look.glyphs.live}{title} ", style("accent", "cursor", bold=True))
            else:
                pen.put(f" {title} ", style("dim", self.on))
            pen.put(" ", style("text", self.on), 1)

    def on_click(self, event: events.Click) -> None:
        """Go to the tab under the pointer."""
        start = 0
        for key, title in self._tabs:
            end = start + width_of(title) + 2
            if start <= event.x < end:
                self.post_message(self.Chosen(key))
            start = end + 1


class StatusLine(OneLine):
    """What is running, or what was told last; the right end says when."""

    DEFAULT_CSS = "StatusLine { background: $surface; }"
    on = "surface"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._line: Line = ()
        self._tail: Line = ()

    def show(self, line: Line, tail: Line = ()) -> None:
        """Draw these."""
        self._line, self._tail = line, tail
        self.update()

    def content(self) -> Hashable:
        return (self._line, self._tail)

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        style = look.palette.style
        tail = sum(width_of(cell.text) for cell in self._tail)
        room = width - 2 - (tail + _GAP if tail else 0)
        pen.put(" ", style("text", self.on), 1)
        for text, tone in self._line:
            size = width_of(text)
            pen.put(text if size <= room else fit(text, max(0, room), look.glyphs.more), style(tone, self.on))
            room -= min(size, max(0, room))
        if tail:
            pen.fill(width - tail - 1, style("text", self.on))
            for text, tone in self._tail:
                pen.put(text, style(tone, self.on))


class KeyLine(OneLine):
    """Keys and what they do here, made from the registry; what does not fit is left out by weight."""

    def __init__(self, *, on: str = "panel", id: str | None = None) -> None:
        super().__init__(id=id)
        self.on = on
        self._actions: tuple[Action, ...] = ()
        self._tail: Line = ()

    def show(self, actions: Iterable[Action], tail: Line = ()) -> None:
        """Draw the actions that have a weight, in its order; ``tail`` stands at the right end."""
        self._actions = tuple(sorted((action for action in actions if action.footer), key=lambda action: action.footer))
        self._tail = tail
        self.update()

    def content(self) -> Hashable:
        return (self._actions, self._tail)

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        style = look.palette.style
        keymap: Keymap = getattr(self.app, "keymap", None) or Keymap()
        tail = sum(width_of(cell.text) for cell in self._tail)
        room = width - 2 - (tail + _GAP if tail else 0)
        pen.put(" ", style("text", self.on), 1)
        sizes = {action.id: width_of(keymap.shown(action.id)) + 1 + width_of(action.label) for action in self._actions}
        # The last one, help, always has its place: it leads to all that is left out.
        last = self._actions[-1].id if self._actions else ""
        for action in self._actions:
            key = keymap.shown(action.id)
            reserved = 0 if action.id == last else sizes[last] + _GAP
            if pen.used - 1 + sizes[action.id] + reserved > room:
                continue
            pen.put(key, style("accent", self.on, bold=True))
            pen.put(f" {action.label}" + " " * _GAP, style("dim", self.on))
        if tail:
            pen.fill(width - tail - 1, style("text", self.on))
            for text, tone in self._tail:
                pen.put(text, style(tone, self.on))


def unread(count: int, worst: Tone) -> Line:
    """The tail that tells of notices not yet looked at."""
    return (Cell(f"! {count} new", worst),) if count else ()
