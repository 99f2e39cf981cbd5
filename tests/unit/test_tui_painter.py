"""The painter: whatever was on the screen, what it sends makes it look as Textual meant it, and in few bytes."""

from __future__ import annotations

import random
import re
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region, Size
from textual.strip import Strip

from expb_tui.tui.painter import Painter

WIDTH, HEIGHT = 24, 5
STYLES = [
    Style.parse(text)
    for text in (
        "none", "bold", "dim #aabbcc on #102030", "#ff0000 on #102030", "underline", "reverse #00ff00", "italic red",
        "bold dim", "strike on #102030", "white on blue", "not bold #aabbcc",
    )
] + [Style(link="https://bench.example.test/a", underline=True)]  # fmt: skip
TEXT = st.text(alphabet="ab  -\u2502\u25b0\u203a\u65e5\u672c\u00e9", min_size=1, max_size=12)


def strip(pieces: list[tuple[str, int]], width: int) -> Strip:
    segments = [Segment(text, STYLES[number]) for text, number in pieces]
    return Strip(segments).adjust_cell_length(width, STYLES[0])


LINES = st.lists(
    st.lists(st.tuples(TEXT, st.integers(0, len(STYLES) - 1)), max_size=6), min_size=HEIGHT, max_size=HEIGHT
)


def whole(strips: list[Strip]) -> LayoutUpdate:
    return LayoutUpdate([[line] for line in strips], Region(0, 0, WIDTH, HEIGHT))


def textual(strips: list[Strip]) -> str:
    """The bytes that Textual itself would send."""
    out = ""
    for y, line in enumerate(strips):
        out += f"\x1b[{y + 1};1H"
        for text, style, _ in line:
            assert style is not None
            out += Strip.render_style(style, text, ColorSystem.TRUECOLOR)
    return out


class Screen:
    """A terminal that was left in an arbitrary state."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.screen.reset_mode(pyte.modes.DECAWM)
        self._stream = pyte.Stream(self.screen)

    def feed(self, text: str) -> None:
        self._stream.feed(text)

    def cells(self) -> list[list[tuple[Any, ...]]]:
        """What can be seen: a space has no colour of its own and no weight."""
        return [[_seen(self.screen.buffer[y][x]) for x in range(WIDTH)] for y in range(HEIGHT)]


def _seen(char: Any) -> tuple[Any, ...]:
    if char.data == " " and not (char.underscore or char.reverse or char.strikethrough):
        return (" ", char.bg)
    return tuple(char)


def painted(painter: Painter, *updates: Any) -> str:
    for update in updates:
        assert painter.take(update, ColorSystem.TRUECOLOR)
    return painter.frame()


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_every_frame_leaves_the_screen_as_textual_would_draw_it(frames: list[list[list[tuple[str, int]]]]) -> None:
    ours, painter = Screen(), Painter()
    for lines in frames:
        strips = [strip(pieces, WIDTH) for pieces in lines]
        theirs = Screen()
        theirs.feed(textual(strips))
        sent = painted(painter, whole(strips))
        ours.feed(sent)
        assert ours.cells() == theirs.cells()
        assert ours.screen.cursor.attrs == pyte.Screen(1, 1).cursor.attrs, "a frame ends with the plain ink"
        assert painted(painter, whole(strips)) == "", "the same again costs nothing"


@settings(max_examples=100, deadline=None)
@given(LINES, st.data())
def test_a_part_is_drawn_into_what_stands_there(lines: list[list[tuple[str, int]]], data: st.DataObject) -> None:
    ours, theirs, painter = Screen(), Screen(), Painter()
    strips = [strip(pieces, WIDTH) for pieces in lines]
    for screen in (ours, theirs):
        screen.feed(textual(strips))
    painter.take(whole(strips), ColorSystem.TRUECOLOR)
    painter.frame()
    left = data.draw(st.integers(0, WIDTH - 2))
    right = data.draw(st.integers(left + 1, WIDTH))
    y = data.draw(st.integers(0, HEIGHT - 1))
    pieces = data.draw(st.lists(st.tuples(st.text(alphabet="ab -", min_size=1), st.integers(0, 11)), max_size=3))
    piece = strip(pieces, right - left)
    rows: list[dict[int, Strip | None]] = [{} for _ in range(HEIGHT)]
    ends: list[list[int]] = [[] for _ in range(HEIGHT)]
    rows[y], ends[y] = {left: piece}, [right]
    ours.feed(painted(painter, ChopsUpdate(rows, [(y, left, right)], ends)))
    theirs.feed(f"\x1b[{y + 1};{left + 1}H")
    theirs.feed(
        "".join(Strip.render_style(style or STYLES[0], text, ColorSystem.TRUECOLOR) for text, style, _ in piece)
    )
    expected = theirs.cells()
    # pyte leaves the half of a wide character that is overwritten as it was; terminals and Textual clear it.
    for x in (left - 1, right):
        if 0 <= x < WIDTH:
            expected[y][x] = ours.cells()[y][x]
    assert ours.cells() == expected


def test_a_part_of_an_unknown_screen_is_refused_and_a_forgotten_one_is_drawn_whole() -> None:
    painter = Painter()
    strips = [strip([("line", 3)], WIDTH) for _ in range(HEIGHT)]
    part = ChopsUpdate([{0: strips[0]}] + [{} for _ in range(HEIGHT - 1)], [(0, 0, 4)], [[WIDTH]] + [[]] * (HEIGHT - 1))
    assert not painter.take(part, ColorSystem.TRUECOLOR)
    first = painted(painter, whole(strips))
    assert painted(painter, part) == ""
    painter.forget()
    assert not painter.take(part, ColorSystem.TRUECOLOR)
    assert painted(painter, whole(strips)) == first


def test_what_was_not_sent_yet_is_sent_with_what_came_after_it_and_only_once() -> None:
    painter = Painter()
    lines = [strip([(text * WIDTH, 0)], WIDTH) for text in "abcde"]
    painted(painter, whole(lines))
    for text in "123":
        lines[2] = strip([(text * WIDTH, 0)], WIDTH)
        painter.take(whole(lines), ColorSystem.TRUECOLOR)
    assert painter.frame() == "\x1b[3H" + "3" * WIDTH


def test_a_change_costs_the_cells_that_changed() -> None:
    painter = Painter()
    painted(painter, whole([strip([("left", 3), ("  12m", 2), (" role", 3)], WIDTH)] * HEIGHT))
    sent = painted(painter, whole([strip([("left", 3), ("  11m", 2), (" role", 3)], WIDTH)] * HEIGHT))
    # Five times: go there, one digit; the colours are set once and reset once.
    assert sent.count("\x1b[38;2;170;187;204") + sent.count(";38;2;170;187;204") == 1
    assert len(sent) < HEIGHT * len("\x1b[1;20H1") + 60


def test_where_terminals_disagree_about_a_width_what_follows_is_placed() -> None:
    for text in ("\u2601\ufe0f\u0301", "\U0001f469\u200d\U0001f4bb", "e\u0301", "\u0915\u093f"):
        width = cell_len(text)
        sent = painted(Painter(), whole([strip([(f"{text} x", 0)], WIDTH)] * HEIGHT))
        assert sent.startswith(f"\x1b[H{' ' * width}\x1b[H{text}\x1b[1;{width + 1}H x"), ascii(sent)


SPILLING = st.text(alphabet="ab \u0928\u0926\u0940\u0939\u0301\u2601\u65e5", min_size=1, max_size=12)
SPILLING_LINES = st.lists(
    st.lists(st.tuples(SPILLING, st.integers(0, len(STYLES) - 1)), max_size=6), min_size=HEIGHT, max_size=HEIGHT
)


@pytest.mark.parametrize("cells", [0, 1, 2])
def test_a_terminal_that_counts_widths_in_its_own_way_keeps_no_marks(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(char: str) -> int:
        return {"\u0301": 0, "\u65e5": 2}.get(char, 1 if char.isascii() else cells)

    monkeypatch.setattr("pyte.screens.wcwidth", counted)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(SPILLING_LINES, min_size=2, max_size=3))
    def keeps_none(frames: list[list[list[tuple[str, int]]]]) -> None:
        ours, painter = Screen(), Painter()
        for lines in frames:
            strips = [strip(pieces, WIDTH) for pieces in lines]
            again = Screen()
            again.feed(painted(Painter(), whole(strips)))
            ours.feed(painted(painter, whole(strips)))
            assert ours.cells() == again.cells()

    keeps_none()


def test_a_link_is_opened_and_closed_around_its_cells() -> None:
    painter = Painter()
    sent = painted(painter, whole([strip([("see ", 0), ("this", len(STYLES) - 1), (" end", 0)], WIDTH)] * HEIGHT))
    linked, link = "", False
    for part in re.split(r"(\x1b\]8;[^\x1b]*\x1b\\)", sent):
        if part.startswith("\x1b]8;"):
            link = part.endswith(";https://bench.example.test/a\x1b\\")
        elif link:
            linked += re.sub(r"\x1b\[[0-9;]*[Hm]", "", part)
    assert linked == "this" * HEIGHT
    assert not link


def test_a_large_frame_sets_each_colour_once() -> None:
    painter = Painter()
    lines = [strip([(f"a{n}", 3), (f"b{n}", 2), (f"c{n}", 3), (f"d{n}", 7)], WIDTH) for n in range(HEIGHT)]
    sent = painted(painter, whole(lines))
    assert sent.count("\x1b[38;2;170;187;204") + sent.count(";38;2;170;187;204") == 1


def test_many_inks_do_not_pile_up() -> None:
    painter, chance = Painter(), random.Random(1)
    for _ in range(3_000):
        color = Style.parse(f"#{chance.randrange(1 << 24):06x}")
        painted(painter, whole([Strip([Segment("x" * WIDTH, color)])] * HEIGHT))
    assert len(painter._inks) + len(painter._of_style) + len(painter._between) < 5_000


def test_a_frame_that_waits_outlives_a_resize_to_the_size_it_had() -> None:
    painter = Painter()
    strips = [strip([("line", 3)], WIDTH) for _ in range(HEIGHT)]
    first = painted(painter, whole(strips))
    painter.resized(Size(WIDTH, HEIGHT))
    assert painter.frame() == first
    painter.resized(Size(WIDTH + 1, HEIGHT))
    assert painter.frame() == ""
