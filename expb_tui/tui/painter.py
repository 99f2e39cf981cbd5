"""What the terminal shows, cell by cell, and the fewest bytes that turn it into what it should show.

Textual sends every span of a refreshed region again, each piece with all its colours and a reset behind it. Over a slow
link that is most of what is waited for. The painter keeps the cells that were sent, compares, and sends those that
differ, with only those attributes that change from one cell to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color, ColorSystem
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

_NEAR = 4
"""Cells between two changes that are cheaper to send again than to jump over."""
_MOST = 4096
"""Inks and pairs of them that are remembered; an application has some dozens."""
_SMALL = 300
"""Bytes of a frame that is not worth a second look."""
_BOLD, _DIM, _UNDERLINE, _REVERSE, _STRIKE = 1, 2, 8, 64, 256
_OFF = {_BOLD: 22, _DIM: 22, 4: 23, _UNDERLINE: 24, 16: 25, 32: 25, _REVERSE: 27, 128: 28, _STRIKE: 29}
"""Rich's attribute bits and what switches each off. The few that are not here are left by a reset only."""
_ON = {bit: place for place, bit in enumerate(_OFF, 1)} | {512: 21, 1024: 51, 2048: 52, 4096: 53}
_ON_BLANKS = ~(_BOLD | _DIM | 4 | 16 | 32 | 128)
"""Attributes that show on a space."""

_RANGES = (
    (0x20, 0x7E), (0xA0, 0xAC), (0xAE, 0x2FF), (0x370, 0x482), (0x2010, 0x2027), (0x2030, 0x203B),
    (0x2190, 0x22FF), (0x2400, 0x2426), (0x2500, 0x25FC), (0x2713, 0x2713), (0x2717, 0x2717), (0x2800, 0x28FF),
)  # fmt: skip
_NARROW = frozenset(chr(code) for first, last in _RANGES for code in range(first, last + 1))
"""Characters that take one cell on every terminal."""
_ONE_CELL = _NARROW | {""}
"""With the second half of a wide one."""
_WIDE = ((0x3041, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF01, 0xFF60))
"""Ranges of characters that take two cells on every terminal."""
_JOINER = "\u200d"


class Ink:
    """How a cell is drawn; there is one object a way. Colours are SGR parameters, empty for the terminal's own."""

    __slots__ = ("attributes", "back", "blank", "front", "link")

    def __init__(self, front: str, back: str, attributes: int, link: str, blank: Ink | None = None) -> None:
        self.front, self.back, self.attributes, self.link = front, back, attributes, link
        self.blank = blank or self
        """The ink that draws a space alike; itself where all of it shows on a space."""


class Painter:
    """``take`` what should be shown, then send what ``frame`` returns; ``forget`` when the terminal lost its cells."""

    def __init__(self) -> None:
        self._plain = Ink("", "", 0, "")
        self.forget()

    def forget(self) -> None:
        """Nothing is known of the screen any more: the next frame holds all of it."""
        self._size = Size(0, 0)
        self._wanted: list[_Row] = []
        self._shown: list[_Row | None] = []
        """None for a line of which nothing is known."""
        self._changed: set[int] = set()
        self._inks: dict[tuple[str, str, int, str], Ink] = {("", "", 0, ""): self._plain}
        self._of_style: dict[Style | None, Ink] = {}
        self._between: dict[tuple[Ink, Ink], str] = {}
        self._colors: ColorSystem | None = None

    def resized(self, size: Size) -> None:
        """The terminal has this size now. Where it had it before, a frame that waits to be sent must not be lost."""
        if size != self._size:
            self.forget()
            return
        self._shown = [None] * size.height
        self._changed = set(range(size.height))

    def take(self, update: CompositorUpdate, colors: ColorSystem) -> bool:
        """Note an update of Textual's; False where it is only a part and the rest is not known: ask for all of it."""
        if colors is not self._colors or len(self._inks) + len(self._between) + len(self._of_style) > _MOST:
            self.forget()
            self._colors = colors
        if isinstance(update, LayoutUpdate):
            size = update.region.size
            if size != self._size:
                self._size = size
                self._wanted = [_Row([" "] * size.width, [self._plain] * size.width) for _ in range(size.height)]
                self._shown = [None] * size.height
                self._changed = set(range(size.height))
            for y, strips in enumerate(update.strips):
                self._put(y, 0, size.width, strips)
            return True
        if not isinstance(update, ChopsUpdate) or len(update.chops) != self._size.height:
            return False
        for y, left, right in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                # All of a strip is as it should be, also what lies outside the span.
                if strip is not None and x <= right and end > left:
                    self._put(y, x, min(end, self._size.width), (strip,))
        return True

    def frame(self) -> str:
        """What the terminal needs to show what was taken; empty where it shows it already."""
        pieces: list[_Piece] = []
        for y in sorted(self._changed):
            row, shown = self._wanted[y], self._shown[y]
            for left, right in [(0, len(row.texts))] if shown is None else _differences(row, shown):
                pieces += _pieces(row, y, left, right)
            self._shown[y] = _Row(row.texts.copy(), row.inks.copy())
        self._changed.clear()
        by_line = self._drawn(pieces)
        if len(by_line) < _SMALL:
            return by_line
        # A colour costs twenty bytes, a jump eight: all of one ink, then all of the next. Where a cell may spill over,
        # what follows it has to come after it.
        order = {ink: place for place, ink in enumerate(dict.fromkeys(piece.ink for piece in pieces))}
        spilling = {piece.y for piece in pieces if "\x1b" in piece.text}
        by_ink = self._drawn(sorted(pieces, key=lambda piece: -1 if piece.y in spilling else order[piece.ink]))
        return min(by_line, by_ink, key=len)

    # What should be shown

    def _put(self, y: int, left: int, right: int, strips: Iterable[Strip]) -> None:
        """Write ``strips`` into the wanted line, from ``left`` to ``right``."""
        texts: list[str] = []
        inks: list[Ink] = []
        for strip in strips:
            for text, style, control in strip:
                if control:
                    continue
                ink = self._of_style.get(style) or self._ink(style)
                before = len(texts)
                if text.isascii() or _NARROW.issuperset(text):
                    texts += text
                else:
                    _add_cells(texts, text)
                if ink is ink.blank:
                    inks += [ink] * (len(texts) - before)
                else:
                    blank = ink.blank
                    inks += [blank if cell == " " else ink for cell in texts[before:]]
        # Who measured the strip may count a strange character otherwise.
        room = right - left
        texts[room:] = [" "] * (room - len(texts))
        inks[room:] = [self._plain] * (room - len(inks))
        row = self._wanted[y]
        if row.texts[left:right] != texts or row.inks[left:right] != inks:
            row.texts[left:right], row.inks[left:right] = texts, inks
            self._changed.add(y)

    def _ink(self, style: Style | None) -> Ink:
        ink = self._plain
        if style is not None:
            # One id for one target: the pieces of a wrapped link belong together, and are the same at each repaint.
            link = f"id={crc32(style.link.encode())};{style.link}" if style.link else ""
            attributes = style._attributes & style._set_attributes
            ink = self._same(self._color(style.color, True), self._color(style.bgcolor, False), attributes, link)
        self._of_style[style] = ink
        return ink

    def _same(self, front: str, back: str, attributes: int, link: str) -> Ink:
        key = (front, back, attributes, link)
        ink = self._inks.get(key)
        if ink is None:
            blank = None if attributes & _ON_BLANKS or not (front or attributes) else self._same("", back, 0, link)
            ink = self._inks[key] = Ink(*key, blank)
        return ink

    def _color(self, color: Color | None, front: bool) -> str:
        if color is None or color.is_default or self._colors is None:
            return ""
        return ";".join(color.downgrade(self._colors).get_ansi_codes(front))

    # What is sent

    def _drawn(self, pieces: Iterable[_Piece]) -> str:
        out: list[str] = []
        ink, here = self._plain, (-1, -1)
        for piece in pieces:
            if here != (piece.x, piece.y):
                out.append(place(piece.x, piece.y))
            if piece.ink is not ink and not (piece.ink is ink.blank and not piece.text.strip(" ")):
                out.append(self._turn(ink, piece.ink))
                ink = piece.ink
            out.append(piece.text)
            here = (piece.end, piece.y)
        if ink is not self._plain:
            out.append(self._turn(ink, self._plain))
        return "".join(out)

    def _turn(self, before: Ink, after: Ink) -> str:
        """The sequence from one ink to another."""
        found = self._between.get((before, after))
        if found is None:
            found = self._between[before, after] = _turned(before, after)
        return found


class _Row(NamedTuple):
    """One line: a text a cell, empty behind a wide one, and the ink of each."""

    texts: list[str]
    inks: list[Ink]


class _Piece(NamedTuple):
    """Cells beside each other that one ink draws."""

    y: int
    x: int
    end: int
    ink: Ink
    text: str


def _pieces(row: _Row, y: int, left: int, right: int) -> Iterator[_Piece]:
    """The cells from ``left`` to ``right``; spaces go with the letters before or after them where they look alike."""
    texts, inks = row
    start, ink, out = left, inks[left], ""
    for x in range(left, right):
        text, wanted = texts[x], inks[x]
        if wanted is not ink and not (text == " " and wanted is ink.blank):
            if ink is wanted.blank and not out.strip(" "):
                ink = wanted
            else:
                yield _Piece(y, start, x, ink, out)
                start, ink, out = x, wanted, ""
        if _sure(text):
            out += text
        else:
            # Terminals disagree about its width: its cells are wiped, and what follows it is placed.
            width = _width(texts, x)
            out += " " * width + place(x, y) + text + place(x + width, y)
    yield _Piece(y, start, right, ink, out)


def place(x: int, y: int) -> str:
    if x:
        return f"\x1b[{y + 1};{x + 1}H"
    return f"\x1b[{y + 1}H" if y else "\x1b[H"


def _sure(text: str) -> bool:
    """Whether every terminal gives a cell the width that it has here."""
    return text in _ONE_CELL or (len(text) == 1 and any(first <= ord(text) <= last for first, last in _WIDE))


def _width(texts: Sequence[str], x: int) -> int:
    end = x + 1
    while end < len(texts) and not texts[end]:
        end += 1
    return end - x


def _add_cells(texts: list[str], text: str) -> None:
    """Append the cells of ``text``; what joins the character before it stands in that one's cell."""
    for char in text:
        size = 1 if char in _NARROW else get_character_cell_size(char)
        last = len(texts) - 1
        while last >= 0 and not texts[last]:
            last -= 1
        if size and not (last >= 0 and texts[last].endswith(_JOINER)):
            texts.append(char)
            texts += [""] * (size - 1)
        elif last >= 0:
            texts[last] += char
            texts += [""] * (cell_len(texts[last]) - len(texts) + last)


def _differences(row: _Row, shown: _Row) -> Iterator[tuple[int, int]]:
    """Where two lines differ, from and to; changes that lie close together are one piece."""
    texts, inks = row
    places = [
        x
        for x, (text, old, ink, old_ink) in enumerate(zip(texts, shown.texts, inks, shown.inks, strict=True))
        if text != old or ink is not old_ink
    ]
    if places and not (_ONE_CELL.issuperset(texts) and _ONE_CELL.issuperset(shown.texts)):
        changed = set(places)
        for spill in _spills(texts, shown.texts):
            if not changed.isdisjoint(spill):
                changed.update(spill)
        places = sorted(changed)
    start = 0
    for index, place in enumerate(places):
        follows = places[index + 1] if index + 1 < len(places) else None
        if follows is not None and follows - place <= _NEAR and len({ink.blank for ink in inks[place:follows]}) == 1:
            continue
        left, right = places[start], place + 1
        start = index + 1
        while left and not texts[left]:
            left -= 1
        while right < len(texts) and not texts[right]:
            right += 1
        yield left, right


def _spills(texts: Sequence[str], shown: Sequence[str]) -> list[range]:
    """Cells that may hold parts of each other, because terminals disagree about widths: they are sent together.

    A character that takes more than its cells marks what is right of it; one that takes none joins the cell before it.
    """
    found: list[range] = []
    for x, pair in enumerate(zip(texts, shown, strict=True)):
        for text in pair:
            if _sure(text):
                continue
            start, end = max(0, x - 1), min(len(texts), x + 2 * len(text))
            if found and start <= found[-1].stop:
                found[-1] = range(found[-1].start, max(end, found[-1].stop))
            else:
                found.append(range(start, end))
    return found


def _turned(before: Ink, after: Ink) -> str:
    link = ""
    if before.link != after.link:
        link = f"\x1b]8;{after.link}\x1b\\" if after.link else "\x1b]8;;\x1b\\"
    gone, new = before.attributes & ~after.attributes, after.attributes & ~before.attributes
    whole: list[object] = [0, *(code for bit, code in _ON.items() if after.attributes & bit)]
    whole += [color for color in (after.front, after.back) if color]
    steps: list[object] = list(dict.fromkeys(code for bit, code in _OFF.items() if gone & bit))
    if gone & (_BOLD | _DIM):  # both are switched off together
        new |= after.attributes & (_BOLD | _DIM)
    steps += [code for bit, code in _ON.items() if new & bit]
    steps += [after.front or 39] if before.front != after.front else []
    steps += [after.back or 49] if before.back != after.back else []
    if not steps and not gone:
        return link
    if len(whole) == 1:
        return f"{link}\x1b[m"
    candidates = [";".join(str(code) for code in codes) for codes in (whole, steps)]
    # An attribute without a switch of its own is left by a reset.
    return f"{link}\x1b[{candidates[0] if gone & ~sum(_OFF) else min(candidates, key=len)}m"
