"""Which rows of a table are shown and in which order: filter and sorting, quick enough for a key press on ten thousand.

What is worked out of a row (its text in lower case, its place in an order) is kept while the row is the same object: a
tick of a countdown makes a few rows anew, and costs those few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from expb_tui.present.cells import Column, Row, Table
from expb_tui.tui.widgets.lines import width_of

_DURATION = re.compile(r"(?:\d+[smhd]\b ?)+")
_PART = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NUMBER = re.compile(r"(\d+)")

NO_ROWS = Table((), ())

Value = TypeVar("Value")
SortValue = tuple[int, tuple[tuple[int, float, str], ...]]


class Order(NamedTuple):
    """By which column rows are sorted."""

    column: int
    descending: bool = False


class ViewState(NamedTuple):
    """How a person looks at a table: what can be lost by a key and had again."""

    filter: str
    words: tuple[str, ...]
    marks: frozenset[str]
    sorted_by: Order | None


class _OfRows(Generic[Value]):
    """A value for each row, made again only for rows that are other objects than before."""

    def __init__(self, make: Callable[[Row], Value]) -> None:
        self._make = make
        self._rows: Sequence[Row] = ()
        self._values: list[Value] = []

    def of(self, rows: Sequence[Row]) -> list[Value]:
        """The values of ``rows``, in their order."""
        if rows is not self._rows:
            known = {id(row): value for row, value in zip(self._rows, self._values, strict=True)}
            self._values = [known[id(row)] if id(row) in known else self._make(row) for row in rows]
            self._rows = rows
        return self._values


class Arrangement:
    """Give it tables and wishes; ``rows`` is what is to be shown."""

    def __init__(self, table: Table = NO_ROWS) -> None:
        self.table = table
        self.rows: tuple[Row, ...] = table.rows
        self.filter = ""
        self.words: tuple[str, ...] = ()
        """Those of the last filter, in lower case; they stay when it is gone, to be highlighted and stepped through."""
        self.sorted_by: Order | None = None
        """None for the order that the rows came in."""
        self._texts = _OfRows(_text)
        self._order: tuple[int, _OfRows[SortValue]] | None = None
        self._widths: list[int] = []
        self._measured: Sequence[Row] = ()

    def show(self, table: Table) -> None:
        """Other rows, or the same ones changed."""
        if table.columns != self.table.columns:
            self._widths = []
            self.sorted_by = None
        self.table = table
        self.arrange()

    def set_filter(self, text: str) -> None:
        """Show only rows that hold every word of ``text``."""
        self.filter = text
        if text:
            self.words = tuple(text.lower().split())
        self.arrange()

    def sort(self, by: Order | None) -> None:
        """Another order."""
        self.sorted_by = by
        self.arrange()

    def arrange(self) -> None:
        """Filter and sort again, after ``filter``, ``words`` or ``sorted_by`` were set."""
        before, given = self.rows, self.table.rows
        rows = given
        words = tuple(self.filter.lower().split())
        if words:
            rows = tuple(
                row
                for row, text in zip(given, self._texts.of(given), strict=True)
                if all(word in text for word in words)
            )
        elif not self.words:
            self._texts = _OfRows(_text)
        if self.sorted_by is None:
            self._order = None
        else:
            rows = self._sorted(rows, self.sorted_by)
        self.rows = rows
        if len(rows) != len(before) or (
            any(row is not old and row.key != old.key for row, old in zip(rows, before, strict=True))
            and {row.key for row in rows} != {row.key for row in before}
        ):
            self._widths = []

    def _sorted(self, rows: tuple[Row, ...], by: Order) -> tuple[Row, ...]:
        if self._order is None or self._order[0] != by.column:
            self._order = (by.column, _OfRows(lambda row: sort_value(row.cells[by.column].text)))
        values = {id(row): value for row, value in zip(rows, self._order[1].of(rows), strict=True)}
        return tuple(sorted(rows, key=lambda row: values[id(row)], reverse=by.descending))

    def widths(self) -> list[int]:
        """What each column's content needs, in cells. With the same rows they only grow: what shrinks would jump."""
        if not self._widths:
            self._widths = natural_widths(self.table.columns, ())
            self._measured = ()
        grow(self._widths, self.rows, self._measured)
        self._measured = self.rows
        return self._widths

    def steady(self, seen: Sequence[str], top: int) -> int:
        """The first line that leaves most of ``seen`` where it is; ``top`` was the first one, and a head stays one."""
        if top == 0 or seen == [row.key for row in self.rows[top : top + len(seen)]]:
            return top
        was = {key: top + index for index, key in enumerate(seen)}
        moved = sorted(index - was[row.key] for index, row in enumerate(self.rows) if row.key in was)
        return top + moved[len(moved) // 2] if moved else top

    def place_of(self, key: str, near: int = 0) -> int | None:
        """Where the row of that key is shown; ``near`` is where it was."""
        if 0 <= near < len(self.rows) and self.rows[near].key == key:
            return near
        return next((index for index, row in enumerate(self.rows) if row.key == key), None)

    def match(self, start: int, step: int) -> int | None:
        """The next row, or the one before, that holds the words of the last filter; round the end."""
        count = len(self.rows)
        if not count or not self.words:
            return None
        texts = self._texts.of(self.rows)
        places = ((start + step * distance) % count for distance in range(1, count + 1))
        return next((place for place in places if all(word in texts[place] for word in self.words)), None)


def natural_widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """What each column's title and content need, in cells, and what it keeps in any case."""
    needs = [max(width_of(column.title), column.least) for column in columns]
    grow(needs, rows)
    return needs


def grow(needs: list[int], rows: Sequence[Row], known: Sequence[Row] = ()) -> None:
    """Widen ``needs`` to what ``rows`` need; where ``known`` holds the same row at the same place, it was measured."""
    same = len(known) == len(rows)
    for place, row in enumerate(rows):
        if same and row is known[place]:
            continue
        for index, cell in enumerate(row.cells):
            size = width_of(cell.text)
            if size > needs[index]:
                needs[index] = size


@lru_cache(maxsize=1024)
def sort_value(text: str) -> SortValue:
    """Natural order: durations by length, numbers in text by value, everything else by letters; ``-`` comes last."""
    if text == "-":
        return (1, ())
    if (found := _DURATION.search(text)) and found.start() < 4:
        return (0, ((0, sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(found[0])), ""),))
    parts = _NUMBER.split(text.lower())
    return (0, tuple((0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts if part))


def _text(row: Row) -> str:
    return "\n".join(cell.text for cell in row.cells).lower()
