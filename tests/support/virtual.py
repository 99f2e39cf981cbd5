"""Hours of leases in seconds: a clock that is moved by hand, and a service that goes by it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from expb_tui.core.leases.renewer import Renewer
from tests.support.desk import MovingClock
from tests.support.loopback import Reply, Request, problem
from tests.support.upstream import Upstream

PATIENCE = 60.0


class TimedUpstream(Upstream):
    """Changes tokens with each renewal, and ends leases by ``clock``; ``lost`` names those that ran out."""

    def __init__(self, clock: MovingClock, *, lease: float = 60.0) -> None:
        super().__init__(lease=lease)
        self.clock = clock
        self.lost: set[str] = set()

    def _lease(self, now: datetime) -> dict[str, Any]:
        return super()._lease(self.clock.now())

    def _change(self, package: dict[str, Any], act: str, request: Request) -> Reply:
        if self.run_out(package):
            self.lost.add(package["metadata"]["uid"])
            return problem(409, "lease-expired")
        return super()._change(package, act, request)

    def run_out(self, package: dict[str, Any]) -> bool:
        """Its lease is over by now."""
        return datetime.fromisoformat(package["status"]["lease"]["expiresAt"]) < self.clock.now()

    def fewest_renewals(self) -> int:
        """Of the package that was renewed least."""
        return min(int(package["status"]["lease"]["renewals"]) for package in self.packages.values())


async def pass_time(clock: MovingClock, renewers: list[Renewer], seconds: float, *, step: float = 2.0) -> None:
    """Let time go by in steps, after each of which every renewer does what is due; however long that takes."""
    for _ in range(round(seconds / step)):
        clock.ahead += step
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(0.02)
            while any(renewer.busy or renewer.next_due() == 0 for renewer in renewers):
                await asyncio.sleep(0.01)
