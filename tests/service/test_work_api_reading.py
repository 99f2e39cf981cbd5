"""The work API read tolerantly: routes, spellings, places of the token, empty packages (contract, 6.2.2, 6.2.3, 7)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.failures import ApiProblem, BadAnswer
from expb_tui.core.api.work import WorkApi
from expb_tui.core.clock import SYSTEM_CLOCK
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.credentials import Credentials
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.schema import Pin
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, SETTINGS
from tests.support.loopback import Handler, Loopback, Reply, Request, problem

ENVELOPE: dict[str, Any] = {
    "apiVersion": "exp-bench.sre-norns.com/v1",
    "kind": "work-packages",
    "metadata": {"uid": "wp-1", "name": "wp-1", "project": "prj-1", "version": 3},
    "spec": {"role": "experimenter", "agentId": "agt-1", "maxTasks": 1},
    "status": {
        "phase": "active",
        "lease": {"expiresAt": "2026-10-05T11:15:00+02:00", "leaseSeconds": 900, "renewals": 1},
        "tasks": [{"taskId": "task-1", "role": "experimenter", "phase": "assigned", "input": {}}],
    },
}
SNAKE: dict[str, Any] = {
    "api_version": "exp-bench.sre-norns.com/v1",
    "kind": "work-packages",
    "metadata": {"uid": "wp-1", "version": 3, "creation_timestamp": "2026-10-05T09:00:00.25Z"},
    "spec": {"role": "experimenter", "agent_id": "agt-1"},
    "status": {
        "phase": "active",
        "lease": {"expires_at": "2026-10-05T09:15:00Z", "lease_seconds": 900},
        "tasks": [{"task_id": "task-1", "phase": "assigned"}],
    },
}
FLAT: dict[str, Any] = {
    "id": "wp-1",
    "project_id": "prj-1",
    "role": "experimenter",
    "status": "active",
    "revision": 3,
    "lease": {"expires_at": "2026-10-05T09:15:00Z", "lease_seconds": 900},
    "tasks": [{"task_id": "task-1", "phase": "assigned"}],
}


@contextlib.asynccontextmanager
async def talking(folder: Path, handler: Handler) -> AsyncIterator[tuple[Loopback, Session]]:
    async with Loopback(handler).running() as server:
        store = ProfileStore(folder / "profiles.json")
        store.put(Profile(AGENT, "agent", endpoint=server.url, account_id="a", agent_id="b", token=SecretStr("t")))
        session = Session.open(store, profile=AGENT, settings=SETTINGS)
        try:
            yield server, session
        finally:
            await session.aclose()


def always(reply: Reply) -> Handler:
    async def handler(request: Request) -> Reply:
        return reply

    return handler


@pytest.mark.parametrize(
    "body",
    [
        {"resource": ENVELOPE, "leaseToken": "the-token"},
        {"resource": ENVELOPE, "lease_token": "the-token"},
        {"resource": ENVELOPE, "token": "the-token"},
        {"resource": ENVELOPE, "leaseToken": "the-token", "token": "another"},
        {"resource": ENVELOPE | {"leaseToken": "the-token"}},
        {"package": ENVELOPE | {"lease_token": "the-token"}},
        {"package": ENVELOPE, "leaseToken": "the-token"},
        ENVELOPE | {"token": "the-token"},
        {"resource": SNAKE, "leaseToken": "the-token"},
        {"resource": FLAT, "leaseToken": "the-token"},
        FLAT | {"lease_token": "the-token"},
        {"resource": ENVELOPE | {"novelty": {"x": 1}}, "leaseToken": "the-token", "more": []},
    ],
    ids=range(12),
)
async def test_a_claim_is_understood_wherever_the_token_stands(tmp_path: Path, body: dict[str, Any]) -> None:
    async with talking(tmp_path, always(Reply(201, body, {"etag": '"3"'}))) as (server, session):
        found = await WorkApi().claim(session, "prj-1", "experimenter", 2, key="key-1")
        assert found.token == SecretStr("the-token")
        assert found.package is not None
        assert (found.package.uid, found.version, found.package.status.phase) == ("wp-1", 3, "active")
        assert found.package.status.lease is not None
        assert found.package.status.lease.expires_at.isoformat() == "2026-10-05T09:15:00+00:00"
        assert [task.task_id for task in found.package.status.tasks] == ["task-1"]
        assert "the-token" not in str(found.document)
        assert "the-token" not in repr(found)
        assert found.raw == body
        (sent,) = server.requests
        assert sent.path == "/v1/projects/prj-1/work-packages"
        assert sent.body == {"project_id": "prj-1", "role": "experimenter", "max_tasks": 2}
        assert sent.key == "key-1"


async def test_numbers_beyond_all_measure_say_nothing_and_cost_no_token(tmp_path: Path) -> None:
    lease = {"expiresAt": "2026-10-05T11:15:00+02:00", "leaseSeconds": 10**30, "renewals": 2**70}
    body = ENVELOPE | {
        "metadata": {"uid": "wp-1", "version": 2**70},
        "status": {**ENVELOPE["status"], "lease": lease},
        "leaseToken": "the-token",
    }
    store, journal = ProfileStore(tmp_path / "profiles.json"), Journal(tmp_path / "journal.db")
    context = Context(journal, Credentials(store), WorkApi(), SYSTEM_CLOCK, 1.0)
    async with talking(tmp_path, always(Reply(201, body))) as (_, session):
        answer = await context.api.claim(session, "prj-1", "experimenter", 1, key="key-1")
        row = await journal.merge(context.row_of(answer, Pin(session.endpoint, "a", "b", "", AGENT, "")))
    assert row.token == SecretStr("the-token")
    assert row.version == 0
    assert row.times is not None
    assert row.times.lease_seconds < 1e9
    await journal.aclose()


NO_TASKS = ENVELOPE | {"status": {"phase": "active", "tasks": []}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (204, None),
        (200, {"resource": None}),
        (200, {}),
        (200, {"resource": ENVELOPE | {"metadata": {"project": "prj-1"}}}),
        (200, {"resource": NO_TASKS}),
        (200, {"resource": {"metadata": {}, "status": {"phase": "empty", "tasks": []}, "spec": {}}}),
    ],
)
async def test_no_work_is_told_in_every_shape(tmp_path: Path, status: int, body: Any) -> None:
    async with talking(tmp_path, always(Reply(status, body))) as (_, session):
        found = await WorkApi().claim(session, "prj-1", "experimenter", 1, key="key-1")
        assert found.package is None
        assert found.token is None


async def test_tasks_or_a_token_alone_make_a_package(tmp_path: Path) -> None:
    async with talking(tmp_path, always(Reply(200, {"resource": ENVELOPE}))) as (_, session):
        assert (await WorkApi().claim(session, "p", "r", 1, key="k")).package is not None
    async with talking(tmp_path, always(Reply(200, {"resource": NO_TASKS, "leaseToken": "x"}))) as (_, session):
        assert (await WorkApi().claim(session, "p", "r", 1, key="k")).package is not None


@pytest.mark.parametrize(
    "body",
    [
        [1],
        "text",
        {"resource": {"metadata": {"uid": 3}}},
        {"resource": ENVELOPE | {"status": {"phase": "active", "lease": {"expiresAt": "soon"}}}},
        {"resource": ENVELOPE | {"status": {"tasks": "none"}}},
    ],
)
async def test_other_shapes_are_an_error_in_words(tmp_path: Path, body: Any) -> None:
    async with talking(tmp_path, always(Reply(200, body))) as (_, session):
        with pytest.raises(BadAnswer) as caught:
            await WorkApi().claim(session, "prj-1", "experimenter", 1, key="key-1")
        assert caught.value.code == "unexpected-shape"


@pytest.mark.parametrize("status", [201, 202])
async def test_created_without_a_package_is_no_empty_answer(tmp_path: Path, status: int) -> None:
    async with talking(tmp_path, always(Reply(status, {"resource": None}))) as (_, session):
        with pytest.raises(BadAnswer) as caught:
            await WorkApi().claim(session, "prj-1", "experimenter", 1, key="key-1")
        assert caught.value.outcome_unknown


async def test_an_answer_about_another_package_is_refused(tmp_path: Path) -> None:
    async with talking(tmp_path, always(Reply(200, {"resource": ENVELOPE}))) as (_, session):
        api, token = WorkApi(), SecretStr("t")
        for act, unknown in (
            (api.read(session, "wp-2"), False),
            (api.renew(session, "wp-2", token, key="k"), True),
            (api.release(session, "wp-2", token, version=3), True),
            (api.withdraw(session, "wp-2", version=3), True),
        ):
            with pytest.raises(BadAnswer, match="another package, wp-1") as caught:
                await act
            assert caught.value.outcome_unknown is unknown


async def test_the_alias_is_used_only_where_the_route_is_absent(tmp_path: Path) -> None:
    replies: dict[str, Reply] = {"/v1/work-packages": Reply(201, {"resource": ENVELOPE, "leaseToken": "x"})}

    async def handler(request: Request) -> Reply:
        return replies[request.path]

    async with talking(tmp_path, handler) as (server, session):
        for absent in (Reply(404, b"404 page not found"), Reply(405, None), Reply(404, {"message": "no"})):
            replies["/v1/projects/prj-1/work-packages"] = absent
            found = await WorkApi().claim(session, "prj-1", "experimenter", 1, key="key-9")
            assert found.package is not None
        assert [request.path.count("projects") for request in server.requests] == [1, 0] * 3
        assert {request.key for request in server.requests} == {"key-9"}
        assert server.requests[1].body["project_id"] == "prj-1"
        for present in (problem(404, "not-found"), problem(405, "not-allowed"), problem(403, "forbidden")):
            replies["/v1/projects/prj-1/work-packages"] = present
            before = len(server.requests)
            with pytest.raises(ApiProblem):
                await WorkApi().claim(session, "prj-1", "experimenter", 1, key="key-9")
            assert len(server.requests) == before + 1


async def test_paths_and_lease_header_are_settings(tmp_path: Path) -> None:
    escaped = ENVELOPE | {"metadata": {"uid": "wp/1"}}
    async with talking(tmp_path, always(Reply(200, {"resource": escaped}))) as (server, session):
        api = WorkApi(lease_header="Lease-Token", routes={"renewals": "/v2/leases/{package}/extend"})
        await api.renew(session, "wp/1", SecretStr("the-token"), key="k")
        (sent,) = server.requests
        assert sent.path == "/v2/leases/wp%2F1/extend"
        assert sent.headers["lease-token"] == "the-token"
        assert "x-lease-token" not in sent.headers


async def test_a_release_names_its_version_and_sends_the_token_in_a_header_only(tmp_path: Path) -> None:
    async with talking(tmp_path, always(Reply(200, ENVELOPE))) as (server, session):
        await WorkApi().release(session, "wp-1", SecretStr("the-token"), version=3)
        (sent,) = server.requests
        assert (sent.method, sent.body) == ("PATCH", {"operation": "release"})
        assert sent.headers["if-match"] == '"3"'
        assert sent.headers["x-lease-token"] == "the-token"
        assert "the-token" not in sent.target


RECORD = {"kind": "results", "metadata": {"uid": "res-1"}}


@pytest.mark.parametrize(
    ("body", "record", "package"),
    [
        ({"resource": RECORD, "package": ENVELOPE}, ("results", "res-1"), True),
        ({"resource": RECORD}, ("results", "res-1"), False),
        ({"package": ENVELOPE}, ("", ""), True),
        ({"resource": ENVELOPE}, ("", ""), True),
        ({"resource": {"id": "res-1", "kind": "results"}}, ("results", "res-1"), False),
    ],
)
async def test_the_answer_to_a_submission_is_read_in_every_shape(
    tmp_path: Path, body: dict[str, Any], record: tuple[str, str], package: bool
) -> None:
    async with talking(tmp_path, always(Reply(201, body))) as (_, session):
        found = await WorkApi().submit(session, "wp-1", SecretStr("t"), {"taskId": "task-1"}, key="k")
        assert (found.record_kind, found.record_id) == record
        assert (found.package is not None) is package


async def test_opportunities_keep_what_they_cannot_read(tmp_path: Path) -> None:
    pages = {
        None: {"items": [{"project_id": "p", "role": "ideator", "available": 2, "later": 1}, {"role": 3}], "next": "c"},
        "c": {"items": [{"projectId": "q", "role": "integrator", "blockedBy": ["hold"]}], "total": 3},
    }

    async def handler(request: Request) -> Reply:
        return Reply(200, pages[request.query.get("cursor")])

    async with talking(tmp_path, handler) as (server, session):
        page = await WorkApi().opportunities(session, role="ideator", every=True, follow=True)
        assert [(item.project_id, item.available, item.blocked_by) for item in page.items] == [
            ("p", 2, ()),
            ("q", 0, ("hold",)),
        ]
        assert len(page.raw_items) == 3
        assert page.raw_items[0]["later"] == 1
        assert (page.total, page.next) == (3, None)
        assert server.requests[0].query == {"role": "ideator", "all": "true"}
        first = await WorkApi().opportunities(session, limit=1)
        assert first.next == "c"


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"items": None},
        {"items": [["x", {}]]},
        {"items": [ENVELOPE, 7]},
        {"items": [{"role": 3}]},
        {"items": [{"project_id": "p", "role": "ideator"}], "next": "same"},
    ],
    ids=str,
)
async def test_a_list_of_another_shape_or_without_an_end_is_no_empty_list(tmp_path: Path, body: Any) -> None:
    async with talking(tmp_path, always(Reply(200, body))) as (server, session):
        with pytest.raises(BadAnswer):
            await WorkApi().opportunities(session, follow=True)
        assert len(server.requests) <= 2


async def test_unreadable_packages_of_a_list_are_passed_over(tmp_path: Path) -> None:
    async with talking(tmp_path, always(Reply(200, {"items": [ENVELOPE, {"metadata": 3}, FLAT]}))) as (_, session):
        found = await WorkApi().packages(session, "prj-1")
        assert [answer.package.uid for answer in found if answer.package] == ["wp-1", "wp-1"]
