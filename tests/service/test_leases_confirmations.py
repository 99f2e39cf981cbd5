"""Answers of 2xx that confirm nothing: nobody is told more than the package itself shows (contract, 6.2.4, 6.2.5)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.failures import BadAnswer
from expb_tui.core.leases.model import LeaseState, ReleaseOutcome, RenewOutcome, Unresolved
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile
from expb_tui.core.secret import SecretStr
from tests.support.desk import Home, at_home
from tests.support.loopback import FaultyWay, Reply, Request, once, posts
from tests.support.server import LocalServer

PACKAGE: dict[str, Any] = {
    "apiVersion": "exp-bench.sre-norns.com/v1",
    "kind": "work-packages",
    "metadata": {"uid": "UID", "version": 9},
    "spec": {"role": "ideator"},
    "status": {"phase": "active", "tasks": []},
}


def package(**changes: Any) -> dict[str, Any]:
    return PACKAGE | changes


def named_package(uid: str) -> dict[str, Any]:
    """The package, without anything that would confirm a renewal or an end."""
    return package(metadata={"uid": uid, "version": 1})


def task(**changes: Any) -> dict[str, Any]:
    return package(status={"phase": "active", "tasks": [{"taskId": "TASK", "phase": "assigned", **changes}]})


SAYS_NOTHING = [
    Reply(204),
    Reply(200, b""),
    Reply(200, {}),
    Reply(201, []),
    Reply(201, "submitted"),
    Reply(200, b"<html>Thank you</html>"),
    Reply(200, b"ok"),
    Reply(202, {"status": "queued"}),
    Reply(200, {"error": "maintenance"}),
    Reply(200, {"resource": "x", "package": "y"}),
    Reply(200, {"resource": None, "package": None}),
    Reply(201, {"resource": {"kind": "hypotheses", "metadata": {}}}),
    Reply(201, {"package": {"metadata": {"uid": 7}}}),
    Reply(201, {"package": package(metadata={"uid": "another"})}),
]
SAYS_NOT_SUBMITTED = [
    Reply(202, {"resource": {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}, "package": task(phase="submitted")}),
    Reply(201, {"package": package()}),
    Reply(201, {"package": task()}),
    Reply(201, {"resource": {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}, "package": task()}),
    Reply(201, {"package": task(phase="submitted", outcome="failed")}),
    Reply(201, {"package": task(phase="submitted", outcome="completed", outputSha256="0" * 64)}),
    Reply(201, {"resource": {"metadata": {"uid": "h"}}, "package": package(metadata={"uid": "another"})}),
]
SAYS_SUBMITTED = [
    Reply(200, {"resource": {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}}),
    Reply(201, {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}),
    Reply(201, {"resource": {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}, "package": package()}),
    Reply(201, {"resource": {"kind": "h", "metadata": {"uid": "hyp-1"}}, "package": task(phase="of-a-later-contract")}),
    Reply(201, {"package": task(phase="submitted")}),
    Reply(201, {"package": package(status={"phase": "completed", "tasks": []})}),
]
ABOUT_FAILURES = [
    (Reply(201, {"package": package()}), True),
    (Reply(201, {"package": task(phase="submitted", outcome="failed")}), True),
    (Reply(201, {"package": task()}), False),
    (Reply(201, {"package": package(metadata={"uid": "another"})}), False),
    (Reply(201, {"resource": {"kind": "hypotheses", "metadata": {"uid": "hyp-1"}}}), False),
]


def named(reply: Reply, uid: str, task_id: str) -> Reply:
    """The reply with the ids of a real package."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        return {"UID": uid, "TASK": task_id}.get(value, value) if isinstance(value, str) else value

    return replace(reply, body=filled(reply.body))


@contextlib.asynccontextmanager
async def at_work(folder: Path, server: LocalServer) -> AsyncIterator[tuple[FaultyWay, Home, Session]]:
    async with (
        FaultyWay(server.address).running() as way,
        at_home(folder, server, endpoint=way.url, patience=1.0) as home,
    ):
        yield way, home, home.session()


def patches(request: Request) -> bool:
    return request.method == "PATCH"


def not_reading(where: Callable[[Request], bool], reply: Reply) -> Callable[[Request], str | Reply]:
    """The act gets ``reply`` and never arrives; whoever reads the package gets no answer."""

    def fault(request: Request) -> str | Reply:
        if where(request):
            return reply
        return "drop" if request.method == "GET" and "/work-packages/" in request.path else "pass"

    return fault


async def lease_token(home: Home, uid: str) -> str:
    row = await home.journal.package(uid)
    assert row is not None
    assert row.token is not None
    return row.token.get_secret_value()


async def test_a_submission_that_nobody_confirms_is_not_submitted(tmp_path: Path, server: LocalServer) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        task_id = held.tasks[0].task_id
        await home.desk.save_draft(held.uid, task_id, {"statement": "typed"})
        for count, reply in enumerate([*SAYS_NOTHING, *SAYS_NOT_SUBMITTED], 1):
            way.fault = once(posts("submissions"), named(reply, held.uid, task_id), times=99)
            with pytest.raises(Unresolved):
                pytest.fail(f"{reply}: {await home.desk.submit(session, held.uid, home.body(held))}")
            assert await home.desk.receipts() == []
            pending = await home.desk.pending()
            assert [(one.kind, one.waiting) for one in pending] == [("submit", False)] * count
        assert await home.desk.draft(held.uid, task_id) is not None
        way.fault = lambda request: "pass"
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert (done.kind, done.held.state) == ("submitted", LeaseState.COMPLETED)


@pytest.mark.parametrize("reply", [Reply(204), Reply(201, []), Reply(202, {"status": "queued"})], ids=str)
async def test_a_submission_that_arrived_is_confirmed_by_reading(
    tmp_path: Path, server: LocalServer, reply: Reply
) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        way.fault = once(posts("submissions"), replace(reply, arrives=True))
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert done.receipt.confirmed_by == "reading"
        assert done.receipt.record_id
        assert done.held.state is LeaseState.COMPLETED


async def test_every_shape_of_a_confirmation_is_believed(tmp_path: Path, server: LocalServer) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        task_id = held.tasks[0].task_id
        done, failed = home.body(held), {"taskId": task_id, "outcome": "failed", "reason": "The rig is down."}
        saved = {"resource": {"metadata": {"uid": held.uid}}, "leaseToken": await lease_token(home, held.uid)}
        cases = [(done, reply, True) for reply in SAYS_SUBMITTED]
        cases += [(failed, reply, believed) for reply, believed in ABOUT_FAILURES]
        for place, (body, reply, believed) in enumerate(cases):
            way.fault = lambda request: "pass"
            async with at_home(tmp_path / str(place), server, endpoint=way.url, patience=0.2) as other:
                await other.desk.adopt(other.session(), saved)
                way.fault = not_reading(posts("submissions"), named(reply, held.uid, task_id))
                if believed:
                    outcome = await other.desk.submit(other.session(), held.uid, body)
                    assert (outcome.kind, outcome.receipt.confirmed_by) == ("submitted", "answer")
                    continue
                with pytest.raises(Unresolved):
                    pytest.fail(f"{reply}: {await other.desk.submit(other.session(), held.uid, body)}")


Act = Callable[[Home, Session, str], Awaitable[RenewOutcome | ReleaseOutcome]]


async def renewal(home: Home, session: Session, uid: str) -> RenewOutcome:
    return await home.desk.renew(session, uid)


async def release(home: Home, session: Session, uid: str) -> ReleaseOutcome:
    return await home.desk.release(session, uid)


@pytest.mark.parametrize(("act", "where"), [(renewal, posts("renewals")), (release, patches)])
async def test_an_act_that_nobody_confirms_changes_nothing(
    tmp_path: Path, server: LocalServer, act: Act, where: Callable[[Request], bool]
) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        for reply in [*SAYS_NOTHING, Reply(200, {"resource": package()}), Reply(200, package(status={}))]:
            way.fault = once(where, named(reply, held.uid, ""), times=99)
            with pytest.raises(BadAnswer):
                pytest.fail(f"{reply}: {await act(home, session, held.uid)}")
            now = await home.desk.get(held.uid)
            assert (now.state, now.has_token, now.phase) == (LeaseState.ACTIVE, True, "active")
            assert held.times is not None
            assert now.times is not None
            assert now.times.expires_at == held.times.expires_at
            assert await home.desk.pending() == []


async def test_a_renewal_and_a_release_that_arrived_are_confirmed_by_reading(
    tmp_path: Path, server: LocalServer
) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        assert held.times is not None
        await asyncio.sleep(0.01)
        way.fault = once(posts("renewals"), Reply(200, {"resource": named_package(held.uid)}, arrives=True))
        renewed = await home.desk.renew(session, held.uid)
        assert renewed.kind == "renewed"
        assert renewed.held.times is not None
        assert renewed.held.times.expires_at > held.times.expires_at
        way.fault = once(patches, Reply(200, [], arrives=True))
        assert (await home.desk.release(session, held.uid)).kind == "released"


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("journaled", [True, False])
async def test_a_withdrawal_is_believed_when_the_package_has_ended(
    tmp_path: Path, server: LocalServer, arrives: bool, journaled: bool
) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        async with at_home(tmp_path / "elsewhere", server, endpoint=way.url) as stranger:
            member = SecretStr(server.sign_in()["access_token"])
            other = home if journaled else stranger
            other.store.put(Profile("owner", endpoint=way.url, account_id=server.account_id, token=member))
            way.fault = once(patches, Reply(200, named_package(held.uid), arrives=arrives))
            withdrawal = other.desk.withdraw(other.session("owner"), held.uid)
            if arrives:
                assert (await withdrawal).held.state is LeaseState.REVOKED
                return
            with pytest.raises(BadAnswer):
                await withdrawal


@pytest.mark.parametrize(
    ("reply", "found", "lost"),
    [
        (Reply(204), "empty", "empty"),
        (Reply(200, {"resource": None}), "empty", "empty"),
        (Reply(200, package(metadata={})), "empty", "empty"),
        (Reply(200, {}), "token-lost", "empty"),
        (Reply(200, b""), "token-lost", "empty"),
        (Reply(200, {"error": "maintenance"}), "token-lost", "empty"),
        (Reply(200, {"resource": "x"}), "token-lost", "empty"),
        (Reply(201, {"resource": None}), "token-lost", "unknown"),
        (Reply(202, {"status": "queued"}), "token-lost", "unknown"),
        (Reply(200, []), "token-lost", "unknown"),
        (Reply(200, b"<html>Thank you</html>"), "token-lost", "unknown"),
    ],
    ids=str,
)
async def test_an_answer_to_a_claim_that_says_nothing_is_looked_into(
    tmp_path: Path, server: LocalServer, reply: Reply, found: str, lost: str
) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        way.fault = once(posts("work-packages"), reply)
        if lost == "unknown":
            with pytest.raises(Unresolved):
                await home.desk.request(session, server.project_id, "ideator")
            (pending,) = await home.desk.pending()
            assert (pending.kind, pending.waiting) == ("claim", False)
            way.fault = lambda request: "pass"
            (settled,) = await home.desk.resolve(session)
            assert settled.state is LeaseState.ACTIVE
            return
        assert (await home.desk.request(session, server.project_id, "ideator")).kind == lost
        way.fault = once(posts("work-packages"), replace(reply, arrives=True))
        outcome = await home.desk.request(session, server.project_id, "ideator")
        assert outcome.kind == found
        assert await home.desk.pending() == []


async def test_a_claim_whose_answer_names_no_lease_is_completed_by_reading(tmp_path: Path, server: LocalServer) -> None:
    async with at_work(tmp_path, server) as (way, home, session):
        held = await home.claim(session)
        reply = {"resource": named_package(held.uid), "leaseToken": await lease_token(home, held.uid)}
        async with at_home(tmp_path / "elsewhere", server, endpoint=way.url) as other:
            way.fault = once(posts("work-packages"), Reply(201, reply))
            claimed = await other.claim(other.session())
            assert claimed.remaining(other.desk.clock) > 800
            assert claimed.has_token
            assert [one.task_id for one in claimed.tasks] == [one.task_id for one in held.tasks]
