"""What the cockpit has told its operator: one line in the status line, the rest in the list."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import NamedTuple

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Glyphs, Tone

KEPT = 500


class Notice(NamedTuple):
    """``at`` is the wall clock; ``cause`` and ``next_step`` may be empty."""

    at: datetime
    tone: Tone
    text: str
    cause: str = ""
    next_step: str = ""
    code: str = ""
    times: int = 1
    """How often the same thing was told in a row."""


class Notices:
    """The newest last; the same one in a row is counted instead of repeated."""

    def __init__(self) -> None:
        self._kept: deque[Notice] = deque(maxlen=KEPT)
        self.unread = 0

    def add(self, notice: Notice) -> Notice:
        """Keep it; texts are cleaned here."""
        notice = notice._replace(text=clean(notice.text), cause=clean(notice.cause), next_step=clean(notice.next_step))
        last = self.last
        if last is not None and last._replace(at=notice.at, times=1) == notice:
            notice = notice._replace(times=last.times + 1)
            self._kept.pop()
        elif notice.tone in (Tone.WARN, Tone.BAD):
            self.unread += 1
        self._kept.append(notice)
        return notice

    @property
    def last(self) -> Notice | None:
        """The newest."""
        return self._kept[-1] if self._kept else None

    @property
    def worst_unread(self) -> Tone:
        """Bad where one of the unread ones is."""
        recent = [notice for notice in self._kept if notice.tone in (Tone.WARN, Tone.BAD)][-self.unread :]
        return Tone.BAD if any(notice.tone is Tone.BAD for notice in recent) else Tone.WARN

    def newest_first(self) -> list[Notice]:
        """All that are kept."""
        return list(reversed(self._kept))

    def read(self) -> None:
        """The operator has seen the list."""
        self.unread = 0


def of_error(error: ExpbError, at: datetime, *, tone: Tone = Tone.BAD) -> Notice:
    """An error in words."""
    return Notice(at, tone, error.what, error.cause, error.next_step, error.code)


_SIGNS = {Tone.BAD: "bad", Tone.WARN: "warn", Tone.OK: "ok"}


def sign(tone: Tone, glyphs: Glyphs) -> str:
    """The sign that says what the colour says."""
    return str(getattr(glyphs, _SIGNS.get(tone, "idle")))
