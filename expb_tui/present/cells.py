"""Cells, rows and tables with tones, and the glyphs that stand beside every colour.

Named tuples rather than dataclasses: they are made by the thousand, compared by panes to find what changed, and
cost nothing to import (``profile list`` has a start-up budget).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple

from expb_tui.core.text import clean

MISSING = "-"
"""What a table shows where a value is absent (contract, section 5)."""


class Tone(StrEnum):
    """What a cell means; themes give it a colour, and a glyph or word in the text says it without one."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    INFO = "info"
    DIM = "dim"
    ACCENT = "accent"
    TEXT = "text"
    LINK = "link"


class Cell(NamedTuple):
    """One piece of cleaned text. Make it with ``cell`` wherever the text comes from outside."""

    text: str
    tone: Tone = Tone.TEXT


class Column(NamedTuple):
    """``width`` is a wish in cells, None for as wide as the content; ``least`` cells are kept where it is shorter."""

    title: str
    width: int | None = None
    align: Literal["left", "right"] = "left"
    least: int = 0


class Row(NamedTuple):
    """``key`` names the thing (an id); ``next_change`` is seconds until a cell's text differs, None for never."""

    key: str
    cells: tuple[Cell, ...]
    next_change: float | None = None


class Table(NamedTuple):
    """``footer`` is one line, possibly empty; ``next_change`` of the whole is the earliest of its rows."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: str = ""

    @property
    def next_change(self) -> float | None:
        """Seconds until some row's text differs; None for never."""
        return min((row.next_change for row in self.rows if row.next_change is not None), default=None)


class Glyphs(NamedTuple):
    """Signs of one cell each. The default set holds no character of ambiguous or emoji width."""

    ok: str
    bad: str
    warn: str
    live: str
    idle: str
    lost: str
    full: str
    empty: str
    more: str
    arrow: str


UNICODE = Glyphs("\u2713", "\u2717", "!", "\u25b8", "\u25e6", "?", "\u25b0", "\u25b1", "\u22ef", "\u203a")
ASCII = Glyphs("+", "x", "!", ">", "o", "?", "#", ".", "~", ">")


def cell(value: object, tone: Tone = Tone.TEXT) -> Cell:
    """A cell of one cleaned line; None and the empty string show as ``-``, dim."""
    text = "" if value is None else str(value)
    return _usual(text, tone) if len(text) <= _USUAL else _cleaned(text, tone)


def _cleaned(text: str, tone: Tone) -> Cell:
    text = clean(text).strip()
    return Cell(text, tone) if text else Cell(MISSING, Tone.DIM)


_USUAL = 40
_usual = lru_cache(maxsize=2048)(_cleaned)
"""Long tables say the same few short words again and again: one object for all of them."""


def columns(titles: Iterable[str]) -> tuple[Column, ...]:
    """Columns as wide as their content."""
    return tuple(Column(title) for title in titles)


def bar(part: float, width: int, glyphs: Glyphs = UNICODE) -> str:
    """A bar of ``width`` cells; anything above zero shows at least one filled cell, only all of it shows none empty."""
    share = min(1.0, max(0.0, part))
    filled = round(share * width)
    if share > 0:
        filled = max(1, filled)
    if share < 1:
        filled = min(width - 1, filled)
    return glyphs.full * filled + glyphs.empty * (width - filled)


def shown(count: int, total: int | None = None, *, noun: str = "resources") -> str:
    """The footer of a listing: ``N of M resources shown``, or ``N resources shown`` without a total."""
    return f"{count} {noun} shown" if total is None else f"{count} of {total} {noun} shown"


def plural(count: int, noun: str) -> str:
    """``1 lease``, ``2 leases``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
