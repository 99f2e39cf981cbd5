"""The table: a few lines a key, ten thousand rows, filter, marks, sorting, and nothing from outside read as markup."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Column, Row, Table, Tone
from expb_tui.tui import theme
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import shortened, width_of, words
from expb_tui.tui.widgets.look import Look

COLUMNS = (Column("LEFT", 5, "right"), Column("NAME"), Column("ROLE"), Column("NOTE"))


def row(number: int, left: str = "12m", **changes: str) -> Row:
    role = changes.get("role", ("ideator", "experimenter")[number % 2])
    note = changes.get("note", f"note {number}")
    return Row(f"k{number}", (Cell(left), Cell(f"package-{number}"), Cell(role, Tone.DIM), Cell(note)))


def table(count: int) -> Table:
    return Table(COLUMNS, tuple(row(number) for number in range(count)))


class Counting(LineTable):
    """Notes which lines are drawn."""

    def __init__(self, given: Table) -> None:
        super().__init__(given, number="3", title="Leases")
        self.drawn: list[int] = []
        self.told: list[str | None] = []

    def render_line(self, y: int) -> Any:
        self.drawn.append(y)
        return super().render_line(y)

    def on_line_table_highlighted(self, message: LineTable.Highlighted) -> None:
        self.told.append(message.key)


class Small(App[None]):
    def __init__(self, widget: Any) -> None:
        palette = theme.find("dark")
        self.look = Look.of(palette, ascii_only=False)
        super().__init__()
        self.register_theme(palette.textual())
        self.theme = palette.textual().name
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget

    async def on_event(self, event: events.Event) -> None:
        """As the cockpit's application does it."""
        if not (isinstance(event, events.Key) and self.widget.take_key(event.key, event.character)):
            await super().on_event(event)


@asynccontextmanager
async def shown(widget: Any, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    app = Small(widget)
    async with app.run_test(size=size) as pilot:
        widget.focus()
        await pilot.pause()
        yield pilot


def screen(pilot: Pilot[None]) -> list[str]:
    strips = pilot.app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def test_a_move_of_the_cursor_draws_two_lines_and_says_where_it_is() -> None:
    widget = Counting(table(100))
    async with shown(widget) as pilot:
        widget.drawn.clear()
        await pilot.press("j")
        await pilot.pause()
        assert sorted(set(widget.drawn)) == [2, 3, 23]
        assert screen(pilot)[-1].endswith(" 2 of 100 \u2500\u256f")
        assert widget.told[-1] == "k1"


async def test_leaving_the_page_jumps_half_of_it() -> None:
    widget = Counting(table(100))
    async with shown(widget) as pilot:
        page = widget.page
        await pilot.press(*["j"] * (page - 1))
        assert widget.top == 0
        await pilot.press("j")
        assert widget.top == page - page // 2
        await pilot.press("G")
        assert widget.current_key == "k99"
        assert widget.top == 100 - page
        await pilot.press("g")
        assert (widget.cursor, widget.top) == (0, 0)


async def test_only_the_countdowns_that_changed_are_drawn() -> None:
    widget = Counting(table(20))
    async with shown(widget) as pilot:
        widget.drawn.clear()
        rows = list(table(20).rows)
        rows[4] = row(4, "59s")._replace(next_change=1.0)
        rows[5] = rows[5]._replace(next_change=0.5)
        widget.set_table(Table(COLUMNS, tuple(rows)))
        await pilot.pause()
        assert set(widget.drawn) == {6}
        assert " 59s" in screen(pilot)[6]


async def test_the_cursor_and_the_marks_stay_on_their_rows_when_rows_come_and_go() -> None:
    widget = Counting(table(10))
    async with shown(widget) as pilot:
        await pilot.press("j", "j", "j", "space")
        assert widget.current_key == "k4"
        assert widget.marks == {"k3"}
        widget.set_table(Table(COLUMNS, (row(99), *table(10).rows[4:])))
        assert widget.current_key == "k4"
        assert widget.marks == frozenset()
        widget.set_table(Table(COLUMNS, (row(99),)))
        assert widget.current_key == "k99"
        widget.set_table(Table(COLUMNS, ()))
        assert widget.current is None
        await pilot.press("j", "G", "space", "v", "n", ">")


async def test_the_filter_is_live_and_its_matches_can_be_stepped_through_afterwards() -> None:
    widget = Counting(table(40))
    async with shown(widget) as pilot:
        await pilot.press("slash", *"package-3")
        assert [found.key for found in widget.rows] == ["k3", *(f"k{number}" for number in range(30, 40))]
        assert "/package-3" in screen(pilot)[-1]
        assert "11 of 40" in screen(pilot)[-1]
        await pilot.press("backspace", "1", "2", "enter")
        assert [found.key for found in widget.rows] == ["k12"]
        assert not widget.typing
        assert widget.back()
        assert len(widget.rows) == 40
        await pilot.press("slash", *"13", "space", *"experi")
        assert [found.key for found in widget.rows] == ["k13"]
        await pilot.press("escape")
        assert widget.filter == ""
        await pilot.press("slash", *"package-2", "enter")
        widget.set_filter("")
        widget.select("k0")
        await pilot.press("n")
        assert widget.current_key == "k2"
        await pilot.press("n")
        assert widget.current_key == "k20"
        await pilot.press("N", "N")
        assert widget.current_key == "k29"


async def test_of_a_filter_longer_than_the_border_the_end_is_seen() -> None:
    widget = LineTable(table(3))
    async with shown(widget, (40, 10)) as pilot:
        await pilot.press("/", *"package" * 9, "\u65e5", "z")
        await pilot.pause()
        assert "ackage\u65e5z_  0 of 3 " in screen(pilot)[-1]
        assert len(screen(pilot)[-1]) == 39  # one of them is two cells wide


async def test_letters_are_text_while_a_filter_is_typed() -> None:
    widget = Counting(table(5))
    async with shown(widget) as pilot:
        await pilot.press("slash", "j", "v", "G", "question_mark")
        assert widget.filter == "jvG?"
        assert widget.cursor == 0
        await pilot.press("ctrl+u")
        assert widget.filter == ""


async def test_a_range_is_marked_from_v_to_v_and_undone_by_back() -> None:
    widget = Counting(table(10))
    async with shown(widget) as pilot:
        await pilot.press("j", "v", "j", "j", "v")
        assert widget.marks == {"k1", "k2", "k3"}
        assert list(widget.chosen_keys) == ["k1", "k2", "k3"]
        await pilot.press("j", "v", "j")
        assert list(widget.chosen_keys) == ["k1", "k2", "k3", "k4", "k5"], "one sees what v would take"
        assert "5 marked  range" in screen(pilot)[-1]
        assert screen(pilot)[7].startswith("\u2502* ")
        assert widget.back()
        assert "3 marked" in screen(pilot)[-1]
        assert widget.back()
        assert widget.marks == frozenset()
        assert not widget.back()
        assert list(widget.chosen_keys) == ["k5"]


async def test_sorting_by_a_column_and_turning_it_round() -> None:
    lengths = ["12m", "45s", "3h"]
    widget = Counting(Table(COLUMNS, tuple(row(number, left) for number, left in enumerate(lengths))))
    async with shown(widget) as pilot:
        await pilot.press("greater_than_sign")
        assert [found.cells[0].text for found in widget.rows] == ["45s", "12m", "3h"]
        assert widget.current_key == "k0"
        await pilot.press("comma")
        assert [found.cells[0].text for found in widget.rows] == ["3h", "12m", "45s"]
        assert "LEFT\u25be" in screen(pilot)[1]
        await pilot.press("less_than_sign")
        assert [found.cells[0].text for found in widget.rows] == lengths


async def test_an_order_by_a_column_without_room_is_said_below() -> None:
    widget = Counting(table(3))
    async with shown(widget, size=(34, 10)) as pilot:
        await pilot.press("less_than_sign")
        assert "NOTE" not in screen(pilot)[1]
        assert "by NOTE \u25b4" in screen(pilot)[-1]


async def test_hostile_text_is_shown_and_never_obeyed() -> None:
    note = clean("[red]not markup[/red] \x1b[31mred\x1b[0m \u202eback \u65e5\u672c\u8a9e")
    widget = Counting(Table(COLUMNS, (row(0, note=note), row(1, note="x" * 200))))
    async with shown(widget) as pilot:
        lines = screen(pilot)
        assert "[red]not markup[/red] \u241b[31mred" in lines[2]
        assert all("\x1b" not in line and "\u202e" not in line for line in lines)
        assert lines[3].endswith("\u22ef  \u2502") or "\u22ef" in lines[3]


async def test_columns_that_do_not_fit_are_reached_by_scrolling() -> None:
    widget = Counting(table(3))
    async with shown(widget, size=(34, 10)) as pilot:
        assert "NOTE" not in screen(pilot)[1]
        assert "\u203a" in screen(pilot)[1]
        await pilot.press("l", "l")
        assert "NOTE" in screen(pilot)[1]
        await pilot.press("h", "h")
        assert "NAME" in screen(pilot)[1]


async def test_ten_thousand_rows_cost_what_the_visible_ones_cost() -> None:
    widget = Counting(table(10_000))
    async with shown(widget) as pilot:
        widget.drawn.clear()
        widget.set_filter("package-99")
        await pilot.pause()
        assert len(widget.rows) == 111
        assert len(set(widget.drawn)) <= 24


async def test_a_text_wraps_and_scrolls_and_keeps_its_place() -> None:
    widget = LineText(number="4", title="Package")
    async with shown(widget, size=(30, 8)) as pilot:
        widget.set_lines([words(f"line {number} with some words that wrap") for number in range(10)])
        await pilot.pause()
        assert widget.body_length() == 20
        await pilot.press("pagedown")
        assert widget.top == 6
        widget.set_lines([words(f"line {number} with some words that WRAP") for number in range(10)])
        assert widget.top == 6
        widget.set_lines([words("short")])
        assert widget.top == 0
        await pilot.pause()
        assert "short" in screen(pilot)[1]


async def test_a_cursor_that_nobody_placed_stays_in_sight_when_its_row_sinks_to_the_end() -> None:
    given = table(60)
    widget = Counting(given)
    async with shown(widget) as pilot:
        assert (widget.current_key, widget.top) == ("k0", 0)
        widget.set_table(Table(COLUMNS, (*given.rows[1:], given.rows[0])))
        await pilot.pause()
        assert (widget.current_key, widget.top) == ("k1", 0), "the rows next in danger stay in sight"


async def test_rows_in_sight_are_not_carried_off_with_the_row_under_the_cursor() -> None:
    given = table(60)
    widget = Counting(given)
    async with shown(widget) as pilot:
        await pilot.press("j")
        widget.set_table(Table(COLUMNS, (given.rows[0], *given.rows[2:], given.rows[1])))
        await pilot.pause()
        assert (widget.current_key, widget.top) == ("k1", 0), "what was chosen stays chosen"
        await pilot.press("k")
        assert widget.current_key == "k20", "the next step goes on from what is in sight"
        assert widget.top == 0
    widget = Counting(given)
    async with shown(widget) as pilot:
        for _ in range(30):
            await pilot.press("j")
        first = widget.rows[widget.top].key
        new = tuple(row(number) for number in range(100, 105))
        widget.set_table(Table(COLUMNS, (*new, *given.rows)))
        await pilot.pause()
        assert (widget.rows[widget.top].key, widget.current_key) == (first, "k30"), "new rows above move nothing"


async def test_columns_keep_their_width_when_the_same_rows_change_places() -> None:
    widget = Counting(Table(COLUMNS, (row(1, "3m 33s"), row(2))))
    async with shown(widget) as pilot:
        before = screen(pilot)[1].index("NAME")
        widget.set_table(Table(COLUMNS, (row(2), row(1, "75s"))))
        await pilot.pause()
        assert screen(pilot)[1].index("NAME") == before


@given(
    st.lists(st.tuples(st.sampled_from(["", "  ", "93 tasks", "! stale", "日本"]), st.sampled_from(list(Tone)))),
    st.integers(-9, 40),
)
def test_whatever_the_border_has_to_say_it_fits(pieces: list[tuple[str, Tone]], width: int) -> None:
    line = shortened(tuple(Cell(*piece) for piece in pieces), width, "⋯")
    assert sum(width_of(cell.text) for cell in line) <= max(0, width)


async def test_the_border_says_what_warns_before_anything_else() -> None:
    widget = Counting(table(3))
    count, old = Cell("93 tasks", Tone.DIM), Cell("! stale, 45s ago", Tone.WARN)
    widget.state = (count, Cell("  "), old)
    for width, told in ((60, "93 tasks  ! stale, 45s ago"), (36, "─ ! stale, 45s ago ─"), (28, "─ ! stale, 4⋯ ─")):
        async with shown(widget, size=(width, 10)) as pilot:
            assert told in screen(pilot)[0], width
        widget = Counting(table(3))
        widget.state = (count, Cell("  "), old)
    widget.state = (count, Cell("  "), Cell("✓ 5s ago, polling", Tone.DIM))
    async with shown(widget, size=(34, 10)) as pilot:
        assert "─ 93 tasks ─" in screen(pilot)[0]
