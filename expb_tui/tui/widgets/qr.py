"""A QR code that a phone reads off the terminal: dark on light in every theme, never clipped."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from expb_tui.present.qr import LEAST_QUIET_ZONE, QUIET_ZONE, QrMatrix, encode

_INK = Style(color="#000000", bgcolor="#ffffff")
_SOLID = Style(color="#000000", bgcolor="#000000")


def draw(matrix: QrMatrix, quiet_zone: int, *, halves: bool) -> list[Strip]:
    """The code as lines of cells whose colours are fixed, so that no theme can turn light and dark around."""
    width, height = matrix.cells(quiet_zone, halves=halves)
    if halves:
        return [Strip([Segment(line, _INK)], width) for line in matrix.half_block_lines(quiet_zone)]
    span = range(-quiet_zone, matrix.side + quiet_zone)
    return [
        Strip([Segment("  ", _SOLID if matrix.dark(row, column) else _INK) for column in span], width) for row in span
    ][:height]


class QrCode(Widget):
    """Shows ``text`` as a QR code in the middle of its room, or says that it does not fit; never a part of it."""

    DEFAULT_CSS = """
    QrCode { width: 1fr; height: 1fr; }
    """

    def __init__(self, text: str, *, halves: bool = True, widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self._halves = halves
        self._matrix = encode(text)
        self._drawn: list[Strip] = []

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._matrix = encode(text)
        self._arrange()

    def fits(self, room: Size) -> bool:
        """Whether the whole code, with a readable quiet zone, fits into ``room``."""
        return self._matrix.quiet_zone_for(room.width, room.height, halves=self._halves) is not None

    @property
    def least(self) -> Size:
        """The smallest room in which the code can be shown."""
        return Size(*self._matrix.cells(LEAST_QUIET_ZONE, halves=self._halves))

    @property
    def full(self) -> Size:
        """The room that it takes with the quiet zone that the standard asks for."""
        return Size(*self._matrix.cells(QUIET_ZONE, halves=self._halves))

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def _arrange(self) -> None:
        room = self.content_size
        quiet_zone = self._matrix.quiet_zone_for(room.width, room.height, halves=self._halves)
        self._drawn = [] if quiet_zone is None else draw(self._matrix, quiet_zone, halves=self._halves)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        room = self.content_size
        style = self.rich_style
        lines = self._drawn
        if not lines:
            least = self.least
            lines = [
                Strip([Segment(words, style)])
                for words in (
                    "The QR code does not fit here:",
                    f"it needs {least.width}x{least.height} cells, there are {room.width}x{room.height}.",
                    "Use the address and the code.",
                )
            ]
        index = y - max(0, (room.height - len(lines)) // 2)
        if not 0 <= index < len(lines):
            return Strip.blank(room.width, style)
        left = max(0, (room.width - lines[index].cell_length) // 2)
        return Strip.join([Strip.blank(left, style), lines[index]]).adjust_cell_length(room.width, style)
