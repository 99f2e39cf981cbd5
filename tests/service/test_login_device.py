"""Signing in against the real server: device flow, agents, tokens, projects, signing out."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api import identity
from expb_tui.core.errors import ExpbError, SignInNeeded, UsageError
from expb_tui.core.profiles.login import (
    DeviceLogin,
    PollState,
    register_agent,
    save_agent_token,
    sign_out,
    use_project,
)
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.server.config import Lifetimes
from tests.support.server import LocalServer, ServerFactory

QUICK = Lifetimes(device_interval=1)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No profile, token, keyring or setting of the person who runs the tests."""
    for name in list(os.environ):
        if name.startswith(("EXPBENCH_", "EXPB_TUI_", "DBUS_", "PYTHON_KEYRING")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles.json")


async def sign_in(store: ProfileStore, server: LocalServer, name: str | None = None, **more: Any) -> Profile:
    login = DeviceLogin(store, profile=name, endpoint=more.pop("endpoint", server.address), **more)
    try:
        code = await login.start()
        await asyncio.to_thread(server.approve, code.user_code)
        kinds = [state.kind async for state in login.poll()]
        assert kinds[-1] == "approved"
        return await login.save()
    finally:
        await login.aclose()


async def saved_session(store: ProfileStore, server: LocalServer, name: str = "owner") -> Session:
    """A signed-in owner without the waits of the device flow."""
    tokens = await asyncio.to_thread(server.sign_in)
    store.put(
        Profile(
            name,
            endpoint=server.address,
            account_id=tokens["account_id"],
            token=SecretStr(tokens["access_token"]),
            refresh_token=SecretStr(tokens["refresh_token"]),
        )
    )
    return Session.open(store, profile=name)


async def test_a_person_signs_in_and_in_again(server_factory: ServerFactory, store: ProfileStore) -> None:
    server = server_factory(lifetimes=QUICK)
    login = DeviceLogin(store, endpoint=f"{server.address}/v1/")
    code = await login.start()
    assert code.uri == f"{server.address}/oauth/device"
    assert code.complete_uri.endswith(f"?user_code={code.user_code}")
    seen: list[PollState] = []
    async for state in login.poll():
        seen.append(state)
        if len(seen) == 2:
            await asyncio.to_thread(server.approve, code.user_code)
    assert [state.kind for state in seen] == ["pending", "pending", "approved"]
    assert seen[0].next_poll == 1.0
    profile = await login.save()
    await login.aclose()
    assert (profile.name, profile.endpoint, profile.account_id) == ("default", server.address, server.account_id)
    assert store.read().default == "default"
    # Again, naming nothing: endpoint and project are kept.
    store.set_project("default", server.project_id, "one")
    again = DeviceLogin(store)
    assert (again.profile_name, again.endpoint) == ("default", server.address)
    second = await sign_in(store, server, endpoint=None)
    assert second.project_id == server.project_id
    assert second.token != profile.token
    session = Session.open(store)
    assert (await session.principal()).account_role == "owner"
    await session.aclose()


async def test_denied_expired_and_cancelled(server_factory: ServerFactory, store: ProfileStore) -> None:
    server = server_factory(lifetimes=Lifetimes(device_interval=1, device_code=2))
    denied = DeviceLogin(store, endpoint=server.address)
    code = await denied.start()
    await asyncio.to_thread(server.deny, code.user_code)
    assert [state.kind async for state in denied.poll()] == ["pending", "denied"]
    expired = DeviceLogin(store, endpoint=server.address)
    await expired.start()
    kinds = [state.kind async for state in expired.poll()]
    assert (kinds[0], kinds[-1]) == ("pending", "expired")
    cancelled = DeviceLogin(store, endpoint=server.address)
    await cancelled.start()
    states = []
    async for state in cancelled.poll():
        states.append(state)
        cancelled.cancel()
    assert [state.kind for state in states] == ["pending"]
    for login in (denied, expired, cancelled):
        await login.aclose()
    assert store.read().by_name == {}


async def test_an_unknown_client_id_is_named_with_its_setting(server: LocalServer, store: ProfileStore) -> None:
    from expb_tui.core.settings import Settings

    login = DeviceLogin(store, endpoint=server.address, settings=Settings(client_id="somebody-else"))
    with pytest.raises(ExpbError) as caught:
        await login.start()
    await login.aclose()
    assert caught.value.code == "invalid_client"
    assert "client_id" in caught.value.next_step


async def test_an_agent_is_registered_and_kept_as_its_own_profile(server: LocalServer, store: ProfileStore) -> None:
    session = await saved_session(store, server)
    profile = await register_agent(session, store, "night-shift", "night")
    assert (profile.type, profile.endpoint, profile.account_id) == ("agent", server.address, server.account_id)
    acting = Session.open(store, profile="night")
    principal = await acting.principal()
    assert (principal.type, principal.agent_id) == ("agent", profile.agent_id)
    assert store.read().default == "owner"
    # The name is taken: stop and say so; nothing is saved.
    with pytest.raises(ExpbError) as caught:
        await register_agent(session, store, "Night-Shift", "other")
    assert caught.value.code == "agent-exists"
    # A profile that holds a credential is not overwritten, and no agent is created for nothing.
    with pytest.raises(UsageError) as refused:
        await register_agent(session, store, "day-shift", "night")
    assert refused.value.code == "profile-exists"
    names = [agent.metadata.name for agent in await identity.agents(session, server.account_id)]
    assert "day-shift" not in names
    assert set(store.read().by_name) == {"owner", "night"}
    await session.aclose()
    await acting.aclose()


async def test_a_token_that_cannot_be_saved_is_revoked(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await saved_session(store, server)

    def full(*_args: object, **_more: object) -> Profile:
        raise ExpbError("the disk is full", next_step="Free some space")

    monkeypatch.setattr("expb_tui.core.profiles.secrets.keep", full)
    with pytest.raises(ExpbError, match="its new token was revoked"):
        await register_agent(session, store, "night-shift", "night")
    agent = next(a for a in await identity.agents(session, server.account_id) if a.metadata.name == "night-shift")
    assert [token.status.phase for token in await identity.tokens(session, agent.uid)] == ["revoked"]
    await session.aclose()


async def test_a_full_disk_is_found_before_an_agent_is_created(
    server: LocalServer, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await saved_session(store, server)
    await session.principal()

    def full(_descriptor: int, _content: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        with pytest.raises(ExpbError) as caught:
            await register_agent(session, store, "night-shift", "night")
    assert caught.value.code == "disk-full"
    assert "night-shift" not in [a.metadata.name for a in await identity.agents(session, server.account_id)]
    await session.aclose()


async def test_a_token_that_one_has_is_checked_and_saved(server: LocalServer, store: ProfileStore) -> None:
    profile = await save_agent_token(store, "researcher", SecretStr(f" {server.agent_token}\n"), server.address)
    assert (profile.agent_id, profile.account_id, profile.type) == (server.agent_id, server.account_id, "agent")
    # Saved again without an address: the profile knows it.
    await save_agent_token(store, "researcher", SecretStr(server.agent_token))
    tokens = await asyncio.to_thread(server.sign_in)
    with pytest.raises(ExpbError) as person:
        await save_agent_token(store, "person", SecretStr(tokens["access_token"]), server.address)
    assert person.value.code == "not-an-agent"
    with pytest.raises(SignInNeeded):
        await save_agent_token(store, "person", SecretStr("no-such-token"), server.address)
    with pytest.raises(UsageError):
        await save_agent_token(store, "person", SecretStr(" \n"), server.address)
    assert set(store.read().by_name) == {"researcher"}
    # Signing in must not overwrite a token that cannot be shown again.
    with pytest.raises(UsageError) as overwriting:
        DeviceLogin(store, profile="researcher")
    assert overwriting.value.code == "profile-is-agent"
    assert DeviceLogin(store).profile_name == "default"


async def test_signing_out_revokes_the_session_and_always_clears(server: LocalServer, store: ProfileStore) -> None:
    session = await saved_session(store, server)
    token = store.select().token
    assert token is not None
    store.set_project("owner", "p", None)
    done = await sign_out(store)
    assert (done.revoked, done.problem, done.profile.signed_in) == (True, None, False)
    assert (done.profile.endpoint, done.profile.project_id) == (server.address, "p")
    with server.client(token.get_secret_value()) as http:
        assert http.get("/v1/principal").status_code == 401
    with pytest.raises(SignInNeeded) as caught:
        Session.open(store)
    assert "--profile=owner auth login" in caught.value.next_step
    await session.aclose()
    # Where the server cannot be told, the local credential goes all the same.
    await saved_session(store, server)
    server.stop()
    done = await sign_out(store)
    assert (done.revoked, done.profile.signed_in) == (False, False)
    assert done.problem is not None
    assert "token" not in json.loads(store.path.read_text())["profiles"]["owner"]


async def test_an_agents_token_is_not_revoked_by_signing_out(server: LocalServer, store: ProfileStore) -> None:
    await save_agent_token(store, "researcher", SecretStr(server.agent_token), server.address)
    done = await sign_out(store)
    assert (done.revoked, done.problem, done.profile.signed_in) == (False, None, False)
    with server.client(server.agent_token) as http:
        assert http.get("/v1/principal").status_code == 200


async def test_the_project_is_found_by_id_and_by_exact_name(server: LocalServer, store: ProfileStore) -> None:
    session = await saved_session(store, server)
    by_id = await use_project(session, store, server.project_id)
    name = by_id.metadata.name
    assert name
    assert store.select().project_name == name
    store.set_project("owner", None, None)
    assert (await use_project(session, store, name)).uid == server.project_id
    for wrong in (name[:-1], "no such project", "../accounts"):
        with pytest.raises(ExpbError) as caught:
            await use_project(session, store, wrong)
        assert caught.value.code == "unknown-project"
    assert store.select().project_id == server.project_id
    await session.aclose()
