"""What the cockpit has told its operator: one line in the status line, the rest in the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Glyphs, Tone

KEPT = 500
_NEVER = datetime.min.replace(tzinfo=UTC)
_REQUEST = re.compile(r" ?\(request [^()]*\)")
"""What names one request, in an error that is the same each time but for that."""


class Notice(NamedTuple):
    """``at`` is the wall clock; ``cause`` and ``next_step`` may be empty."""

    at: datetime
    tone: Tone
    text: str
    cause: str = ""
    next_step: str = ""
    code: str = ""
    pane: str = ""
    """Where it happened: Enter in the list goes there. Empty where there is no such place."""
    row: str = ""
    """The key of the row in that pane."""
    times: int = 1
    """How often the same thing was told."""
    first: datetime | None = None
    """When it was told first; None where that is ``at``."""


class Notices:
    """The newest last; what is told again is counted, and moves to where the newest is."""

    def __init__(self) -> None:
        self._kept: dict[Notice, Notice] = {}
        self._unread: set[Notice] = set()
        self.on_change: Callable[[], None] | None = None
        """Called after each one, while somebody looks at the list."""

    def add(self, notice: Notice) -> Notice:
        """Keep it; texts are cleaned here."""
        notice = notice._replace(text=clean(notice.text), cause=clean(notice.cause), next_step=clean(notice.next_step))
        text, cause = (_REQUEST.sub("", words) for words in (notice.text, notice.cause))
        same = notice._replace(at=_NEVER, text=text, cause=cause)
        if (before := self._kept.pop(same, None)) is not None:
            notice = notice._replace(times=before.times + 1, first=before.first or before.at)
        elif len(self._kept) >= KEPT:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._unread.discard(oldest)
        if notice.tone in (Tone.WARN, Tone.BAD):
            self._unread.add(same)
        self._kept[same] = notice
        if self.on_change is not None:
            self.on_change()
        return notice

    @property
    def last(self) -> Notice | None:
        """The newest."""
        return next(reversed(self._kept.values()), None)

    @property
    def unread(self) -> int:
        """How many different warnings and failures were told since the list was looked at."""
        return len(self._unread)

    @property
    def worst_unread(self) -> Tone:
        """Bad where one of the unread ones is."""
        return Tone.BAD if any(notice.tone is Tone.BAD for notice in self._unread) else Tone.WARN

    def newest_first(self) -> list[Notice]:
        """All that are kept."""
        return list(reversed(self._kept.values()))

    def read(self) -> None:
        """The operator has seen the list."""
        self._unread.clear()


def of_error(error: ExpbError, at: datetime, *, tone: Tone = Tone.BAD, pane: str = "", row: str = "") -> Notice:
    """An error in words; ``pane`` and ``row`` say where it happened."""
    return Notice(at, tone, error.what, error.cause, error.next_step, error.code, pane, row)


_SIGNS = {Tone.BAD: "bad", Tone.WARN: "warn", Tone.OK: "ok"}


def sign(tone: Tone, glyphs: Glyphs) -> str:
    """The sign that says what the colour says."""
    return str(getattr(glyphs, _SIGNS.get(tone, "idle")))
