"""kill -9 at every point of a claim, a renewal, a submission and a release; then a restart that must be truthful."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import func, select

from expb_tui.core.leases.journal import Draft, Journal
from expb_tui.core.leases.model import Receipt
from expb_tui.server.store.research_tables import hypotheses
from tests.support import answers
from tests.support.cockpit import environment, profiles_file
from tests.support.recorded import Forks, Place, Ran, forks, not_visited
from tests.support.server import LocalServer

T = TypeVar("T")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[Forks]:
    with forks() as made:
        yield made


@dataclass
class Drill:
    """A server, and operators who come, are killed and come again; each has a home of its own."""

    server: LocalServer
    forks: Forks
    folder: Path
    owner_token: str
    _count: Iterator[int] = field(default_factory=itertools.count)

    def place(self, like: Place | None = None) -> Place:
        """A new operator, or one with another's files as they are now."""
        folder = self.folder / f"home-{next(self._count)}"
        if like is None:
            folder.mkdir()
            profiles_file(folder, self.server)
        else:
            shutil.copytree(like.folder, folder)
        return Place(folder, self.forks, environment(folder, EXPB_TUI_KEEPER="off"))

    def active(self) -> list[dict[str, Any]]:
        """The agent's packages that the service has as active."""
        with self.server.client(self.server.agent_token) as http:
            items = http.get(f"/v1/projects/{self.server.project_id}/work-packages").json()["items"]
        return [item for item in items if item["status"]["phase"] == "active"]

    def read(self, uid: str) -> dict[str, Any]:
        """One package as the service has it."""
        with self.server.client(self.server.agent_token) as http:
            package: dict[str, Any] = http.get(f"/v1/work-packages/{uid}").json()
        return package

    def results(self) -> int:
        """How many hypotheses the service holds."""
        with self.server.services.database.read() as conn:
            return int(conn.execute(select(func.count()).select_from(hypotheses)).scalar_one())

    def clear(self) -> None:
        """Withdraw what is still assigned."""
        with self.server.client(self.owner_token) as http:
            for item in self.active():
                version = {"If-Match": f'"{item["metadata"]["version"]}"'}
                uid = item["metadata"]["uid"]
                done = http.patch(f"/v1/work-packages/{uid}", json={"operation": "revoke"}, headers=version)
                assert done.status_code == 200, done.text

    def listed(self, place: Place) -> dict[str, str]:
        """What a restart says of each package, by its id; nothing may be left unsettled afterwards."""
        place.run("agent", "work", "list", "-o", "json")
        again = place.run("agent", "work", "list", "--all", "-o", "json")
        assert "cut off" not in again.err
        return {one["package_id"]: one["state"] for one in again.json()}

    def truthful(self, place: Place) -> dict[str, str]:
        """``listed``, compared with the service: what is active is shown, and its token works, or it is token lost."""
        shown = self.listed(place)
        active = {item["metadata"]["uid"] for item in self.active()}
        usable = {uid for uid, state in shown.items() if state == "active"}
        assert usable <= active <= {uid for uid, state in shown.items() if state in ("active", "token lost")}
        for uid in usable:
            renewed = place.run("agent", "work", "renew", uid, "-o", "json")
            assert renewed.code == 0, renewed.err
        return shown


@pytest.fixture
def drill(server: LocalServer, fork_server: Forks, tmp_path: Path) -> Drill:
    return Drill(server, fork_server, tmp_path, server.sign_in()["access_token"])


def claim(place: Place, **options: Any) -> Ran:
    return place.run("agent", "work", "request", "--role", "ideator", "-o", "json", **options)


def visit(
    drill: Drill, before: Callable[[], Place], act: Callable[..., Ran], check: Callable[[Place, str], None]
) -> list[str]:
    """Record an unfaulted run of ``act``, then kill a run at each of its points; returns the points."""
    first = act(before())
    assert first.code == 0, first.err
    drill.clear()
    visited = []
    for point in first.points:
        place = before()
        killed = act(place, kill_at=point)
        assert killed.killed, f"not reached any more: {point}\n{killed.err}"
        visited.append(point)
        check(place, point)
        drill.clear()
    assert not_visited(first.points, visited) == []
    return first.points


def test_a_claim(drill: Drill) -> None:
    def check(place: Place, point: str) -> None:
        before = len(drill.active())
        shown = drill.truthful(place)
        assert len(drill.active()) <= 1, point
        assert before <= len(shown) <= 1, point

    points = visit(drill, drill.place, claim, check)
    assert needed("commit intent", f"send {CLAIM}", f"receive {CLAIM}", "commit intent+package") <= set(points)


def test_a_renewal(drill: Drill) -> None:
    def before() -> Place:
        place = drill.place()
        claim(place).json()
        return place

    def renew(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "renew", "-o", "json", **options)

    def check(place: Place, point: str) -> None:
        (state,) = drill.truthful(place).values()
        assert state == "active", point

    points = visit(drill, before, renew, check)
    assert needed(f"send {RENEW}", f"receive {RENEW}", "commit package") <= set(points)


def test_a_submission(drill: Drill) -> None:
    sent: dict[Path, tuple[str, str, int]] = {}

    def before() -> Place:
        place = drill.place()
        package = claim(place).json()["resource"]
        uid, task = package["metadata"]["uid"], package["status"]["tasks"][0]
        body = {"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])}
        sent[place.folder] = uid, json.dumps(body), drill.results()
        asyncio.run(with_journal(place, lambda journal: journal.save_draft(uid, task["taskId"], {"typed": "x"}, None)))
        return place

    def submit(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "submit", "--file", "-", "-o", "json", given=sent[place.folder][1], **options)

    def check(place: Place, point: str) -> None:
        uid, body, results = sent[place.folder]
        drill.truthful(place)
        receipts, drafts = kept(place)
        assert drill.results() == results + len(receipts), point
        assert len(drafts) + len(receipts) == 1, point
        again = place.run("agent", "work", "submit", uid, "--file", "-", given=body)
        assert again.code == 0, (point, again.err)
        assert drill.results() == results + 1, point
        assert kept(place)[1] == []

    points = visit(drill, before, submit, check)
    assert needed("commit intent", f"send {SUBMIT}", f"receive {SUBMIT}") <= set(points)
    assert needed("commit draft+intent+package+receipt") <= set(points)


def test_a_release(drill: Drill) -> None:
    def before() -> Place:
        place = drill.place()
        claim(place).json()
        return place

    def release(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "release", "--yes", "-o", "json", **options)

    def check(place: Place, point: str) -> None:
        was_active = bool(drill.active())
        (state,) = drill.truthful(place).values()
        assert state == ("active" if was_active else "released"), point
        if was_active:
            assert release(place).code == 0
        assert drill.active() == []

    points = visit(drill, before, release, check)
    assert needed("commit intent", f"send {RELEASE}", f"receive {RELEASE}", "commit package") <= set(points)


CLAIM = "POST /v1/projects/*/work-packages"
RENEW = "POST /v1/work-packages/*/renewals"
SUBMIT = "POST /v1/work-packages/*/submissions"
RELEASE = "PATCH /v1/work-packages/*"


def needed(*names: str) -> set[str]:
    """Points that must be among the recorded ones, or the recorder is blind."""
    return {f"{side} {name}" for name in names for side in ("before", "after")}


async def with_journal(place: Place, act: Callable[[Journal], Awaitable[T]]) -> T:
    """Do something with an operator's journal in this process."""
    journal = Journal(place.journal)
    try:
        return await act(journal)
    finally:
        await journal.aclose()


def kept(place: Place) -> tuple[list[Receipt], list[Draft]]:
    """Receipts and drafts of an operator."""

    async def both(journal: Journal) -> tuple[list[Receipt], list[Draft]]:
        return await journal.receipts(), await journal.drafts()

    return asyncio.run(with_journal(place, both))
