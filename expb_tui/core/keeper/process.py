"""The keeper itself: renewers over the journal, its state file, its control socket, and how it begins and ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from expb_tui import __version__
from expb_tui.core.clock import SYSTEM_CLOCK, Clock, boot_id
from expb_tui.core.errors import ExpbError, FileProblem, UsageError, place_of
from expb_tui.core.keeper import state as saying
from expb_tui.core.keeper.control import Control
from expb_tui.core.keeper.state import KeeperState
from expb_tui.core.keeper.tokens import Identity, LentToken, Sessions, identity_of
from expb_tui.core.keeper.troubles import Troubles
from expb_tui.core.keeper.versions import newer
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal, KeptPin
from expb_tui.core.leases.model import HeldPackage
from expb_tui.core.leases.renewer import RenewalNote, Renewer
from expb_tui.core.locks import KernelLock, is_held, take
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.settings import Settings

IDLE = 300.0
"""Seconds after the last kept lease is gone until it ends."""
_STEP = 1.0
_LOOK = 15.0
"""Seconds after which it looks at whose leases there are although nothing was claimed; also between signs of life."""
_SELDOM = 5.0
"""Seconds between two words of which only the next renewal is new: with many leases it is another each second."""
_SUCCESSION = 10.0
"""Seconds that a successor has to take the lock; it asks for it in steps of less than one."""
_GLANCE = 0.1
_FIRST_CHECK = 6.0
"""Seconds that the start waits for credentials: what a keyring takes at most, and a little."""

End = Literal["idle", "stopped", "handed over", "gone"]


class Keeper:
    """Runs in one event loop under the keeper's lock, which the caller has taken; ``run`` gives it back."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        lock: KernelLock,
        *,
        stay: bool = False,
        lent: list[LentToken] | None = None,
        say: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
        idle: float = IDLE,
    ) -> None:
        """``stay``: do not end after ``idle`` seconds without a lease. ``lent``: what a predecessor had in memory."""
        self._folder = folder
        self._settings = settings
        self._lock = lock
        self._stay = stay
        self._say = say
        self._clock = clock
        self._idle = idle
        self._journal = Journal(folder / "journal.db")
        self._sessions = Sessions(settings, clock)
        for token in lent or []:
            self._sessions.lend(token)
        self._control = Control(folder, self._answer)
        self._keeping: dict[str, tuple[Desk, Renewer, asyncio.Task[None]]] = {}
        """By profile file."""
        self._kept: list[KeptPin] = []
        self._identities: frozenset[Identity] = frozenset()
        """Of what is kept."""
        self._last_end: datetime | None = None
        """The last end of a lease that is kept."""
        self._troubles = Troubles(say, clock)
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()
        self._end: End | None = None
        self._seen: tuple[int, int] = (-1, -1)
        self._stamps: dict[str, object] = {}
        self._looked = 0.0
        self._busy_until = clock.ticks()
        self._started = clock.now()
        self._told = KeeperState()
        self._checking: asyncio.Task[None] | None = None

    async def run(self, ready: Callable[[], None] = lambda: None) -> End:
        """Keep until told to stop, idle or replaced. ``ready`` is called once credentials have been looked at.

        Raises ``FileProblem`` where the journal cannot be used at the start, and ``OSError`` without a socket.
        """
        try:
            self._journal.version()
            self._publish()
            await self._control.start()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_around(), _FIRST_CHECK)
            self._publish()
            ready()
            count = len(self._kept)
            self._say(f"started, version {__version__}, with {count} lease{'' if count == 1 else 's'} to keep")
            while True:
                end = await self._until_end()
                if not (await self._more_came(end) or await self._nobody_took_over(end)):
                    return end
        finally:
            await self._leave()

    async def _until_end(self) -> End:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _STEP)
            self._wake.clear()
            if self._end is not None:
                return self._end
            if not self._lock.in_place():
                return "gone"
            try:
                await self._look()
            except ExpbError as problem:
                self._troubles.journal(problem)
            except Exception as defect:  # a fault of ours must not end the keeping
                self._troubles.journal(_defect(defect))
            self._publish()
            if not self._stay and self._clock.ticks() >= self._busy_until + self._idle:
                return "idle"

    async def _more_came(self, end: End) -> bool:
        """A claim in the very moment of an idle end, by somebody who saw the keeper running: go on."""
        if end != "idle":
            return False
        await self._control.aclose()
        with suppress(ExpbError):
            await self._read_kept()
        if not self._live():
            return False
        await self._control.start()
        self._busy_until = self._clock.ticks()
        return True

    async def _nobody_took_over(self, end: End) -> bool:
        """Let the successor have the lock, and renew until it has; where it died instead, go on."""
        if end != "handed over":
            return False
        path, until = self._lock.path, self._clock.ticks() + _SUCCESSION
        await self._control.aclose()
        self._publish(end="handed over")
        self._lock.release()  # renewals hold the packages' own locks, so that two keepers do not meet
        while not is_held(path) and self._clock.ticks() < until:
            if self._end != "handed over":
                return False
            await asyncio.sleep(_GLANCE)
        try:
            self._lock = take(path, timeout=0.0)
        except FileProblem:
            self._say("handed over to a newer keeper")
            return False
        self._end = None
        await self._control.start()
        self._say("nobody took over: it goes on")
        return True

    async def _leave(self) -> None:
        """Begin nothing more, and finish what is under way."""
        for _, renewer, _ in self._keeping.values():
            renewer.stop_starting()
        await self._control.aclose()
        for desk, _, task in self._keeping.values():
            await desk.aclose()
            task.cancel()
        if self._checking is not None:
            self._checking.cancel()
        await self._sessions.aclose()
        await self._journal.aclose()
        if self._end != "handed over" and self._lock.in_place():
            self._publish(end=self._end or "idle")
            self._say(f"ended: {self._end or 'idle'}")
        self._lock.release()

    def stop(self, end: End = "stopped") -> None:
        """End soon. Whoever stops it means it, while it waits for a successor too."""
        self._end = end if end == "stopped" else self._end or end
        self._wake.set()

    # What there is to keep

    async def _look(self) -> None:
        """Notice new packages and changed profiles at once, all else within 15 s."""
        version = self._journal.version()
        seen = self._seen
        if version != seen[0]:
            self._seen = version, await self._journal.newest()
        stamps = {file: self._desk_of(file).store.stamp() for file in self._keeping}
        due = self._clock.ticks() - self._looked >= _LOOK
        if (due or self._seen[1] != seen[1] or stamps != self._stamps) and (
            self._checking is None or self._checking.done()
        ):
            self._stamps = stamps
            self._checking = asyncio.create_task(self._look_around())

    async def _look_around(self) -> None:
        """Whose leases there are, a renewer for each profile file, and whether their credentials can be read."""
        async with self._looking:
            try:
                self._looked = self._clock.ticks()
                await self._read_kept()
                pins = {identity_of(one.pin): one.pin for one in self._kept}
                self._identities = frozenset(pins)
                before = [self._sessions.problem(identity) for identity in pins]
                after = await asyncio.gather(*(self._sessions.check(pin) for pin in pins.values()))
                if before != after:
                    for _, renewer, _ in self._keeping.values():
                        renewer.look_again()
                for file in {one.pin.profile_file for one in self._kept} - self._keeping.keys():
                    self._begin(file)
                self._troubles.credentials(self._kept, self._sessions.problem)
                await self._note_in_journal()
            except ExpbError as problem:
                self._troubles.journal(problem)
            except Exception as defect:  # a fault of ours must not end the keeping
                self._troubles.journal(_defect(defect))

    async def _read_kept(self) -> None:
        self._kept = await self._journal.kept()
        self._last_end = max((one.expires_at for one in self._kept if one.expires_at is not None), default=None)

    async def _note_in_journal(self) -> None:
        """The journal's row says it as well, so that faces show it with no keeper running."""
        by_words: dict[str, list[str]] = {}
        for one in self._kept:
            problem = self._sessions.problem(identity_of(one.pin))
            words = problem.cause or problem.what if problem else ""
            if words != one.keeping_problem:
                by_words.setdefault(words, []).append(one.uid)
        for words, uids in by_words.items():
            await self._journal.set_keeping_problem(uids, words)

    def _begin(self, file: str) -> None:
        store = ProfileStore(Path(file)) if file else ProfileStore()
        desk = Desk(
            self._journal,
            store,
            clock=self._clock,
            lease_header=self._settings.lease_header,
            routes=self._settings.routes,
        )
        renewer = Renewer(
            desk,
            self._sessions.session,
            clock=self._clock,
            on_note=self._noted,
            covers=partial(self._covers, file),
            speaks_for=self._sessions.speaks_for,
        )
        self._keeping[file] = desk, renewer, asyncio.create_task(self._supervised(renewer))

    def _desk_of(self, file: str) -> Desk:
        return self._keeping[file][0]

    def _covers(self, file: str, held: HeldPackage) -> bool:
        return held.profile_file == file and self._sessions.problem(identity_of(held)) is None

    async def _supervised(self, renewer: Renewer) -> None:
        while True:
            try:
                await renewer.run()
            except Exception as defect:  # a fault of ours must not end the keeping
                self._troubles.journal(_defect(defect))
            await asyncio.sleep(_STEP)

    def _noted(self, note: RenewalNote) -> None:
        self._troubles.note(note)

    # What it says

    def _live(self) -> bool:
        """Some lease has not run out by this host's clock; roughly is enough to decide whether to stay."""
        return self._last_end is not None and self._last_end > self._clock.now()

    def _publish(self, end: str = "") -> None:
        renewers = [renewer for _, renewer, _ in self._keeping.values()]
        keeps = sum(renewer.keeps for renewer in renewers)
        for problem in filter(None, (renewer.journal_problem for renewer in renewers)):
            self._troubles.journal(problem)
        now = self._clock.ticks()
        if keeps or self._live() or any(renewer.unsaved for renewer in renewers):
            self._busy_until = now
        told = KeeperState(
            pid=os.getpid(),
            since=self._started,
            version=__version__,
            stay=self._stay,
            keeps=keeps,
            next_renewal_at=self._next_renewal(renewers),
            problems=self._troubles.listed(),
            journal_problem=self._troubles.journal_words(),
            lent=self._sessions.lent_profiles(self._identities),
            lent_agents=tuple(sorted((token.endpoint, token.agent_id) for token in self._sessions.lent)),
            idle_end=self._idle_end(now),
            end=end,
            seen_boot=boot_id(),
            seen_ticks=self._told.seen_ticks,
        )
        if replace(told, next_renewal_at=self._told.next_renewal_at) == self._told:
            soon = _LOOK if told.next_renewal_at == self._told.next_renewal_at else _SELDOM
            if now - told.seen_ticks < soon:
                return
        self._told = replace(told, seen_ticks=now)
        with suppress(OSError):  # the lock says that it runs; faces take it for silent after a while
            saying.write(self._folder, self._told)

    def _next_renewal(self, renewers: list[Renewer]) -> datetime | None:
        waits = [due for renewer in renewers if (due := renewer.next_due()) is not None]
        # Whole seconds: otherwise it would differ each time.
        return _whole(self._clock.now() + timedelta(seconds=min(waits))) if waits else None

    def _idle_end(self, now: float) -> datetime | None:
        if self._stay or self._busy_until == now:
            return None
        return _whole(self._clock.now() + timedelta(seconds=self._busy_until + self._idle - now))

    # What others ask

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        operation = asked.get("op")
        if operation == "speak":
            return await self._speak(asked)
        if operation == "lend":
            return await self._lend(asked)
        if operation == "stop":
            self.stop()
            return {"ok": True, "pid": os.getpid()}
        if operation == "hand-over":
            return self._hand_over(asked)
        return {"ok": False, "why": "unknown"}

    async def _speak(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Whether it can act for an agent: asked after a claim, which it thereby notices at once."""
        self._busy_until = self._clock.ticks()
        await self._look_around()
        problem = self._sessions.problem(_identity_in(asked))
        known = _identity_in(asked) in self._identities
        self._publish()
        return {"ok": True, "can": known and problem is None, "known": known}

    async def _lend(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            token = LentToken.of(asked)
        except UsageError as error:
            return {"ok": False, "why": error.what}
        self._sessions.lend(token)
        self._say(f"a token was lent: {token.profile or 'of no profile'}, agent {token.agent_id}")
        await self._look_around()
        self._publish()
        return {"ok": True}

    def _hand_over(self, asked: dict[str, Any]) -> dict[str, Any]:
        """To a newer version, or from one that would end when idle to one that stays."""
        stays_instead = asked.get("version") == __version__ and bool(asked.get("stay")) and not self._stay
        if not stays_instead and not newer(str(asked.get("version")), __version__):
            return {"ok": False, "why": "version", "pid": os.getpid(), "version": __version__}
        if any(renewer.unsaved for _, renewer, _ in self._keeping.values()):
            return {"ok": False, "why": "unsaved"}
        self.stop("handed over")
        return {"ok": True, "lent": [token.plain() for token in self._sessions.lent]}


def _defect(error: Exception) -> ExpbError:
    return ExpbError("Something went wrong in the keeper", cause=f"internal error: {place_of(error)}")


def _whole(instant: datetime) -> datetime:
    return instant.replace(microsecond=0)


def _identity_in(asked: dict[str, Any]) -> Identity:
    file, profile, endpoint, agent = (str(asked.get(name, "")) for name in ("file", "profile", "endpoint", "agent"))
    return file, profile, endpoint, agent
