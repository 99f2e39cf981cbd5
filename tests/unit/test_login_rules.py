"""Sign-in against servers that a test scripts byte by byte: pace, refusals, addresses that lead elsewhere."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.transport import BadAnswer
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.profiles.login import (
    DeviceLogin,
    PollState,
    browser_refusal,
    endpoint_for,
    register_agent,
    save_agent_token,
    use_project,
)
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.raw_server import Handler, RawServer, Request, raw_server, response
from tests.support.stranger import entry, write

TOKENS = {
    "access_token": "a" * 43,
    "refresh_token": "r" * 43,
    "token_type": "Bearer",
    "expires_in": 900,
    "scope": "account",
    "account_id": "acc-1",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "EXPBENCH_API_SERVER",
        "EXPBENCH_AGENT_TOKEN",
        "EXPBENCH_AGENT_TOKEN_FILE",
        "DBUS_SESSION_BUS_ADDRESS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of RFC 8628 in hundredths of a second."""
    monkeypatch.setattr("expb_tui.wire.oauth.DEFAULT_INTERVAL", 0.02)
    monkeypatch.setattr("expb_tui.wire.oauth.SLOW_DOWN_STEP", 0.05)


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles.json")


def ok(body: Any, status: str = "200 OK", **headers: str) -> bytes:
    return response(status, json.dumps(body).encode(), **headers)


def refusal(code: str) -> bytes:
    return ok({"error": code, "error_description": f"about {code}"}, "400 Bad Request")


def device(server: RawServer, **changes: Any) -> dict[str, Any]:
    """The answer to a device authorization; without an interval, so that the default one counts."""
    uri = f"{server.address}/oauth/device"
    told = {"device_code": "d" * 43, "user_code": "K7Q2M-W9_XPA", "verification_uri": uri, "expires_in": 600}
    return told | {"verification_uri_complete": f"{uri}?user_code=K7Q2M-W9_XPA"} | changes


def polls(*answers: bytes | None, start: dict[str, Any] | None = None) -> Handler:
    """A device code, then one answer to each poll; None drops the connection."""
    pending = list(answers)

    def handler(request: Request, connection: socket.socket) -> None:
        if request.target == "/oauth/device_authorization":
            server = RawServer(handler, port=connection.getsockname()[1])
            connection.sendall(ok(device(server) | (start or {})))
        elif request.target == "/oauth/revoke":
            connection.sendall(ok({}))
        elif (answer := pending.pop(0)) is None:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(answer)

    return handler


async def states_of(login: DeviceLogin) -> list[PollState]:
    await login.start()
    try:
        return [state async for state in login.poll()]
    finally:
        await login.aclose()


async def test_polling_goes_on_through_every_passing_trouble(brisk: None, store: ProfileStore) -> None:
    handler = polls(
        refusal("authorization_pending"),
        refusal("slow_down"),
        None,
        response("503 Busy"),
        response("200 OK", b"<html>hotel</html>"),
        refusal("authorization_pending"),
        ok(TOKENS),
    )
    with raw_server(handler) as server:
        login = DeviceLogin(store, profile="owner", endpoint=server.address)
        states = await states_of(login)
        kinds = ["pending", "pending", "slow_down", "unreachable", "unreachable", "unreachable", "pending", "approved"]
        assert [state.kind for state in states] == kinds
        waits = [state.next_poll for state in states]
        assert waits == pytest.approx([0.02, 0.02, 0.07, 0.14, 0.28, 0.56, 0.07, 0.0])
        assert len(server.requests) == 8
        saved = await login.save()
    assert (saved.account_id, saved.token) == ("acc-1", SecretStr("a" * 43))


async def test_too_many_requests_is_waited_for(brisk: None, store: ProfileStore) -> None:
    with raw_server(polls(ok({"error": "rate-limited"}, "429 Too Many"))) as server:
        login = DeviceLogin(store, endpoint=server.address)
        await login.start()
        states = []
        async for state in login.poll():
            states.append(state)
            if state.kind == "slow_down":
                login.cancel()
        await login.aclose()
    assert (states[-1].kind, states[-1].next_poll) == ("slow_down", 60.0)


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_request", "unsupported_grant_type", "error-of-tomorrow"])
async def test_any_other_error_ends_it(brisk: None, store: ProfileStore, code: str) -> None:
    with raw_server(polls(refusal(code))) as server:
        with pytest.raises(ExpbError) as caught:
            await states_of(DeviceLogin(store, endpoint=server.address))
        assert len(server.requests) == 2
    assert caught.value.code == code


async def test_a_code_that_the_server_calls_expired_is_expired(brisk: None, store: ProfileStore) -> None:
    with raw_server(polls(refusal("expired_token"))) as server:
        assert (await states_of(DeviceLogin(store, endpoint=server.address)))[-1].kind == "expired"


@pytest.mark.parametrize(
    "changes",
    [
        {"access_token": ""},
        {"refresh_token": None},
        {"expires_in": 0},
        {"expires_in": "soon"},
        {"expires_in": 10**12},
        {"access_token": "a" * 43 + "\r\nX-Evil: 1"},
        {"refresh_token": "two words"},
        {"scope": None},
        {"account_id": None},
        {"scope": "system"},
        {"token_type": "mac"},
    ],
)
async def test_a_token_answer_that_does_not_fit_together_is_refused(
    brisk: None, store: ProfileStore, changes: dict[str, Any]
) -> None:
    told = {key: value for key, value in (TOKENS | changes).items() if value is not None}
    with raw_server(polls(ok(told))) as server, pytest.raises(BadAnswer) as caught:
        await states_of(DeviceLogin(store, endpoint=server.address))
    assert caught.value.code == "unexpected-shape"
    assert "a" * 43 not in str(caught.value)


async def test_a_session_of_the_other_scope_is_refused_and_ended(brisk: None, store: ProfileStore) -> None:
    told = {key: value for key, value in TOKENS.items() if key != "account_id"} | {"scope": "system"}
    with raw_server(polls(ok(told))) as server:
        with pytest.raises(ExpbError) as caught:
            await states_of(DeviceLogin(store, endpoint=server.address))
        assert server.requests[-1].target == "/oauth/revoke"
    assert caught.value.code == "other-scope"


async def test_a_session_of_another_account_than_was_asked_for_is_refused_and_ended(
    brisk: None, store: ProfileStore
) -> None:
    with raw_server(polls(ok(TOKENS))) as server:
        with pytest.raises(ExpbError) as caught:
            await states_of(DeviceLogin(store, endpoint=server.address, account="acc-2"))
        assert server.requests[-1].target == "/oauth/revoke"
    assert caught.value.code == "other-account"
    with raw_server(polls(ok(TOKENS))) as server:
        states = await states_of(DeviceLogin(store, endpoint=server.address, account="acc-1"))
    assert states[-1].kind == "approved"


async def test_a_token_that_comes_after_cancelling_is_ended(brisk: None, store: ProfileStore) -> None:
    login: DeviceLogin

    def handler(request: Request, connection: socket.socket) -> None:
        if request.target == "/oauth/token":
            login.cancel()
        answering(request, connection)

    answering = polls(ok(TOKENS))
    with raw_server(handler) as server:
        login = DeviceLogin(store, endpoint=server.address)
        states = await states_of(login)
        assert [state.kind for state in states] == ["pending"]
        assert server.requests[-1].target == "/oauth/revoke"
    with pytest.raises(RuntimeError):
        await login.save()


@pytest.mark.parametrize(
    "changes",
    [
        {"verification_uri": "https://evil.example.test/oauth/device"},
        {"verification_uri_complete": "https://evil.example.test/?user_code=A"},
        {"verification_uri": "http://127.0.0.1:1/oauth/device"},
        {"verification_uri_complete": "javascript:alert(1)"},
        {"verification_uri": "file:///etc/passwd"},
    ],
)
async def test_an_address_of_another_origin_is_never_shown(store: ProfileStore, changes: dict[str, str]) -> None:
    with raw_server(polls(start=changes)) as server:
        login = DeviceLogin(store, endpoint=server.address)
        with pytest.raises(ExpbError) as caught:
            await login.start()
        await login.aclose()
    assert caught.value.code == "foreign-address"
    assert "Do not open" in caught.value.next_step


async def test_hostile_texts_of_a_device_answer(store: ProfileStore) -> None:
    with raw_server(polls(start={"user_code": "AB\x1b[2J\u202eCD"})) as server:
        login = DeviceLogin(store, endpoint=server.address)
        code = await login.start()
        await login.aclose()
    assert not set(code.user_code) & set("\x1b\u202e")
    hostile = {"verification_uri_complete": "{}/oauth/device?user_code=A\x1b]8;;\x07"}
    with raw_server(polls()) as server:
        hostile["verification_uri_complete"] = hostile["verification_uri_complete"].format(server.address)
        server.handler = polls(start=hostile)
        login = DeviceLogin(store, endpoint=server.address)
        with pytest.raises(ExpbError):
            await login.start()
        await login.aclose()


def test_where_signing_in_goes(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert endpoint_for(store, "a", None) == "https://exp.sre-norns.com"
    write(store.path, {"profiles": {"a": entry()}})
    assert endpoint_for(store, "a", None) == "https://bench.example.test"
    monkeypatch.setenv("EXPBENCH_API_SERVER", "https://other.example.test")
    assert endpoint_for(store, "a", None) == "https://other.example.test"
    assert endpoint_for(store, "a", "https://third.example.test") == "https://third.example.test"
    with pytest.raises(UsageError, match="not encrypted"):
        DeviceLogin(store, endpoint="http://bench.example.test")


async def test_the_project_stays_only_for_the_same_endpoint_and_account(brisk: None, store: ProfileStore) -> None:
    with raw_server(polls(ok(TOKENS), ok(TOKENS | {"account_id": "acc-2"}))) as server:
        write(store.path, {"profiles": {"a": entry(endpoint=server.address + "/", project_id="p", note=1)}}, age=9)
        for account, project in (("acc-1", "p"), ("acc-2", None)):
            login = DeviceLogin(store, profile="a")
            await states_of(login)
            saved = await login.save()
            assert (saved.account_id, saved.project_id, saved.extra) == (account, project, {"note": 1})


async def test_refusals_of_a_registration_keep_the_user_profile(store: ProfileStore) -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        problem = {"status": 403, "code": "forbidden", "detail": "owners only"}
        connection.sendall(ok(problem, "403 Forbidden"))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        with pytest.raises(ExpbError) as caught:
            await register_agent(session, store, "x", "y")
        await session.aclose()
        assert len(server.requests) == 1
    assert caught.value.code == "agent-forbidden"
    assert "owner" in caught.value.next_step
    assert set(store.read().by_name) == {"owner"}


async def test_a_replay_without_the_secret_is_reported_and_no_second_token_is_made(store: ProfileStore) -> None:
    agent = {"apiVersion": "i/v1", "kind": "agent-identities", "metadata": {"uid": "agt"}, "spec": {}, "status": {}}
    token = {
        "apiVersion": "i/v1",
        "kind": "agent-identity-tokens",
        "metadata": {"uid": "tok"},
        "spec": {},
        "status": {},
    }

    def handler(request: Request, connection: socket.socket) -> None:
        if not request.target.endswith("/tokens"):
            connection.sendall(ok({"resource": agent}, "201 Created"))
        elif sum(one.target.endswith("/tokens") for one in server.requests) == 1:
            connection.shutdown(socket.SHUT_RDWR)  # the answer is lost
        else:
            connection.sendall(ok({"resource": token}, "201 Created"))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        with pytest.raises(ExpbError) as caught:
            await register_agent(session, store, "x", "y")
        await session.aclose()
        keys = [one.headers["idempotency-key"] for one in server.requests]
    assert (len(keys), keys[1]) == (3, keys[2])
    assert caught.value.code == "token-unavailable"


def identity_resource(kind: str, uid: str | None, **changes: Any) -> dict[str, Any]:
    metadata = {} if uid is None else {"uid": uid}
    return {"apiVersion": "i/v1", "kind": kind, "metadata": metadata, "spec": {}, "status": {}} | changes


MADE = identity_resource("agent-identities", "agt", metadata={"uid": "agt", "name": "x"})
NOTHING = [
    [],
    {},
    "created",
    {"status": "queued"},
    {"error": "maintenance"},
    {"resource": "x", "token": "t" * 43},
    identity_resource("agent-identities", None),
    identity_resource("agent-identities", ""),
    identity_resource("projects", "agt"),
    {"resource": identity_resource("agent-identity-tokens", "")},
]


@pytest.mark.parametrize(
    ("known", "code", "words"),
    [
        ([MADE], "agent-exists", "Make a token for it"),
        ([], "unexpected-shape", "is not registered"),
        (None, "unresolved", "before you try again"),
    ],
)
async def test_an_agent_that_nobody_confirms_is_looked_for(
    store: ProfileStore, known: list[dict[str, Any]] | None, code: str, words: str
) -> None:
    answers: list[Any] = [*NOTHING, identity_resource("agent-identities", "a2", metadata={"uid": "a2", "name": "y"})]

    def handler(request: Request, connection: socket.socket) -> None:
        if request.method == "POST":
            connection.sendall(ok(answers[0], "201 Created"))
        else:
            connection.sendall(ok({"items": known}))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        while answers:
            with pytest.raises(ExpbError) as caught:
                await register_agent(session, store, "x", "y")
            assert (caught.value.code, words in caught.value.next_step) == (code, True), answers[0]
            answers.pop(0)
        await session.aclose()
    assert not any(one.target.endswith("/tokens") for one in server.requests)
    assert set(store.read().by_name) == {"owner"}


async def test_a_token_that_nobody_confirms_is_not_saved(store: ProfileStore) -> None:
    token = identity_resource("agent-identity-tokens", "tok")
    answers: list[Any] = [
        *NOTHING,
        MADE,
        {"resource": identity_resource("agent-identity-tokens", "tok", spec={"agentId": "another"}), "token": "t" * 43},
        {"resource": token, "token": "two words"},
        {"resource": token, "token": ["t" * 43]},
        {"resource": token, "token": "t" * 43 + "\r\n"},
    ]

    def handler(request: Request, connection: socket.socket) -> None:
        made = answers[0] if request.target.endswith("/tokens") else MADE
        connection.sendall(ok(made, "201 Created"))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        while answers:
            with pytest.raises(BadAnswer) as caught:
                await register_agent(session, store, "x", "y")
            assert "The agent 'x' is registered" in caught.value.next_step, answers[0]
            assert "t" * 43 not in str(caught.value)
            answers.pop(0)
        await session.aclose()
    assert set(store.read().by_name) == {"owner"}


@pytest.mark.parametrize(
    "answer",
    [identity_resource("projects", None), identity_resource("projects", "p2"), {}, [], {"metadata": 1}],
    ids=str,
)
async def test_another_project_than_was_named_is_not_used(store: ProfileStore, answer: Any) -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(ok(answer))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        with pytest.raises(BadAnswer):
            await use_project(session, store, "p1")
        await session.aclose()
    assert store.select("owner").project_id is None


async def test_names_are_looked_for_on_every_page_and_two_matches_are_an_error(store: ProfileStore) -> None:
    def project(uid: str, name: str) -> dict[str, Any]:
        return {
            "apiVersion": "i/v1",
            "kind": "projects",
            "metadata": {"uid": uid, "name": name, "account": "acc-1"},
            "spec": {},
            "status": {"phase": "active"},
        }

    pages: dict[str, dict[str, Any]] = {
        "/v1/projects": {"items": [project("p1", "one"), project("p2", "twin")], "next": "c2"},
        "/v1/projects?cursor=c2": {"items": [project("p3", "twin"), project("p4", "last")], "total": 99},
    }

    def handler(request: Request, connection: socket.socket) -> None:
        page = pages.get(request.target)
        missing = {"status": 404, "code": "not-found"}
        connection.sendall(ok(page) if page is not None else ok(missing, "404 Not Found"))

    with raw_server(handler) as server:
        write(store.path, {"profiles": {"owner": entry(endpoint=server.address)}}, age=9)
        session = Session.open(store, profile="owner")
        assert (await use_project(session, store, "last")).uid == "p4"
        with pytest.raises(ExpbError) as caught:
            await use_project(session, store, "twin")
        assert caught.value.code == "ambiguous-project"
        assert "p2, p3" in caught.value.cause
        pages["/v1/projects?cursor=c2"]["next"] = "c2"
        with pytest.raises(BadAnswer, match="no end"):
            await use_project(session, store, "nobody")
        await session.aclose()
    assert store.select("owner").project_id == "p4"


async def test_an_agent_token_of_no_agent(store: ProfileStore) -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(ok({"type": "robot", "scope": "account"}))

    with raw_server(handler) as server, pytest.raises(ExpbError) as caught:
        await save_agent_token(store, None, SecretStr("t"), server.address)
    assert caught.value.code == "not-an-agent"
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1 2 3 4"}, False),
        ({"DISPLAY": ":10", "SSH_TTY": "/dev/pts/1"}, False),
    ],
)
def test_when_a_browser_may_be_opened(environ: dict[str, str], allowed: bool) -> None:
    assert (browser_refusal(environ) == "") is allowed
