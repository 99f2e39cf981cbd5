"""The one place that builds what the faces share, and that may open the cockpit from a command.

Importing this module is cheap; settings, journal, sessions and desk are imported and opened when first asked for.
"""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.secret import SecretStr

if TYPE_CHECKING:
    from expb_tui.core.doctor.model import Circumstances, Sight
    from expb_tui.core.keeper.outlook import Outlook
    from expb_tui.core.keeper.spawn import Ensured
    from expb_tui.core.keeper.state import KeeperState
    from expb_tui.core.leases.desk import Desk
    from expb_tui.core.leases.journal import Journal
    from expb_tui.core.leases.model import PendingRequest
    from expb_tui.core.leases.salvage import Salvaged
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import ProfileStore
    from expb_tui.core.settings import Settings
    from expb_tui.first_line import FirstLine


_DUMB = ("", "dumb", "emacs", "unknown")
"""Values of TERM of a terminal that cannot move its cursor."""


class DemoHint(NamedTuple):
    """What the operator needs on the approval page of the demo; the password is made up for this one run."""

    address: str
    email: str
    password: str
    user_profile: str
    """The profile that is still signed out, so that the device flow can be tried."""


class Chosen(NamedTuple):
    """What the global options and the environment say; nothing here is ever stored."""

    profile: str | None = None
    endpoint: str | None = None
    token: SecretStr | None = None
    timeout: float | None = None
    """Seconds that one request may take; None for the settings' value."""
    account: str | None = None
    project: str | None = None
    insecure_http: bool = False
    read_only: bool = False


class House:
    """Everything that the cockpit and the commands share. Build it with ``open_house``, end it with ``aclose``.

    ``settings``, ``store``, ``journal`` and ``desk`` are opened on first use. ``session`` caches one ``Session`` per
    profile name; callers never close what they got from it.
    """

    def __init__(self, chosen: Chosen, *, clock: Clock, demo_hint: DemoHint | None = None) -> None:
        self.chosen = chosen
        self.clock = clock
        self.demo_hint = demo_hint
        self._sessions: dict[str, Session] = {}

    @cached_property
    def settings(self) -> Settings:
        """Read once; the command line's own words win. Raises ``UsageError`` where ``config.toml`` is wrong."""
        from dataclasses import replace

        from expb_tui.core.settings import load_settings

        settings = load_settings()
        chosen = self.chosen
        return replace(
            settings,
            timeout=chosen.timeout or settings.timeout,
            insecure_http=chosen.insecure_http or settings.insecure_http,
            read_only=chosen.read_only or settings.read_only,
        )

    @cached_property
    def store(self) -> ProfileStore:
        """The shared profile file."""
        from expb_tui.core.profiles.store import ProfileStore

        return ProfileStore()

    @cached_property
    def journal(self) -> Journal:
        """This host's journal; it touches the disk with its first use."""
        from expb_tui.core.leases.journal import Journal

        return Journal()

    @cached_property
    def desk(self) -> Desk:
        """Claims, renewals, releases and submissions over the journal."""
        from expb_tui.core.leases.desk import Desk

        settings = self.settings
        return Desk(
            self.journal, self.store, clock=self.clock, lease_header=settings.lease_header, routes=settings.routes
        )

    async def session(self, profile: str | None = None) -> Session:
        """The session of a profile. None means what was chosen: the token, the profile, the environment's token, or
        the default profile, in this order.

        Raises ``UsageError`` or ``SignInNeeded``; also where ``--account`` names another account.
        """
        from expb_tui.core.profiles.session import Session

        name = profile or ""
        session = self._sessions.get(name)
        if session is None:
            chosen = self.chosen if profile is None else Chosen(profile=profile)
            session = Session.open(
                self.store,
                profile=chosen.profile,
                endpoint=chosen.endpoint,
                token=chosen.token,
                settings=self.settings,
                clock=self.clock,
            )
            await self._same_account(session)
            self._sessions[name] = session
        return session

    async def watcher(self, session: Session) -> Session | None:
        """A signed-in user's session of the same service and account, which sees what an agent may not (hazards 15)."""
        from expb_tui.core.api.endpoint import same_endpoint

        acting = session.profile
        if acting.type == "user" and not session.explicit:
            return session
        for name, found in sorted(self.store.read().by_name.items()):
            same = same_endpoint(found.endpoint, session.endpoint) and found.account_id == acting.account_id
            if same and found.type == "user" and found.scope == "account" and found.signed_in:
                return await self.session(name)
        return None

    async def _same_account(self, session: Session) -> None:
        wanted = self.chosen.account
        if wanted is None:
            return
        actual = session.profile.account_id or (await session.principal()).account_id
        if actual != wanted:
            await session.aclose()
            raise UsageError(
                f"The credential is not of account {wanted}",
                cause=f"it belongs to account {actual or 'none'}",
                next_step="Choose another profile with --profile, or leave --account out",
            )

    def keeper(self) -> KeeperState:
        """The keeper of this host as it is now: at most a file read. Never raises."""
        from expb_tui.core.keeper.state import look

        return look()

    async def ensure_keeper(self, session: Session | None = None) -> Ensured:
        """Start the keeper where none runs. The token of ``session`` is lent to it where it could not read it.

        Call it at the start of the cockpit, and after a package is journaled. Never raises: a keeper that cannot be
        started is a notice (``problem``), not the failure of the claim.
        """
        from expb_tui.core.keeper.spawn import ensure

        return await ensure(self.settings, session)

    async def keeping_outlook(self, profile: str | None = None) -> Outlook:
        """What will become of a lease claimed as ``profile`` (None: as chosen) when nobody is logged in.

        Raises as ``session``.
        """
        from expb_tui.core.keeper.outlook import outlook

        session = await self.session(profile)
        acting = session.profile if session.explicit else self.store.select(session.profile.name)
        return await outlook(acting, self.settings)

    def circumstances(self, sight: Sight) -> Circumstances:
        """What the doctor examines; ``sight`` is what the face sees of its terminal."""
        from expb_tui.core.doctor.model import Circumstances
        from expb_tui.core.paths import state_dir
        from expb_tui.core.secret import environ_for_helpers

        settings: Settings | None = None
        problem: ExpbError | None = None
        try:
            settings = self.settings
        except ExpbError as error:
            problem = error
        chosen = self.chosen
        return Circumstances(
            environ=environ_for_helpers(os.environ),
            sight=sight,
            store=self.store,
            journal=state_dir() / "journal.db",
            settings=settings,
            settings_problem=problem,
            profile=chosen.profile,
            endpoint=chosen.endpoint,
            token=chosen.token,
            clock=self.clock,
        )

    async def unanswered(self) -> list[PendingRequest]:
        """What this process has sent, or is about to send, without an answer yet."""
        return await self.desk.pending(ours=True) if "desk" in self.__dict__ else []

    def salvaged(self) -> Salvaged | None:
        """What became of a damaged journal, if it was set aside since this process began to use it."""
        return self.journal.salvaged(since_opened=True) if "journal" in self.__dict__ else None

    async def forget_session(self, profile: str) -> None:
        """Close and drop the cached session after a sign-in, sign-out, removal or move of its secret."""
        for name, session in list(self._sessions.items()):
            if profile in (name, session.profile.name):
                await self._sessions.pop(name).aclose()

    async def aclose(self) -> None:
        """Wait for requests under way, then close sessions and journal; safe to call twice."""
        if "desk" in self.__dict__:
            await self.desk.aclose()
        for name in list(self._sessions):
            await self._sessions.pop(name).aclose()
        if "journal" in self.__dict__:
            await self.journal.aclose()


def open_house(
    chosen: Chosen | None = None, *, clock: Clock = SYSTEM_CLOCK, demo_hint: DemoHint | None = None
) -> House:
    """A house in which nothing is opened yet."""
    return House(chosen or Chosen(), clock=clock, demo_hint=demo_hint)


def open_face(house: House, *, line: FirstLine | None = None, plain: bool = False) -> int:
    """What ``expb-tui`` without a command shows: the cockpit, or lines where they are wanted or the terminal is dumb.

    Returns the exit code. Raises as ``open_cockpit``.
    """
    if plain or house.settings.plain or dumb_terminal():
        if line is not None:
            line.restore()
        return open_plain(house)
    return open_cockpit(house, line=line)


def open_plain(house: House) -> int:
    """Announce changes and take commands line by line until it is left; returns the exit code."""
    from expb_tui.core import faults
    from expb_tui.plain.session import PlainSession

    return faults.run(PlainSession(house).run())


def open_cockpit(house: House, *, line: FirstLine | None = None) -> int:
    """Show the cockpit until it is left; returns the exit code.

    ``line`` is the first line if ``__main__`` has already put one on the screen. Raises ``ExpbError`` where there is
    no terminal or Textual cannot be imported; the terminal is then as it was.
    """
    require_terminal()
    from expb_tui.first_line import FirstLine

    line = line or FirstLine.show(house.chosen.profile)
    try:
        from expb_tui.tui.app import CockpitApp

        app = CockpitApp(house, line=line)
    except ImportError as error:
        line.restore()
        raise ExpbError(
            "The cockpit cannot be opened",
            cause=f"{error.name or 'a part of it'} cannot be imported",
            next_step="Install expb-tui again; every command works without the cockpit",
            code="no-cockpit",
        ) from error
    except BaseException:
        line.restore()
        raise
    try:
        app.run()
    finally:
        line.restore()
    return app.return_code or 0


def require_terminal() -> None:
    """Raises ``ExpbError`` where the cockpit cannot be shown, and names what works there."""
    if cause := _no_terminal():
        raise ExpbError(
            "The cockpit needs a terminal",
            cause=cause,
            next_step="Use --plain, or the commands: expb-tui auth, profile, context, agent, serve, demo --headless",
            code="no-terminal",
        )


def terminal_here() -> bool:
    """Whether the cockpit can be shown: a terminal on both ends that can move its cursor."""
    return not _no_terminal()


def dumb_terminal() -> bool:
    """Whether there is a terminal that cannot move its cursor: lines are shown there instead of the cockpit."""
    return not _not_a_terminal() and os.environ.get("TERM", "") in _DUMB


def _no_terminal() -> str:
    if cause := _not_a_terminal():
        return cause
    term = os.environ.get("TERM", "")
    return f"TERM is {term or 'not set'}, which says that this one cannot move its cursor" if term in _DUMB else ""


def _not_a_terminal() -> str:
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None or not stream.isatty():
            return f"standard {name} is not one"
    return ""
