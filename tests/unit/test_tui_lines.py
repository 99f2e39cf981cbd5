"""Lines: exact widths, nothing lost in wrapping, columns by importance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Size

from expb_tui.present.cells import Cell, Column, Row, Tone
from expb_tui.tui.screens.plan import MODES, PANES, State, plan
from expb_tui.tui.widgets.arrangement import natural_widths, sort_value
from expb_tui.tui.widgets.columns import GAP, shape
from expb_tui.tui.widgets.lines import fit, hung, width_of, wrap

TEXT = st.text(alphabet="ab -\u65e5\u672c\u00e9", max_size=60)


@given(TEXT, st.integers(1, 40), st.booleans())
def test_fit_gives_exactly_the_width(text: str, width: int, right: bool) -> None:
    assert width_of(fit(text, width, "~", right=right)) == width


@given(st.lists(TEXT, min_size=1, max_size=4), st.integers(2, 30), st.integers(0, 4))
def test_wrapping_keeps_every_word_and_no_line_is_too_long(texts: list[str], width: int, indent: int) -> None:
    cells = tuple(Cell(text, tone) for text, tone in zip(texts, (Tone.TEXT, Tone.DIM, Tone.BAD, Tone.OK), strict=False))
    lines = wrap(cells, width, indent=indent)
    # A wide letter takes two cells wherever it stands.
    assert all(sum(width_of(cell.text) for cell in line) <= max(width, indent + 2) for line in lines)
    given_letters = "".join("".join(texts).split())
    assert "".join("".join(cell.text for line in lines for cell in line).split()) == given_letters


COLUMNS = (Column("NAME", 10), Column("N", None, "right"), Column("TEXT", 20), Column("LAST", 8))


def _needs(*texts: str) -> list[int]:
    return natural_widths(COLUMNS, [Row("1", tuple(Cell(text) for text in texts))])


def test_the_last_columns_give_way_first() -> None:
    needs = _needs("a name", "12", "some words of text", "last")
    assert shape(COLUMNS, needs, 60).shown == (0, 1, 2, 3)
    narrow = shape(COLUMNS, needs, 34)
    assert narrow.shown == (0, 1, 2)
    assert narrow.overflow
    assert shape(COLUMNS, needs, 12).shown == (0, 1)


def test_a_wish_is_exceeded_where_there_is_room() -> None:
    needs = _needs("a name longer than ten", "12", "x", "y")
    assert shape(COLUMNS, needs, 80).widths[0] == len("a name longer than ten")
    assert shape(COLUMNS, needs, 20).widths[0] == 10


def test_what_is_shown_fits() -> None:
    needs = _needs("a name longer than ten", "12345", "some words of text here", "last")
    for room in range(12, 90):
        found = shape(COLUMNS, needs, room)
        assert sum(found.widths[index] for index in found.shown) + GAP * (len(found.shown) - 1) <= room


def test_natural_order_knows_durations_and_numbers() -> None:
    assert sorted(["3h", "45s", "12m", "-"], key=sort_value) == ["45s", "12m", "3h", "-"]
    exact = ["14m 02s", "14m 32s", "1h", "1h 04m 32s", "in 2h"]
    assert sorted(["in 2h", "14m 32s", "1h 04m 32s", "1h", "14m 02s"], key=sort_value) == exact
    assert sorted(["task-10", "task-9", "a"], key=sort_value) == ["a", "task-9", "task-10"]


@given(
    st.integers(20, 320),
    st.integers(4, 120),
    st.sampled_from(MODES),
    st.sampled_from(PANES),
    st.integers(0, 50),
    st.booleans(),
)
def test_the_plan_covers_the_screen_without_overlap(
    width: int, height: int, mode: str, active: str, profiles: int, telling: bool
) -> None:
    regions = plan(Size(width, height), State(mode, active, profiles, telling))
    cells = sum(region.area for region in regions.values())
    assert cells == width * height
    for name, region in regions.items():
        for other, second in regions.items():
            assert name == other or not region.overlaps(second)
    assert regions[active].height >= min(3, height - 2)  # a row between its borders


def test_what_is_wrong_with_the_profiles_is_given_the_lines_it_wants() -> None:
    said = plan(Size(100, 30), State("normal", "work", 14, telling=True))
    assert said["profiles"].height >= 14 + 2
    assert plan(Size(100, 30), State("normal", "work", 14))["profiles"].height < 14
    assert plan(Size(100, 30), State("normal", "work", 50, telling=True))["work"].height == 7


def test_small_terminals_show_one_pane_and_a_tab_line() -> None:
    assert set(plan(Size(80, 24), State("normal", "work", 3))) == {"head", "tabs", "work", "status", "keys"}
    assert set(plan(Size(120, 40), State("normal", "leases", 3))) == {"head", *PANES, "status", "keys"}
    assert set(plan(Size(120, 40), State("full", "work", 3))) == {"head", "work", "status", "keys"}


def test_details_stand_where_the_package_would_while_a_left_hand_pane_is_active() -> None:
    for mode in ("normal", "half"):
        left, right = (plan(Size(120, 40), State(mode, active, 3)) for active in ("work", "leases"))
        assert set(left) - set(right) == {"details-pane"}
        assert set(right) - set(left) == {"package"}
        if mode == "normal":
            assert left["details-pane"] == right["package"]


def test_what_follows_stands_under_the_text() -> None:
    def broken(*cells: Cell) -> list[str]:
        return ["".join(cell.text for cell in line) for line in hung(cells, 16)]

    assert broken(Cell("  L"), Cell("  signs in by code")) == ["  L  signs in by", "     code"]
    assert broken(Cell("    why it is so and so")) == ["    why it is so", "    and so"]
    assert broken(Cell("  experimenter"), Cell(" and more")) == ["  experimenter ", "  and more"]
    assert broken(Cell("plain words that go on")) == ["plain words that", "go on"]
