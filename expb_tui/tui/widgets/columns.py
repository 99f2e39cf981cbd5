"""Which columns of a table stand in a given room and how wide; which rows, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from expb_tui.present.cells import Column, Row
from expb_tui.tui.widgets.lines import width_of

GAP = 2
_LEAST = 8
_GIVE = 6
"""Cells of a text that a number after it may take."""
_DURATION = re.compile(r"(\d+)([smhd])\b")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER = re.compile(r"(\d+)")


class Shape(NamedTuple):
    """Which columns are drawn and how wide each is, in cells."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    overflow: bool
    columns: tuple[Column, ...]


def natural_widths(columns: tuple[Column, ...], rows: Iterable[Row], floor: Sequence[int] = ()) -> list[int]:
    """What each column's content needs, in cells, and at least ``floor``: widths that shrink with a tick would jump."""
    needs = [width_of(column.title) for column in columns]
    for index, least in enumerate(floor):
        needs[index] = max(needs[index], least)
    for row in rows:
        for index, cell in enumerate(row.cells):
            size = width_of(cell.text)
            if size > needs[index]:
                needs[index] = size
    return needs


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


def sort_value(text: str) -> tuple[int, list[tuple[int, float, str]]]:
    """Natural order: durations by length, numbers in text by value, everything else by letters; ``-`` comes last."""
    if text == "-":
        return (1, [])
    if (found := _DURATION.search(text)) and found.start() < 4:
        return (0, [(0, float(found[1]) * _SECONDS[found[2]], "")])
    parts = _NUMBER.split(text.lower())
    return (0, [(0, float(part), "") if part.isdigit() else (1, 0.0, part) for part in parts if part])


def arranged(rows: Iterable[Row], wanted: str, sorted_by: tuple[int, bool] | None) -> tuple[Row, ...]:
    """The rows that hold every word of ``wanted``, in their own order or by a column (and whether descending)."""
    words = tuple(wanted.lower().split())
    found: Iterable[Row] = (row for row in rows if holds(row, words)) if words else rows
    if sorted_by is not None:
        column, descending = sorted_by
        found = sorted(found, key=lambda row: sort_value(row.cells[column].text), reverse=descending)
    return tuple(found)


def holds(row: Row, words: tuple[str, ...]) -> bool:
    """Whether every word, in lower case, stands somewhere in the row."""
    text = "\n".join(cell.text for cell in row.cells).lower()
    return all(word in text for word in words)
