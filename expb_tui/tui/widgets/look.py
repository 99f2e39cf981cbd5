"""What widgets draw with: palette, glyphs and frame characters of the running application."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from expb_tui.present.cells import ASCII, UNICODE, Glyphs
from expb_tui.tui.theme import Palette


class Frame(NamedTuple):
    """Border characters, one cell each."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    horizontal: str
    vertical: str
    thumb: str
    ascending: str
    descending: str


ROUND = Frame("\u256d", "\u256e", "\u2570", "\u256f", "\u2500", "\u2502", "\u2590", "\u25b4", "\u25be")
PLAIN = Frame("+", "+", "+", "+", "-", "|", "#", "^", "v")


class Look(NamedTuple):
    """Compared by value in the cache of drawn lines, so that a change of theme redraws everything."""

    palette: Palette
    glyphs: Glyphs = UNICODE
    frame: Frame = ROUND

    @classmethod
    def of(cls, palette: Palette, *, ascii_only: bool) -> Look:
        """Unicode or ASCII glyphs with this palette."""
        return cls(palette, ASCII, PLAIN) if ascii_only else cls(palette)


def look_of(widget: Any) -> Look:
    """The look of the application that ``widget`` stands in."""
    return cast(Look, widget.app.look)
