"""When which lease is to be renewed: read from the journal once, then kept up by what was written to it since."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.leases.credentials import ProfileLook
from expb_tui.core.leases.model import HeldPackage, LeaseState
from expb_tui.core.leases.schema import ENDED_PHASES, PackageRow, Pin
from expb_tui.core.leases.states import held_of

if TYPE_CHECKING:
    from expb_tui.core.leases.journal import Journal
    from expb_tui.core.leases.salvage import Salvaged
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import ProfileStore

Picks = Callable[[HeldPackage], bool]
"""Tells leases apart; what it is given names no tasks."""

_LOOK_AGAIN = 15.0
"""Seconds after which everything is judged anew: profiles change without the journal."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
_LONGEST_OVER = 300.0
"""Seconds between two questions about a lease that may be over: there is no end any more to be in time for."""
_MANY_TRIES = 5
_NEAR_END = 20.0
"""Seconds before its end from which a lease is tried once a second, or oftener (hazards 10)."""
_LAST_TRIES = 1 / 12
"""Near its end the pause is at most this share of what is left, so that a lease of seconds gets its tries too."""
_ASKED_SHARE = 1 / 3
"""A service that asks to be left alone (Retry-After) gets at most this share of what is left of the lease."""
_EARLIEST = 1 / 8
"""Share of a lease by which, in a crowd, it is renewed earlier than it has to be. Two thousand that were claimed in one
moment fall due in one moment, and the last of them would find the time for its tries used up."""
_CROWD = 1000
"""With so many leases the whole of that share is used, with fewer less."""
_EVENLY = (5**0.5 - 1) / 2
"""Multiples of it, without their whole part, spread evenly however many there are."""
_NOT_THERE = (403, 404, 410)
_SPREAD = random.Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(slots=True)
class Lease:
    """A lease that is still alive, or may be."""

    row: PackageRow
    """Without its document, except while it is not journaled."""
    held: HeldPackage
    """As faces know it, without its tasks."""
    covered: bool
    due: float | None = None
    """On the clock's ticks; None where no renewal can or need be made."""
    tries: int = 0
    """That failed in a row."""
    not_before: float = 0.0
    was_read: bool = field(default=False)
    """Since the last boot."""

    @property
    def given_up(self) -> bool:
        """It ran out by this host's clock, and asking whether that is so has failed for a while."""
        return self.held.state is LeaseState.EXPIRED and self.tries >= _MANY_TRIES

    def remaining(self, clock: Clock) -> float:
        """Seconds until its end, 0 after it."""
        return self.held.remaining(clock)


class Schedule:
    """Leases of this host in the order in which they are due."""

    def __init__(
        self,
        journal: Journal,
        store: ProfileStore,
        clock: Clock,
        *,
        covers: Picks | None,
        speaks_for: Picks | None,
        bare: Session | None,
    ) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._covers = covers
        self._speaks_for = speaks_for
        self._bare = bare
        self._leases: dict[int, Lease] = {}
        self._heap: list[tuple[float, int]] = []
        self._look = ProfileLook(store)
        self._problems: dict[Pin, str] = {}
        self._stamp: object = None
        self._looked: float | None = None
        self._version: int | None = None
        self._number = -1
        self._rows = 0
        self._file: object = None
        self._salvaged: Salvaged | None = None
        """What is known to have become of a damaged journal."""

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    async def refresh(self, unsaved: dict[int, PackageRow]) -> None:
        """Take in what was written since, by anybody; ``unsaved`` is newer than the journal. Raises ``FileProblem``."""
        version = self._journal.version()
        stamp, now = self._store.stamp(), self._clock.ticks()
        again = self._looked is None or stamp != self._stamp or now - self._looked >= _LOOK_AGAIN
        if again:
            self._look = ProfileLook(self._store)
            self._problems.clear()
        if version != self._version:
            changes = await self._journal.changes(self._number)
            salvaged, file = self._journal.salvaged(since_opened=True), self._journal.file
            # Set aside by us, or moved away by somebody.
            other = salvaged != self._salvaged or file != self._file
            if changes.rows < self._rows or changes.number < self._number or other:
                # Packages were forgotten, or this is another journal.
                changes = await self._journal.changes(-1)
                before = self._leases
                self._leases = {row.id: known for row in changes.packages if (known := before.get(row.id))}
                if other:
                    there = {(row.pin.endpoint, row.uid) for row in changes.packages}
                    gone = [one.row for one in before.values() if (one.row.pin.endpoint, one.row.uid) not in there]
                    await self._bring_back(gone)
                    self._salvaged, self._file = salvaged, file
            for row in changes.packages:
                known = self._leases.get(row.id)
                if known is None or known.row != row:  # most are our own
                    self.put(row, unsaved.get(row.id))
            self._version, self._number, self._rows = version, changes.number, changes.rows
        if again:
            for lease in list(self._leases.values()):
                if stamp != self._stamp:
                    lease.not_before = 0.0  # there may be a credential now that is accepted
                self.put(lease.row)
            self._stamp, self._looked = stamp, now

    async def _bring_back(self, gone: Iterable[PackageRow]) -> None:
        """Leases that are not in the new journal, and that this process still has the tokens of, go into it."""
        for row in gone:
            if row.token is not None:
                await self._journal.merge(replace(row, document=row.document or {}))

    def look_again(self) -> None:
        """What ``covers`` or ``speaks_for`` would answer has changed: the next refresh asks about every lease."""
        self._looked = None

    def put(self, row: PackageRow, unsaved: PackageRow | None = None) -> Lease | None:
        """What is known of a package now; None where nothing is to be kept alive any more."""
        if unsaved is not None and unsaved.version >= row.version:
            row = replace(unsaved, kept=row.kept)
        if row.phase in ENDED_PHASES or row.token is None or row.lost_code or row.times is None:
            self._leases.pop(row.id, None)
            return None
        if unsaved is None and row.document is not None:
            row = replace(row, document=None)
        held = self._held(row)
        lease = self._leases.get(row.id)
        if lease is None:
            lease = self._leases[row.id] = Lease(row, held, False)
        elif row.times is not lease.row.times and row.times != lease.row.times:
            lease.tries, lease.not_before = 0, 0.0
        lease.row, lease.held, lease.covered = row, held, self._covered(held)
        self._plan(lease)
        return lease

    def take_due(self) -> list[Lease]:
        """Those whose time has come, out of the schedule until they are put back: soonest end first."""
        now = self._clock.ticks()
        found: dict[int, Lease] = {}
        while self._heap and self._heap[0][0] <= now:
            due, row_id = heapq.heappop(self._heap)
            lease = self._leases.get(row_id)
            if lease is None or lease.due != due:
                continue
            lease.covered = self._covered(lease.held)
            if lease.covered:
                found[row_id] = lease
            else:
                self.postpone(lease, _FIRST_PAUSE)
        return sorted(found.values(), key=lambda lease: lease.remaining(self._clock))

    def due_now(self, lease: Lease) -> bool:
        """Whether it is due, by what is known of it at this moment."""
        known = self._leases.get(lease.row.id)
        return known is lease and lease.due is not None and lease.due <= self._clock.ticks()

    def postpone(self, lease: Lease, seconds: float) -> None:
        """Look at it again after so long, or nearer to its end more often."""
        lease.not_before = self._clock.ticks() + min(seconds, self._last_pause(lease))
        self._plan(lease)

    def failed(self, lease: Lease, problem: ExpbError | None = None) -> None:
        """A try has failed: the next one comes after a pause that grows, but never too late (hazards 10)."""
        left = lease.remaining(self._clock)
        longest = _LONGEST_PAUSE if left > 0 else _LONGEST_OVER
        grown = min(_FIRST_PAUSE * 2.0 ** min(lease.tries, 16), longest)
        if isinstance(problem, SignInNeeded):
            grown = longest  # it was asked twice already, with what is saved (hazards 9)
        pause = grown * _SPREAD.uniform(0.8, 1.2)
        asked = problem.retry_after if isinstance(problem, ApiProblem) else None
        lease.tries += 1
        if left <= 0:
            if isinstance(problem, ApiProblem) and problem.status in _NOT_THERE:
                lease.was_read = True  # as sure as it gets
            lease.not_before = self._clock.ticks() + max(pause, asked or 0.0)
            self._plan(lease)
        elif left <= _NEAR_END:
            self.postpone(lease, 1.0)
        else:
            pause = max(pause, min(asked or 0.0, left * _ASKED_SHARE))
            lease.not_before = self._clock.ticks() + min(pause, left - _NEAR_END + 1.0)
            self._plan(lease)

    def next_due(self) -> float | None:
        """Seconds until the next renewal that is ours (0: now); None where there is none to come."""
        due = min((one.due for one in self if one.due is not None and one.covered), default=None)
        return None if due is None else max(0.0, due - self._clock.ticks())

    def next_look(self) -> float | None:
        """Seconds until anything is due; None where nothing is."""
        while self._heap:
            due, row_id = self._heap[0]
            lease = self._leases.get(row_id)
            if lease is not None and lease.due == due:
                return max(0.0, due - self._clock.ticks())
            heapq.heappop(self._heap)
        return None

    def _plan(self, lease: Lease) -> None:
        now = self._clock.ticks()
        wait = 0.0 if self._unsure(lease) else lease.held.renew_in(self._clock)
        if wait and lease.row.times is not None:
            wait = max(0.0, wait - lease.row.times.lease_seconds * self._early(lease))
        due = None if wait is None or not lease.row.kept else max(now + wait, lease.not_before)
        # What is due stays so while nothing has changed: an entry of the heap is good for one moment.
        if due is None or lease.due is None or abs(due - lease.due) > 1e-3 or lease.due <= now:
            lease.due = due
            if due is not None:
                heapq.heappush(self._heap, (due, lease.row.id))

    def _early(self, lease: Lease) -> float:
        return _EARLIEST * min(1.0, len(self._leases) / _CROWD) * (lease.row.id * _EVENLY % 1.0)

    def _unsure(self, lease: Lease) -> bool:
        """A reboot came between: by this host's wall clock the lease may look long, or over, and be neither."""
        times = lease.row.times
        unsure = times is not None and not lease.was_read and not times.verified()
        return unsure and (lease.held.usable or lease.held.state is LeaseState.EXPIRED)

    def _last_pause(self, lease: Lease) -> float:
        return max(0.1, lease.remaining(self._clock) * _LAST_TRIES)

    def _covered(self, held: HeldPackage) -> bool:
        return self._covers is None or self._covers(held)

    def _held(self, row: PackageRow) -> HeldPackage:
        """As a face would see it; its credential is looked at only where it is ours to renew."""
        bare = self._bare is not None and not row.pin.profile_name and self._bare.endpoint == row.pin.endpoint
        held = held_of(row, clock=self._clock)
        if bare or not held.renewable or not row.kept or not self._covered(held):
            return held
        problem = self._problem(row.pin)
        if not problem or (self._speaks_for is not None and self._speaks_for(held)):
            return held
        return held_of(row, clock=self._clock, credential_problem=problem)

    def _problem(self, pin: Pin) -> str:
        if pin not in self._problems:
            self._problems[pin] = self._look.problem(pin)
        return self._problems[pin]
