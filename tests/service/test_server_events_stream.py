"""Live events: who gets which, in what order, and until when (contract, section 6.2.9; hazards 15)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, select
from sqlalchemy.exc import OperationalError

from expb_tui.server.config import RequestLimits
from expb_tui.server.context import Unit
from expb_tui.server.events import events_after, last_event_id, prune_events, record_event
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.identity.people import create_user
from expb_tui.server.store.database import Database
from expb_tui.server.store.research_tables import event_log
from expb_tui.server.store.schema import project_memberships, sessions
from expb_tui.wire.work import ROLES
from tests.support.api import Api, problem
from tests.support.research import Lab
from tests.support.server import LocalServer, ServerFactory
from tests.support.stream import EventReader, is_about, is_end


@pytest.fixture
def token(server: LocalServer) -> str:
    return str(server.sign_in()["access_token"])


def claim(server: LocalServer, role: str = "ideator") -> tuple[str, str]:
    """A package's uid and the request's id."""
    with Api(server, server.agent_token) as agent:
        answer = agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": role})
        assert answer.status_code == 201, answer.text
        return answer.json()["resource"]["metadata"]["uid"], answer.headers["x-request-id"]


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


async def test_a_claim_is_news_for_the_members_of_its_project(server: LocalServer, token: str) -> None:
    async with EventReader(server, token) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        first = await stream.frame()
        assert first is not None
        assert first.comment == "open"
        uid, request_id = await in_thread(claim, server)
        frame = await stream.next_event()
        assert frame is not None
        assert frame.event == "invalidate"
        assert frame.data == {
            "api_version": "exp-bench.sre-norns.com/v1",
            "kind": "work-packages",
            "uid": uid,
            "account_id": server.account_id,
            "project_id": server.project_id,
            "version": 1,
            "action": "create",
            "request_id": request_id,
        }
        assert frame.id is not None
        assert frame.id.isdigit()


async def test_agents_get_403_and_foreign_projects_404(server: LocalServer, token: str) -> None:
    async with EventReader(server, server.agent_token) as stream:
        assert stream.status == 403
    async with EventReader(server, token, project_id=server.agent_id) as stream:
        assert stream.status == 404
    async with EventReader(server, token, bogus="1") as stream:
        assert stream.status == 400


async def test_events_of_one_project_only(server: LocalServer, token: str) -> None:
    with Api(server, token) as owner:
        other = next(item for item in owner.items("/v1/projects") if item["metadata"]["name"] == "search-relevance")
        async with EventReader(server, token, project_id=server.project_id) as stream:
            await stream.frame()
            owner.patch(f"/v1/projects/{other['metadata']['uid']}", {"spec": {"description": "new"}})
            uid, _ = await in_thread(claim, server)
            kinds = [frame.data["kind"] for frame in await stream.until(is_about(uid))]
    assert kinds == ["work-packages"]


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(server: LocalServer, token: str) -> None:
    async with EventReader(server, token) as stream:
        await stream.frame()
        await in_thread(claim, server)
        seen = await stream.next_event()
    assert seen is not None
    missed = [(await in_thread(claim, server, role))[0] for role in ("hypothesis-reviewer", "integrator")]
    async with EventReader(server, token, last_id=seen.id) as stream:
        frames = await stream.until(is_about(missed[-1]))
    assert [frame.data["uid"] for frame in frames if frame.data["kind"] == "work-packages"] == missed
    numbers = [int(frame.id or 0) for frame in frames]
    assert numbers == sorted(numbers)
    assert numbers[0] > int(seen.id or 0)


@pytest.mark.parametrize("last_id", ["999999999", "0", "-1", "soon", "9" * 40])
async def test_an_unknown_place_is_answered_by_reset(server: LocalServer, token: str, last_id: str) -> None:
    async with EventReader(server, token, last_id=last_id) as stream:
        first = await stream.frame()
        assert first is not None
        assert (first.event, first.data, first.id) == ("reset", {}, None)
        uid, _ = await in_thread(claim, server)
        frame = await stream.next_event()
        assert frame is not None
        assert frame.data["uid"] == uid


async def test_a_pruned_place_and_another_accounts_are_unknown(server: LocalServer, token: str) -> None:
    database = server.services.database
    with database.write() as conn:
        unit = Unit(conn, database)
        create_account(unit, create_user(unit, email="eve@example.test", password_hash="-").id, name="Elsewhere")
    await in_thread(claim, server)
    with database.write() as conn:
        foreign = conn.execute(select(event_log.c.id).where(event_log.c.account_id != server.account_id)).scalars()
        places = [str(foreign.first()), str(last_event_id(conn, server.account_id))]
        assert prune_events(conn, database.clock(conn) + timedelta(seconds=1), 10_000) > 2
    await in_thread(claim, server, "integrator")
    for place in places:
        async with EventReader(server, token, last_id=place) as stream:
            first = await stream.frame()
            assert first is not None
            assert first.event == "reset"


async def test_a_revoked_session_ends_in_mid_stream(server: LocalServer, token: str) -> None:
    async with EventReader(server, token) as stream:
        await stream.frame()
        await in_thread(claim, server)
        assert await stream.next_event() is not None
        with server.services.database.write() as conn:
            conn.execute(sessions.update().values(phase="revoked"))
        await in_thread(claim, server, "integrator")
        frames = await stream.until(is_end)
        assert [frame.event for frame in frames] == ["end"]
        assert await stream.frame() is None


async def test_a_lost_membership_hides_events_and_replays(server: LocalServer, token: str) -> None:
    async with EventReader(server, token) as stream, EventReader(server, token, project_id=server.project_id) as narrow:
        await stream.frame()
        await narrow.frame()
        await in_thread(claim, server)
        seen = await stream.next_event()
        assert await narrow.next_event() is not None
        with server.services.database.write() as conn:
            conn.execute(delete(project_memberships).where(project_memberships.c.project_id == server.project_id))
        await in_thread(claim, server, "integrator")
        assert [frame.event for frame in await narrow.until(is_end)] == ["end"]
        assert await stream.is_quiet()
    assert seen is not None
    async with EventReader(server, token, last_id=seen.id) as stream:
        assert await stream.is_quiet()


async def test_comments_keep_a_quiet_stream_alive_and_find_a_revoked_session(server_factory: ServerFactory) -> None:
    server = server_factory(event_heartbeat_seconds=0.3)
    token = server.sign_in()["access_token"]
    async with EventReader(server, token) as stream:
        await stream.frame()
        for _ in range(2):
            beat = await stream.frame()
            assert beat is not None
            assert beat.comment == "still here"
        with server.services.database.write() as conn:
            conn.execute(sessions.update().values(phase="revoked"))
        end = await stream.next_event()
        assert end is not None
        assert end.event == "end"


async def test_a_stream_ends_when_its_time_is_over_and_with_the_server(server_factory: ServerFactory) -> None:
    server = server_factory(event_stream_seconds=0.5)
    token = server.sign_in()["access_token"]
    async with EventReader(server, token) as stream:
        await stream.frame()
        assert [frame.event for frame in await stream.until(is_end)] == ["end"]
    lasting = server_factory()
    token = lasting.sign_in()["access_token"]
    async with EventReader(lasting, token) as stream:
        await stream.frame()
        await in_thread(lasting.running.stop)
        assert [frame.event for frame in await stream.until(is_end)] == ["end"]


async def test_a_stream_whose_database_is_away_is_closed_without_an_end(
    server: LocalServer, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("SELECT 1", None, Exception("gone"))

    async with EventReader(server, token) as stream:
        await stream.frame()
        monkeypatch.setattr("expb_tui.server.event_stream.session_authority", away)
        await in_thread(claim, server)
        assert await stream.next_event() is None
    monkeypatch.undo()
    async with EventReader(server, token) as stream:
        assert stream.status == 200


async def test_more_events_than_one_look_takes_are_all_sent(server: LocalServer, token: str) -> None:
    database = server.services.database
    async with EventReader(server, token) as stream:
        await stream.frame()
        with database.write() as conn:
            for number in range(250):
                project = {"account_id": server.account_id, "project_id": server.project_id}
                record_event(conn, kind="results", uid=f"r-{number}", version=1, action="update", **project)
        frames = await stream.until(is_about("r-249"))
    assert [frame.data["uid"] for frame in frames] == [f"r-{number}" for number in range(250)]


async def test_a_session_has_ten_streams(server: LocalServer, token: str) -> None:
    streams = [await EventReader(server, token).__aenter__() for _ in range(10)]
    assert {stream.status for stream in streams} == {200}
    async with EventReader(server, token) as refused:
        assert refused.status == 429
        assert refused.headers["retry-after"] == "15"
    await streams.pop().__aexit__(None, None, None)
    await asyncio.sleep(0.2)
    async with EventReader(server, token) as again:
        assert again.status == 200
    for stream in streams:
        await stream.__aexit__(None, None, None)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_two_hundred_streams_while_claiming(
    kind: str, server_factory: ServerFactory, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else None
    server = server_factory(database=url, limits=RequestLimits(oauth_per_minute=100_000))
    tokens = [server.sign_in()["access_token"] for _ in range(20)]
    streams = await asyncio.gather(*(EventReader(server, token).__aenter__() for token in tokens for _ in range(10)))
    assert {stream.status for stream in streams} == {200}
    started = time.monotonic()
    expected = [(await in_thread(claim, server, role))[0] for role in ROLES]
    assert time.monotonic() - started < 15, "claims are not kept waiting by the streams"
    found = await asyncio.gather(*(stream.until(is_about(expected[-1]), 30) for stream in streams))
    for frames in found:
        assert [frame.data["uid"] for frame in frames if frame.data["kind"] == "work-packages"] == expected
    for stream in streams:
        await stream.__aexit__(None, None, None)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_reader_misses_an_event_whose_commit_was_late(
    kind: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path / 'x.sqlite'}"
    lab = Lab.open(url, workers=12)
    database: Database = lab.database

    @event.listens_for(database.engine, "commit")
    def _dawdle(_conn: Connection) -> None:
        time.sleep(random.Random().uniform(0, 0.008))

    def write(number: int) -> None:
        for index in range(15):
            with database.write() as conn:
                record_event(conn, kind="results", uid=f"{number}-{index}", account_id=lab.account_id, version=1)

    with database.read() as conn:
        place = last_event_id(conn, lab.account_id)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    seen: list[str] = []
    while len(seen) < 120:
        busy = any(writer.is_alive() for writer in writers)
        with database.read() as conn:
            found = events_after(conn, lab.account_id, place, 100)
        seen += [entry.uid for entry in found]
        place = found[-1].id if found else place
        if not found and not busy:
            break
    for writer in writers:
        writer.join()
    database.close()
    assert len(seen) == len(set(seen)) == 120


def test_streams_are_refused_without_a_bearer(server: LocalServer) -> None:
    with server.client() as http:
        problem(http.get("/v1/events"), 401, "unauthenticated")
