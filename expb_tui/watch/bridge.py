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
from typing import TYPE_CHECKING, Any

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.keeping import face_path
from expb_tui.core.locks import KernelLock, take
from expb_tui.core.profiles.document import Profile, Profiles
from expb_tui.core.profiles.refusals import Refusals
from expb_tui.present.cells import Tone
from expb_tui.watch import link
from expb_tui.watch.leases import LeaseWatch
from expb_tui.watch.link import Link, LinkState
from expb_tui.watch.notices import of_error, of_renewal
from expb_tui.watch.pace import Pace, View
from expb_tui.watch.teller import Teller

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.leases.renewer import RenewalNote
    from expb_tui.core.opportunities import OpportunityFeed, Snapshot
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House

TICK = 1.0
"""How often files are looked at, in seconds; two ``stat`` calls and one counter."""
_LATE = 2.0
"""Seconds after which a question to the service that is still open is said."""
FIRST_ANSWER = 0.5
"""Seconds that the journal waits for the service's first answer, so that both do not load at once."""
ASK_AGAIN = 30.0
"""How often a user profile asks who it is, in seconds: that is how a lost connection is noticed."""


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
        self.leases = LeaseWatch(house, teller, lambda: self.mark("leases", "link"), self._bare_session)
        self.keeper = self.leases.keeper
        self.losses = self.leases.losses
        self.work: Snapshot | None = None
        self.link = Link(LinkState.OPENING)
        self.running: str = ""
        """The operation that ctrl+c cancels, in words."""
        self._teller = teller
        self._pace = Pace(lambda: teller.covered)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.refused: frozenset[str] = frozenset()
        """Profiles whose credential the service has refused, by what any process of this host has seen."""
        self._refusals = Refusals(house.store.path)
        self._refused: object = None
        self._face: KernelLock | None = None
        """Says to other processes that this face renews."""
        self._stamp: object = None
        self._feed: OpportunityFeed | None = None
        self._ask_now = asyncio.Event()
        self._answered = asyncio.Event()

    @property
    def held(self) -> tuple[HeldPackage, ...] | None:
        """Packages of this host, soonest end first; None until the journal has been read."""
        return self.leases.held

    @property
    def held_problem(self) -> ExpbError | None:
        """Why the journal cannot be read."""
        return self.leases.problem

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
            with suppress(ExpbError):  # others then think that nobody renews, which is the safe error
                self._face = await asyncio.to_thread(take, face_path(self.house.journal.folder), shared=True)
            self._spawn("renew", self._renew())
            self._spawn("keeper", self._have_a_keeper())
            self._spawn("settle", self.leases.settle(lambda name: self.house.session(name or None)))

    async def aclose(self) -> None:
        """End every task; what was sent is journaled by the desk."""
        self._pace.stop()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._face is not None:
            self._face.release()
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
        while True:
            stamp = self.house.store.stamp()
            if stamp != self._stamp:
                before = self.profile
                self.read_profiles()
                self.leases.again()  # whether a lease has a credential depends on the profiles
                self.mark("profiles", "link")
                if _credential(self.profile) != _credential(before):
                    if self.acting:
                        await self.house.forget_session(self.acting)
                    self.follow()
            self._look_at_refusals()
            await self.leases.look()
            await asyncio.sleep(TICK)

    def _look_at_refusals(self) -> None:
        if (stamp := (self._refusals.stamp(), self._stamp)) != self._refused:
            self._refused = stamp
            refused = frozenset(name for name, one in self.profiles.by_name.items() if self._refusals.has(one))
            if refused != self.refused:
                self.refused = refused
                self.leases.again()  # a lease whose credential is refused is in danger, whatever is renewed meanwhile
                self.mark("profiles", "link")

    async def _have_a_keeper(self) -> None:
        """Started at once, and again where it dies while there are leases to keep; tokens are lent to it."""
        await self.keeper.ensure(await self._bare_session())
        while True:
            await asyncio.sleep(TICK)
            await self.keeper.help(self.held or (), self.session_for)

    @property
    def may_start_keeper(self) -> bool:
        """A keeper would be of use, and none runs."""
        state = self.keeper.state
        wanted = any(held.kept and held.live for held in self.held or ())
        settings = self.house.settings
        idle = state is not None and not state.running
        return wanted and idle and settings.keeper != "off" and not settings.read_only

    async def start_keeper(self) -> None:
        """Have a keeper run because a person wants one, after ``keeper stop`` too."""
        await self.keeper.ensure(await self._bare_session())
        self.keeper.look(self.held or ())
        state = self.keeper.state
        if state is not None and state.running:
            self._teller.say(f"The keeper runs (process {state.pid}) and renews what is to be kept")
        self.mark("leases", "link")

    async def claimed(self, held: HeldPackage | None, session: Session) -> None:
        """A package has just been journaled: a keeper is started for it, without waiting for that."""
        await self.leases_changed()
        if held is not None:
            self._spawn("keep claimed", self.keeper.ensure(session))

    async def set_kept(self, packages: Iterable[HeldPackage], kept: bool) -> None:
        """Whether renewers look after these packages."""
        await self.house.desk.set_kept([held.uid for held in packages], kept)
        await self.leases_changed()

    async def leases_changed(self) -> None:
        """Read the journal now, and ask what is on offer: an act of this process has just changed both."""
        if self._feed is not None:
            self._feed.refresh()
        try:
            await self.leases.read()
        except ExpbError as error:
            self.leases.failed(error)

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
        self.leases.again()
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
            self._set_link(link.of_error(error))
            return
        if not agent:
            await self._ask_who(session)
            return
        from expb_tui.core.api.offers import OPPORTUNITIES
        from expb_tui.core.opportunities import OpportunityFeed

        feed = OpportunityFeed(
            session,
            watcher=await self.watcher(session),
            clock=self.house.clock,
            on_change=self._work_changed,
            path=self.house.settings.routes.get("opportunities", OPPORTUNITIES),
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
        self.link = link.of_snapshot(snapshot, self.link)
        if snapshot.state.value != "loading":
            self._answered.set()
        self.mark("work", "link")

    async def _ask_who(self, session: Session) -> None:
        """A user profile has no work of its own; asking who it is tells whether the service answers."""
        clock, loop = self.house.clock, asyncio.get_running_loop()
        while True:
            sent = clock.ticks()
            waiting = self.link._replace(state=LinkState.WAITING, waiting_since=sent)
            late = loop.call_later(_LATE, self._set_link, waiting)
            try:
                await session.principal()
                self._set_link(Link(LinkState.ONLINE, clock.now(), clock.ticks()))
            except ExpbError as error:
                self._set_link(link.of_error(error)._replace(at=self.link.at, ticks=self.link.ticks))
            finally:
                late.cancel()
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
            self.house.desk,
            self.session_for,
            clock=self.house.clock,
            on_note=self._renewal_note,
            bare=bare,
            covers=self.keeper.left_to_us,
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
        from expb_tui.core.leases.model import LeaseLost

        held = next((one for one in self.held or () if one.uid == note.package_id), None)
        if held is not None:
            self.keeper.tried(held, note.error)
            self.mark("leases", "link")
        if isinstance(note.error, LeaseLost):
            self._teller.tell(of_error(note.error, self.house.clock.now(), pane="leases", row=note.package_id))
        elif note.error is not None:
            self._teller.tell(of_renewal(held, note.error, self.house.clock.now(), tone=Tone.BAD))

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
    importlib.import_module("expb_tui.core.keeper.state")


def _token_named() -> bool:
    return bool(os.environ.get("EXPBENCH_AGENT_TOKEN") or os.environ.get("EXPBENCH_AGENT_TOKEN_FILE"))


def _credential(profile: Profile | None) -> tuple[object, ...]:
    """What a session depends on; a refreshed token is not among it, the session reads that itself."""
    if profile is None:
        return ()
    return (profile.name, profile.type, profile.endpoint, profile.account_id, profile.agent_id, profile.signed_in)
