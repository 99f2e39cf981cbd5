"""Lost answers, stored failures and dead processes: one package, one result, nothing hidden (hazards 2 and 4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.failures import ApiProblem, Unreachable
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases import recovery
from expb_tui.core.leases.model import LeaseState, Unresolved
from tests.support.desk import AGENT, Home, MovingClock, at_home
from tests.support.loopback import FaultyWay, Reply, Request, once, posts, problem
from tests.support.server import LocalServer

ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def through(folder: Path, server: LocalServer, **options: Any) -> AsyncIterator[tuple[FaultyWay, Home]]:
    """A home whose agent reaches the server by a way that tests can break."""
    async with (
        FaultyWay(server.address).running() as way,
        at_home(folder, server, endpoint=way.url, **options) as home,
    ):
        yield way, home


def packages_of(server: LocalServer) -> list[dict[str, Any]]:
    """The agent's active packages, as the server has them."""
    with server.client(server.agent_token) as http:
        items = http.get(f"/v1/projects/{server.project_id}/work-packages").json()["items"]
    return [item for item in items if item["status"]["phase"] == "active"]


def stored(where: Callable[[Request], bool], status: int) -> Callable[[Request], str | Reply]:
    """A server that keeps its first failure under the key, as upstream does, whatever it was."""
    failed: set[str] = set()

    def fault(request: Request) -> str | Reply:
        if not where(request) or (failed and request.key not in failed):
            return "pass"
        failed.add(request.key)
        return problem(status, "unavailable", retry_after="0")

    return fault


async def test_a_claim_that_never_arrived_is_repeated_with_its_key(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), "drop", times=2)
        held = await home.claim(home.session())
        assert held.state is LeaseState.ACTIVE
        assert len({request.key for request in way.seen("POST", "work-packages")}) == 1
        assert len(packages_of(server)) == 1


@pytest.mark.parametrize("verdict", ["lose", "cut"])
async def test_a_claim_whose_answer_is_lost_is_shown_as_token_lost(
    tmp_path: Path, server: LocalServer, verdict: str
) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), verdict)
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert outcome.kind == "token-lost"
        (listed,) = await home.desk.held()
        assert listed.state is LeaseState.TOKEN_LOST
        assert listed.remaining(home.desk.clock) > 800
        assert "withdraw" in listed.next_step
        assert [item["metadata"]["uid"] for item in packages_of(server)] == [listed.uid]
        assert await home.desk.pending() == []


async def test_a_busy_server_that_recovers_gives_one_package(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), problem(503, "unavailable", retry_after="0"))
        await home.claim(home.session())
        keys = [request.key for request in way.seen("POST", "work-packages")]
        assert len(keys) == 2
        assert len(set(keys)) == 1
        assert len(packages_of(server)) == 1


@pytest.mark.parametrize("status", [503, 500, 429])
async def test_a_stored_failure_is_left_behind_with_a_fresh_key(
    tmp_path: Path, server: LocalServer, status: int
) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = stored(posts("work-packages"), status)
        session = home.session()
        held = await home.claim(session)
        keys = [request.key for request in way.seen("POST", "work-packages")]
        assert keys[0] == keys[1] != keys[2]
        assert len(packages_of(server)) == 1
        way.fault = stored(posts("submissions"), status)
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert done.kind == "submitted"
        keys = [request.key for request in way.seen("POST", "submissions")]
        assert keys[0] == keys[1] != keys[2]


async def test_a_busy_server_that_stays_busy_is_an_error_and_settled(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server, patience=0.5) as (way, home):
        way.fault = once(posts("work-packages"), problem(503, "unavailable"), times=99)
        with pytest.raises(ApiProblem) as caught:
            await home.desk.request(home.session(), server.project_id, "ideator")
        assert caught.value.status == 503
        assert await home.desk.pending() == []
        assert packages_of(server) == []


@pytest.mark.parametrize(
    ("reply", "code", "wait"),
    [
        (problem(429, "rate-limited", retry_after="30"), "rate-limited", 30.0),
        (problem(429, "rate-limited"), "rate-limited", 60.0),
        (problem(409, "project-inactive"), "project-inactive", None),
        (problem(409, "limit-exceeded"), "limit-exceeded", None),
    ],
)
async def test_cannot_assign_now_is_no_work_and_asked_once(
    tmp_path: Path, server: LocalServer, reply: Reply, code: str, wait: float | None
) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), reply, times=99)
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert (outcome.kind, outcome.code, outcome.retry_after) == ("refused", code, wait)
        assert outcome.why
        assert len(way.seen("POST", "work-packages")) == 1
        assert await home.desk.pending() == []


async def test_the_limit_is_named(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        body = {"status": 409, "code": "limit-exceeded", "fields": {"limit": "agent-active-packages"}}
        way.fault = once(posts("work-packages"), Reply(409, body, {"content-type": "application/problem+json"}))
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert outcome.why == "A limit is reached: agent-active-packages"


async def test_a_lost_submission_is_confirmed_by_the_same_key(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        session = home.session()
        held = await home.claim(session)
        way.fault = once(posts("submissions"), "lose")
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert (done.kind, done.receipt.confirmed_by) == ("submitted", "answer")
        assert len({request.key for request in way.seen("POST", "submissions")}) == 1


async def test_a_submission_whose_answers_are_all_lost_is_confirmed_by_reading(
    tmp_path: Path, server: LocalServer
) -> None:
    async with through(tmp_path, server, patience=1.0) as (way, home):
        session = home.session()
        held = await home.claim(session)
        way.fault = once(posts("submissions"), "lose", times=99)
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert (done.kind, done.receipt.confirmed_by) == ("already", "reading")
        assert done.receipt.record_id
        assert done.held.state is LeaseState.COMPLETED


async def test_a_lost_failure_report_is_confirmed_by_reading(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server, patience=1.0) as (way, home):
        session = home.session()
        held = await home.claim(session)
        way.fault = once(posts("submissions"), "lose", times=99)
        body = {"taskId": held.tasks[0].task_id, "outcome": "failed", "reason": "The rig is down."}
        done = await home.desk.submit(session, held.uid, body)
        assert (done.kind, done.receipt.outcome) == ("already", "failed")


async def test_another_output_under_the_task_is_not_taken_for_ours(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server, patience=1.0) as (_, home):
        session = home.session()
        held = await home.claim(session)
        saved = home.body(held)
        saved["output"]["hypothesis"]["statement"] = "Something else."
        async with at_home(tmp_path / "elsewhere", server) as other:
            row = await home.journal.package(held.uid)
            assert row is not None
            assert row.token is not None
            answer = {"resource": {"metadata": {"uid": held.uid}}, "leaseToken": row.token.get_secret_value()}
            await other.desk.adopt(other.session(), answer)
            await other.desk.submit(other.session(), held.uid, saved)
        with pytest.raises(Exception, match="is closed") as caught:
            await home.desk.submit(session, held.uid, home.body(held))
        assert getattr(caught.value, "code", "") == "task-closed"
        assert await home.desk.receipts() == []
        assert await home.desk.pending() == []


async def test_a_server_that_is_not_there_is_an_error_and_nothing_is_pending(
    tmp_path: Path, server: LocalServer
) -> None:
    async with through(tmp_path, server, patience=0.5) as (_, home):
        session = home.session()
        held = await home.claim(session)
        server.stop()
        home.store.put(replace(home.store.select(AGENT), endpoint="http://127.0.0.1:9"))
        gone = home.session()
        with pytest.raises(Unreachable) as caught:
            await home.desk.request(gone, server.project_id, "ideator")
        assert caught.value.code == "refused"
        assert await home.desk.pending() == []
        (listed,) = await home.desk.held()
        assert listed.uid == held.uid


async def test_what_is_not_known_is_said_and_settled_later(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server, patience=0.5) as (way, home):
        session = home.session()
        await session.principal()
        way.fault = lambda request: "lose" if "work-packages" in request.path else "pass"
        with pytest.raises(Unresolved):
            await home.desk.request(session, server.project_id, "ideator")
        (pending,) = await home.desk.pending()
        assert (pending.kind, pending.role, pending.waiting) == ("claim", "ideator", False)
        way.fault = lambda request: "pass"
        (found,) = await home.desk.resolve(session)
        assert found.state is LeaseState.TOKEN_LOST
        assert await home.desk.pending() == []
        assert len(packages_of(server)) == 1


async def test_a_fault_of_ours_in_settling_one_request_hides_neither_others_nor_the_list(
    tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with through(tmp_path, server, patience=0.5) as (way, home):
        session = home.session()
        await session.principal()
        way.fault = lambda request: "lose" if "work-packages" in request.path else "pass"
        with pytest.raises(Unresolved):
            await home.desk.request(session, server.project_id, "ideator")
        way.fault = lambda request: "pass"
        with monkeypatch.context() as broken:
            broken.setattr(recovery, "_settle", lambda *_, **__: 1 / 0)
            assert await home.desk.resolve(session) == []
        (pending,) = await home.desk.pending()
        assert not pending.waiting
        (found,) = await home.desk.resolve(session)
        assert found.state is LeaseState.TOKEN_LOST


def lists(request: Request) -> bool:
    return request.method == "GET" and request.path.endswith("/work-packages")


def reads(request: Request) -> bool:
    return request.method == "GET" and "/work-packages/" in request.path


@pytest.mark.parametrize(
    ("looking", "arrives"),
    [(problem(503, "unavailable"), True), (problem(404, "not-found"), False), (Reply(404, b"no route"), True)],
)
async def test_a_look_that_fails_says_nothing_about_the_claim(
    tmp_path: Path, server: LocalServer, looking: Reply, arrives: bool
) -> None:
    async with through(tmp_path, server, patience=1.5) as (way, home):
        gone = replace(problem(502, "bad-gateway", retry_after="0"), arrives=arrives)
        way.fault = lambda request: gone if posts("work-packages")(request) else looking if lists(request) else "pass"
        session = home.session()
        with pytest.raises(Unresolved) as caught:
            await home.desk.request(session, server.project_id, "ideator")
        assert "502 bad-gateway" in caught.value.cause
        assert "GET" not in str(caught.value)
        assert len({request.key for request in way.seen("POST", "work-packages")}) == 1
        (pending,) = await home.desk.pending()
        assert (pending.kind, pending.waiting) == ("claim", False)
        way.fault = lambda request: "pass"
        (found,) = await home.desk.resolve(session)
        assert found.state is (LeaseState.TOKEN_LOST if arrives else LeaseState.ACTIVE)
        assert len(packages_of(server)) == 1


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("refusal", [problem(502, "bad-gateway", retry_after="0"), problem(409, "task-closed")])
async def test_a_read_that_fails_says_nothing_about_the_submission(
    tmp_path: Path, server: LocalServer, refusal: Reply, arrives: bool
) -> None:
    async with through(tmp_path, server, patience=1.5) as (way, home):
        session = home.session()
        held = await home.claim(session)
        first = once(posts("submissions"), replace(problem(502, "bad-gateway", retry_after="0"), arrives=arrives))

        def fault(request: Request) -> str | Reply:
            if reads(request):
                return problem(404, "not-found")
            verdict = first(request)
            return refusal if verdict == "pass" and posts("submissions")(request) else verdict

        way.fault = fault
        with pytest.raises(Unresolved) as caught:
            await home.desk.submit(session, held.uid, home.body(held))
        assert re.match(r"Refused with \d{3} .*/submissions", caught.value.cause)
        (pending,) = await home.desk.pending()
        assert (pending.kind, pending.waiting) == ("submit", False)
        way.fault = lambda request: "pass"
        (settled,) = await home.desk.resolve(session)
        assert settled.state is LeaseState.COMPLETED
        assert len(await home.desk.receipts()) == 1


async def test_a_refused_submission_whose_package_cannot_be_read_is_refused(
    tmp_path: Path, server: LocalServer
) -> None:
    async with through(tmp_path, server) as (way, home):
        session = home.session()
        held = await home.claim(session)
        closed = problem(409, "task-closed")
        way.fault = lambda request: closed if posts("submissions")(request) else "drop" if reads(request) else "pass"
        with pytest.raises(ApiProblem) as caught:
            await home.desk.submit(session, held.uid, home.body(held))
        assert caught.value.code == "task-closed"
        assert await home.desk.pending() == []


async def test_a_refusal_after_a_lost_answer_is_looked_into(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        lost = once(posts("work-packages"), replace(problem(502, "bad-gateway", retry_after="0"), arrives=True))
        full = problem(409, "limit-exceeded")

        def fault(request: Request) -> str | Reply:
            verdict = lost(request)
            return full if verdict == "pass" and posts("work-packages")(request) else verdict

        way.fault = fault
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert outcome.kind == "token-lost"
        assert len(packages_of(server)) == 1


async def test_too_many_requests_needs_no_look(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        busy = problem(429, "rate-limited", retry_after="0")
        way.fault = once(posts("work-packages"), busy, times=3)
        await home.claim(home.session())
        assert len({request.key for request in way.seen("POST", "work-packages")}) == 2
        assert not way.seen("GET", "work-packages")


async def test_a_release_without_an_answer_is_looked_up_later(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        session = home.session()
        held = await home.claim(session)

        def fault(request: Request) -> str | Reply:
            sent = bool(way.seen("PATCH", held.uid))
            return "lose" if request.method == "PATCH" else "drop" if sent and reads(request) else "pass"

        way.fault = fault
        with pytest.raises(Unresolved):
            await home.desk.release(session, held.uid)
        way.fault = lambda request: "pass"
        (settled,) = await home.desk.resolve(session)
        assert settled.state is LeaseState.RELEASED


def fill_up(home: Home) -> None:
    """From now on the journal cannot grow, whatever is given up."""
    connection = home.journal._door._writing.connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.parametrize("released", [True, False])
async def test_a_claim_that_cannot_be_saved_is_given_back(tmp_path: Path, server: LocalServer, released: bool) -> None:
    async with through(tmp_path, server) as (way, home):

        def fault(request: Request) -> str | Reply:
            if posts("work-packages")(request):
                fill_up(home)
            return "drop" if request.method == "PATCH" and not released else "pass"

        way.fault = fault
        with pytest.raises(ExpbError) as caught:
            await home.desk.request(home.session(), server.project_id, "ideator")
        assert caught.value.code == "claim-not-saved"
        assert ("neither" in caught.value.what) is not released
        assert len(packages_of(server)) == (0 if released else 1)
        assert await home.desk.held() == []


CLAIM = """
import asyncio, sys
from pathlib import Path
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore
from tests.support.desk import AGENT, SETTINGS

async def main():
    folder = Path(sys.argv[1])
    store = ProfileStore(folder / "config" / "profiles.json")
    desk = Desk(Journal(folder / "state" / "journal.db"), store)
    session = Session.open(store, profile=AGENT, settings=SETTINGS)
    if sys.argv[3] == "claim":
        await desk.request(session, sys.argv[2], "ideator")
    else:
        (held,) = await desk.held()
        import json
        await desk.submit(session, held.uid, json.loads(sys.argv[3]))

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def other_process(home: Home, way: FaultyWay, act: str, ending: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A process of the same home whose request has reached the way."""
    child = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(home.folder), home.server.project_id, act],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        async with asyncio.timeout(20):
            while not way.seen("POST", ending):
                assert child.poll() is None
                await asyncio.sleep(0.02)
        yield child
    finally:
        child.kill()
        child.wait()


async def test_nobody_touches_the_request_of_a_living_process_and_an_old_one_claims_nothing(
    tmp_path: Path, server: LocalServer
) -> None:
    clock = MovingClock()
    async with through(tmp_path, server, clock=clock) as (way, home):
        way.fault = lambda request: "hold" if posts("work-packages")(request) else "pass"
        async with other_process(home, way, "claim", "work-packages") as child:
            session = home.session()
            assert await home.desk.resolve(session) == []
            (pending,) = await home.desk.pending()
            assert pending.waiting
            child.send_signal(signal.SIGKILL)
            child.wait()
        (pending,) = await home.desk.pending()
        assert not pending.waiting
        clock.ahead = 3600.0
        sent = len(way.seen("POST", "work-packages"))
        assert await home.desk.resolve(session) == []
        assert len(way.seen("POST", "work-packages")) == sent
        assert packages_of(server) == []
        assert await home.desk.pending() == []


async def test_a_fresh_request_of_a_dead_process_is_replayed_with_its_key(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), "hold")
        async with other_process(home, way, "claim", "work-packages"):
            pass
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert outcome.kind == "assigned"
        assert len({request.key for request in way.seen("POST", "work-packages")}) == 1
        assert len(packages_of(server)) == 1


@pytest.mark.parametrize("later", [0.0, 150.0])
async def test_a_package_of_a_dead_process_is_found_without_its_token(
    tmp_path: Path, server: LocalServer, later: float
) -> None:
    clock = MovingClock()
    async with through(tmp_path, server, clock=clock) as (way, home):
        way.fault = once(posts("work-packages"), "withhold")
        async with other_process(home, way, "claim", "work-packages"):
            async with asyncio.timeout(10):
                while not packages_of(server):
                    await asyncio.sleep(0.02)
        clock.ahead = later
        sent = len(way.seen("POST", "work-packages"))
        (found,) = await home.desk.resolve(home.session())
        assert found.state is LeaseState.TOKEN_LOST
        assert found.uid == packages_of(server)[0]["metadata"]["uid"]
        assert len(way.seen("POST", "work-packages")) - sent == (0 if later else 1)


async def test_a_stored_answer_is_not_believed_about_the_present(tmp_path: Path, server: LocalServer) -> None:
    async with through(tmp_path, server) as (way, home):
        way.fault = once(posts("work-packages"), "withhold")
        async with other_process(home, way, "claim", "work-packages"):
            async with asyncio.timeout(10):
                while not packages_of(server):
                    await asyncio.sleep(0.02)
        server.pass_time(1000)
        assert await home.desk.resolve(home.session()) == []
        assert await home.desk.held() == []
        assert await home.desk.pending() == []


@pytest.mark.parametrize("later", [0.0, 600.0])
async def test_a_submission_of_a_dead_process_gets_its_receipt(
    tmp_path: Path, server: LocalServer, later: float
) -> None:
    clock = MovingClock()
    async with through(tmp_path, server, clock=clock) as (way, home):
        session = home.session()
        held = await home.claim(session)
        way.fault = once(posts("submissions"), "withhold")
        async with other_process(home, way, json.dumps(home.body(held)), "submissions"):
            async with asyncio.timeout(10):
                while packages_of(server):
                    await asyncio.sleep(0.02)
        clock.ahead = later
        (found,) = await home.desk.resolve(session)
        assert found.state is LeaseState.COMPLETED
        (receipt,) = await home.desk.receipts()
        assert receipt.confirmed_by == ("reading" if later else "answer")
        assert receipt.record_id
