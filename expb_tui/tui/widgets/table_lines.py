"""The lines of a table: its titles, and one line a row."""

from __future__ import annotations

from rich.style import Style

from expb_tui.present.cells import Row
from expb_tui.tui.widgets.arrangement import Order
from expb_tui.tui.widgets.columns import Shape, gap_before
from expb_tui.tui.widgets.lines import Pen, fit, put_matches, width_of
from expb_tui.tui.widgets.look import Look

GUTTER = 2
"""Cells before the first column: the sign of cursor or mark, and a space."""
_UNDERLINE = Style(underline=True)


def draw_titles(pen: Pen, width: int, look: Look, shape: Shape, order: Order | None) -> None:
    """The titles, the sign of the order beside one of them, and at the end a sign for columns that have no room."""
    style = look.palette.style("dim")
    end = pen.used + width - (1 if shape.overflow else 0)
    pen.put(" " * GUTTER, style, GUTTER)
    for place, index in enumerate(shape.shown):
        column = shape.columns[index]
        sign = order_sign(look, order) if order is not None and order.column == index else ""
        pen.put(" " * min(gap_before(shape.columns, shape.shown[:place]), end - pen.used), style)
        size = min(shape.widths[index], end - pen.used)
        title = column.title if width_of(column.title) < size else column.title[: size - len(sign)]
        pen.put(fit(title + sign, size, look.glyphs.more, right=column.align == "right"), style)
        if pen.used >= end:
            break
    if shape.overflow:
        pen.fill(end, style).put(look.glyphs.arrow, look.palette.style("accent"), 1)


def order_sign(look: Look, order: Order) -> str:
    """Upwards or downwards."""
    return look.frame.descending if order.descending else look.frame.ascending


def draw_row(
    pen: Pen, width: int, look: Look, shape: Shape, row: Row, *, on: str, marked: bool, words: tuple[str, ...]
) -> None:
    """One row on the ground ``on``: ``surface``, else (selected) ``cursor`` or ``rest``; ``words`` stand out."""
    palette, glyphs = look.palette, look.glyphs
    end = pen.used + width
    sign = "*" if marked else (" " if on == "surface" else glyphs.arrow)
    pen.put(sign + " ", palette.style("mark" if marked else "accent", on), GUTTER)
    plain = before = palette.style("text", on)
    for place, number in enumerate(shape.shown):
        pen.put(" " * min(gap_before(shape.columns, shape.shown[:place]), end - pen.used), before)
        size = min(shape.widths[number], max(0, end - pen.used))
        cell = row.cells[number]
        text = fit(cell.text, size, glyphs.more, right=shape.columns[number].align == "right")
        style = palette.style("mark" if marked and number == 0 else cell.tone, on)
        if any(word in text.lower() for word in words):
            put_matches(pen, text, words, style, palette.style("mark", on, bold=True) + _UNDERLINE)
        else:
            pen.put(text, style, size)
        before = plain if style.underline else style
        if pen.used >= end:
            break
    pen.fill(end, plain)
