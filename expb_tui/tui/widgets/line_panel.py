"""A framed widget that is drawn line by line and repaints exactly the lines whose content changed.

Every line has a key that holds all that its picture depends on. ``update`` compares the keys with those last drawn and
refreshes the difference, so that a move of the cursor costs two lines and an idle pane nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Self

from textual import events
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from expb_tui.tui.actions import bindings
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.lines import Line, Pen, fit, hung, shortened, width_of
from expb_tui.tui.widgets.look import Look, look_of

_WHEEL = 3
_STRIPS = 192
"""Drawn lines that are kept: two screens of them."""


class LinePanel(Acts, Widget, can_focus=True):
    """Base of tables and texts. Subclasses give the body: its length, the key and the strip of each of its lines."""

    ALLOW_SELECT = False
    SCOPES: ClassVar[tuple[str, ...]] = ("list",)
    BINDINGS = bindings("list")
    virtual_size: Reactive[Size] = Reactive(Size(0, 0), repaint=False)
    """As Textual's own, but a new size is not a reason to paint twice: it scrolls nothing here."""
    DEFAULT_CSS = "LinePanel { height: 1fr; width: 1fr; background: $surface; }"

    def __init__(
        self,
        *,
        number: str = "",
        title: str = "",
        framed: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.number = number
        self.title = title
        self.framed = framed
        self.state: Line = ()
        """Shown at the right end of the upper border: a count, an age, a warning."""
        self.empty: tuple[Line, ...] = ()
        """Shown instead of the body while it has no lines: why, and which key is next."""
        self.tail: tuple[Line, ...] = ()
        """Shown below the body as far as there is room: what is to be said of the row under the cursor."""
        self.top = 0
        """The first body line on the screen."""
        self._held_size: Size | None = None
        self._drawn: dict[int, Hashable] = {}
        self._strips: LRUCache[Hashable, Strip] = LRUCache(_STRIPS)
        self._wrapped: tuple[Hashable, list[Line]] = (None, [])

    # What a subclass gives

    def body_length(self) -> int:
        """How many lines the body has in all."""
        raise NotImplementedError

    def body_key(self, index: int) -> Hashable:
        """Everything that the picture of a body line depends on, apart from look and width."""
        raise NotImplementedError

    def draw_body(self, pen: Pen, index: int, width: int) -> None:
        """Draw a body line in ``width`` cells."""
        raise NotImplementedError

    def head_key(self) -> Hashable:
        """Like ``body_key`` for the line between the upper border and the body; None where there is none."""
        return None

    def draw_head(self, pen: Pen, width: int) -> None:
        """Draw the line that ``head_key`` announced."""

    def notes(self) -> tuple[Line, ...]:
        """What stands below the body, or instead of it."""
        return self.tail if self.body_length() else self.empty

    def wanted(self) -> int:
        """Lines that would show everything: the body and what stands below it or instead of it."""
        return self.body_length() + (len(self._notes()) if self.size.width else 0)

    def foot(self) -> Line:
        """Shown at the left end of the lower border: a filter, a hint."""
        return ()

    def place(self) -> str:
        """Shown at the right end of the lower border: where one is in a long list."""
        return ""

    # Geometry

    @property
    def look(self) -> Look:
        """Palette and glyphs of the application."""
        return look_of(self)

    @property
    def size(self) -> Size:
        """As Textual's own, which is worked out anew at each question: a pass over the lines asks once."""
        return self._held_size or super().size

    @property
    def inner_width(self) -> int:
        """Cells between the borders."""
        return max(0, self.size.width - (2 if self.framed else 0))

    @property
    def page(self) -> int:
        """Body lines that fit on the screen."""
        return max(1, self.size.height - self._above() - (1 if self.framed else 0))

    def _above(self) -> int:
        return (1 if self.framed else 0) + (0 if self.head_key() is None else 1)

    def line_of(self, index: int) -> int:
        """The widget's line on which a body line stands; may lie outside."""
        return index - self.top + self._above()

    def scroll_to_line(self, top: int) -> None:
        """Put body line ``top`` first, as far as the length allows."""
        self.top = max(0, min(top, self.body_length() - self.page))
        self.update()

    # Repainting

    def update(self) -> None:
        """Refresh the lines whose key differs from what is on the screen."""
        if not self.is_mounted or not self.size:
            return
        self._held_size = size = self.size
        try:
            regions = [Region(0, y, size.width, 1) for y in range(size.height) if self._key(y) != self._drawn.get(y)]
        finally:
            self._held_size = None
        if regions:
            self.refresh(*regions)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Textual asks for a whole repaint at every change of focus; the lines that did not change are left alone."""
        if regions or not repaint or not self.is_mounted or not self.size:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if layout or recompose:
            super().refresh(repaint=False, layout=layout, recompose=recompose)
        self.update()
        return self

    def _key(self, y: int) -> Hashable:
        width, height = self.size
        look = self.look
        if self.framed:
            if y == 0:
                return ("top", self.number, self.title, self.state, self.has_focus, width, look)
            if y == height - 1:
                return ("foot", self.foot(), self.place(), self.has_focus, width, look)
        edge = (self.framed and self.has_focus, self._thumb(y), width, look)
        above = self._above()
        if y == above - 1:
            return ("head", self.head_key(), edge)
        index = self.top + y - above
        length = self.body_length()
        if index < length:
            return ("body", self.body_key(index), edge)
        lines = self._notes()
        if 0 <= index - length < len(lines):
            return ("note", lines[index - length], edge)
        return ("blank", edge)

    def render_line(self, y: int) -> Strip:
        """Textual asks for one line; drawn ones are kept by their key."""
        key = self._key(y)
        self._drawn[y] = key
        strip = self._strips.get(key)
        if strip is None:
            strip = self._draw(y, key)
            self._strips[key] = strip
        return strip

    def _draw(self, y: int, key: Any) -> Strip:
        width = self.size.width
        palette = self.look.palette
        kind = key[0]
        pen = Pen()
        if kind == "top":
            return self._draw_top(pen)
        if kind == "foot":
            return self._draw_foot(pen)
        edge = palette.style("accent" if self.has_focus else "edge")
        thumb = self._thumb(y)
        inner = self.inner_width
        if self.framed:
            pen.put(self.look.frame.vertical, edge, 1)
        elif thumb:
            inner -= 1
        start = pen.used
        if kind == "head":
            self.draw_head(pen, inner)
        elif kind == "body":
            self.draw_body(pen, self.top + y - self._above(), inner)
        elif kind == "note":
            pen.put(" ", palette.style("text"), 1)
            for text, tone in key[1]:
                pen.put(text, palette.style(tone))
        blank = palette.style("text")
        if self.framed:
            pen.fill(start + inner, blank)
            pen.put(self.look.frame.thumb if thumb else self.look.frame.vertical, edge, 1)
        elif thumb:
            pen.fill(width - 1, blank).put(self.look.frame.thumb, palette.style("edge"), 1)
        return pen.strip(width, blank)

    def _draw_top(self, pen: Pen) -> Strip:
        palette, frame, glyphs = self.look.palette, self.look.frame, self.look.glyphs
        width = self.size.width
        edge = palette.style("accent" if self.has_focus else "edge")
        pen.put(frame.top_left, edge, 1).put(glyphs.live if self.has_focus else frame.horizontal, edge, 1)
        room = width - 4
        title = " ".join(part for part in (self.number, self.title) if part)
        state = shortened(self.state, room - width_of(title) - 5, glyphs.more)
        state_width = sum(width_of(cell.text) for cell in state)
        if title:
            pen.put(" ", edge, 1)
            text = fit(title, min(width_of(title), max(0, room - 2)), glyphs.more)
            head = len(self.number) if text.startswith(self.number) else 0
            pen.put(text[:head], palette.style("accent", bold=self.has_focus))
            pen.put(text[head:], palette.style("accent" if self.has_focus else "text", bold=self.has_focus))
            pen.put(" ", edge, 1)
        if state_width:
            pen.fill(width - state_width - 4, edge, frame.horizontal).put(" ", edge, 1)
            for text, tone in state:
                pen.put(text, palette.style(tone))
            pen.put(" ", edge, 1)
        pen.fill(width - 1, edge, frame.horizontal).put(frame.top_right, edge, 1)
        return pen.strip(width, edge)

    def _draw_foot(self, pen: Pen) -> Strip:
        palette, frame = self.look.palette, self.look.frame
        width = self.size.width
        edge = palette.style("accent" if self.has_focus else "edge")
        pen.put(frame.bottom_left + frame.horizontal, edge, 2)
        foot = self.foot()
        if foot:
            pen.put(" ", edge, 1)
            room = width - 5
            for text, tone in foot:
                piece = fit(text, min(width_of(text), max(0, room)), self.look.glyphs.more)
                room -= width_of(piece)
                if piece:
                    pen.put(piece, palette.style(tone))
            pen.put(" ", edge, 1)
        place = self.place()
        if place and pen.used + len(place) + 5 <= width:
            pen.fill(width - len(place) - 4, edge, frame.horizontal)
            pen.put(f" {place} ", palette.style("dim"))
        pen.fill(width - 1, edge, frame.horizontal).put(frame.bottom_right, edge, 1)
        return pen.strip(width, edge)

    def _thumb(self, y: int) -> bool:
        """Whether the right border, or the last cell where there is none, shows the thumb of the position here."""
        length, page = self.body_length(), self.page
        if length <= page:
            return False
        size = max(1, page * page // length)
        first = (page - size) * self.top // max(1, length - page)
        return first <= y - self._above() < first + size

    def _notes(self) -> list[Line]:
        """Wrapped lines after the body, a blank one first."""
        notes = self.notes()
        key = (notes, self.inner_width)
        if self._wrapped[0] != key:
            lines: list[Line] = [()] if notes else []
            for line in notes:
                lines += hung(line, max(1, self.inner_width - 2))
            self._wrapped = (key, lines)
        return self._wrapped[1]

    # Events

    def on_resize(self, event: events.Resize) -> None:
        """Keep the position valid; Textual has repainted already, with the old one."""
        self.resized()
        self.update()

    def resized(self) -> None:
        """Bring the position into what the new size allows."""
        self.top = max(0, min(self.top, self.body_length() - self.page))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """One notch of the wheel."""
        event.stop()
        self.wheel(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """One notch of the wheel."""
        event.stop()
        self.wheel(-_WHEEL)

    def wheel(self, lines: int) -> None:
        """Scroll by ``lines``."""
        self.scroll_to_line(self.top + lines)

    def take_key(self, key: str, character: str | None) -> bool:
        """Whether a key is text for this widget; the application asks before it looks for actions."""
        return False

    # Moving: what the list actions mean here

    def move(self, lines: int) -> None:
        """Go ``lines`` forward, or back where negative."""
        self.scroll_to_line(self.top + lines)

    def act_list_down(self) -> None:
        self.move(1)

    def act_list_up(self) -> None:
        self.move(-1)

    def act_list_top(self) -> None:
        self.move(-self.body_length())

    def act_list_bottom(self) -> None:
        self.move(self.body_length())

    def act_list_page_down(self) -> None:
        self.move(self.page)

    def act_list_page_up(self) -> None:
        self.move(-self.page)

    def act_list_half_down(self) -> None:
        self.move(max(1, self.page // 2))

    def act_list_half_up(self) -> None:
        self.move(-max(1, self.page // 2))
