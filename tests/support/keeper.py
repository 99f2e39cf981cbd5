"""Keepers for tests: started as programs of their own in an operator's folder, and always ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from expb_tui import __version__
from expb_tui.core.keeper.control import SOCKET_NAME
from expb_tui.core.keeper.state import KeeperState, look
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import HeldPackage
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, SETTINGS
from tests.support.operators import environment
from tests.support.upstream import ACCOUNT_ID, AGENT_ID, PROJECT_ID, Upstream

PROGRAM = str(Path(sys.executable).with_name("expb-tui"))
PATIENCE = 15.0
"""Seconds that a wait may take."""
Seen = TypeVar("Seen")
HOST = "host-one"
LEASE = 12.0
"""Seconds of a lease that is soon due; twelve are left for a busy machine to renew it."""
_OTHERWISE = """
import sys, expb_tui
expb_tui.__version__ = {version!r}
from expb_tui.core.keeper.process import Keeper
Keeper.__init__.__kwdefaults__["idle"] = {idle!r}
sys.argv = ["expb-tui", *sys.argv[1:]]
from expb_tui.__main__ import main
main()
"""


def keeper_environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment of an operator in ``folder`` on the host ``HOST``; nothing starts a keeper by itself."""
    return environment(folder, **{"EXPB_TUI_MACHINE_ID": HOST, **changes})


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where that operator's keeper has its lock, state and socket."""
    return Path(environ["EXPB_TUI_STATE_DIR"]) / environ["EXPB_TUI_MACHINE_ID"]


@dataclass
class KeeperProcess:
    """A keeper in the foreground of a process of its own."""

    environ: dict[str, str]
    process: subprocess.Popen[bytes]
    said: Path = field(repr=False)

    @property
    def folder(self) -> Path:
        return state_folder(self.environ)

    @property
    def state(self) -> KeeperState:
        """What faces see."""
        return look(self.folder)

    @property
    def words(self) -> str:
        """Everything on its standard error so far."""
        return self.said.read_text()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Until it has ended; its exit code."""
        return self.process.wait(PATIENCE)

    def at_work(self) -> KeeperState:
        """Until it has said its first word."""
        until((self.folder / SOCKET_NAME).exists, bool, self.describe)
        return until(lambda: self.state, lambda state: state.running and state.pid == self.process.pid, self.describe)

    def describe(self) -> str:
        """For a failed wait."""
        return f"keeper: exit {self.process.poll()}, {self.state}\n{self.words}"


@contextlib.contextmanager
def keeper(
    environ: dict[str, str],
    *arguments: str,
    version: str | None = None,
    idle: float | None = None,
    program: list[str] | None = None,
) -> Iterator[KeeperProcess]:
    """Start one, killed at the end; it says that it is of ``version``, and ends after ``idle`` seconds of no lease.

    ``program`` is another command line in place of all that.
    """
    command = [PROGRAM, "keeper", *arguments]
    if version is not None or idle is not None:
        script = _OTHERWISE.format(version=version or __version__, idle=300.0 if idle is None else idle)
        command = [sys.executable, "-P", "-c", script, "keeper", *arguments]
    command = program or command
    said = Path(environ["HOME"]) / f"keeper-{time.monotonic_ns()}.txt"
    with said.open("wb") as errors:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        yield KeeperProcess(environ, process, said)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def no_keeper_left(environ: Mapping[str, str]) -> Iterator[None]:
    """Whatever keeper was started in the background for this operator is killed at the end of the block."""
    try:
        yield
    finally:
        folder = state_folder(environ)
        deadline = time.monotonic() + PATIENCE
        while (state := look(folder)).running and time.monotonic() < deadline:
            if state.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(state.pid, signal.SIGKILL)
            time.sleep(0.02)


class Eager(Upstream):
    """Where its leases are ``LEASE`` seconds, they call themselves so long that a renewal is due after one second."""

    def _lease(self, now: datetime) -> dict[str, Any]:
        told = super()._lease(now)
        return told | {"leaseSeconds": LEASE * 2.5} if self.lease == LEASE else told


@dataclass
class Operator:
    """Somebody with an agent's profile, a journal, and a service whose tokens rotate."""

    folder: Path
    environ: dict[str, str]
    upstream: Upstream
    desk: Desk
    session: Session

    @property
    def state_folder(self) -> Path:
        return state_folder(self.environ)

    async def claim(self) -> HeldPackage:
        claimed = await self.desk.request(self.session, PROJECT_ID, "ideator")
        assert claimed.held is not None
        return claimed.held

    async def renewals(self, held: HeldPackage) -> int:
        return (await self.desk.get(held.uid)).renewals

    async def renewed(self, held: HeldPackage, more: int = 1) -> None:
        """Until so many further renewals are journaled."""
        goal = await self.renewals(held) + more
        async with asyncio.timeout(PATIENCE):
            while await self.renewals(held) < goal:
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def operator(folder: Path, *, lease: float = LEASE, **environ: str) -> AsyncIterator[Operator]:
    async with Eager(lease=lease).running() as upstream:
        settings = keeper_environment(folder, **environ)
        store = ProfileStore(folder / "profiles.json")
        token = SecretStr("identity-token")
        store.put(Profile(AGENT, "agent", endpoint=upstream.url, account_id=ACCOUNT_ID, agent_id=AGENT_ID, token=token))
        desk = Desk(Journal(state_folder(settings) / "journal.db"), store, patience=2.0)
        session = Session.open(store, profile=AGENT, settings=SETTINGS)
        try:
            yield Operator(folder, settings, upstream, desk, session)
        finally:
            await desk.aclose()
            await session.aclose()
            await desk.journal.aclose()


async def until_async(see: Callable[[], Seen], true: Callable[[Seen], bool], describe: Callable[[], str] = str) -> Seen:
    """As ``until``, with a server in this event loop."""
    return await asyncio.to_thread(until, see, true, describe)


def until(see: Callable[[], Seen], true: Callable[[Seen], bool], describe: Callable[[], str] = str) -> Seen:
    """Look until it is so; patient."""
    deadline = time.monotonic() + PATIENCE
    while not true(seen := see()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain; last seen: {seen}\n{describe()}")
        time.sleep(0.02)
    return seen
