"""A QR code that a phone reads off the terminal: dark on light in every theme, never clipped."""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

QUIET_ZONE = 4
"""Light modules around the code that the standard asks for; readers manage with :data:`LEAST_QUIET_ZONE`."""
LEAST_QUIET_ZONE = 2

_DARK_ON_LIGHT = Style(color="#000000", bgcolor="#ffffff")
_DARK = Style(color="#000000", bgcolor="#000000")
_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


@dataclass(frozen=True)
class QrMatrix:
    """The modules of one code, without a quiet zone; True is dark."""

    modules: tuple[tuple[bool, ...], ...]

    @property
    def side(self) -> int:
        """Modules along one edge."""
        return len(self.modules)

    def cells(self, quiet_zone: int, *, halves: bool) -> Size:
        """Terminal cells that the code takes: two modules a cell with half blocks, otherwise two cells a module."""
        side = self.side + 2 * quiet_zone
        return Size(side, (side + 1) // 2) if halves else Size(2 * side, side)

    def quiet_zone_for(self, room: Size, *, halves: bool) -> int | None:
        """The widest quiet zone with which the code fits into ``room``, or None where it does not fit whole."""
        for quiet_zone in range(QUIET_ZONE, LEAST_QUIET_ZONE - 1, -1):
            needed = self.cells(quiet_zone, halves=halves)
            if needed.width <= room.width and needed.height <= room.height:
                return quiet_zone
        return None


def encode(text: str) -> QrMatrix:
    """The smallest code for ``text`` (at most 2,953 bytes), at the highest error correction that keeps it so small."""
    import segno

    code = segno.make_qr(text, error="l", boost_error=True)
    return QrMatrix(tuple(tuple(bool(module) for module in row) for row in code.matrix))


def draw(matrix: QrMatrix, quiet_zone: int, *, halves: bool) -> list[Strip]:
    """The code as lines of cells whose colours are fixed, so that no theme can turn light and dark around."""
    side = matrix.side + 2 * quiet_zone

    def dark(row: int, column: int) -> bool:
        row, column = row - quiet_zone, column - quiet_zone
        return 0 <= row < matrix.side and 0 <= column < matrix.side and matrix.modules[row][column]

    if halves:
        return [
            Strip(
                [
                    Segment(
                        "".join(_HALVES[dark(row, column), dark(row + 1, column)] for column in range(side)),
                        _DARK_ON_LIGHT,
                    )
                ],
                side,
            )
            for row in range(0, side, 2)
        ]
    return [
        Strip([Segment("  ", _DARK if dark(row, column) else _DARK_ON_LIGHT) for column in range(side)], 2 * side)
        for row in range(side)
    ]


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
        return self._matrix.quiet_zone_for(room, halves=self._halves) is not None

    @property
    def least(self) -> Size:
        """The smallest room in which the code can be shown."""
        return self._matrix.cells(LEAST_QUIET_ZONE, halves=self._halves)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()

    def _arrange(self) -> None:
        quiet_zone = self._matrix.quiet_zone_for(self.content_size, halves=self._halves)
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
