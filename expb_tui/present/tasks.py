"""A task's sections as lines with tones, for reading in a command's output or in a scrolling pane."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from expb_tui.present.cells import UNICODE, Cell, Glyphs, Tone, cell

if TYPE_CHECKING:
    from expb_tui.core.submissions.task_view import Section

Line = tuple[Cell, ...]
"""Pieces of one line, side by side; each with its own tone."""

_LABEL_ROOM = 24
_HEAD = re.compile(r"[A-Z][A-Za-z ]{1,24}: ")
"""What a paragraph or bullet point begins with that says what it is, such as ``Rationale:``."""


def toned_lines(sections: Sequence[Section], width: int = 100, *, glyphs: Glyphs = UNICODE) -> list[Line]:
    """Wrapped at ``width`` cells, with a blank line between sections.

    Titles are in the accent tone, labels dim, heads such as ``Rationale:`` in the tone of information, and what is
    seldom looked at (ids, phases) dim and last.
    """
    lines: list[Line] = []
    for section in sections:
        if lines:
            lines.append((Cell(""),))
        lines.append((cell(section.title, Tone.ACCENT),))
        labels = [fact.label for fact in (*section.facts, *section.quiet)]
        room = min(_LABEL_ROOM, max(map(len, labels), default=0))
        for paragraph in section.prose:
            for line in paragraph.split("\n"):
                lines += _block(line, width, Cell("  "))
        for fact in section.facts:
            lines += _block(fact.value, width, Cell(f"  {fact.label:<{room}}  ", Tone.DIM))
        for bullet in section.bullets:
            lines += _block(bullet, width, Cell(f"  {glyphs.arrow} ", Tone.ACCENT))
        for fact in section.quiet:
            lines += _block(fact.value, width, Cell(f"  {fact.label:<{room}}  ", Tone.DIM), Tone.DIM)
    return lines


def reading_lines(sections: Sequence[Section], width: int = 100, *, glyphs: Glyphs = UNICODE) -> list[Cell]:
    """``toned_lines`` with one cell a line, where a face cannot tone a part of it."""
    return [
        Cell("".join(piece.text for piece in line), line[0].tone if len(line) == 1 else Tone.TEXT)
        for line in toned_lines(sections, width, glyphs=glyphs)
    ]


def _block(text: str, width: int, start: Cell, tone: Tone = Tone.TEXT) -> list[Line]:
    indent = len(start.text)
    first, *rest = wrap(text, max(16, width - indent), break_on_hyphens=False) or [""]
    head = _HEAD.match(first)
    pieces = (Cell(head[0], Tone.INFO), Cell(first[head.end() :], tone)) if head else (Cell(first, tone),)
    if not start.text.strip():
        # Where nothing is toned a line is one piece: it costs the link less.
        pieces = (Cell(start.text + pieces[0].text, pieces[0].tone), *pieces[1:])
    else:
        pieces = (start, *pieces)
    return [pieces, *((Cell(" " * indent + part, tone),) for part in rest)]
