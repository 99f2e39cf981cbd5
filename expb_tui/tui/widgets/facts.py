"""Labels and values of a table with two columns, laid out as lines."""

from __future__ import annotations

from expb_tui.present.cells import Cell, Table
from expb_tui.tui.widgets.lines import Line, width_of, wrap

_TWO = 60
"""Cells from which two facts share a line."""
_GAP = 2


def fact_lines(facts: Table, width: int) -> list[Line]:
    """Label and value; two of them on a line where both are short and there is room, longer ones wrapped."""
    if not facts.rows:
        return []
    room = max(width_of(row.cells[0].text) for row in facts.rows) + _GAP
    half = width // 2 if width >= _TWO else width
    lines: list[Line] = []
    waiting: Line | None = None
    for row in facts.rows:
        label, value = row.cells
        head = Cell(f"{label.text:<{room}}", label.tone)
        if half < width and width_of(value.text) <= half - room - 2:
            if waiting is None:
                waiting = (head, value)
            else:
                gap = half - sum(width_of(cell.text) for cell in waiting)
                lines.append((*waiting, Cell(" " * gap), head, value))
                waiting = None
            continue
        if waiting is not None:
            lines.append(waiting)
            waiting = None
        for place, line in enumerate(wrap((value,), max(8, width - room))):
            lines.append((head if not place else Cell(" " * room), *line))
    return [*lines, waiting] if waiting is not None else lines
