"""Which columns of a table stand in a given room, and how wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from expb_tui.present.cells import Column
from expb_tui.tui.widgets.lines import width_of

GAP = 2
_LEAST = 8
_GIVE = 6
"""Cells of a text that a number after it may take."""


class Shape(NamedTuple):
    """Which columns are drawn and how wide each is, in cells."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    overflow: bool
    columns: tuple[Column, ...]


def shape(columns: tuple[Column, ...], needs: Sequence[int], room: int, skip: int = 0) -> Shape:
    """Which columns stand in ``room`` cells, and how wide.

    Columns come in order of importance: the last ones are left out where there is no room, after the first of them has
    taken what is left. A column's own width is a wish that is exceeded only where room remains. Scrolling leaves out
    ``skip`` columns after the first one that has a title.
    """
    pinned = next((index + 1 for index, column in enumerate(columns) if column.title), 1)
    skip = max(0, min(skip, len(columns) - pinned - 1))
    order = [*range(min(pinned, len(columns))), *range(pinned + skip, len(columns))]
    widths = [
        need if column.width is None else min(need, column.width) for column, need in zip(columns, needs, strict=True)
    ]
    shown: list[int] = []
    left = room
    for index in order:
        gap = gap_before(columns, shown)
        if widths[index] > left - gap:
            least = max(_LEAST, width_of(columns[index].title))
            before = shown[-1] if shown else None
            missing = gap + widths[index] - left
            if (
                before not in (None, order[0])
                and columns[index].align == "right"
                and columns[before].align == "left"
                and missing <= _GIVE
                and widths[before] - missing >= _LEAST
            ):
                # A number is worth more than the end of the long text before it.
                widths[before] -= missing
                shown.append(index)
                left = 0
                continue
            if shown and (columns[index].align == "right" or left - gap < least):
                break
            widths[index] = max(1, left - gap)
            shown.append(index)
            left = 0
            break
        shown.append(index)
        left -= gap + widths[index]
    for index in shown:
        more = min(left, needs[index] - widths[index])
        if more > 0:
            widths[index] += more
            left -= more
    return Shape(tuple(shown), tuple(widths), len(shown) < len(order), columns)


def gap_before(columns: tuple[Column, ...], before: Sequence[int]) -> int:
    """Cells between a column and the one before it; a column without a title holds a sign and stands close."""
    return 0 if not before else GAP if columns[before[-1]].title else 1
