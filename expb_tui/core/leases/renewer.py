"""Keeps leases alive in the process that runs it: the cockpit, a waiting command, later the keeper (hazards 1 to 5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.model import HeldPackage, LeaseState, NotJournaled
from expb_tui.core.leases.schema import PackageRow
from expb_tui.core.leases.states import held_of

if TYPE_CHECKING:
    from expb_tui.core.leases.desk import Desk
    from expb_tui.core.profiles.session import Session

SessionSource = Callable[[HeldPackage], Awaitable["Session"]]
"""Gives the session for a held package, usually ``lambda held: house.session(held.profile_name)``."""

_STEP = 1.0
"""Seconds between two looks at the clock: after a suspend a due lease is seen within this time."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 15.0
_NEAR_END = 20.0
"""Seconds before its end from which a lease is tried once a second (hazards 10)."""
_AT_ONCE = 16
"""Renewals under way at one time."""
_SPREAD = random.Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(frozen=True)
class RenewalNote:
    """Something that happened while keeping leases: a renewal (``error`` None), a failed try, a loss."""

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
        covers: Callable[[HeldPackage], bool] | None = None,
        speaks_for: Callable[[HeldPackage], bool] | None = None,
    ) -> None:
        """``bare`` is a session with a token that no profile holds: leases that it claimed are kept too.

        ``covers`` picks the leases that this renewer is responsible for, of those that are kept; asked at each look.
        ``speaks_for``: the token of that lease is in this process's memory, though no profile holds it; ``sessions`` is
        then asked for it.
        """
        self._desk = desk
        self._sessions = sessions
        self._clock = clock
        self._on_note = on_note
        self._bare = bare
        self._covers = covers
        self._speaks_for = speaks_for
        self._stopping = False
        self._leases: list[HeldPackage] = []
        self._not_before: dict[int, float] = {}
        self._pause: dict[int, float] = {}
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._saving: asyncio.Task[None] | None = None
        self._read: set[int] = set()
        """Packages that were looked at after a reboot."""
        self._unsaved: dict[int, PackageRow] = {}
        """Confirmed renewals that the journal could not take: they count all the same, and are offered again."""

    @property
    def keeps(self) -> int:
        """How many leases it is responsible for at this moment."""
        return sum(self._mine(held) and held.renew_in(self._clock) is not None for held in self._leases)

    @property
    def unsaved(self) -> int:
        """Renewals that are confirmed and not journaled yet."""
        return len(self._unsaved)

    def next_due(self) -> float | None:
        """Seconds until the next renewal (0: now); None where there is none to come."""
        waits = [
            max(due, self._not_before.get(held.row_id, 0.0) - self._clock.ticks())
            for held in self._leases
            if self._mine(held) and (due := held.renew_in(self._clock)) is not None
        ]
        return min(waits, default=None)

    def stop_starting(self) -> None:
        """Begin no renewal any more; those under way end and are journaled."""
        self._stopping = True

    def _mine(self, held: HeldPackage) -> bool:
        return held.kept and (self._covers is None or self._covers(held))

    async def run(self) -> None:
        """Keep on until cancelled; a renewal in flight is then still journaled."""
        seen: int | None = None
        looked = -_LONGEST_PAUSE
        try:
            while True:
                now = self._clock.ticks()
                try:
                    version = self._desk.journal.version()
                    # Profiles and ends change without the journal: look again now and then.
                    if version != seen or now - looked >= _LONGEST_PAUSE or self._due(self._leases):
                        self._leases, seen, looked = await self._look(), version, now
                    self._start(self._due(self._leases))
                    if self._unsaved and (self._saving is None or self._saving.done()):
                        self._saving = asyncio.create_task(self._save())
                except ExpbError as problem:
                    self._note("", problem)
                await asyncio.sleep(_STEP)
        finally:
            for task in (*self._busy.values(), *filter(None, [self._saving])):
                task.cancel()

    async def _look(self) -> list[HeldPackage]:
        leases = await self._desk.held(session=self._bare)
        if self._speaks_for is None:
            return leases
        lent = [
            held.state is LeaseState.NO_CREDENTIAL and self._mine(held) and self._speaks_for(held) for held in leases
        ]
        return [
            replace(held, state=LeaseState.ACTIVE) if spoken_for else held
            for held, spoken_for in zip(leases, lent, strict=True)
        ]

    def _due(self, leases: list[HeldPackage]) -> list[HeldPackage]:
        now = self._clock.ticks()
        return [
            held
            for held in leases
            if self._mine(held)
            and not self._stopping
            and held.row_id not in self._busy
            and (self._latest(held).renew_in(self._clock) == 0 or self._to_be_read(held))
            and now >= self._not_before.get(held.row_id, now)
        ]

    def _latest(self, held: HeldPackage) -> HeldPackage:
        unsaved = self._unsaved.get(held.row_id)
        if unsaved is None or held.state is LeaseState.NO_CREDENTIAL:
            return held
        return held_of(unsaved, clock=self._clock)

    def _to_be_read(self, held: HeldPackage) -> bool:
        """A reboot came between: by this host's wall clock the lease may look long, or over, and be neither."""
        unsure = held.times is not None and not held.times.verified() and held.row_id not in self._read
        return unsure and held.has_token and (held.usable or held.state is LeaseState.EXPIRED)

    async def _save(self) -> None:
        for row_id, row in list(self._unsaved.items()):
            with suppress(FileProblem):
                await self._desk.journal.merge(row)
                if self._unsaved.get(row_id) is row:
                    del self._unsaved[row_id]

    def _start(self, due: list[HeldPackage]) -> None:
        soonest = sorted(due, key=lambda held: held.remaining(self._clock))
        for held in soonest[: max(0, _AT_ONCE - len(self._busy))]:
            task = asyncio.create_task(self._keep(held))
            self._busy[held.row_id] = task
            task.add_done_callback(partial(self._ended, held.row_id))

    def _ended(self, row_id: int, _: asyncio.Task[None]) -> None:
        self._busy.pop(row_id, None)

    async def _keep(self, held: HeldPackage) -> None:
        try:
            bare = self._bare if not held.profile_name else None
            session = bare or await self._sessions(held)
            kept = await self._desk.keep(session, held, unsaved=self._unsaved.get(held.row_id))
        except NotJournaled as problem:
            self._unsaved[held.row_id] = problem.row
            self._note(held.uid, problem)
        except FileProblem as problem:
            self._wait(held)
            if problem.code != "locked":  # locked: another process is renewing it at this moment
                self._note(held.uid, problem)
        except ExpbError as problem:
            self._wait(held)
            self._note(held.uid, problem)
        except Exception as defect:
            # A fault of ours must neither end the keeping of a lease unseen nor be tried again without pause.
            self._wait(held)
            what = f"The lease of the package {held.uid} was not renewed"
            step = "It is tried again; please report this line"
            self._note(held.uid, ExpbError(what, cause=f"internal error: {type(defect).__name__}", next_step=step))
        else:
            self._read.add(held.row_id)
            self._not_before.pop(held.row_id, None)
            self._pause.pop(held.row_id, None)
            if kept is not None:
                self._note(held.uid, None)
                if kept.held.renew_in(self._clock) == 0:
                    self._wait(held)  # a service that confirms and does not extend is not asked without pause

    def _wait(self, held: HeldPackage) -> None:
        pause = self._pause.get(held.row_id, _FIRST_PAUSE)
        self._pause[held.row_id] = min(pause * 2, _LONGEST_PAUSE)
        left = self._latest(held).remaining(self._clock)
        gap = 1.0 if left <= _NEAR_END else min(pause * _SPREAD.uniform(0.8, 1.2), left - _NEAR_END + 1.0)
        self._not_before[held.row_id] = self._clock.ticks() + gap

    def _note(self, package_id: str, error: ExpbError | None) -> None:
        if self._on_note is not None:
            self._on_note(RenewalNote(package_id, error))
