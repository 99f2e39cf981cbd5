"""What the cockpit has told its operator: one line in the status line, the rest in the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.text import clean
from expb_tui.present.cells import Glyphs, Tone

if TYPE_CHECKING:
    from expb_tui.core.keeper.state import KeeperProblem
    from expb_tui.core.leases.model import HeldPackage

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
    before: datetime | None = None
    """When it was told the last time; None where it was not."""


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
            notice = notice._replace(times=before.times + 1, first=before.first or before.at, before=before.at)
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


def of_renewal(
    held: HeldPackage | None, problem: ExpbError | KeeperProblem, at: datetime, *, tone: Tone, by: str = ""
) -> Notice:
    """A renewal that failed: which lease first, then why, then what happens next. ``by``: who tried, in words."""
    if held is None:
        return Notice(at, tone, problem.what, problem.cause, problem.next_step, problem.code, "leases")
    where = f" in {held.project_name}" if held.project_name else ""
    text = f"The {held.role} lease{where} was not renewed{by}"
    cause = f"{problem.what}: {problem.cause}" if problem.cause else problem.what
    # What to check for a wrong id or address helps nobody who typed neither.
    step = problem.next_step if problem.code in _FOR_A_PERSON else "It is tried again by itself until its end"
    return Notice(at, tone, text, cause, step, problem.code, "leases", held.uid)


_FOR_A_PERSON = (SignInNeeded.code, "unauthenticated", "role-not-authorized", "identity-inactive", "account-inactive")
"""Refusals that trying again does not mend."""
_SIGNS = {Tone.BAD: "bad", Tone.WARN: "warn", Tone.OK: "ok"}


def sign(tone: Tone, glyphs: Glyphs) -> str:
    """The sign that says what the colour says."""
    return str(getattr(glyphs, _SIGNS.get(tone, "idle")))
