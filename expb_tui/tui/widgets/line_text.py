"""A framed text to read: lines of cells, wrapped to the width, scrolled by lines, searched with the filter key."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from expb_tui.tui.widgets.line_panel import LinePanel
from expb_tui.tui.widgets.lines import Line, Pen, wrap


class LineText(LinePanel):
    """Give it lines; each is wrapped when the width is known. A line's leading spaces indent its continuation."""

    def __init__(
        self,
        *,
        number: str = "",
        title: str = "",
        framed: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(number=number, title=title, framed=framed, id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._body: list[Line] = []
        self._body_for: Hashable = None

    @property
    def lines(self) -> tuple[Line, ...]:
        """What was given, not wrapped."""
        return self._lines

    def set_lines(self, lines: Sequence[Line], *, keep_place: bool = True) -> None:
        """Show ``lines``; only those that differ are drawn again."""
        self._lines = tuple(lines)
        self._body_for = None
        if not keep_place:
            self.top = 0
        self.top = max(0, min(self.top, self.body_length() - self.page))
        self.update()

    def _wrapped_body(self) -> list[Line]:
        width = max(1, self.inner_width - 2)
        key = (id(self._lines), width)
        if self._body_for != key:
            self._body = []
            for line in self._lines:
                lead = line[0].text if line else ""
                self._body += wrap(line, width, indent=len(lead) - len(lead.lstrip(" ")))
            self._body_for = key
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
