"""A still life: the real server, the real journal and the running cockpit, with the clock and all chance held fast.

What is drawn is the same at every run, to the byte: screenshots and snapshots are made of it. Time stands still for
server and cockpit, ids depend only on who makes them, the zone is UTC and the port is always the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from expb_tui.core.clock import boot_id
from expb_tui.core.keeper.state import KeeperState
from expb_tui.launch import Chosen, House
from tests.support.cockpit import PilotCockpit, environment, piloted
from tests.support.server import PASSWORD, settings_for

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.server.seed import SeededDemo

INSTANT = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)
"""What the clocks show."""
PORT = 47_653
_PATIENCE = 60.0
"""Seconds to wait for the port, where another still life uses it."""


class StillClock:
    """A clock that is set by hand; ``ticks`` go with ``now``."""

    def __init__(self) -> None:
        self.at = INSTANT

    def now(self) -> datetime:
        return self.at

    def ticks(self) -> float:
        return 100_000.0 + (self.at - INSTANT).total_seconds()


class _Chance:
    """Random bytes that depend only on who asks, through which of our functions, and how often before.

    A new id somewhere else in the server changes no other, and no picture.
    """

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, size: int) -> bytes:
        frame: FrameType | None = sys._getframe(1)
        callers = []
        while frame is not None:
            module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
            # Comprehensions have frames of their own only before Python 3.12.
            if module.startswith("expb_tui.") and not function.startswith("<"):
                callers.append(f"{module}.{function}")
            frame = frame.f_back
        who = " ".join(callers)
        with self._lock:
            self._asked[who] += 1
            return random.Random(f"{who} {self._asked[who]}").randbytes(size)

    def forget(self) -> None:
        """Answer as at the beginning."""
        self._asked.clear()


class StillHouse(House):
    """A house whose keeper runs: a real one is another process, and time would not stand still for it."""

    def keeper(self) -> KeeperState:
        return KeeperState(running=True, pid=4_711, keeps=3, seen_ticks=self.clock.ticks(), seen_boot=boot_id())


@dataclass
class StillLife:
    """The scene. ``house`` builds a fresh house in it; ``reseed`` makes the ids that follow known."""

    folder: Path
    clock: StillClock
    demo: SeededDemo
    reseed: Callable[[], None]
    address: str
    held: list[HeldPackage] = field(default_factory=list)

    def house(
        self, *, theme: str = "dark", icons: str = "unicode", profiles: str = "profiles.json", **chosen: Any
    ) -> House:
        """A house that sees the scene's files, with a theme."""
        config = self.folder / "config"
        config.mkdir(exist_ok=True)
        (config / "config.toml").write_text(f'theme = "{theme}"\nicons = "{icons}"\nmouse = "off"\n')
        os.environ["EXPBENCH_PROFILES"] = str(self.folder / profiles)
        return StillHouse(Chosen(**chosen), clock=self.clock)

    @contextlib.asynccontextmanager
    async def cockpit(self, size: tuple[int, int], **options: Any) -> AsyncIterator[PilotCockpit]:
        """The running cockpit with everything on the screen."""
        async with piloted(self.house(**options), size=size) as cockpit:
            await cockpit.wait(lambda: cockpit.app.bridge.work is not None, "work")
            await cockpit.wait(lambda: bool(cockpit.app.bridge.held), "leases")
            await cockpit.pilot.pause(0.3)
            yield cockpit


@contextlib.contextmanager
def still_life(folder: Path) -> Iterator[StillLife]:
    """Set the scene in ``folder`` and hold it for the time of the block. Everything in this process stands still."""
    from expb_tui.server.run import RunningServer
    from expb_tui.server.seed import seed_demo

    clock = StillClock()
    chance = _Chance()

    class Still(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # time stands still
            return clock.at

    with contextlib.ExitStack() as held:
        held.enter_context(mock.patch.dict(os.environ, environment(folder, TZ="UTC"), clear=False))
        for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT", "NO_COLOR", "EXPBENCH_AGENT_TOKEN", "TMUX"):
            os.environ.pop(name, None)
        time.tzset()
        held.callback(time.tzset)
        for module in ("server.store.database", "core.leases.journal", "core.leases.statements", "core.leases.rescue"):
            held.enter_context(mock.patch(f"expb_tui.{module}.datetime", Still))
        stand = SimpleNamespace(time=lambda: clock.at.timestamp(), monotonic=time.monotonic)
        held.enter_context(mock.patch("expb_tui.server.gate.time", stand))
        held.enter_context(mock.patch("os.urandom", chance))
        held.enter_context(mock.patch("random._urandom", chance))
        running = _bound(lambda: RunningServer(settings_for(f"sqlite:///{folder / 'still.sqlite'}", port=PORT)))
        demo = seed_demo(running.services, password=PASSWORD)
        ready = threading.Event()
        thread = threading.Thread(target=running.run, args=(lambda _: ready.set(),), daemon=True)
        thread.start()
        held.callback(thread.join, 20)
        held.callback(running.stop)
        assert ready.wait(20), "the server did not start"
        scene = StillLife(folder, clock, demo, chance.forget, running.address.url)
        _write_profiles(scene)
        asyncio.run(_claim(scene))
        clock.at = INSTANT
        yield scene


def _bound(bind: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return bind()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _write_profiles(scene: StillLife) -> None:
    common = {"scope": "account", "endpoint": scene.address, "account_id": scene.demo.account_id}
    owner = {**common, "type": "user"}
    agent = {
        **common,
        "type": "agent",
        "agent_id": scene.demo.agent_id,
        "token": scene.demo.agent_token,
        "project_id": scene.demo.project_id,
        "project_name": "checkout-latency",
    }
    public = {"scope": "account", "endpoint": "https://exp.sre-norns.com", "type": "user"}
    files = {
        "profiles.json": {"researcher": agent, "owner": owner, "public": public},
        "signed-out.json": {"owner": owner},
    }
    for name, profiles in files.items():
        path = scene.folder / name
        path.write_text(json.dumps({"default": next(iter(profiles)), "profiles": profiles}))
        path.chmod(0o600)


async def _claim(scene: StillLife) -> None:
    """Packages claimed at different times: one ended, three live with different shares of their leases left."""
    house = scene.house()
    session = await house.session("researcher")
    project, name = scene.demo.project_id, "checkout-latency"

    async def claim(role: str, tasks: int, minutes: float) -> HeldPackage:
        scene.clock.at = INSTANT - timedelta(minutes=minutes)
        outcome = await house.desk.request(session, project, role, tasks, project_name=name)
        assert outcome.held is not None, f"no work for the {role}"
        scene.held.append(outcome.held)
        return outcome.held

    try:
        given_up = await claim("results-reviewer", 1, 14.2)
        reason = "The load generator of this host cannot reach the replica."
        body = {"taskId": given_up.tasks[0].task_id, "outcome": "failed", "reason": reason}
        await house.desk.submit(session, given_up.uid, body)
        await claim("ideator", 1, 9.4)
        await claim("hypothesis-reviewer", 2, 5.1)
        await claim("experimenter", 1, 0.3)
    finally:
        await house.aclose()
