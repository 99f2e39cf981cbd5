"""A task's sections as lines with tones, for reading in a command's output or in a scrolling pane."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from expb_tui.present.cells import UNICODE, Cell, Glyphs, Tone, cell

if TYPE_CHECKING:
    from expb_tui.core.submissions.task_view import Section

_LABEL_ROOM = 24


def reading_lines(sections: Sequence[Section], width: int = 100, *, glyphs: Glyphs = UNICODE) -> list[Cell]:
    """One cell a line, wrapped at ``width`` cells; titles in the accent tone, a blank line between sections."""
    lines: list[Cell] = []
    for section in sections:
        if lines:
            lines.append(Cell(""))
        lines.append(cell(section.title, Tone.ACCENT))
        room = min(_LABEL_ROOM, max((len(fact.label) for fact in section.facts), default=0))
        for fact in section.facts:
            head = f"  {fact.label:<{room}}  "
            lines += _block(fact.value, width, first=head, rest=" " * len(head))
        for paragraph in section.prose:
            for line in paragraph.split("\n"):
                lines += _block(line, width, first="  ", rest="  ")
        for bullet in section.bullets:
            lines += _block(bullet, width, first=f"  {glyphs.arrow} ", rest="    ")
    return lines


def _block(text: str, width: int, *, first: str, rest: str) -> list[Cell]:
    parts = wrap(
        text, max(20, width), initial_indent=first, subsequent_indent=rest, drop_whitespace=True, break_on_hyphens=False
    )
    return [Cell(part) for part in parts or [""]]
