"""What becomes of leases between two looks at the journal: a lost one is told loudly, once, with why and what next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Tone, plural
from expb_tui.watch.notices import Notice

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.model import HeldPackage

_GONE = frozenset({"lost", "expired", "revoked"})
_HAD = frozenset({"active", "renewal overdue", "no credential"})


class Alarm(Protocol):
    """Who is told."""

    def tell(self, notice: Notice) -> None:
        """Keep a notice and show it."""
        ...

    def alarm(self, notice: Notice) -> None:
        """Tell what must not be missed: with a bell, and into an editor too."""
        ...


class Losses:
    """``unseen`` are the ids of leases that were lost and that the operator has not looked at yet."""

    def __init__(self, clock: Clock, alarm: Alarm) -> None:
        self._clock = clock
        self._alarm = alarm
        self._told: set[str] = set()
        self._without: set[str] = set()
        self.unseen: frozenset[str] = frozenset()

    def compare(self, before: Iterable[HeldPackage] | None, now: Iterable[HeldPackage]) -> None:
        """Tell what was lost between the two; ``before`` is None at the first look, which only counts."""
        if before is None:
            self._first_look(now)
            return
        had = {(held.endpoint, held.uid): held for held in before}
        for held in now:
            old = had.get((held.endpoint, held.uid))
            if old is None or old.state is held.state:
                continue
            state = held.state.value
            if state in _GONE and old.state.value in _HAD and held.uid not in self._told:
                self._lost(held)
            elif state == "no credential" and held.uid not in self._without:
                self._without.add(held.uid)
                self._alarm.tell(_notice(self._clock, held, "has no credential", Tone.WARN))
            elif old.state.value == "no credential":
                self._without.discard(held.uid)
            elif state in _HAD and held.uid in self._told:
                self._told.discard(held.uid)  # it was not lost after all: another process has renewed it
                self.unseen -= {held.uid}

    def agreed_to(self, uids: Iterable[str]) -> None:
        """The operator has just agreed to leave these leases without a credential."""
        self._without |= set(uids)

    def seen(self, uid: str | None = None) -> None:
        """The operator has looked at this lease, or at the list of notices."""
        self.unseen = self.unseen - {uid} if uid is not None else frozenset()

    def words(self, glyphs: Glyphs) -> Cell | None:
        """The header's word; None where nothing was lost, or all of it has been seen."""
        if not self.unseen:
            return None
        return Cell(f"{glyphs.bad} {plural(len(self.unseen), 'lease')} lost", Tone.BAD)

    def _lost(self, held: HeldPackage) -> None:
        self._told.add(held.uid)
        self.unseen |= {held.uid}
        self._alarm.alarm(_notice(self._clock, held, lost_words(held), Tone.BAD))

    def _first_look(self, now: Iterable[HeldPackage]) -> None:
        gone = [held for held in now if held.state.value in ("lost", "expired") and held.open]
        self._told |= {held.uid for held in gone}
        for held in gone:
            if any(task.has_draft for task in held.tasks):
                self._alarm.tell(_notice(self._clock, held, lost_words(held), Tone.WARN))


def lost_words(held: HeldPackage) -> str:
    """``is lost``, ``has run out`` or ``was withdrawn``."""
    return {"expired": "has run out", "revoked": "was withdrawn"}.get(held.state.value, "is lost")


def _why(held: HeldPackage) -> str:
    """The reason; of a lease that ran out it is more than that it did."""
    if held.state.value != "expired":
        return clean(held.reason)
    sure = held.times is None or held.times.verified()
    if held.times is not None and held.times.capped:
        why = "it had reached its absolute end, beyond which no renewal leads"
    else:
        why = "no renewal was confirmed in time" if held.kept else "keeping was off, and nobody renewed it"
    return why if sure else f"{why}; by this host's clock"


class Ending(NamedTuple):
    """A lease that is gone, in words for a form: ``what`` and what it means for the work on it."""

    what: str
    why: str
    next_step: str


def ending(held: HeldPackage) -> Ending | None:
    """Why nothing can be submitted for this package any more; None where it still can, or could again."""
    if held.state.value in (*_GONE, "released", "completed"):
        words = {"released": "was released", "completed": "is completed"}.get(held.state.value) or lost_words(held)
        return Ending(f"The lease of this package {words}", _why(held), clean(held.next_step))
    return None


def _notice(clock: Clock, held: HeldPackage, what: str, tone: Tone) -> Notice:
    where = clean(held.project_name or held.project_id)
    drafts = sum(task.has_draft for task in held.tasks)
    kept = f"; {plural(drafts, 'draft')} of it {'is' if drafts == 1 else 'are'} kept" if drafts else ""
    return Notice(
        clock.now(),
        tone,
        f"The lease of the {clean(held.role)} in {where} {what}{kept}",
        _why(held),
        clean(held.next_step),
        pane="leases",
        row=held.uid,
    )
