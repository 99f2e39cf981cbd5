"""Credentials in use: refreshing beside other programs, refusals, and what is never sent anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from expb_tui.core.api.transport import RequestFailure
from expb_tui.core.errors import ExpbError, FileProblem, SignInNeeded, UsageError
from expb_tui.core.profiles.ledger import Ledger
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.server.config import Lifetimes, RequestLimits
from tests.support.raw_server import Request, raw_server, response
from tests.support.server import CLIENT_ID, LocalServer, ServerFactory
from tests.support.stranger import entry, rewrite, write


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("EXPBENCH_", "EXPB_TUI_", "DBUS_", "PYTHON_KEYRING")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "exp-bench" / "profiles.json")


def signed_in(store: ProfileStore, server: LocalServer, *, left: float, name: str = "owner") -> Profile:
    """A real session in the store, whose access token is said to live ``left`` more seconds."""
    tokens = server.sign_in()
    told = entry(
        endpoint=server.address,
        account_id=tokens["account_id"],
        token=tokens["access_token"],
        refresh_token=tokens["refresh_token"],
        expires_at=(datetime.now(UTC) + timedelta(seconds=left)).isoformat(),
    )
    write(store.path, {"default": name, "profiles": {name: told}}, age=9)
    return store.select()


def saved(store: ProfileStore, name: str = "owner") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(store.path.read_text())["profiles"][name]
    return told


async def test_a_token_that_ends_within_three_minutes_is_refreshed_and_saved_first(
    server: LocalServer, store: ProfileStore
) -> None:
    before = await asyncio.to_thread(signed_in, store, server, left=181)
    session = Session.open(store)
    await session.principal()
    assert store.select().token == before.token  # not yet
    rewrite(store.path, lambda told: told["profiles"]["owner"].update(expires_at=soon(179)))
    await session.principal()
    after = store.select()
    assert after.token != before.token
    assert after.refresh_token != before.refresh_token
    assert after.expires_at is not None
    assert 880 < (after.expires_at - datetime.now(UTC)).total_seconds() <= 900
    await session.aclose()
    # A fresh process of ours goes on with the new pair, and does not refresh again.
    other = Session.open(store)
    await other.principal()
    await other.aclose()
    assert store.select().token == after.token


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_many_tasks_and_sessions_refresh_once(server: LocalServer, store: ProfileStore) -> None:
    await asyncio.to_thread(signed_in, store, server, left=5)
    sessions = [Session.open(store) for _ in range(3)]
    await asyncio.gather(*(session.principal() for session in sessions for _ in range(4)))
    entry_now = Ledger(store, "owner").read()
    assert entry_now is not None
    assert len(entry_now.spent) == 1
    for session in sessions:
        await session.aclose()


async def test_another_programs_refresh_in_mid_use_is_picked_up(server: LocalServer, store: ProfileStore) -> None:
    before = await asyncio.to_thread(signed_in, store, server, left=800)
    session = Session.open(store)
    await session.principal()
    refresh_as_expbctl(store, server)  # the old access token is dead now
    assert before.token != store.select().token
    answer = await session.request("GET", "/v1/principal")
    assert answer.status == 200
    await session.aclose()


def refresh_as_expbctl(store: ProfileStore, server: LocalServer) -> None:
    """Refresh without any lock and save, as the kit's client does."""
    told = json.loads(store.path.read_text())
    profile = told["profiles"]["owner"]
    form = {"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": profile["refresh_token"]}
    answer = httpx.post(f"{server.address}/oauth/token", data=form)
    if answer.status_code != 200:
        raise AssertionError(answer.text)
    tokens = answer.json()
    profile |= {"token": tokens["access_token"], "refresh_token": tokens["refresh_token"]}
    profile["expires_at"] = soon(tokens["expires_in"])
    write(store.path, told)


async def test_a_session_that_was_ended_says_what_to_do(server: LocalServer, store: ProfileStore) -> None:
    profile = await asyncio.to_thread(signed_in, store, server, left=800)
    session = Session.open(store)
    await session.principal()
    assert profile.token is not None
    with server.client() as http:
        http.post("/oauth/revoke", data={"client_id": CLIENT_ID, "token": profile.token.get_secret_value()})
    with pytest.raises(SignInNeeded) as in_use:
        await session.principal()
    assert "'owner'" in in_use.value.what
    assert "expb-tui --profile=owner auth login" in in_use.value.next_step
    rewrite(store.path, lambda told: told["profiles"]["owner"].update(expires_at=soon(1)))
    with pytest.raises(SignInNeeded) as at_refresh:
        await session.principal()
    assert "auth login" in at_refresh.value.next_step
    assert saved(store)["refresh_token"]  # nothing is thrown away
    await session.aclose()


async def test_a_stale_write_by_an_unlocked_program_never_makes_us_send_a_spent_token(
    server: LocalServer, store: ProfileStore
) -> None:
    await asyncio.to_thread(signed_in, store, server, left=5)
    stale = json.loads(store.path.read_text())
    session = Session.open(store)
    await session.principal()
    fresh = saved(store)
    await session.aclose()
    stale["profiles"]["owner"] |= {"theirs": 1, "expires_at": soon(100)}
    write(store.path, stale)  # minutes later: the settling time is over
    other = Session.open(store)
    await other.principal()
    await other.aclose()
    told = saved(store)
    assert (told["token"], told["refresh_token"], told["theirs"]) == (fresh["token"], fresh["refresh_token"], 1)


async def test_a_full_disk_is_found_before_the_refresh_token_is_spent(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await asyncio.to_thread(signed_in, store, server, left=60)

    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    session = Session.open(store)
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", full)
        disk.setattr(os, "write", full)
        await session.principal()  # the token is good for another minute
        rewrite_later = saved(store) | {"expires_at": soon(-1)}
        await session.aclose()
    assert store.select().refresh_token == before.refresh_token
    write(store.path, {"default": "owner", "profiles": {"owner": rewrite_later}}, age=9)
    session = Session.open(store)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        disk.setattr("expb_tui.core.profiles.ledger.os.pwrite", full)
        with pytest.raises(FileProblem):
            await session.principal()
    await session.principal()  # the disk has room again, and the refresh token was never sent
    assert store.select().refresh_token != before.refresh_token
    await session.aclose()


async def test_a_disk_that_fills_up_during_the_refresh_loses_nothing(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await asyncio.to_thread(signed_in, store, server, left=1)

    def full(_descriptor: int, _content: object) -> int:
        raise OSError(28, "No space left on device")

    session = Session.open(store)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)  # the shared file cannot be written, the ledger's reserved room can
        await session.principal()
        await session.aclose()
    assert store.select().refresh_token == before.refresh_token
    later = Session.open(store)
    await later.principal()
    await later.aclose()
    assert store.select().refresh_token != before.refresh_token


async def test_an_unreachable_server_does_not_stop_a_token_that_is_still_good(store: ProfileStore) -> None:
    def handler(request: Request, connection: Any) -> None:
        good = request.target == "/v1/principal"
        connection.sendall(response("200 OK", b'{"type": "user"}') if good else response("502 Bad Gateway"))

    with raw_server(handler) as server:
        write(
            store.path, {"default": "a", "profiles": {"a": entry(endpoint=server.address, expires_at=soon(60))}}, age=9
        )
        session = Session.open(store)
        for _ in range(3):
            await session.principal()
        await session.aclose()
        assert [one.target for one in server.requests].count("/oauth/token") == 1  # no busy retry
        rewrite(store.path, lambda told: told["profiles"]["a"].update(expires_at=soon(-1)))
        expired = Session.open(store)
        with pytest.raises(RequestFailure):
            await expired.principal()
        await expired.aclose()


async def test_a_refresh_that_takes_its_time_does_not_hold_up_a_token_that_is_good(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.profiles.session._BRIEFLY", 0.2)
    told = {"access_token": "x", "refresh_token": "y", "expires_in": 900, "scope": "account", "account_id": "acc-1"}

    go_on, answered = threading.Event(), threading.Event()

    def handler(request: Request, connection: Any) -> None:
        if request.target == "/oauth/token":
            go_on.wait(30)
            answered.set()
            connection.sendall(response("200 OK", json.dumps(told).encode()))
        else:
            connection.sendall(response("200 OK", b'{"type": "user"}'))

    with raw_server(handler) as server:
        write(
            store.path, {"default": "a", "profiles": {"a": entry(endpoint=server.address, expires_at=soon(60))}}, age=9
        )
        session = Session.open(store)
        await session.principal()
        assert not answered.is_set()
        go_on.set()
        await session.aclose()  # waits for the refresh, so that its answer is saved
        assert saved(store, "a")["token"] == "x"
        assert [one.target for one in server.requests].count("/oauth/token") == 1


@pytest.mark.parametrize("changes", [{"scope": "system", "account_id": None}, {"account_id": "acc-2"}])
async def test_a_refresh_that_answers_for_somebody_else_is_refused(
    store: ProfileStore, changes: dict[str, Any]
) -> None:
    told = {"access_token": "x", "refresh_token": "y", "expires_in": 900, "scope": "account", "account_id": "acc-1"}
    body = json.dumps({key: value for key, value in (told | changes).items() if value is not None}).encode()
    with raw_server(lambda _request, connection: connection.sendall(response("200 OK", body))) as server:
        write(
            store.path, {"default": "a", "profiles": {"a": entry(endpoint=server.address, expires_at=soon(9))}}, age=9
        )
        session = Session.open(store)
        with pytest.raises(SignInNeeded, match="another scope or account"):
            await session.principal()
        await session.aclose()
        assert [one.target for one in server.requests] == ["/oauth/token"]
    assert saved(store, "a")["token"] == "access-0"


async def test_a_refresh_that_was_killed_before_its_answer_came_is_named(
    server: LocalServer, store: ProfileStore
) -> None:
    profile = await asyncio.to_thread(signed_in, store, server, left=-1)
    assert profile.refresh_token is not None
    ledger = Ledger(store, "owner")
    with ledger.locked():
        ledger.intend(profile)  # where the killed process stood
    form = {"grant_type": "refresh_token", "client_id": CLIENT_ID}
    with server.client() as http:
        http.post("/oauth/token", data=form | {"refresh_token": profile.refresh_token.get_secret_value()})
    session = Session.open(store)
    with pytest.raises(SignInNeeded, match="cut off before its answer"):
        await session.principal()
    await session.aclose()


async def test_a_cancelled_caller_does_not_tear_down_a_refresh(server: LocalServer, store: ProfileStore) -> None:
    before = await asyncio.to_thread(signed_in, store, server, left=5)
    session = Session.open(store)
    task = asyncio.create_task(session.principal())
    while Ledger(store, "owner").read() is None:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await session.aclose()
    assert store.select().refresh_token != before.refresh_token
    again = Session.open(store)
    await again.principal()
    await again.aclose()


# Nothing goes where it does not belong


async def test_a_profile_that_is_pointed_elsewhere_sends_nothing_there(
    server: LocalServer, store: ProfileStore
) -> None:
    await asyncio.to_thread(signed_in, store, server, left=800)
    session = Session.open(store)
    await session.principal()
    with raw_server(lambda _request, connection: connection.sendall(response("200 OK", b"{}"))) as elsewhere:
        rewrite(store.path, lambda told: told["profiles"]["owner"].update(endpoint=elsewhere.address))
        with pytest.raises(SignInNeeded) as caught:
            await session.principal()
        assert elsewhere.requests == []
    assert caught.value.code == "profile-moved"
    assert session.endpoint == server.address
    await session.aclose()


async def test_an_endpoint_that_was_named_must_be_the_profiles_own(store: ProfileStore) -> None:
    write(store.path, {"default": "a", "profiles": {"a": entry()}})
    with pytest.raises(UsageError) as caught:
        Session.open(store, endpoint="https://other.example.test")
    assert caught.value.code == "endpoint-differs"
    assert Session.open(store, endpoint="https://bench.example.test///").endpoint == "https://bench.example.test"


async def test_explicit_tokens_act_without_a_profile_and_are_never_stored(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EXPBENCH_API_SERVER", server.address)
    token_file = tmp_path / "token"
    token_file.write_text(f"{server.agent_token}\n")
    for way in ("argument", "variable", "file"):
        with monkeypatch.context() as environ:
            if way == "variable":
                environ.setenv("EXPBENCH_AGENT_TOKEN", server.agent_token)
            elif way == "file":
                environ.setenv("EXPBENCH_AGENT_TOKEN_FILE", str(token_file))
            token = SecretStr(server.agent_token) if way == "argument" else None
            session = Session.open(store, token=token)
            assert (session.explicit, session.profile.name) == (True, "")
            assert (await session.principal()).agent_id == server.agent_id
            await session.aclose()
    assert not store.path.exists()
    wrong = Session.open(store, token=SecretStr("wrong"))
    with pytest.raises(SignInNeeded, match="does not accept"):
        await wrong.principal()
    await wrong.aclose()
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="absent"):
        Session.open(store)


async def test_a_named_profile_beats_a_token_that_lies_around(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store.path, {"default": "a", "profiles": {"a": entry(), "out": entry(token="", refresh_token="")}})
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN", "left-over")
    assert Session.open(store, profile="a").profile.name == "a"
    assert Session.open(store).explicit
    with pytest.raises(SignInNeeded, match="signed out"):
        Session.open(store, profile="out")


async def test_an_agent_is_never_refreshed_and_works_from_a_read_only_place(
    server: LocalServer, store: ProfileStore
) -> None:
    agent = entry(
        type="agent",
        endpoint=server.address,
        agent_id=server.agent_id,
        account_id=server.account_id,
        expires_at=soon(5),
    )
    write(store.path, {"default": "r", "profiles": {"r": agent | {"token": server.agent_token}}})
    os.chmod(store.path.parent, 0o500)
    try:
        session = Session.open(store)
        assert (await session.principal()).type == "agent"
        await session.aclose()
        assert os.listdir(store.path.parent) == ["profiles.json"]
    finally:
        os.chmod(store.path.parent, 0o700)


# Four of ours and two programs without locks (hazards 9)


def test_four_of_ours_beside_unlocked_programs_never_reuse_a_token(
    server_factory: ServerFactory, store: ProfileStore
) -> None:
    """Access tokens of five seconds stand for those of fifteen minutes: ours refresh with 60% left, theirs with 3%.

    ``EXPB_DRILL_SECONDS`` makes it longer.
    """
    seconds = float(os.environ.get("EXPB_DRILL_SECONDS", "9"))
    limits = RequestLimits(oauth_per_minute=100_000)
    server = server_factory(lifetimes=Lifetimes(access_token=5), limits=limits)
    signed_in(store, server, left=5)
    command = [sys.executable, "-m", "tests.support.session_worker", str(store.path), str(seconds)]
    ours = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    keys = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        rewrite(store.path, _key_adder(keys), hold=0.01)
        keys += 1
        left = datetime.fromisoformat(saved(store)["expires_at"]) - datetime.now(UTC)
        if left < timedelta(seconds=0.17):
            refresh_as_expbctl(store, server)
        time.sleep(0.05)
    outcomes = [process.communicate(timeout=30) for process in ours]
    assert [(process.returncode, err) for process, (_, err) in zip(ours, outcomes, strict=True)] == [(0, "")] * 4
    assert all(int(out) > seconds for out, _ in outcomes)
    told = saved(store)
    assert [key for key in range(keys) if f"k{key}" not in told] == []
    spent = Ledger(store, "owner").read()
    assert spent is not None
    assert len(spent.spent) >= seconds / 5
    # The session is alive: reuse of a spent token would have ended it.
    with server.client(told["token"]) as http:
        sessions = http.get("/v1/sessions").json()["items"]
    assert [one["status"]["phase"] for one in sessions].count("active") >= 1


def test_replacing_a_profile_does_not_carry_its_session_over(store: ProfileStore) -> None:
    """The ledger knows a session by its tokens: a profile signed in anew is not given back its old ones."""
    old = replace(store_user(), refresh_token=SecretStr("r0"))
    ledger = Ledger(store, "a")
    with ledger.locked():
        ledger.intend(old)
        ledger.record(old, replace(old, token=SecretStr("t1"), refresh_token=SecretStr("r1")), 900)
    assert ledger.successor(old) is not None
    assert ledger.successor(replace(old, refresh_token=SecretStr("another"))) is None
    assert ledger.successor(replace(old, endpoint="https://other.example.test")) is None
    assert ledger.successor(replace(old, account_id="acc-2")) is None


def store_user() -> Profile:
    return Profile("a", endpoint="https://bench.example.test", account_id="acc-1", token=SecretStr("t0"))


async def test_a_locked_refresh_names_the_holder_and_does_not_hang(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(signed_in, store, server, left=-1)
    monkeypatch.setattr("expb_tui.core.profiles.session._LOCK_WAIT", 0.2)
    session = Session.open(store)
    with Ledger(store, "owner").locked(), pytest.raises(ExpbError) as caught:
        await session.principal()
    assert caught.value.code == "locked"
    assert f"pid {os.getpid()}" in caught.value.cause
    await session.aclose()


def _key_adder(number: int) -> Callable[[dict[str, Any]], None]:
    return lambda told: told["profiles"]["owner"].update({f"k{number}": True})
