"""Themes: twelve tones in TOML become a palette for line widgets and a Textual theme for the rest.

A tone is a few words: a colour, ``on`` and a second one, and attributes, as in ``"#ffffff on #0037a6 bold"``.
Colours are ``#rrggbb``, ``default`` or one of the sixteen ANSI names. ``surface``, ``panel`` and ``cursor`` are
backgrounds: their first colour lies behind the text, and ``black on cyan`` says black text on cyan for all cells.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from rich.color import ANSI_COLOR_NAMES
from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from expb_tui.core.errors import FileProblem
from expb_tui.core.paths import config_dir

TONES = ("ok", "warn", "bad", "info", "dim", "accent", "text", "surface", "panel", "cursor", "mark", "link")
BACKGROUNDS = frozenset({"surface", "panel", "cursor"})
SHIPPED = ("dark", "light", "high-contrast", "ansi16", "mono", "ember", "fjord", "parchment")
"""In the order of the theme list; the user's own follow by name."""

_ANSI = frozenset(name for name, number in ANSI_COLOR_NAMES.items() if number < 16 and "_" not in name[7:]) | {
    "default"
}
_ATTRIBUTES = frozenset({"bold", "dim", "italic", "underline", "reverse"})
_HEX = re.compile(r"#[0-9a-fA-F]{6}\Z")
_PREFIX = "expb-"


class Tone(NamedTuple):
    """A parsed tone: colours as written, attributes by name."""

    color: str
    on: str | None = None
    attributes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Palette:
    """One theme. ``style`` is what line widgets draw with; ``textual`` is what CSS sees."""

    name: str
    title: str
    dark: bool
    tones: Mapping[str, Tone] = field(hash=False)

    @property
    def native(self) -> bool:
        """Whether colours are the terminal's own rather than fixed."""
        return not self.tones["surface"].color.startswith("#")

    def style(self, tone: str, on: str = "surface", *, bold: bool = False) -> Style:
        """The Rich style of text of ``tone`` on a background: ``surface``, ``panel``, ``cursor`` or ``rest``.

        ``rest`` is the selected row of a pane without focus. Where the background's tone brings its own text colour,
        or is drawn in reverse, the text's tone gives way, because its contrast could not be known.
        """
        return _style(self, tone, on, bold)

    def textual(self) -> Theme:
        """The same theme for widgets that are styled by CSS; each tone is a variable of its name (``$accent``)."""
        tones = self.tones
        css = {name: _css(tones[name].color) for name in TONES}
        for name in BACKGROUNDS:
            if tones[name].on is not None:
                css[name] = _css(tones[name].on or "")
        edge = _css(edge_color(self))
        cursor_text = _css(tones["cursor"].color) if tones["cursor"].on else css["text"]
        cursor_attributes = " ".join(sorted(tones["cursor"].attributes)) or "none"
        variables = {
            **css,
            "edge": edge,
            "cursor-text": cursor_text,
            "cursor-style": cursor_attributes,
            "text-muted": css["dim"],
            "text-disabled": css["dim"],
            "border": css["accent"],
            "border-blurred": edge,
            "block-cursor-background": css["cursor"],
            "block-cursor-foreground": cursor_text,
            "block-cursor-text-style": cursor_attributes,
            "input-cursor-background": css["text"] if css["text"] != "ansi_default" else "ansi_default",
            "input-cursor-foreground": css["surface"],
            "input-cursor-text-style": "reverse" if self.native else "none",
            "input-selection-background": css["cursor"],
            "screen-selection-background": css["cursor"],
            "scrollbar": edge,
            "scrollbar-hover": css["accent"],
            "scrollbar-active": css["accent"],
            "scrollbar-background": css["surface"],
            "scrollbar-background-hover": css["surface"],
            "scrollbar-background-active": css["surface"],
            "scrollbar-corner-color": css["surface"],
            "link-color": css["link"],
            "link-background": "transparent",
            "ansi-background": css["surface"],
            "ansi-foreground": css["text"],
        }
        return Theme(
            name=_PREFIX + self.name,
            primary=css["accent"],
            secondary=css["info"],
            warning=css["warn"],
            error=css["bad"],
            success=css["ok"],
            accent=css["accent"],
            foreground=css["text"],
            background=css["surface"],
            surface=css["surface"],
            panel=css["panel"],
            boost=css["panel"],
            dark=self.dark,
            variables=variables,
            ansi=self.native,
        )


def edge_color(palette: Palette) -> str:
    """The colour of a quiet border: half way between dim text and the background, or the terminal's own."""
    dim, surface = palette.tones["dim"].color, palette.tones["surface"].color
    if dim.startswith("#") and surface.startswith("#"):
        return Color.parse(surface).blend(Color.parse(dim), 0.5).hex
    return dim


def _css(color: str) -> str:
    return color if color.startswith("#") else f"ansi_{color}"


@lru_cache(maxsize=512)
def _rich(color: str) -> RichColor:
    return RichColor.parse(color)


def _rest(palette: Palette) -> Tone:
    """The background of a selected row without focus: between cursor and surface, else only bold."""
    cursor = palette.tones["cursor"]
    behind = cursor.on or cursor.color
    surface = palette.tones["surface"].color
    if behind.startswith("#") and surface.startswith("#"):
        return Tone(Color.parse(surface).blend(Color.parse(behind), 0.45).hex)
    return Tone(surface, None, frozenset({"bold"}))


@lru_cache(maxsize=1024)
def _style(palette: Palette, tone: str, on: str, bold: bool) -> Style:
    behind = _rest(palette) if on == "rest" else palette.tones[on]
    front = Tone(edge_color(palette), None, palette.tones["dim"].attributes) if tone == "edge" else palette.tones[tone]
    attributes = set(front.attributes)
    color, background = front.color, behind.color
    if behind.on is not None:
        color, background = behind.color, behind.on
        attributes -= {"dim"}
    if "reverse" in behind.attributes:
        color = behind.color
        attributes -= {"dim"}
    if tone in BACKGROUNDS:
        color = front.on or front.color
    attributes |= behind.attributes
    if bold:
        attributes.add("bold")
    return Style(
        color=_rich(color),
        bgcolor=_rich(background),
        bold="bold" in attributes or None,
        dim="dim" in attributes or None,
        italic="italic" in attributes or None,
        underline="underline" in attributes or None,
        reverse="reverse" in attributes or None,
    )


def shipped_dir() -> Path:
    """Inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "data" / "themes"
    return inside if inside.is_dir() else package.parent / "themes"


def user_dir() -> Path:
    """The user's own themes; one of a shipped name takes its place."""
    return config_dir() / "themes"


def load(path: Path) -> Palette:
    """Read one theme file. Raises ``FileProblem`` that names the file and the place in it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileProblem(f"Theme {path} cannot be read", cause=error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise FileProblem(f"Theme {path} is not UTF-8", cause=f"byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        raise FileProblem(f"Theme {path} is not valid TOML", cause=str(error)) from None
    return parse(data, path)


def parse(data: Mapping[str, Any], path: Path) -> Palette:
    """Check the parsed file. Raises ``FileProblem`` that names ``path`` and the key."""

    def wrong(place: str, cause: str) -> FileProblem:
        return FileProblem(
            f"Theme {path}, {place}", cause=cause, next_step="Correct the file, or choose another theme with Ctrl+t"
        )

    _only(data, ("title", "dark", "tones"), lambda key, hint: wrong(f"key {key}", f"unknown{hint}"))
    title, dark, written = data.get("title", path.stem), data.get("dark", True), data.get("tones")
    if not isinstance(title, str):
        raise wrong("key title", "must be text")
    if not isinstance(dark, bool):
        raise wrong("key dark", "must be true or false")
    if not isinstance(written, dict):
        raise wrong("table tones", "is missing")
    _only(written, TONES, lambda key, hint: wrong(f"tone {key}", f"unknown{hint}"))
    tones: dict[str, Tone] = {}
    for name in TONES:
        value = written.get(name)
        if not isinstance(value, str):
            raise wrong(f"tone {name}", "is missing" if value is None else "must be text")
        tone = parse_tone(value)
        if isinstance(tone, str):
            raise wrong(f"tone {name}", tone)
        tones[name] = tone
    return Palette(path.stem, title, dark, tones)


def _only(data: Mapping[str, Any], known: tuple[str, ...], wrong: Any) -> None:
    for key in data:
        if key not in known:
            near = get_close_matches(key, known, 1)
            raise wrong(key, f", did you mean {near[0]}?" if near else "")


def parse_tone(value: str) -> Tone | str:
    """The tone, or what is wrong with it in words."""
    colors: list[str] = []
    attributes: set[str] = set()
    behind = False
    for word in value.split():
        if word == "on":
            if behind or not colors:
                return "'on' stands between two colours"
            behind = True
        elif word in _ATTRIBUTES:
            attributes.add(word)
        elif _HEX.match(word) or word in _ANSI:
            colors.append(word)
        else:
            near = get_close_matches(word, [*_ANSI, *_ATTRIBUTES], 1)
            hint = f", did you mean {near[0]}?" if near else "; use #rrggbb, default or an ANSI name"
            return f"'{word}' is neither a colour nor an attribute{hint}"
    if len(colors) != (2 if behind else 1):
        return "needs one colour, or two with 'on' between them"
    return Tone(colors[0], colors[1] if behind else None, frozenset(attributes))


def find(name: str) -> Palette:
    """The theme of that name, the user's own first. Raises ``FileProblem`` where there is none or it is broken."""
    for folder in (user_dir(), shipped_dir()):
        path = folder / f"{name}.toml"
        if path.is_file():
            return load(path)
    near = get_close_matches(name, SHIPPED, 1)
    raise FileProblem(
        f"There is no theme {name}",
        cause=f"did you mean {near[0]}?" if near else f"looked in {user_dir()}",
        next_step="Choose one with Ctrl+t, or correct the setting 'theme'",
    )


def find_all() -> tuple[list[Palette], list[FileProblem]]:
    """Every readable theme, shipped ones first, and what is wrong with the others."""
    paths = {name: shipped_dir() / f"{name}.toml" for name in SHIPPED}
    with suppress(OSError):  # an unreadable configuration folder offers no themes
        paths |= {path.stem: path for path in sorted(user_dir().glob("*.toml"))}
    palettes: list[Palette] = []
    problems: list[FileProblem] = []
    for path in paths.values():
        try:
            palettes.append(load(path))
        except FileProblem as problem:
            problems.append(problem)
    return palettes, problems


_WITHOUT_COLOUR = frozenset({"vt52", "vt100", "vt102", "vt220"})


def default_name(environ: Mapping[str, str] = os.environ) -> str:
    """What to use where the settings name no theme.

    ``NO_COLOR`` and the terminals of old give ``mono``; a terminal that announces neither true colour nor 256 colours
    gets its own sixteen.
    """
    if environ.get("NO_COLOR") or environ.get("TERM") in _WITHOUT_COLOUR:
        return "mono"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or "256" in environ.get("TERM", ""):
        return "dark"
    return "ansi16"
