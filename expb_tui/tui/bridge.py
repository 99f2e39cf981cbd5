"""From the core to the panes: what is known, kept fresh, and told to the panes at most ten times a second.

The bridge holds snapshots; panes read them and never wait. Whatever waits runs in tasks here: watching the profile file
and the journal, following the work on offer, renewing leases, and the one operation that a key started.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from expb_tui.core.errors import ExpbError
from expb_tui.core.profiles.document import Profile, Profiles
from expb_tui.present.cells import Tone
from expb_tui.tui.link import Link, LinkState
from expb_tui.tui.pace import Pace, View

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.leases.renewer import RenewalNote
    from expb_tui.core.opportunities import OpportunityFeed, Snapshot
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House

TICK = 1.0
"""How often files are looked at, in seconds; two ``stat`` calls and one counter."""
LEASES_AGAIN = 15.0
"""Seconds after which leases are read again though nothing was written: their state depends on the time too."""
FIRST_ANSWER = 0.5
"""Seconds that the journal waits for the service's first answer, so that both do not load at once."""
ASK_AGAIN = 30.0
"""How often a user profile asks who it is, in seconds: that is how a lost connection is noticed."""


class Teller(Protocol):
    """What the bridge asks of the application."""

    @property
    def covered(self) -> bool:
        """A dialog stands over the panes: nothing is repainted."""
        ...

    def say(self, text: str, tone: Tone = Tone.OK) -> None:
        """Tell the operator."""
        ...

    def complain(self, error: ExpbError) -> None:
        """Tell the operator what failed."""
        ...

    def crashed(self, error: BaseException, doing: str) -> None:
        """Tell the operator of a fault of ours."""
        ...


class Bridge:
    """Start it inside the event loop with ``start``; end it with ``aclose``, which cancels what it runs."""

    def __init__(self, house: House, teller: Teller) -> None:
        self.house = house
        self.profiles = Profiles()
        self.profiles_problem: ExpbError | None = None
        self.profiles_read_at: datetime | None = None
        """When the profiles that are shown were read."""
        self.acting: str | None = None
        """The profile that panes act as; None for a token without a profile, or where there is none."""
        self.held: tuple[HeldPackage, ...] | None = None
        """Soonest end first; None until the journal has been read."""
        self.held_problem: ExpbError | None = None
        self.work: Snapshot | None = None
        self.link = Link(LinkState.OPENING)
        self.running: str = ""
        """The operation that ctrl+c cancels, in words."""
        self._teller = teller
        self._pace = Pace(lambda: teller.covered)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stamp: object = None
        self._version: int | None = None
        self._feed: OpportunityFeed | None = None
        self._ask_now = asyncio.Event()
        self._leases_read = 0.0
        self._answered = asyncio.Event()

    def show_in(self, views: Iterable[View]) -> None:
        """These views are on the screen from now on."""
        self._pace.show_in(views)

    def mark(self, *topics: str) -> None:
        """Something of these topics has changed."""
        self._pace.mark(*topics)

    # Life

    def read_profiles(self) -> None:
        """Read the profile file; blocking and quick. The first frame shows it."""
        store = self.house.store
        self._stamp = store.stamp()
        before = self.profiles_problem
        try:
            self.profiles = store.read()
            self.profiles_problem = None
            self.profiles_read_at = self.house.clock.now()
        except ExpbError as error:
            self.profiles_problem = error
            if before is None or before.what != error.what:
                self._teller.complain(error)
        if self.acting is None or self.acting not in self.profiles.by_name:
            chosen = self.house.chosen
            self.acting = None if chosen.token else chosen.profile or self.profiles.default

    @property
    def profile(self) -> Profile | None:
        """The acting profile."""
        return self.profiles.by_name.get(self.acting) if self.acting else None

    def start(self) -> None:
        """Go to work."""
        self._spawn("start", self._start())

    async def _start(self) -> None:
        """Load the network and the models in a thread, so that keys are answered meanwhile; then ask and read."""
        await asyncio.to_thread(_load_service)
        self.follow()
        # The service is asked before the rest is loaded: its answer takes its time, the journal is there at once.
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER):
                await self._answered.wait()
        await asyncio.to_thread(_load_desk)
        self._spawn("watch", self._watch())
        if not self.house.settings.read_only:
            self._spawn("renew", self._renew())

    async def aclose(self) -> None:
        """End every task; what was sent is journaled by the desk."""
        self._pace.stop()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.house.aclose()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run one task per name; the one before is cancelled."""
        if (before := self._tasks.pop(name, None)) is not None:
            before.cancel()
        self._tasks[name] = asyncio.create_task(self._guarded(name, work), name=name)

    async def _guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ExpbError as error:
            self._teller.complain(error)
        except Exception as error:  # a fault of ours must be told, not end the cockpit
            self._teller.crashed(error, name)

    # Files

    async def _watch(self) -> None:
        """Notice what other processes write: the profile file by its stamp, the journal by its counter."""
        loop = asyncio.get_running_loop()
        while True:
            stamp = self.house.store.stamp()
            if stamp != self._stamp:
                before = self.profile
                self.read_profiles()
                self._leases_read = 0.0  # whether a lease has a credential depends on the profiles
                self.mark("profiles", "link")
                if _credential(self.profile) != _credential(before):
                    if self.acting:
                        await self.house.forget_session(self.acting)
                    self.follow()
            try:
                version = self.house.journal.version()
                if version != self._version or loop.time() - self._leases_read >= LEASES_AGAIN:
                    await self._read_leases()
                    self._version = version
            except ExpbError as error:
                self._leases_failed(error)
            await asyncio.sleep(TICK)

    async def _read_leases(self) -> None:
        self._leases_read = asyncio.get_running_loop().time()
        held = tuple(await self.house.desk.held(session=await self._bare_session()))
        if held != self.held or self.held_problem is not None:
            self.held, self.held_problem = held, None
            self.mark("leases", "link")

    def _leases_failed(self, error: ExpbError) -> None:
        if self.held_problem is None or self.held_problem.what != error.what:
            self._teller.complain(error)
        self.held_problem = error
        self.mark("leases")

    async def leases_changed(self) -> None:
        """Read the journal now, and ask what is on offer: an act of this process has just changed both."""
        if self._feed is not None:
            self._feed.refresh()
        try:
            await self._read_leases()
        except ExpbError as error:
            self._leases_failed(error)

    # The service

    def follow(self) -> None:
        """Follow the work on offer for the acting profile, from the beginning."""
        self.work = None
        self._feed = None
        self.link = Link(LinkState.ASKING)
        self.mark("work", "link")
        self._spawn("follow", self._follow())

    async def act_as(self, name: str) -> None:
        """Another profile is chosen: it becomes the default of the file, as ``profile use`` makes it."""
        await asyncio.to_thread(self.house.store.use, name)
        self.acting = name
        self.read_profiles()
        self.mark("profiles")
        self.follow()

    def reload(self) -> None:
        """Ask the server and read the files now."""
        self._version = None
        self._leases_read = 0.0
        self._stamp = None
        if self._feed is not None:
            self._feed.refresh()
        self._ask_now.set()
        if self.link.state in (LinkState.SIGNED_OUT, LinkState.NOBODY):
            self.follow()
        self._spawn("watch", self._watch())

    async def _follow(self) -> None:
        if self.profile is None and self.house.chosen.token is None and not _token_named():
            self._set_link(Link(LinkState.NOBODY))
            return
        try:
            session = await self.house.session(self.acting)
            agent = await self._is_agent(session)
        except ExpbError as error:
            self._set_link(_link_of(error))
            return
        if not agent:
            await self._ask_who(session)
            return
        from expb_tui.core.opportunities import OpportunityFeed

        feed = OpportunityFeed(
            session, watcher=await self.watcher(session), clock=self.house.clock, on_change=self._work_changed
        )
        self._feed = feed
        await feed.run()

    async def _is_agent(self, session: Session) -> bool:
        if session.explicit:
            return (await session.principal()).type == "agent"
        return session.profile.is_agent

    async def watcher(self, session: Session) -> Session | None:
        """A signed-in user's session of the same service and account; None too where it cannot be opened."""
        with suppress(ExpbError):
            return await self.house.watcher(session)
        return None

    def _work_changed(self, snapshot: Snapshot) -> None:
        self.work = snapshot
        state = snapshot.state.value
        if state == "fresh":
            self.link = Link(LinkState.ONLINE, snapshot.taken_at, snapshot.taken_ticks)
        elif snapshot.error is not None:
            self.link = _link_of(snapshot.error)._replace(at=snapshot.taken_at, ticks=snapshot.taken_ticks)
        elif state == "stale":
            self.link = Link(LinkState.LOST, snapshot.taken_at, snapshot.taken_ticks)
        elif state == "loading":
            self.link = Link(LinkState.ASKING, snapshot.taken_at, snapshot.taken_ticks)
        if state != "loading":
            self._answered.set()
        self.mark("work", "link")

    async def _ask_who(self, session: Session) -> None:
        """A user profile has no work of its own; asking who it is tells whether the service answers."""
        while True:
            try:
                await session.principal()
                clock = self.house.clock
                self._set_link(Link(LinkState.ONLINE, clock.now(), clock.ticks()))
            except ExpbError as error:
                self._set_link(_link_of(error)._replace(at=self.link.at, ticks=self.link.ticks))
            self._ask_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN):
                    await self._ask_now.wait()

    def _set_link(self, link: Link) -> None:
        self.link = link
        self._answered.set()
        self.mark("link", "work")

    async def session_for(self, held: HeldPackage) -> Session:
        """The credential that a package was claimed with."""
        return await self.house.session(held.profile_name or None)

    async def _renew(self) -> None:
        from expb_tui.core.leases.renewer import Renewer

        bare = await self._bare_session()
        renewer = Renewer(
            self.house.desk, self.session_for, clock=self.house.clock, on_note=self._renewal_note, bare=bare
        )
        await renewer.run()

    async def _bare_session(self) -> Session | None:
        """The session of a token that no profile holds, where the cockpit acts with one."""
        if self.acting is not None:
            return None
        try:
            session = await self.house.session()
        except ExpbError:
            return None
        return session if session.explicit else None

    def _renewal_note(self, note: RenewalNote) -> None:
        if note.error is not None:
            self._teller.complain(note.error)

    # What keys start

    def run(self, label: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Carry out one operation that ctrl+c cancels; False where another one is still running."""
        if self.running:
            self._teller.say(f"Still busy: {self.running}. Ctrl+c cancels it.", Tone.WARN)
            return False
        self.running = label
        self.mark("status")
        self._spawn("operation", self._operation(label, work))
        return True

    async def _operation(self, label: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            self._teller.say(f"Cancelled: {label}. What was already sent is finished and journaled.", Tone.WARN)
            raise
        finally:
            self.running = ""
            self.mark("status")

    def cancel(self) -> bool:
        """Cancel the running operation; False where there is none."""
        if not self.running:
            return False
        self._tasks["operation"].cancel()
        return True


def _load_service() -> None:
    """Import what the first question to the service needs; a second import costs nothing."""
    from expb_tui.core.api.transport import preload

    importlib.import_module("expb_tui.core.opportunities")
    importlib.import_module("expb_tui.core.profiles.session")
    preload()


def _load_desk() -> None:
    """Import what the journal needs."""
    importlib.import_module("expb_tui.core.leases.desk")


def _token_named() -> bool:
    return bool(os.environ.get("EXPBENCH_AGENT_TOKEN") or os.environ.get("EXPBENCH_AGENT_TOKEN_FILE"))


def _credential(profile: Profile | None) -> tuple[object, ...]:
    """What a session depends on; a refreshed token is not among it, the session reads that itself."""
    if profile is None:
        return ()
    return (profile.name, profile.type, profile.endpoint, profile.account_id, profile.agent_id, profile.signed_in)


def _link_of(error: ExpbError) -> Link:
    from expb_tui.core.api.failures import ApiProblem
    from expb_tui.core.errors import SignInNeeded

    if isinstance(error, SignInNeeded):
        return Link(LinkState.SIGNED_OUT, error=error)
    return Link(LinkState.REFUSED if isinstance(error, ApiProblem) else LinkState.LOST, error=error)
