"""What drills share: operators with homes of their own on one server, and the look at both sides afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select

from expb_tui.core.leases.drafts import Draft
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import Receipt
from expb_tui.server.context import Unit
from expb_tui.server.research.kinds import ROLES_KIND
from expb_tui.server.store.research_tables import hypotheses, research_settings
from tests.support.keeper import until
from tests.support.loopback import FaultyWay, Loopback
from tests.support.operators import environment, profiles_file
from tests.support.recorded import Forks, Place, Ran
from tests.support.server import LocalServer

T = TypeVar("T")
Service = TypeVar("Service", bound=Loopback)


@dataclass
class Drill:
    """A server, and operators who come, are killed and come again; each has a home of its own."""

    server: LocalServer
    forks: Forks
    folder: Path
    owner_token: str
    _count: Iterator[int] = field(default_factory=itertools.count)

    def place(self, like: Place | None = None, endpoint: str | None = None, **environ: str) -> Place:
        """A new operator, or one with another's files as they are now. ``endpoint``: a way that tests can break."""
        folder = self.folder / f"home-{next(self._count)}"
        if like is None:
            folder.mkdir()
            profiles_file(folder, self.server, endpoint=endpoint)
        else:
            shutil.copytree(like.folder, folder)
        return Place(folder, self.forks, environment(folder, **environ))

    def packages(self) -> list[dict[str, Any]]:
        """The agent's packages as the service has them."""
        with self.server.client(self.server.agent_token) as http:
            items: list[dict[str, Any]] = http.get(f"/v1/projects/{self.server.project_id}/work-packages").json()[
                "items"
            ]
        return items

    def active(self) -> set[str]:
        """Ids of those that the service has as active."""
        return {item["metadata"]["uid"] for item in self.packages() if item["status"]["phase"] == "active"}

    def results(self) -> int:
        """How many hypotheses the service holds."""
        with self.server.services.database.read() as conn:
            return int(conn.execute(select(func.count()).select_from(hypotheses)).scalar_one())

    def lease(self, seconds: int) -> None:
        """From now on a lease of an ideator lasts so long."""
        database = self.server.services.database
        with database.write() as conn:
            unit = Unit(conn, database)
            table = research_settings.c
            query = ROLES_KIND.select.where(table.project_id == self.server.project_id, table.subject == "ideator")
            found = unit.conn.execute(query).one()
            unit.update(ROLES_KIND, found, spec={**found.spec, "leaseSeconds": seconds}, configured=True)

    def renewals(self) -> dict[str, int]:
        """How often each active package has been renewed, as the service counts."""
        active = (item for item in self.packages() if item["status"]["phase"] == "active")
        return {item["metadata"]["uid"]: item["status"]["lease"]["renewals"] for item in active}

    def first_end(self) -> float:
        """When the first lease ends, in the service's Unix time."""
        active = [item for item in self.packages() if item["status"]["phase"] == "active"]
        return min(datetime.fromisoformat(item["status"]["lease"]["expiresAt"]).timestamp() for item in active)

    def settle(self) -> None:
        """Wait until the service is through with what a killed one had sent: its death calls nothing back."""
        until(self.server.busy, lambda busy: not busy)

    def clear(self) -> None:
        """Withdraw what is still assigned."""
        with self.server.client(self.owner_token) as http:
            for item in self.packages():
                if item["status"]["phase"] == "active":
                    version = {"If-Match": f'"{item["metadata"]["version"]}"'}
                    uid = item["metadata"]["uid"]
                    done = http.patch(f"/v1/work-packages/{uid}", json={"operation": "revoke"}, headers=version)
                    assert done.status_code == 200, done.text

    def listed(self, place: Place, **options: Any) -> dict[str, str]:
        """What a restart says of each package, by its id; nothing may be left unsettled by it."""
        told = place.run("agent", "work", "list", "--all", "-o", "json", **options)
        assert "cut off" not in told.err
        return {one["package_id"]: one["state"] for one in told.json()}

    def truthful(self, place: Place, **options: Any) -> dict[str, str]:
        """``listed``, compared with the service: what is active is shown, and its token works, or it is token lost."""
        shown = self.listed(place, **options)
        usable = {uid for uid, state in shown.items() if state in ("active", "renewal overdue")}
        lost = {uid for uid, state in shown.items() if state == "token lost"}
        assert usable <= self.active() <= usable | lost, shown
        for uid in usable:
            renewed = place.run("agent", "work", "renew", uid, "-o", "json", **options)
            assert renewed.code == 0, renewed.err
        return shown


def claim(place: Place, **options: Any) -> Ran:
    """An idea is asked for."""
    return place.run("agent", "work", "request", "--role", "ideator", "-o", "json", **options)


async def with_journal(place: Place, act: Callable[[Journal], Awaitable[T]]) -> T:
    """Do something with an operator's journal in this process."""
    journal = Journal(place.journal)
    try:
        return await act(journal)
    finally:
        await journal.aclose()


def save_draft(place: Place, package_id: str, task_id: str, values: dict[str, Any]) -> None:
    """What a form does while a person types."""
    asyncio.run(with_journal(place, lambda journal: journal.save_draft(package_id, task_id, values, None)))


def kept(place: Place) -> tuple[list[Receipt], list[Draft]]:
    """Receipts and drafts of an operator."""

    async def both(journal: Journal) -> tuple[list[Receipt], list[Draft]]:
        return await journal.receipts(), await journal.drafts()

    return asyncio.run(with_journal(place, both))


@contextlib.contextmanager
def in_a_thread(service: Service) -> Iterator[Service]:
    """A loopback service with an event loop of its own: commands are waited for in this thread."""
    made, over = threading.Event(), threading.Event()

    async def run() -> None:
        async with service.running():
            made.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert made.wait(20)
    try:
        yield service
    finally:
        over.set()
        thread.join(20)


def faulty_way(server: LocalServer) -> contextlib.AbstractContextManager[FaultyWay]:
    """A way to the server that tests can break."""
    return in_a_thread(FaultyWay(server.address))
