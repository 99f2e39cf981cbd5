"""A home with a journal, a profile file and a desk, as one process on a host has them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expb_tui.core.clock import SYSTEM_CLOCK, Clock, boot_id
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import HeldPackage, LeaseTimes
from expb_tui.core.leases.schema import PackageRow, Pin
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.core.settings import Settings
from tests.support import answers

if TYPE_CHECKING:
    from tests.support.server import LocalServer

SETTINGS = Settings(keyring="off", timeout=10.0)
AGENT = "researcher"
ANSWERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "ideator": answers.idea,
    "hypothesis-reviewer": answers.hypothesis_review,
    "experimenter": answers.report,
    "results-reviewer": answers.result_review,
    "integrator": answers.integration,
}


class MovingClock:
    """The host's clock, moved forward by hand."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return SYSTEM_CLOCK.now() + timedelta(seconds=self.ahead)

    def ticks(self) -> float:
        return SYSTEM_CLOCK.ticks() + self.ahead


@dataclass
class Home:
    """One process's core; ``server`` is who its agent profile is for."""

    folder: Path
    store: ProfileStore
    journal: Journal
    desk: Desk
    server: LocalServer
    sessions: list[Session]

    def add_agent(self, name: str, endpoint: str, **changes: Any) -> Profile:
        """Save an agent profile of the demo's agent."""
        values: dict[str, Any] = {
            "account_id": self.server.account_id,
            "agent_id": self.server.agent_id,
            "token": SecretStr(self.server.agent_token),
            **changes,
        }
        return self.store.put(Profile(name, "agent", endpoint=endpoint, **values))

    def session(self, name: str = AGENT) -> Session:
        session = Session.open(self.store, profile=name, settings=SETTINGS, clock=self.desk.clock)
        self.sessions.append(session)
        return session

    async def claim(self, session: Session, role: str = "ideator") -> HeldPackage:
        outcome = await self.desk.request(session, self.server.project_id, role)
        assert outcome.kind == "assigned", outcome
        assert outcome.held is not None
        return outcome.held

    def body(self, held: HeldPackage) -> dict[str, Any]:
        """A right submission for the first task."""
        task = held.tasks[0]
        output = ANSWERS[task.role](task.input)
        return {"taskId": task.task_id, "outcome": "completed", "output": output}


@contextlib.asynccontextmanager
async def at_home(
    folder: Path,
    server: LocalServer,
    *,
    endpoint: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
    patience: float = 4.0,
) -> AsyncIterator[Home]:
    """Open it, with the agent's profile for ``endpoint`` (the server's own if None); close everything at the end."""
    store = ProfileStore(folder / "config" / "profiles.json")
    journal = Journal(folder / "state" / "journal.db")
    desk = Desk(journal, store, clock=clock, patience=patience)
    home = Home(folder, store, journal, desk, server, [])
    home.add_agent(AGENT, endpoint or server.address)
    try:
        yield home
    finally:
        await desk.aclose()
        for session in home.sessions:
            await session.aclose()
        await journal.aclose()


def pin(**changes: str) -> Pin:
    """Whom a made-up package belongs to."""
    values = {
        "endpoint": "https://bench.example.test",
        "account_id": "acc-1",
        "agent_id": "agt-1",
        "credential_id": "cred-1",
        "profile_name": AGENT,
        "profile_file": "/nowhere/profiles.json",
        **changes,
    }
    return Pin(**values)


def times(left: float = 600.0, *, length: float = 900.0, ago: float = 0.0, **changes: Any) -> LeaseTimes:
    """A lease with ``left`` seconds at the moment of the answer, which was asked for ``ago`` seconds ago."""
    wall = datetime.now(UTC) - timedelta(seconds=ago)
    values: dict[str, Any] = {
        "expires_at": wall + timedelta(seconds=left + 1),
        "absolute_expires_at": wall + timedelta(hours=4),
        "lease_seconds": length,
        "server_date": wall,
        "sent_wall": wall,
        "sent_ticks": SYSTEM_CLOCK.ticks() - ago,
        "sent_boot": boot_id(),
        **changes,
    }
    return LeaseTimes(**values)


def package_row(uid: str = "wp-1", **changes: Any) -> PackageRow:
    """A made-up package."""
    now = datetime.now(UTC)
    tasks = [{"taskId": "task-1", "role": "ideator", "phase": "assigned", "input": {"instructions": ["Go."]}}]
    values: dict[str, Any] = {
        "pin": pin(),
        "uid": uid,
        "project_id": "prj-1",
        "project_name": "checkout",
        "role": "ideator",
        "version": 1,
        "phase": "active",
        "token": SecretStr("lease-token-of-the-package-0123456789abcdefgh"),
        "document": {"status": {"tasks": tasks}},
        "times": times(),
        "renewals": 0,
        "claimed_at": now,
        "answered_at": now,
        **changes,
    }
    return PackageRow(**values)
