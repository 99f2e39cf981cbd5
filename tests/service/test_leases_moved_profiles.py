"""A profile that was re-pointed: nothing is sent for the leases of its former self (hazards 6)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.model import LeaseState, NoCredential
from expb_tui.core.leases.renewer import RenewalNote, Renewer
from expb_tui.core.profiles.session import Session
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, MovingClock, at_home
from tests.support.loopback import Loopback, Reply, Request
from tests.support.server import LocalServer


async def anything(request: Request) -> Reply:
    return Reply(200, {"items": []})


@pytest.mark.parametrize("spelled", ["{}/", "{}/v1", "{}/v1/"])
async def test_an_endpoint_in_another_spelling_is_the_same_service(
    tmp_path: Path, server: LocalServer, spelled: str
) -> None:
    async with at_home(tmp_path, server, endpoint=spelled.format(server.address)) as home:
        held = await home.claim(home.session())
        (listed,) = await home.desk.held()
        assert listed.state is LeaseState.ACTIVE
        assert (await home.desk.renew(home.session(), held.uid)).kind == "renewed"


async def test_the_other_server_sees_no_request(tmp_path: Path, server: LocalServer) -> None:
    clock = MovingClock()
    async with Loopback(anything).running() as other, at_home(tmp_path, server, clock=clock) as home:
        before = home.session()
        held = await home.claim(before)
        assert (await home.desk.renew(before, held.uid)).kind == "renewed"

        home.store.put(replace(home.store.select(AGENT), endpoint=other.url))
        after = home.session()
        for session in (before, after):
            for act in (home.desk.renew, home.desk.release, home.desk.show):
                with pytest.raises(ExpbError) as caught:
                    await act(session, held.uid)
                assert isinstance(caught.value, NoCredential), caught.value
            with pytest.raises(NoCredential):
                await home.desk.submit(session, held.uid, home.body(held))
        (listed,) = await home.desk.held()
        assert listed.state is LeaseState.NO_CREDENTIAL
        assert other.url in listed.reason

        notes: list[RenewalNote] = []
        asked: list[str] = []

        async def sessions(held: object) -> Session:
            asked.append("session")
            return after

        clock.ahead = 700.0
        renewer = Renewer(home.desk, sessions, clock=clock, on_note=notes.append)
        await _run_for(renewer, 0.3)
        assert asked == []
        assert other.requests == []
        assert (await home.desk.get(held.uid)).renewals == 1

        home.store.put(replace(home.store.select(AGENT), endpoint=server.address))
        assert (await home.desk.renew(home.session(), held.uid)).kind == "renewed"


async def test_a_fault_of_ours_is_said_and_does_not_end_the_keeping(tmp_path: Path, server: LocalServer) -> None:
    clock = MovingClock()
    async with at_home(tmp_path, server, clock=clock) as home:
        held = await home.claim(home.session())
        clock.ahead = 700.0
        notes: list[RenewalNote] = []
        tries: list[object] = []

        async def sessions(held: object) -> Session:
            tries.append(held)
            if len(tries) == 1:
                raise RuntimeError("planted")
            return home.session()

        renewer = Renewer(home.desk, sessions, clock=clock, on_note=notes.append)
        await _run_for(renewer, 0.3)
        assert len(tries) == 1
        (note,) = notes
        assert note.package_id == held.uid
        assert "internal error: RuntimeError" in str(note.error)
        assert "planted" not in str(note.error)
        await _run_for(renewer, 2.5)
        assert (await home.desk.get(held.uid)).renewals == 1


@pytest.mark.parametrize("moved", [{"account_id": "another"}, {"agent_id": "another"}])
async def test_another_agent_may_not_act(tmp_path: Path, server: LocalServer, moved: dict[str, Any]) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        home.store.put(replace(home.store.select(AGENT), **moved))
        with pytest.raises(NoCredential):
            await home.desk.renew(session, held.uid)
        assert (await home.desk.get(held.uid)).state is LeaseState.NO_CREDENTIAL


async def test_a_profile_that_does_not_name_its_agent_asks_the_service(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        home.store.put(replace(home.store.select(AGENT), agent_id=None, account_id=None))
        held = await home.claim(home.session())
        assert held.state is LeaseState.ACTIVE
        assert (await home.desk.renew(home.session(), held.uid)).kind == "renewed"
        with server.client(server.sign_in()["access_token"]) as http:
            made = http.post(
                f"/v1/accounts/{server.account_id}/agent-identities",
                json={
                    "apiVersion": "identity.sre-norns.com/v1",
                    "kind": "agent-identities",
                    "metadata": {"name": "another"},
                    "spec": {},
                },
                headers={"Idempotency-Key": "agent-1"},
            ).json()
            token = http.post(
                f"/v1/agent-identities/{made['metadata']['uid']}/tokens",
                json={
                    "apiVersion": "identity.sre-norns.com/v1",
                    "kind": "agent-identity-tokens",
                    "metadata": {},
                    "spec": {},
                },
                headers={"Idempotency-Key": "token-1"},
            ).json()["token"]
        home.store.put(replace(home.store.select(AGENT), token=SecretStr(token)))
        with pytest.raises(NoCredential):
            await home.desk.renew(home.session(), held.uid)


async def _run_for(renewer: Renewer, seconds: float) -> None:
    task = asyncio.create_task(renewer.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
