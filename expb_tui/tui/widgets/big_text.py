"""A short code in large type, or bold and spaced out where blocks cannot be drawn or do not fit."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from expb_tui.present.large_type import LINES, large_lines, large_width


class BigText(Widget):
    """``text`` centred: large where it fits and ``blocks`` may be drawn, otherwise bold and spaced out."""

    DEFAULT_CSS = f"""
    BigText {{ width: 1fr; height: auto; max-height: {LINES}; }}
    """

    def __init__(self, text: str = "", *, blocks: bool = True, widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self._text = text
        self._blocks = blocks

    @property
    def text(self) -> str:
        """What is shown."""
        return self._text

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._text = text
        self.refresh(layout=True)

    def _lines(self, width: int) -> list[str]:
        if self._blocks and large_width(self._text) <= width and (large := large_lines(self._text)) is not None:
            return large
        spaced = " ".join(self._text)
        return [spaced if len(spaced) <= width else self._text[:width]]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        room = self.content_size
        lines = self._lines(room.width)
        index = y - max(0, (room.height - len(lines)) // 2)
        if not 0 <= index < len(lines):
            return Strip.blank(room.width, self.rich_style)
        left = max(0, (room.width - len(lines[index])) // 2)
        return Strip.join(
            [Strip.blank(left, self.rich_style), Strip([Segment(lines[index], self.rich_style + Style(bold=True))])]
        ).adjust_cell_length(room.width, self.rich_style)
