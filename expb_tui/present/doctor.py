"""What the doctor found, as lines for a command and for the cockpit: by area, each with the line that mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from textwrap import wrap

from expb_tui.core.doctor.model import Finding, State, in_order
from expb_tui.present.cells import UNICODE, Cell, Column, Glyphs, Row, Table, Tone

Line = tuple[Cell, ...]

_TONES = {State.OK: Tone.OK, State.WARN: Tone.WARN, State.BAD: Tone.BAD, State.UNKNOWN: Tone.INFO}
_MARGIN = "  "
_NARROWEST = 30
"""Cells that a sentence gets, however narrow the terminal is."""


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
    label = max((len(_label(finding)) for finding in findings), default=0)
    for finding in in_order(findings):
        if finding.area != area:
            area = finding.area
            told += [*([()] if told else []), (Cell(area, Tone.ACCENT),)]
        told += _of(finding, glyphs, label, width)
    return told


def _label(finding: Finding) -> str:
    return finding.name.partition(".")[2]


def _of(finding: Finding, glyphs: Glyphs, label: int, width: int | None) -> list[Line]:
    indent = len(_MARGIN) + 2
    text = indent + label + 2
    room = None if width is None else max(_NARROWEST, width - text)
    first, *rest = [finding.says] if room is None else wrap(finding.says, room, break_on_hyphens=False)
    tone = _text_tone(finding.state)
    told: list[Line] = [
        (
            Cell(_MARGIN),
            sign(finding.state, glyphs),
            Cell(f" {_label(finding):<{label}}  ", Tone.DIM),
            Cell(first, tone),
        )
    ]
    told += [(Cell(" " * text), Cell(more, tone)) for more in rest]
    if finding.mend:
        told.append((Cell(" " * indent), Cell(f"{glyphs.arrow} ", Tone.DIM), Cell(finding.mend, Tone.INFO)))
    return told


def _text_tone(state: State) -> Tone:
    return Tone.TEXT if state is State.OK else _TONES[state]


ROWS = (Column("", 1), Column("WHAT", 26), Column("HERE"))


def keyed(findings: Sequence[Finding]) -> dict[str, Finding]:
    """In the order of areas, by names that are told apart where several findings have one."""
    told: dict[str, Finding] = {}
    for finding in in_order(findings):
        key = next(key for number in count() if (key := f"{finding.name} {number}") not in told)
        told[key] = finding
    return told


def worst(findings: Sequence[Finding]) -> str | None:
    """The key of the first finding of the worst state; None where all is well."""
    found = keyed(findings)
    return next((key for state in (State.BAD, State.WARN) for key in found if found[key].state is state), None)


def rows(findings: Sequence[Finding], glyphs: Glyphs = UNICODE) -> Table:
    """One row a finding, with the key that ``keyed`` gives it."""
    made = [
        Row(
            key,
            (sign(finding.state, glyphs), Cell(finding.name, Tone.DIM), Cell(finding.says, _text_tone(finding.state))),
        )
        for key, finding in keyed(findings).items()
    ]
    return Table(ROWS, tuple(made), summary(findings).text)


def summary(findings: Sequence[Finding]) -> Cell:
    """How many of each state, the worst in its tone."""
    number = Counter(finding.state for finding in findings)
    words = {State.BAD: "bad", State.WARN: "to mend", State.UNKNOWN: "unknown", State.OK: "well"}
    tone = _TONES[next((state for state in words if number[state]), State.OK)]
    return Cell(", ".join(f"{number[state]} {word}" for state, word in words.items() if number[state]), tone)
