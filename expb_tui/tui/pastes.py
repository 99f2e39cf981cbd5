"""Pasted text is taken out of a terminal's input before keys are looked for in it.

Textual's parser takes an escape character inside a bracketed paste for a key press, so that hostile text in a clipboard
could press keys of the cockpit; here everything between the markers is one paste, whatever it holds.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

START = "\x1b[200~"
END = "\x1b[201~"


class Piece(NamedTuple):
    """``keys`` go to the parser, a ``paste`` is text."""

    kind: Literal["keys", "paste"]
    text: str


class Pastes:
    """Feed it what was read, in order. Nothing that may be a key is held back, not even the first half of a marker."""

    def __init__(self) -> None:
        self._content: str | None = None
        self._passed = ""
        """The last characters handed on as keys: a marker may have begun in them."""

    @property
    def inside(self) -> bool:
        """A paste has begun and not ended."""
        return self._content is not None

    def split(self, text: str) -> list[Piece]:
        """The pieces of ``text``; a paste comes once its end has been read."""
        pieces: list[Piece] = []
        while text:
            if self._content is not None:
                searched = max(0, len(self._content) - len(END) + 1)
                self._content += text
                end = self._content.find(END, searched)
                if end < 0:
                    break
                pieces.append(Piece("paste", self._content[:end]))
                text, self._content = self._content[end + len(END) :], None
                continue
            joined = self._passed + text
            start = joined.find(START)
            if start < 0:
                pieces.append(Piece("keys", text))
                self._passed = joined[-(len(START) - 1) :]
                break
            start -= len(self._passed)
            after = start + len(START)
            if start > 0:
                pieces.append(Piece("keys", text[:start]))
            elif start < 0:
                # The parser has seen the first half: it gets the rest, and an end, so that it expects keys again.
                pieces.append(Piece("keys", text[:after] + END))
            text, self._content, self._passed = text[after:], "", ""
        return pieces

    def give_up(self) -> list[Piece]:
        """The terminal never sent the end: what came so far is the paste."""
        content, self._content = self._content, None
        return [] if content is None else [Piece("paste", content)]
