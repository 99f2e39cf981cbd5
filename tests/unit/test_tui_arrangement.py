"""Which rows are shown and in which order: the quick way gives what the plain way gives, and looks at few rows."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from expb_tui.present import leases
from expb_tui.present.cells import Cell, Column, Row, Table
from expb_tui.tui.widgets import arrangement
from expb_tui.tui.widgets.arrangement import Arrangement, Order, natural_widths, sort_value
from tests.support.held import FixedClock, held

COLUMNS = (Column("LEFT", 5, "right"), Column("NAME"))
TEXTS = st.sampled_from(["12m", "45s", "3h", "-", "a", "A b", "task-9", "task-10", "\u65e5\u672c"])
ROWS = st.lists(st.tuples(st.integers(0, 30), TEXTS, TEXTS), max_size=12, unique_by=lambda row: row[0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), ROWS),
        st.tuples(st.just("filter"), st.sampled_from(["", "a", "task", "TASK 1", "none at all"])),
        st.tuples(st.just("sort"), st.sampled_from([None, Order(0), Order(1), Order(1, True)])),
    ),
    max_size=8,
)


def table(rows: list[tuple[int, str, str]], known: dict[tuple[int, str, str], Row]) -> Table:
    """Equal rows are mostly the same objects, as presenters give them."""
    made = [known.setdefault(row, Row(f"k{row[0]}", (Cell(row[1]), Cell(row[2])))) for row in rows]
    return Table(COLUMNS, tuple(made))


@given(STEPS)
def test_after_any_steps_the_rows_are_those_that_a_plain_filter_and_sort_give(steps: list[tuple[str, object]]) -> None:
    view = Arrangement()
    known: dict[tuple[int, str, str], Row] = {}
    given_rows: tuple[Row, ...] = ()
    words: list[str] = []
    order: Order | None = None
    for step, value in steps:
        if step == "rows":
            shown = table(value, known)  # type: ignore[arg-type]  # what the strategy pairs with the word
            given_rows = shown.rows
            order = order if view.table.columns == COLUMNS else None
            view.show(shown)
        elif step == "filter":
            words = str(value).lower().split()
            view.set_filter(str(value))
        elif view.table.columns:
            order = value  # type: ignore[assignment]  # as above
            view.sort(order)
        expected = [row for row in given_rows if all(any(w in c.text.lower() for c in row.cells) for w in words)]
        if order is not None:
            column = order.column
            expected.sort(key=lambda row: sort_value(row.cells[column].text), reverse=order.descending)
        assert list(view.rows) == expected
        widths = view.widths()
        assert all(had >= needs for had, needs in zip(widths, natural_widths(COLUMNS, expected), strict=False))
        for place, row in enumerate(view.rows):
            assert view.place_of(row.key, 3) == place
        assert view.place_of("k99") is None


class Watched(str):
    """Notes when somebody works something out of it."""

    looked: ClassVar[list[str]] = []

    def lower(self) -> str:
        self.looked.append(str(self))
        return super().lower()


def test_a_tick_looks_at_the_rows_that_are_new() -> None:
    rows = [Row(f"k{number}", (Cell(f"{number}m"), Cell(Watched(f"package {number}")))) for number in range(3_000)]
    view = Arrangement(Table(COLUMNS, tuple(rows)))
    view.sort(Order(1, True))
    view.set_filter("package")
    view.widths()
    assert len(Watched.looked) >= 3_000
    Watched.looked.clear()
    rows[7] = rows[7]._replace(cells=(Cell("59s"), Cell(Watched("package 7!"))))
    view.show(Table(COLUMNS, tuple(rows)))
    view.widths()
    assert set(Watched.looked) == {"package 7!"}
    assert view.rows[3_000 - 8] is rows[7]


def test_what_stands_beside_a_countdown_stays_where_it_is_when_seconds_are_told_of_another_lease() -> None:
    starts = {Arrangement(leases.pane([held(left)], FixedClock())).widths()[0] for left in (20.0, 75.0, 213.0, 872.0)}
    assert len(starts) == 1


def test_any_text_can_be_sorted() -> None:
    texts = ["\u00b2", "x\u00b2 3", "\u0663 m", "9" * 400, "", "-", "1.5.2", "\u2460"]
    assert sorted(texts, key=sort_value)[-1] == "-"


def test_matches_are_stepped_through_after_the_filter_is_gone() -> None:
    view = Arrangement(
        Table(COLUMNS, tuple(Row(str(n), (Cell(f"{n}m"), Cell("x" if n % 3 else "hit"))) for n in range(7)))
    )
    view.set_filter("hit")
    view.set_filter("")
    assert [view.match(0, 1), view.match(6, 1), view.match(0, -1), view.match(4, -1)] == [3, 0, 6, 3]
    assert arrangement.Arrangement().match(0, 1) is None
