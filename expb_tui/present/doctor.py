"""What the doctor found, as lines for a command and for the cockpit: by area, each with the line that mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from expb_tui.core.doctor.model import Finding, State, in_order
from expb_tui.present.cells import UNICODE, Cell, Column, Glyphs, Row, Table, Tone

Line = tuple[Cell, ...]

_TONES = {State.OK: Tone.OK, State.WARN: Tone.WARN, State.BAD: Tone.BAD, State.UNKNOWN: Tone.INFO}
_MARGIN = "  "
_LABEL = 22
"""Cells of the longest name that findings line up after."""
_NARROWEST = 30


def sign(state: State, glyphs: Glyphs = UNICODE) -> Cell:
    """A sign and its tone; the sign alone says it without colour."""
    signs = {State.OK: glyphs.ok, State.WARN: glyphs.warn, State.BAD: glyphs.bad, State.UNKNOWN: glyphs.lost}
    return Cell(signs[state], _TONES[state])


def lines(findings: Sequence[Finding], glyphs: Glyphs = UNICODE, *, width: int | None = None) -> list[Line]:
    """Every finding under its area, in lines of ``width`` cells where one is given.

    The line that mends is never broken: it is there to be copied.
    """
    told: list[Line] = []
    area = ""
    for finding in in_order(findings):
        if finding.area != area:
            area = finding.area
            told += [*([()] if told else []), (Cell(area, Tone.ACCENT),)]
        told += _of(finding, glyphs, width)
    return told


def _of(finding: Finding, glyphs: Glyphs, width: int | None) -> list[Line]:
    name = finding.name.partition(".")[2]
    indent = len(_MARGIN) + 2
    room = None if width is None else max(_NARROWEST, width - indent - _LABEL - 1)
    first, *rest = [finding.says] if room is None else wrap(finding.says, room)
    tone = _text_tone(finding.state)
    told: list[Line] = [
        (Cell(_MARGIN), sign(finding.state, glyphs), Cell(f" {name:<{_LABEL}} ", Tone.DIM), Cell(first, tone))
    ]
    told += [(Cell(" " * (indent + _LABEL + 1)), Cell(more, tone)) for more in rest]
    if finding.mend:
        told.append((Cell(" " * indent), Cell(f"{glyphs.arrow} ", Tone.DIM), Cell(finding.mend, Tone.INFO)))
    return told


def _text_tone(state: State) -> Tone:
    return Tone.TEXT if state is State.OK else _TONES[state]


ROWS = (Column("", 1), Column("WHAT", 26), Column("HERE"))


def rows(findings: Sequence[Finding], glyphs: Glyphs = UNICODE) -> Table:
    """One row a finding; its key is its place in ``in_order``."""
    made = [
        Row(
            str(place),
            (sign(finding.state, glyphs), Cell(finding.name, Tone.DIM), Cell(finding.says, _text_tone(finding.state))),
        )
        for place, finding in enumerate(in_order(findings))
    ]
    return Table(ROWS, tuple(made), summary(findings).text)


def summary(findings: Sequence[Finding]) -> Cell:
    """How many of each state, the worst in its tone."""
    count = Counter(finding.state for finding in findings)
    words = {State.BAD: "bad", State.WARN: "to mend", State.UNKNOWN: "unknown", State.OK: "well"}
    worst = next((state for state in words if count[state]), State.OK)
    return Cell(", ".join(f"{count[state]} {word}" for state, word in words.items() if count[state]), _TONES[worst])
