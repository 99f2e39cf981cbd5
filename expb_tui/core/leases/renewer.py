"""Keeps leases alive in the process that runs it: the keeper, the cockpit, a waiting command (hazards 1 to 5 and 10).

It must do for two thousand leases of a minute at a tenth of a processor: some seventy requests a second. So nothing is
asked of the journal for a single lease: the schedule follows what was written to it, turns are two system calls, and
answers are journaled many at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases import upkeep
from expb_tui.core.leases.model import HeldPackage, NotJournaled
from expb_tui.core.leases.saving import Saver
from expb_tui.core.leases.schedule import Lease, Picks, Schedule
from expb_tui.core.leases.turns import Turns, no_turns

if TYPE_CHECKING:
    from expb_tui.core.leases.desk import Desk
    from expb_tui.core.profiles.session import Session

SessionSource = Callable[[HeldPackage], Awaitable["Session"]]
"""Gives the session for a held package, usually ``lambda held: house.session(held.profile_name)``."""

_STEP = 1.0
"""Seconds between two looks at the clock: after a suspend a due lease is seen within this time."""
_SHORTEST_STEP = 0.2
"""What falls due within this time is begun together."""
_AT_ONCE = 512
"""Renewals under way at one time; two thousand that fall due at once are asked for within seconds."""
_JOURNAL_WAIT = 1.0
"""Seconds that renewals wait to hear what others wrote."""
_TURN_WAIT = 1.0
"""Seconds until it is looked again whether somebody else's turn is over."""
_URGENT_SHARE = 1 / 6
"""With less left of a lease it counts for more than the order: whoever has the turn may have been stopped."""


@dataclass(frozen=True)
class RenewalNote:
    """Something that happened while keeping leases: a renewal (``error`` None), a failed try, a loss.

    An empty ``package_id``: something that concerns all of them, as a journal that cannot be written.
    """

    package_id: str
    error: ExpbError | None


class Renewer:
    """Renews every kept lease of this host at a third of its length left; one process at a time per package."""

    def __init__(
        self,
        desk: Desk,
        sessions: SessionSource,
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_note: Callable[[RenewalNote], None] | None = None,
        bare: Session | None = None,
        covers: Picks | None = None,
        speaks_for: Picks | None = None,
    ) -> None:
        """``bare`` is a session with a token that no profile holds: leases that it claimed are kept too.

        ``covers`` picks the leases that this renewer is responsible for, of those that are kept; asked when one is due
        and at each look at all. ``speaks_for``: the token of that lease is in this process's memory, though no profile
        holds it; ``sessions`` is then asked for it.
        """
        self._desk = desk
        self._sessions = sessions
        self._clock = clock
        self._on_note = on_note
        self._bare = bare
        self._schedule = Schedule(desk.journal, desk.store, clock, covers=covers, speaks_for=speaks_for, bare=bare)
        self._turns = Turns(desk.journal.folder)
        self._saver = Saver(desk.journal, desk.begin, on_saved=self._end_turn)
        self._context = desk.context(self._saver)
        self._busy: set[int] = set()
        self._stopping = False
        self._told: ExpbError | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._no_turns: ExpbError | None = None
        """Why turns cannot be taken now."""

    @property
    def keeps(self) -> int:
        """How many leases it is responsible for at this moment; none that is over by all that is known."""
        return sum(lease.covered and lease.due is not None and not lease.given_up for lease in self._schedule)

    @property
    def busy(self) -> int:
        """Renewals under way."""
        return len(self._busy)

    @property
    def unsaved(self) -> int:
        """Renewals that are confirmed and not journaled yet."""
        return len(self._saver.unsaved)

    @property
    def journal_problem(self) -> ExpbError | None:
        """Why the journal takes nothing, or turns cannot be taken, while that is so; renewals go on."""
        return self._saver.problem or self._no_turns

    def next_due(self) -> float | None:
        """Seconds until the next renewal (0: now); None where there is none to come."""
        return self._schedule.next_due()

    def look_again(self) -> None:
        """What ``covers`` or ``speaks_for`` would answer has changed: within a second every lease is asked about."""
        self._schedule.look_again()

    def stop_starting(self) -> None:
        """Begin no renewal any more; those under way end and are journaled."""
        self._stopping = True

    async def run(self) -> None:
        """Keep on until cancelled; renewals in flight go on then, and are journaled: ``Desk.aclose`` waits for them."""
        try:
            while True:
                wait = _STEP
                try:
                    wait = await self._start()
                except ExpbError as problem:
                    self._note("", problem)
                except Exception as defect:  # a fault of ours must not end the keeping
                    self._note("", _fault("Leases are not renewed as they should be", defect))
                self._tell_of_journal()
                await asyncio.sleep(min(_STEP, wait))
        finally:
            if self._refreshing is not None:
                self._refreshing.cancel()

    async def _start(self) -> float:
        """Begin what is due; gives the seconds until something is."""
        ready: list[Lease] = []
        free = 0 if self._stopping else _AT_ONCE - len(self._busy)
        for lease in self._schedule.take_due() if free > 0 else ():
            if lease.row.id in self._busy:
                continue  # it comes back when its answer is there
            if len(ready) == free:
                self._schedule.postpone(lease, _SHORTEST_STEP)
            elif self._turn(lease):
                ready.append(lease)
        try:
            # Now that these turns are ours: somebody else may have renewed before they were.
            await self._refresh()
        except Exception:
            # What cannot be looked up is renewed all the same (hazards 5); not so where this is cancelled.
            self._begin(ready)
            raise
        self._begin(ready)
        soonest = self._schedule.next_look()
        return _STEP if soonest is None else max(_SHORTEST_STEP, soonest)

    async def _refresh(self) -> None:
        """Take in what others wrote until now; a journal that is slow to tell is not waited for."""
        loop = asyncio.get_running_loop()
        until, since_now = loop.time() + _JOURNAL_WAIT, False
        while not since_now:
            since_now = self._refreshing is None  # one that began before tells nothing of the turns just taken
            if self._refreshing is None:
                self._refreshing = asyncio.create_task(self._schedule.refresh(self._saver.unsaved))
            done, _ = await asyncio.wait({self._refreshing}, timeout=max(0.0, until - loop.time()))
            if not done:
                return
            task, self._refreshing = self._refreshing, None
            task.result()

    def _begin(self, ready: list[Lease]) -> None:
        for lease in ready:
            if self._schedule.due_now(lease) and not self._stopping:
                self._busy.add(lease.row.id)
                self._desk.begin(self._keep(lease))
            else:
                self._end_turn(lease.row.id)

    def _turn(self, lease: Lease) -> bool:
        """Whether it may be renewed now; otherwise it is looked at again soon."""
        row_id = lease.row.id
        try:
            # Kept from before, while its answer is not journaled.
            if row_id in self._turns or self._turns.take(row_id):
                self._no_turns = None
                return True
        except OSError as error:
            # A renewal comes first (hazards 5): two at a time do no lasting harm, a lease that runs out does.
            self._no_turns = no_turns(error)
            return True
        times = lease.row.times
        if times is not None and lease.remaining(self._clock) < times.lease_seconds * _URGENT_SHARE:
            return True
        self._schedule.postpone(lease, _TURN_WAIT)
        return False

    def _end_turn(self, row_id: int) -> None:
        if row_id not in self._saver.unsaved and row_id not in self._busy:
            self._turns.give_back(row_id)

    async def _keep(self, lease: Lease) -> None:
        row, uid = lease.row, lease.held.uid
        problem: ExpbError | None = None
        try:
            bare = self._bare if not lease.held.profile_name else None
            session = bare or await self._sessions(lease.held)
            now = await upkeep.keep(self._context, session, row, tries=lease.tries)
        except NotJournaled as unsaved:
            now = unsaved.row
        except ExpbError as failure:
            problem = failure
        except Exception as defect:
            # A fault of ours must neither end the keeping of a lease unseen nor be tried again without pause.
            problem = _fault(f"The lease of the package {uid} was not renewed", defect)
        self._busy.discard(row.id)
        if problem is not None:
            self._schedule.failed(lease, problem)
        else:
            lease.was_read = True
            again = self._schedule.put(now, self._saver.unsaved.get(row.id))
            if again is not None and again.due is not None and again.due <= self._clock.ticks():
                self._schedule.failed(again)  # a service that confirms and does not extend is not asked without pause
        self._end_turn(row.id)
        self._note(uid, problem)

    def _tell_of_journal(self) -> None:
        problem = self.journal_problem
        if problem is not None and (self._told is None or problem.code != self._told.code):
            self._note("", problem)
        self._told = problem

    def _note(self, package_id: str, error: ExpbError | None) -> None:
        if self._on_note is not None:
            self._on_note(RenewalNote(package_id, error))


def _fault(what: str, defect: Exception) -> ExpbError:
    step = "It is tried again; please report this line"
    return ExpbError(what, cause=f"internal error: {type(defect).__name__}", next_step=step)
