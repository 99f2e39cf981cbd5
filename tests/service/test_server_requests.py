"""What holds for every request: keys and replays, versions, media types, sizes, methods, and what is logged."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from expb_tui.server.routing import Operations
from expb_tui.server.store.schema import agent_tokens, credentials, idempotency_records
from tests.support.api import Api, envelope, problem
from tests.support.server import LocalServer, ServerFactory


@pytest.fixture
def owner(server: LocalServer) -> Iterator[Api]:
    with Api(server, server.sign_in()["access_token"]) as api:
        yield api


def agents(server: LocalServer) -> str:
    return f"/v1/accounts/{server.account_id}/agent-identities"


def tokens(server: LocalServer) -> str:
    return f"/v1/agent-identities/{server.agent_id}/tokens"


TOKEN = envelope("agent-identity-tokens")


# Idempotency


def test_a_replay_is_the_answer_without_its_secret(server: LocalServer, owner: Api) -> None:
    first = owner.post(tokens(server), TOKEN, key="k1")
    again = owner.post(
        tokens(server), {"spec": {}, **{key: TOKEN[key] for key in ("kind", "metadata", "apiVersion")}}, key="k1"
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["resource"] == again.json()["resource"]
    assert "token" in first.json()
    assert list(again.json()) == ["resource"]
    for header in ("etag", "location", "cache-control"):
        assert first.headers[header] == again.headers[header]
    assert first.headers["x-request-id"] != again.headers["x-request-id"]
    other = envelope("agent-identity-tokens", name="other")
    problem(owner.post(tokens(server), other, key="k1"), 409, "idempotency-conflict")
    assert owner.post(tokens(server), TOKEN, key="k2").json()["resource"] != first.json()["resource"]


def test_no_secret_is_stored(server: LocalServer, owner: Api) -> None:
    secret = owner.post(tokens(server), TOKEN).json()["token"]
    with server.services.database.read() as conn:
        rows = conn.execute(select(idempotency_records)).all()
        verifiers = conn.execute(select(credentials)).all()
    assert rows
    assert secret not in repr(rows)
    assert secret not in repr(verifiers)


def test_refusals_are_replayed_too(server: LocalServer, owner: Api) -> None:
    body = envelope("agent-identities", name="twice")
    owner.make(agents(server), body)
    first = problem_of(owner.post(agents(server), body, key="k1"), 409, "already-exists")
    uid = owner.items(agents(server), name="twice")[0]["metadata"]["uid"]
    assert owner.patch(f"/v1/agent-identities/{uid}", {"metadata": {"name": "renamed"}}).status_code == 200
    # The name is free now, but the key has had its answer.
    assert problem_of(owner.post(agents(server), body, key="k1"), 409, "already-exists") == first
    assert owner.post(agents(server), body, key="k2").status_code == 201
    shape = {**body, "spec": {"descripton": "typo"}}
    problem(owner.post(agents(server), shape, key="k3"), 422, "validation")
    problem(owner.post(agents(server), body, key="k3"), 409, "idempotency-conflict")


def problem_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The stored document; its request id is that of the first answer."""
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    return document


def test_a_key_is_per_credential_and_path(server: LocalServer, owner: Api) -> None:
    assert owner.post(tokens(server), TOKEN, key="same").status_code == 201
    assert owner.post(agents(server), envelope("agent-identities", name="other-path"), key="same").status_code == 201
    with Api(server, server.sign_in()["access_token"]) as other_session:
        assert "token" in other_session.post(tokens(server), TOKEN, key="same").json()


@pytest.mark.parametrize("key", [None, "k" * 201])
def test_a_key_is_required(server: LocalServer, owner: Api, key: str | None) -> None:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = owner.http.post(tokens(server), json=TOKEN, headers=headers)
    assert list(problem(answer, 422, "validation")) == ["Idempotency-Key"]


def test_refresh_does_not_change_whose_key_it_is(server: LocalServer) -> None:
    pair = server.sign_in()
    with Api(server, pair["access_token"]) as api:
        first = api.post(tokens(server), TOKEN, key="kept").json()
    form = {"client_id": "expbctl", "grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
    with server.client() as http:
        fresh = http.post("/oauth/token", data=form).json()["access_token"]
    with Api(server, fresh) as api:
        assert api.post(tokens(server), TOKEN, key="kept").json()["resource"] == first["resource"]


def test_concurrent_duplicates_make_one_record(either_server: LocalServer) -> None:
    server = either_server
    access = server.sign_in()["access_token"]
    barrier = threading.Barrier(12)

    def create(_: int) -> httpx.Response:
        with Api(server, access) as api:
            barrier.wait()
            return api.post(tokens(server), TOKEN, key="one")

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(create, range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["resource"]["metadata"]["uid"] for answer in answers}) == 1
    assert sum("token" in answer.json() for answer in answers) == 1


def test_concurrent_creates_of_one_name_leave_one(either_server: LocalServer) -> None:
    server = either_server
    access = server.sign_in()["access_token"]

    def create(number: int) -> int:
        with Api(server, access) as api:
            name = "Contested" if number % 2 else "contested"
            return api.post(agents(server), envelope("agent-identities", name=name)).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(8))) == [201] + [409] * 7


@pytest.mark.parametrize(("status", "returned"), [(401, False), (429, False), (429, True), (500, False), (503, True)])
def test_some_answers_are_never_stored(
    server_factory: ServerFactory, monkeypatch: pytest.MonkeyPatch, status: int, returned: bool
) -> None:
    from expb_tui.server import app
    from expb_tui.server.context import Answer, Call
    from expb_tui.server.problems import Problem
    from expb_tui.server.routing import Who

    extra = Operations("test")
    tries: list[int] = []

    class Module:
        operations = extra

    @extra.post("/v1/flaky", "flaky", "Fails once", who=Who.EITHER)
    def flaky(call: Call) -> Answer | Problem:
        tries.append(status)
        if len(tries) == 1:
            if status == 500:
                raise RuntimeError("a secret detail")
            if returned:
                return Problem(status, "no")
            raise Problem(status, "no")
        return Answer({"tries": len(tries)}, 201)

    monkeypatch.setattr(app, "MODULES", (*app.MODULES, Module))
    server = server_factory()
    with Api(server, server.agent_token) as api:
        first = api.post("/v1/flaky", None, key="k")
        assert first.status_code == status
        assert "secret detail" not in first.text
        assert api.post("/v1/flaky", None, key="k").json() == {"tries": 2}
        assert api.post("/v1/flaky", None, key="k").json() == {"tries": 2}


# Versions


def test_if_match(server: LocalServer, owner: Api) -> None:
    path = f"/v1/agent-identities/{server.agent_id}"
    edit = {"spec": {"description": "new"}}
    problem(owner.patch(path, edit, version=None), 428, "precondition-required")
    for stale in (2, "*", 'W/"1"', "1", '"01"', '"1", "2"', ""):
        problem(owner.patch(path, edit, version=stale), 412, "precondition-failed")
    answer = owner.patch(path, edit)
    assert answer.headers["etag"] == '"2"'
    assert owner.get(path).headers["etag"] == '"2"'
    problem(owner.patch(path, edit), 412, "precondition-failed")


def test_of_concurrent_edits_one_wins(either_server: LocalServer) -> None:
    server = either_server
    access = server.sign_in()["access_token"]
    path = f"/v1/agent-identities/{server.agent_id}"

    def edit(number: int) -> int:
        with Api(server, access) as api:
            return api.patch(path, {"spec": {"description": f"edit {number}"}}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(edit, range(8))) == [200] + [412] * 7
    with Api(server, access) as api:
        assert api.get(path).headers["etag"] == '"2"'


# Shapes of requests


@pytest.mark.parametrize(
    "media", ["text/plain", "application/merge-patch+json", "application/x-www-form-urlencoded", ""]
)
def test_a_post_is_json(server: LocalServer, owner: Api, media: str) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": media}
    answer = owner.http.post(tokens(server), content=json.dumps(TOKEN), headers=headers)
    problem(answer, 415, "unsupported-media-type")


def test_a_patch_may_be_a_merge_patch(server: LocalServer, owner: Api) -> None:
    headers = {"If-Match": '"1"', "Content-Type": "application/merge-patch+json; charset=utf-8"}
    answer = owner.http.patch(f"/v1/agent-identities/{server.agent_id}", content='{"spec": {}}', headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/json;q=0.5", 200),
        ("text/html, application/*", 200),
        ("text/html", 406),
        ("application/json;q=0", 406),
    ],
)
def test_accept(server: LocalServer, owner: Api, accept: str, status: int) -> None:
    assert owner.http.get("/v1/principal", headers={"Accept": accept}).status_code == status


def test_bodies_are_bounded(server: LocalServer, owner: Api) -> None:
    big = envelope("agent-identities", {"description": "x" * 1_048_576}, name="big")
    problem(owner.post(agents(server), big), 413, "body-too-large")

    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 65_536

    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    problem(owner.http.post(agents(server), content=chunks(), headers=headers), 413, "body-too-large")
    assert owner.get("/v1/principal").status_code == 200


@pytest.mark.parametrize("method", ["DELETE", "PUT", "POST", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_named(owner: Api, method: str) -> None:
    answer = owner.http.request(method, "/v1/principal")
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/nothing", "/v1/principal/", "/v2/principal", "/v1/projects/%00"]
)
def test_unknown_paths(owner: Api, path: str) -> None:
    problem(owner.get(path), 404, "not-found")


@pytest.mark.parametrize("uid", ["x", "..", "0" * 36, "%00", "' OR 1=1", "💥", "0f5d3c1e7b7a4c559a392f1f2a6f8e10"])
def test_a_path_holds_uids(owner: Api, uid: str) -> None:
    answer = owner.http.get(f"/v1/agent-identities/{uid}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


def test_uids_are_read_in_any_case(server: LocalServer, owner: Api) -> None:
    assert owner.get(f"/v1/agent-identities/{server.agent_id.upper()}").status_code == 200


def test_every_answer_is_dated_and_numbered(server: LocalServer, owner: Api) -> None:
    from email.utils import parsedate_to_datetime

    server.pass_time(3600)
    answers = [owner.get(path) for path in ("/v1/principal", "/oauth/device", "/v1/nothing", "/openapi.json")]
    with server.services.database.read() as conn:
        now = server.services.database.clock(conn)
    assert len({answer.headers["x-request-id"] for answer in answers}) == 4
    for answer in answers:
        assert -0.1 <= (now - parsedate_to_datetime(answer.headers["date"])).total_seconds() < 5


def test_what_fails_inside_stays_inside(
    server: LocalServer, owner: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from expb_tui.server.identity import agents as module

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(server.agent_token)

    monkeypatch.setattr(module, "issue_token", broken)
    caplog.set_level(logging.DEBUG)
    answer = owner.post(f"{tokens(server)}?", TOKEN)
    fields = problem(answer, 500, "internal-error")
    assert fields == {}
    assert server.agent_token not in answer.text
    assert answer.headers["x-request-id"] in caplog.text
    assert "createAgentToken" in caplog.text
    for secret in (server.agent_token, owner.http.headers["authorization"][7:]):
        assert secret not in caplog.text
    with server.services.database.read() as conn:
        stored = select(func.count()).select_from(idempotency_records)
        assert conn.execute(stored).scalar_one() == 0


def test_a_refusal_leaves_nothing_behind(server: LocalServer, owner: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from expb_tui.server.identity import agents as module
    from expb_tui.server.problems import Problem

    issue = module.issue_token

    def refuse(*args: Any, **options: Any) -> Any:
        issue(*args, **options)
        raise Problem(409, "too-late")

    monkeypatch.setattr(module, "issue_token", refuse)
    with server.services.database.read() as conn:
        before = [
            conn.execute(select(func.count()).select_from(table)).scalar_one() for table in (agent_tokens, credentials)
        ]
    problem(owner.post(tokens(server), TOKEN, key="k"), 409, "too-late")
    monkeypatch.undo()
    problem_of(owner.post(tokens(server), TOKEN, key="k"), 409, "too-late")
    with server.services.database.read() as conn:
        after = [
            conn.execute(select(func.count()).select_from(table)).scalar_one() for table in (agent_tokens, credentials)
        ]
    assert after == before
