"""QR codes are read off the drawn screen, in every theme, at every size; what does not fit is never shown in part."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult

from expb_tui.present.cells import ASCII, UNICODE
from expb_tui.present.large_type import large_lines
from expb_tui.tui import theme
from expb_tui.tui.widgets.big_text import BigText
from expb_tui.tui.widgets.qr import QrCode
from tests.support.picture import codes, drawn, image

ADDRESS = "https://bench.example.test/oauth/device?user_code=K7Q2M-W9_XPA"
SIZES = [(80, 24), (120, 40), (200, 60)]
COLORS = ["truecolor", "256", "standard"]


class OneCode(App[None]):
    """Nothing but a QR code, in one of our themes."""

    def __init__(self, text: str, name: str, *, halves: bool = True) -> None:
        super().__init__()
        self.palette = theme.find(name)
        self.register_theme(self.palette.textual())
        self.code = QrCode(text, halves=halves)

    def compose(self) -> ComposeResult:
        yield self.code

    def on_mount(self) -> None:
        self.theme = self.palette.textual().name


@pytest.mark.parametrize("name", theme.SHIPPED)
@pytest.mark.parametrize("no_color", [False, True], ids=["color", "no-color"])
async def test_a_phone_reads_the_code_in_every_theme(
    name: str, no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = OneCode(ADDRESS, name)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for colors in COLORS:
            screen = drawn(app, color_system=colors)
            for dark_terminal in (True, False):
                assert codes(image(screen, dark_terminal=dark_terminal)) == [ADDRESS], (colors, dark_terminal)


@pytest.mark.parametrize("size", SIZES)
async def test_a_phone_reads_the_code_at_every_size(size: tuple[int, int]) -> None:
    app = OneCode(ADDRESS, "dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert codes(image(drawn(app, color_system="truecolor"))) == [ADDRESS]


@pytest.mark.parametrize("length", [60, 120, 200, 300, 500, 900, 2000])
@pytest.mark.parametrize("size", SIZES)
async def test_a_long_address_is_shown_whole_or_not_at_all(length: int, size: tuple[int, int]) -> None:
    address = "https://bench.example.test/" + "p" * (length - 27)
    app = OneCode(address, "dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        picture = image(drawn(app, color_system="truecolor"))
        shown = "\n".join(str(strip.text) for strip in app.screen._compositor.render_strips())
        if app.code.fits(app.size):
            assert codes(picture) == [address]
        else:
            assert "does not fit" in shown
            assert "▀" not in shown
            assert app.code.least.height > size[1] or app.code.least.width > size[0]


async def test_without_blocks_it_is_drawn_with_coloured_spaces() -> None:
    app = OneCode(ADDRESS, "mono", halves=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        screen = drawn(app, color_system="standard")
        assert codes(image(screen)) == [ADDRESS]
        assert all(line.isascii() for line in screen.display)


async def test_a_resize_swaps_between_the_code_and_the_words() -> None:
    app = OneCode(ADDRESS, "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert codes(image(drawn(app, color_system="truecolor"))) == [ADDRESS]
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert "does not fit" in "\n".join(drawn(app, color_system="truecolor").display)
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert codes(image(drawn(app, color_system="truecolor"))) == [ADDRESS]


class OneWord(App[None]):
    def __init__(self, word: BigText) -> None:
        super().__init__()
        self.word = word

    def compose(self) -> ComposeResult:
        yield self.word


@pytest.mark.parametrize(("columns", "blocks", "height"), [(80, True, 4), (72, True, 4), (60, True, 1), (80, False, 1)])
async def test_a_code_is_large_where_it_fits_and_spaced_out_elsewhere(columns: int, blocks: bool, height: int) -> None:
    app = OneWord(BigText("K7Q2M-W9_XPA", blocks=blocks))
    async with app.run_test(size=(columns, 10)) as pilot:
        await pilot.pause()
        shown = drawn(app, color_system="truecolor").display
        assert app.word.size.height == height
        assert ("K 7 Q 2 M - W 9 _ X P A" in shown[0]) == (height == 1)
        assert ("█" in "".join(shown)) == (height == 4)


def test_every_character_of_a_user_code_has_its_own_glyph() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    glyphs = {tuple(large_lines(char) or ()) for char in alphabet}
    assert len(glyphs) == len(alphabet)
    assert large_lines("Ä") is None


def test_the_two_glyph_sets_have_the_same_signs() -> None:
    assert all(len(sign) == 1 for sign in (*ASCII, *UNICODE))
    sample: Any = "".join(ASCII)
    assert sample.isascii()
