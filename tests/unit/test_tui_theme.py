"""Themes: every shipped one is readable and has contrast, a broken one says where, the terminal decides the default."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from expb_tui.core.errors import FileProblem
from expb_tui.tui import theme
from expb_tui.tui.theme import BACKGROUNDS, SHIPPED, TONES, Palette, Tone

GOOD = "dark = true\n[tones]\n" + "\n".join(f'{name} = "#ffffff"' for name in TONES)


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EXPB_TUI_CONFIG_DIR", str(tmp_path))
    (tmp_path / "themes").mkdir()
    return tmp_path / "themes"


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_themes_load_and_become_textual_themes(name: str) -> None:
    palette = theme.find(name)
    assert set(TONES) <= set(palette.textual().variables)
    for on in ("surface", "panel", "cursor", "rest"):
        assert palette.style("text", on).bgcolor is not None


def _contrast(first: str, second: str) -> float:
    def luminance(color: str) -> float:
        parts = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in Color.parse(color).normalized
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    "name", [name for name in SHIPPED if not theme.load(theme.shipped_dir() / f"{name}.toml").native]
)
@pytest.mark.parametrize("on", ["surface", "panel", "cursor", "rest"])
def test_every_tone_can_be_read_on_every_background(name: str, on: str) -> None:
    """At least 4.4:1, dim text 3.6:1 (WCAG's 3:1 for large and inactive text); 7:1 in the theme made for it."""
    palette = theme.find(name)
    for tone in TONES:
        if tone in BACKGROUNDS:
            continue
        style = palette.style(tone, on)
        assert style.color is not None
        assert style.bgcolor is not None
        least = 7.0 if name == "high-contrast" else 3.6 if tone == "dim" else 4.4
        assert _contrast(style.color.name, style.bgcolor.name) >= least, tone


def test_monochrome_says_no_colour_at_all() -> None:
    palette = theme.find("mono")
    for on in ("surface", "panel", "cursor", "rest"):
        for tone in (*TONES, "edge"):
            style = palette.style(tone, on)
            assert style.color is None or style.color.is_default
            assert style.bgcolor is None or style.bgcolor.is_default
    assert palette.style("text", "cursor").reverse


def test_the_users_own_theme_is_found_and_takes_the_place_of_a_shipped_one(own_configuration: Path) -> None:
    (own_configuration / "dark.toml").write_text('title = "Mine"\n' + GOOD)
    (own_configuration / "night.toml").write_text(GOOD)
    palettes, problems = theme.find_all()
    assert not problems
    assert theme.find("dark").title == "Mine"
    assert [palette.name for palette in palettes] == [*SHIPPED, "night"]


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        ("tones = ]", "not valid TOML", "line 1"),
        (GOOD.replace("warn", "wran"), "tone wran", "did you mean warn?"),
        (GOOD.replace('ok = "#ffffff"', 'ok = "gren"'), "tone ok", "did you mean green?"),
        (GOOD.replace('ok = "#ffffff"', 'ok = "#fff"'), "tone ok", "use #rrggbb"),
        (GOOD.replace('ok = "#ffffff"', 'ok = "bold"'), "tone ok", "needs one colour"),
        (GOOD.replace('ok = "#ffffff"', 'ok = "red on"'), "tone ok", "two with 'on'"),
        (GOOD.replace('ok = "#ffffff"\n', ""), "tone ok", "is missing"),
        (GOOD.replace('ok = "#ffffff"', "ok = 7"), "tone ok", "must be text"),
        (GOOD.replace("dark = true", 'dark = "yes"'), "key dark", "true or false"),
        (GOOD.replace("dark = true", "drak = true"), "key drak", "did you mean dark?"),
        ("dark = true", "table tones", "is missing"),
    ],
)
def test_a_broken_theme_is_reported_with_its_place_and_skipped(
    own_configuration: Path, text: str, place: str, cause: str
) -> None:
    (own_configuration / "broken.toml").write_text(text)
    palettes, [problem] = theme.find_all()
    assert "broken.toml" in problem.what
    assert place in problem.what
    assert cause in problem.cause
    assert [palette.name for palette in palettes] == list(SHIPPED)
    with pytest.raises(FileProblem):
        theme.find("broken")


def test_an_unknown_name_is_an_error_with_a_guess() -> None:
    with pytest.raises(FileProblem, match="did you mean fjord"):
        theme.find("fiord")


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, "mono"),
        ({"COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "linux"}, "ansi16"),
        ({"TERM": "vt100"}, "mono"),
        ({"NO_COLOR": "", "TERM": "xterm"}, "ansi16"),
    ],
)
def test_the_terminal_decides_where_the_settings_do_not(environ: dict[str, str], name: str) -> None:
    assert theme.default_name(environ) == name


def test_a_background_with_its_own_text_colour_wins_over_tones() -> None:
    palette = Palette(
        "x", "x", True, {name: Tone("#111111") for name in TONES} | {"cursor": Tone("#eeeeee", "#000099")}
    )
    style = palette.style("bad", "cursor")
    # For mypy: a colour is set, or the test fails.
    assert (style.color.name, style.bgcolor.name) == ("#eeeeee", "#000099")  # type: ignore[union-attr]
