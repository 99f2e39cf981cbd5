"""A framed text to read: lines of cells, wrapped to the width, scrolled by lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from expb_tui.tui.widgets.line_panel import LinePanel
from expb_tui.tui.widgets.lines import Line, Pen, hung


class LineText(LinePanel):
    """Give it lines; each is wrapped when the width is known. A line's leading spaces indent its continuation.

    A subclass that lays its text out by itself overrides ``wrapped`` and calls ``rewrap``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: tuple[Line, ...] = ()
        self._body: list[Line] = []
        self._body_for: int | None = None

    @property
    def lines(self) -> tuple[Line, ...]:
        """What was given, not wrapped."""
        return self._lines

    def set_lines(self, lines: Sequence[Line], *, keep_place: bool = True) -> None:
        """Show ``lines``; only those that differ are drawn again."""
        self._lines = tuple(lines)
        if not keep_place:
            self.top = 0
        self.rewrap()

    def rewrap(self) -> None:
        """The text has changed: lay it out again and repaint what differs."""
        self._body_for = None
        self.top = max(0, min(self.top, self.body_length() - self.page))
        self.update()

    def wrapped(self, width: int) -> list[Line]:
        """The text in lines of at most ``width`` cells."""
        body: list[Line] = []
        for line in self._lines:
            body += hung(line, width)
        return body

    def _wrapped_body(self) -> list[Line]:
        width = max(1, self.inner_width - 2)
        if self._body_for != width:
            self._body = self.wrapped(width)
            self._body_for = width
        return self._body

    def body_length(self) -> int:
        return len(self._wrapped_body())

    def body_key(self, index: int) -> Hashable:
        return self._wrapped_body()[index]

    def draw_body(self, pen: Pen, index: int, width: int) -> None:
        palette = self.look.palette
        pen.put(" ", palette.style("text"), 1)
        for text, tone in self._wrapped_body()[index]:
            pen.put(text, palette.style(tone))

    def back(self) -> bool:
        """Nothing to undo."""
        return False
