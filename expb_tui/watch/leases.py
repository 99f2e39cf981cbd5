"""The leases of this host as panes show them: read where the journal or the time has changed them, and losses told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from expb_tui.core.errors import ExpbError
from expb_tui.present.cells import Tone
from expb_tui.watch.keeper import KeeperWatch
from expb_tui.watch.losses import Losses
from expb_tui.watch.notices import Notice, of_error

if TYPE_CHECKING:
    from datetime import datetime

    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House
    from expb_tui.watch.losses import Alarm

AGAIN = 15.0
"""Seconds after which leases are read again though nothing was written: their state depends on profiles too."""
_SETTLE = 2.0
"""Seconds between two questions to the journal whether something was left over."""
_SHARE = 0.1
"""Of the time at most that reading the journal takes: with thousands of leases something is written all the time."""


class LeaseWatch:
    """``mark`` says that panes and header show something else now; ``bare`` gives the session of a token that no
    profile holds, where the cockpit acts with one."""

    def __init__(
        self, house: House, teller: Alarm, mark: Callable[[], None], bare: Callable[[], Awaitable[Session | None]]
    ) -> None:
        self.held: tuple[HeldPackage, ...] | None = None
        """Soonest end first; None until the journal has been read."""
        self.problem: ExpbError | None = None
        """Why the journal cannot be read; what was read before is then still in ``held``."""
        self.read_at: datetime | None = None
        """When it was read last."""
        self.keeper = KeeperWatch(house, teller, mark)
        self.losses = Losses(house.clock, teller)
        self._house = house
        self._teller = teller
        self._mark = mark
        self._bare = bare
        self._version: int | None = None
        self._due = 0.0
        self._rested = 0.0
        self._salvage: datetime | None = None

    def again(self) -> None:
        """Read with the next look, whatever the journal's counter says."""
        self._version, self._due = None, 0.0

    async def look(self) -> None:
        """Read if something was written, or if the time alone has changed a state; otherwise one counter is read."""
        loop = asyncio.get_running_loop()
        try:
            version = self._house.journal.version()
            began = loop.time()
            if (version != self._version and began >= self._rested) or began >= self._due:
                await self.read()
                self._version = version
                self._rested = loop.time() + (loop.time() - began) / _SHARE
        except ExpbError as error:
            self.failed(error)
        self.keeper.look(self.held or ())
        self._tell_of_salvage()

    def _tell_of_salvage(self) -> None:
        told = self._house.salvaged()
        if told is not None and told.at != self._salvage:
            self._salvage = told.at
            what, *more = told.lines()
            self._teller.alarm(Notice(self._house.clock.now(), Tone.BAD, what, "; ".join(more), pane="leases"))

    async def settle(self, sessions: Callable[[str], Awaitable[Session]]) -> None:
        """Until cancelled: find out what became of requests whose sender died, and what a damaged journal lacks."""
        settled: int | None = None
        told: set[str] = set()
        while True:
            try:
                version = self._house.journal.version()
                errors = await self._house.desk.settle_left_over(sessions) if version != settled else []
            except ExpbError as unreadable:
                errors = [unreadable]
            else:
                # What it wrote itself calls for no other look.
                settled = None if errors else version
            for error in errors:
                if error.what not in told:
                    told.add(error.what)
                    self._teller.tell(of_error(error, self._house.clock.now(), tone=Tone.WARN, pane="leases"))
            await asyncio.sleep(AGAIN if errors else _SETTLE)

    async def read(self) -> None:
        """Read the journal now. Raises ``ExpbError``."""
        held = tuple(await self._house.desk.held(session=await self._bare()))
        self.read_at = self._house.clock.now()
        self._due = asyncio.get_running_loop().time() + self._until_another_state(held)
        before = self.held
        known = {(one.endpoint, one.uid): one for one in before or ()}
        # The same object for an unchanged lease: panes see at a glance what they need not draw again.
        held = tuple(old if (old := known.get((one.endpoint, one.uid))) == one else one for one in held)
        if held != before or self.problem is not None:
            self.held, self.problem = held, None
            self.losses.compare(before, held)
            self._mark()

    def _until_another_state(self, held: Iterable[HeldPackage]) -> float:
        """Seconds until a lease is overdue or over by the time alone; at most ``AGAIN``."""
        clock, edges = self._house.clock, [AGAIN]
        for times in (one.times for one in held if one.renewable):
            if times is not None:
                found = (times.until_overdue(clock), times.remaining(clock))
                edges += [edge + 0.01 for edge in found if edge is not None and edge > 0]
        return min(edges)

    def failed(self, error: ExpbError) -> None:
        """The journal cannot be read: told once, tried again after a while."""
        if self.problem is None or self.problem.what != error.what:
            self._teller.tell(of_error(error, self._house.clock.now(), pane="leases"))
        self.problem = error
        self._due = asyncio.get_running_loop().time() + AGAIN
        self._mark()
