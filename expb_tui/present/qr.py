"""A QR code as modules and as terminal lines; faces colour it dark on light, whatever their theme."""

from __future__ import annotations

from typing import NamedTuple

QUIET_ZONE = 4
"""Light modules around the code that the standard asks for; readers manage with :data:`LEAST_QUIET_ZONE`."""
LEAST_QUIET_ZONE = 2

_HALVES = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


class QrMatrix(NamedTuple):
    """The modules of one code, without a quiet zone; True is dark."""

    modules: tuple[tuple[bool, ...], ...]

    @property
    def side(self) -> int:
        """Modules along one edge."""
        return len(self.modules)

    def cells(self, quiet_zone: int, *, halves: bool) -> tuple[int, int]:
        """Columns and lines that it takes: two modules a cell with half blocks, otherwise two cells a module."""
        side = self.side + 2 * quiet_zone
        return (side, (side + 1) // 2) if halves else (2 * side, side)

    def quiet_zone_for(self, columns: int, lines: int, *, halves: bool) -> int | None:
        """The widest quiet zone with which the whole code fits into the room, or None where it does not fit."""
        for quiet_zone in range(QUIET_ZONE, LEAST_QUIET_ZONE - 1, -1):
            wide, high = self.cells(quiet_zone, halves=halves)
            if wide <= columns and high <= lines:
                return quiet_zone
        return None

    def dark(self, row: int, column: int) -> bool:
        """Whether a module is dark; everything outside the code is light."""
        return 0 <= row < self.side and 0 <= column < self.side and self.modules[row][column]

    def half_block_lines(self, quiet_zone: int) -> list[str]:
        """Two modules a cell, for dark ink on a light ground; the last line may hold half a module more of light."""
        span = range(-quiet_zone, self.side + quiet_zone)
        return [
            "".join(_HALVES[self.dark(row, column), self.dark(row + 1, column)] for column in span)
            for row in range(span.start, span.stop, 2)
        ]


def encode(text: str) -> QrMatrix:
    """The smallest code for ``text`` (at most 2,953 bytes), at the highest error correction that keeps it so small."""
    import segno

    code = segno.make_qr(text, error="l", boost_error=True)
    return QrMatrix(tuple(tuple(bool(module) for module in row) for row in code.matrix))
