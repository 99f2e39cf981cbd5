"""Styled lines: cells become strips of an exact width, without markup and without breaking wide characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from expb_tui.present.cells import Cell, Tone

Line = tuple[Cell, ...]
"""One line of text as differently toned pieces."""
_URGENT = (Tone.WARN, Tone.BAD)
_APART = 2
"""Cells between two pieces of a line that says several things."""
_SIGN = 8
"""Cells up to which an indented first piece is a sign or a key, with its text beside it."""


def words(text: str, tone: Tone = Tone.TEXT) -> Line:
    """A line of one piece."""
    return (Cell(text, tone),)


def width_of(text: str) -> int:
    """Terminal cells that ``text`` takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, more: str, *, right: bool = False) -> str:
    """``text`` in exactly ``width`` cells: padded, or cut with the sign ``more`` at the end."""
    size = width_of(text)
    if size == width:
        return text
    if size < width:
        return " " * (width - size) + text if right else text + " " * (width - size)
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1) + more


def fit_end(text: str, width: int, more: str) -> str:
    """``text`` as far as ``width`` cells take it, its end where not whole: there one types."""
    if width_of(text) <= width:
        return text
    while text and width_of(text) >= width:
        text = text[max(1, (width_of(text) - width) // 2) :]
    return more + text


def shortened(line: Line, width: int, more: str) -> Line:
    """``line``, pieces with blank ones between, in at most ``width`` cells: what warns is left out last, and is cut."""
    parts: list[list[Cell]] = [[]]
    for cell in line:
        if cell.text.isspace():
            parts.append([])
        else:
            parts[-1].append(cell)

    def urgency(part: list[Cell]) -> int:
        return max((_URGENT.index(cell.tone) + 1 for cell in part if cell.tone in _URGENT), default=0)

    def size(parts: list[list[Cell]]) -> int:
        return sum(width_of(cell.text) for part in parts for cell in part) + _APART * (len(parts) - 1)

    while size(parts) > width and len(parts) > 1:
        least = min(map(urgency, parts))
        parts.pop(max(place for place, part in enumerate(parts) if urgency(part) == least))
    if size(parts) > width:
        urgent = [cell for cell in parts[0] if cell.tone in _URGENT]
        return (Cell(fit(urgent[0].text, width, more), urgent[0].tone),) if urgent and width > _SIGN else ()
    apart = Cell(" " * _APART, Tone.DIM)
    return tuple(cell for place, part in enumerate(parts) for cell in ([apart, *part] if place else part))


def wrap(line: Line, width: int, *, indent: int = 0) -> list[Line]:
    """``line`` broken at spaces into lines of at most ``width`` cells; continuation lines are indented.

    A word longer than a line is broken where it must be, so that nothing is hidden.
    """
    width = max(width, 1)
    indent = min(indent, width // 2) if width > 3 else 0
    out: list[Line] = []
    current: list[Cell] = []
    used = 0

    def flush() -> None:
        nonlocal current, used
        out.append(_merge(current))
        current = [Cell(" " * indent)] if indent else []
        used = indent

    for text, tone in line:
        for word in _words(text):
            size = width_of(word)
            if used + size > width and used > indent:
                flush()
                if out and word.isspace():
                    continue
            while size > width - used:
                head, word = _split(word, max(1, width - used))
                current.append(Cell(head, tone))
                flush()
                size = width_of(word)
            if word:
                current.append(Cell(word, tone))
                used += size
    out.append(_merge(current))
    return out


def hung(line: Line, width: int) -> list[Line]:
    """``line`` wrapped so that what follows stands under its text: a key's words, a bullet's, or its own indent."""
    return wrap(line, width, indent=_indent(line))


def _indent(line: Line) -> int:
    if not line:
        return 0
    first = line[0].text
    lead = _spaces(first)
    if lead and len(line) > 1 and len(first) <= _SIGN:
        return width_of(first) + _spaces(line[1].text)
    return lead


def _spaces(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def fitted(lines: Iterable[Line], width: int) -> list[Line]:
    """``lines`` with those broken again that are too wide: who laid them out counted characters, not cells."""
    out: list[Line] = []
    for line in lines:
        if sum(width_of(text) for text, _ in line) <= width:
            out.append(line)
        else:
            out += hung(line, width)
    return out


def _words(text: str) -> Iterable[str]:
    """Runs of spaces and runs of other characters, in order."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or (text[index] == " ") != (text[start] == " "):
            yield text[start:index]
            start = index


def _split(word: str, width: int) -> tuple[str, str]:
    if word.isascii():
        return word[:width], word[width:]
    used = 0
    for index, char in enumerate(word):
        size = cell_len(char)
        if used + size > width and index:
            return word[:index], word[index:]
        used += size
    return word, ""


def _merge(cells: Sequence[Cell]) -> Line:
    merged: list[Cell] = []
    for cell in cells:
        if merged and merged[-1].tone == cell.tone:
            merged[-1] = Cell(merged[-1].text + cell.text, cell.tone)
        else:
            merged.append(cell)
    return tuple(merged)


class Pen:
    """Collects pieces of one strip; neighbours of the same style become one segment, which saves bytes on the line."""

    __slots__ = ("_segments", "_style", "_text", "used")

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._style: Style | None = None
        self._text = ""
        self.used = 0

    def put(self, text: str, style: Style, width: int | None = None) -> Pen:
        """Append ``text``; ``width`` is its size in cells where the caller knows it."""
        if not text:
            return self
        if style is self._style or style == self._style:
            self._text += text
        else:
            if self._text:
                self._segments.append(Segment(self._text, self._style))
            self._text, self._style = text, style
        self.used += width_of(text) if width is None else width
        return self

    def fill(self, to: int, style: Style, char: str = " ") -> Pen:
        """Repeat ``char`` until ``to`` cells are used."""
        if self.used < to:
            self.put(char * (to - self.used), style, to - self.used)
        return self

    def strip(self, width: int, style: Style) -> Strip:
        """The strip, filled or cut to ``width`` cells."""
        self.fill(width, style)
        if self._text:
            self._segments.append(Segment(self._text, self._style))
            self._text = ""
        strip = Strip(self._segments, self.used)
        return strip if self.used == width else strip.adjust_cell_length(width, style)


def put_matches(pen: Pen, text: str, words: Sequence[str], style: Style, highlight: Style) -> None:
    """Draw ``text`` with every one of ``words`` (in lower case) highlighted."""
    folded = text.lower()
    done = 0
    # A letter that changes its length when lowered would put the highlights in wrong places: then there are none.
    while len(folded) == len(text):
        found = min(((at, word) for word in words if (at := folded.find(word, done)) >= 0), default=None)
        if found is None:
            break
        at, end = found[0], found[0] + len(found[1])
        pen.put(text[done:at], style).put(text[at:end], highlight)
        done = end
    pen.put(text[done:], style)
