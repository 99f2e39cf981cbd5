"""The desk against the real server: the whole loop, from the journal's side."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.leases.model import LeaseLost, LeaseState, NoCredential, NotHeld, SubmissionBlocked
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, ANSWERS, SETTINGS, at_home
from tests.support.server import LocalServer


@pytest.mark.parametrize("role", list(ANSWERS))
async def test_every_role_is_claimed_renewed_and_submitted(tmp_path: Path, server: LocalServer, role: str) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session, role)
        assert (held.state, held.role, held.profile_name) == (LeaseState.ACTIVE, role, AGENT)
        assert 890 < held.remaining(home.desk.clock) <= 900
        renewed = await home.desk.renew(session, held.uid)
        assert (renewed.kind, renewed.held.renewals) == ("renewed", 1)
        await home.desk.save_draft(held.uid, held.tasks[0].task_id, {"summary": "typed"})
        assert (await home.desk.get(held.uid)).tasks[0].has_draft
        done = await home.desk.submit(session, held.uid, home.body(held))
        assert (done.kind, done.held.state) == ("submitted", LeaseState.COMPLETED)
        assert done.receipt.record_id
        assert done.receipt.confirmed_by == "answer"
        assert not done.held.has_token
        assert await home.desk.draft(held.uid, held.tasks[0].task_id) is None
        again = await home.desk.submit(session, held.uid, home.body(held))
        assert (again.kind, again.receipt) == ("already", done.receipt)
        assert await home.desk.receipts(held.uid) == [done.receipt]


async def test_failed_is_a_submission_with_a_receipt(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        body = {"taskId": held.tasks[0].task_id, "outcome": "failed", "reason": "The rig is down."}
        done = await home.desk.submit(session, held.uid, body)
        assert (done.kind, done.receipt.outcome, done.receipt.record_id) == ("submitted", "failed", "")


async def test_no_work_is_a_normal_answer_and_leaves_nothing(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        kinds: list[str] = []
        while not kinds or kinds[-1] == "assigned":
            outcome = await home.desk.request(session, server.project_id, "integrator")
            kinds.append(outcome.kind)
            if outcome.held:
                await home.desk.submit(session, outcome.held.uid, home.body(outcome.held))
        assert kinds[-1] == "empty"
        assert outcome.held is None
        assert await home.desk.pending() == []


async def test_a_role_that_is_not_granted_is_an_error_and_settled(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        with pytest.raises(ApiProblem):
            await home.desk.request(session, server.project_id, "archivist")
        assert await home.desk.pending() == []


async def test_underscores_go_out_in_the_servers_own_spelling(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        held = await home.claim(home.session(), "hypothesis_reviewer")
        assert held.role == "hypothesis-reviewer"


async def test_the_journal_outlives_the_process(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        held = await home.claim(home.session())
    async with at_home(tmp_path, server) as home:
        (found,) = await home.desk.held()
        assert found.uid == held.uid
        assert found.tasks[0].input == held.tasks[0].input
        done = await home.desk.submit(home.session(), found.uid, home.body(found))
        assert done.kind == "submitted"


async def test_release_gives_the_task_back(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        released = await home.desk.release(session, held.uid)
        assert (released.kind, released.held.state) == ("released", LeaseState.RELEASED)
        assert (await home.desk.release(session, held.uid)).kind == "ended"
        assert (await home.claim(session)).tasks[0].task_id == held.tasks[0].task_id
        with pytest.raises(ExpbError) as caught:
            await home.desk.submit(session, held.uid, home.body(held))
        assert caught.value.code == "package-ended"


async def test_show_never_tells_the_token_and_works_for_what_is_not_held(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        (token,) = await home.journal.tokens()
        shown = await home.desk.show(session, held.uid)
        assert token.get_secret_value() not in str(shown.raw.document())
        assert token.get_secret_value() not in repr(shown)
        async with at_home(tmp_path / "elsewhere", server) as other:
            seen = await other.desk.show(other.session(), held.uid)
            assert not seen.held.has_token
            assert "does not hold" in seen.held.reason
            assert await other.desk.held() == []
            with pytest.raises(NotHeld):
                await other.desk.renew(other.session(), held.uid)


async def test_a_saved_answer_is_adopted_elsewhere(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        outcome = await home.desk.request(home.session(), server.project_id, "ideator")
        assert outcome.raw is not None
        saved = outcome.raw.document()
        assert "leaseToken" not in repr(outcome)
    async with at_home(tmp_path / "elsewhere", server) as other:
        session = other.session()
        held = await other.desk.adopt(session, saved)
        assert held.state is LeaseState.ACTIVE
        assert (await other.desk.renew(session, held.uid)).kind == "renewed"
        assert (await other.desk.adopt(session, saved)).has_token
        done = await other.desk.submit(session, held.uid, other.body(held))
        assert done.kind == "submitted"
        ended = await other.desk.adopt(session, saved)
        assert (ended.state, ended.has_token) == (LeaseState.COMPLETED, False)


@pytest.mark.parametrize("saved", [None, [], {}, {"resource": {"metadata": {}}}, {"resource": {"uid": "x"}}])
async def test_other_files_are_not_adopted(tmp_path: Path, server: LocalServer, saved: object) -> None:
    async with at_home(tmp_path, server) as home:
        with pytest.raises(UsageError):
            await home.desk.adopt(home.session(), saved)
        assert await home.desk.held() == []


async def test_secrets_and_wrong_bodies_are_blocked_before_anything_is_sent(
    tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_API_KEY", "Zx91-Yw82-Vu73-Ts64")
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        (lease,) = await home.journal.tokens()
        secrets = [lease.get_secret_value(), server.agent_token, "Zx91-Yw82-Vu73-Ts64", "AKIA" + "IOSFODNN7EXAMPLE"]
        for secret in secrets:
            body = home.body(held)
            body["output"]["hypothesis"]["risks"] = ["none", f"we used {secret} there"]
            with pytest.raises(SubmissionBlocked) as caught:
                await home.desk.submit(session, held.uid, body)
            assert list(caught.value.problems) == ["output.hypothesis.risks.1"]
            assert secret not in str(caught.value)
        body = home.body(held)
        del body["output"]["hypothesis"]["plan"]
        with pytest.raises(SubmissionBlocked) as caught:
            await home.desk.check(held.uid, body)
        assert caught.value.problems == {"output.hypothesis.plan": "is needed"}
        assert await home.desk.pending() == []
        assert (await home.desk.show(session, held.uid)).held.open == 1


async def test_an_output_that_the_server_refuses_stays_a_draft(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        await home.desk.save_draft(held.uid, held.tasks[0].task_id, {"statement": "typed"})
        body = home.body(held)
        body["output"]["hypothesis"]["objectiveId"] = "somebody-elses"
        with pytest.raises(ApiProblem) as caught:
            await home.desk.submit(session, held.uid, body)
        assert caught.value.status == 422
        assert "output.hypothesis.objectiveId" in caught.value.fields
        assert await home.desk.draft(held.uid, held.tasks[0].task_id) is not None
        assert (await home.desk.submit(session, held.uid, home.body(held))).kind == "submitted"


async def test_an_expired_lease_is_lost_and_its_draft_stays(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        await home.desk.save_draft(held.uid, held.tasks[0].task_id, {"statement": "typed"})
        server.pass_time(1000)
        with pytest.raises(LeaseLost) as caught:
            await home.desk.submit(session, held.uid, home.body(held))
        assert caught.value.code == "lease-expired"
        assert (await home.desk.get(held.uid)).state is LeaseState.EXPIRED
        assert await home.desk.draft(held.uid, held.tasks[0].task_id) is not None
        assert await home.desk.receipts() == []
        with pytest.raises(ExpbError):
            await home.desk.renew(session, held.uid)


async def test_renewals_stop_at_the_absolute_end(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        while held.times is not None and not held.times.capped:
            server.pass_time(700)
            outcome = await home.desk.renew(session, held.uid)
            assert outcome.kind == "renewed"
            held = outcome.held
        assert held.renew_in(home.desk.clock) is None
        outcome = await home.desk.renew(session, held.uid)
        assert outcome.kind == "capped"
        assert outcome.held.usable


async def test_a_member_withdraws_a_stuck_package(tmp_path: Path, server: LocalServer) -> None:
    tokens = server.sign_in()
    async with at_home(tmp_path, server) as home:
        held = await home.claim(home.session())
        home.store.put(
            Profile(
                "owner",
                "user",
                endpoint=server.address,
                account_id=tokens["account_id"],
                token=SecretStr(tokens["access_token"]),
            )
        )
        owner = home.session("owner")
        withdrawn = await home.desk.withdraw(owner, held.uid)
        assert withdrawn.held.state is LeaseState.REVOKED
        with pytest.raises(ExpbError):
            await home.desk.submit(home.session(), held.uid, home.body(held))
        with pytest.raises(NoCredential):
            await home.desk.renew(owner, held.uid)


async def test_a_bare_token_claims_and_a_profile_of_the_same_agent_takes_over(
    tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPBENCH_API_SERVER", server.address)
    async with at_home(tmp_path, server) as home:
        bare = Session.open(home.store, token=SecretStr(server.agent_token), settings=SETTINGS)
        home.sessions.append(bare)
        held = await home.claim(bare)
        assert held.state is LeaseState.ACTIVE
        (listed,) = await home.desk.held()
        assert (listed.state, listed.profile_name) == (LeaseState.NO_CREDENTIAL, "")
        (listed,) = await home.desk.held(session=bare)
        assert listed.state is LeaseState.ACTIVE
        assert (await home.desk.renew(bare, held.uid)).kind == "renewed"
        await home.desk.renew(home.session(), held.uid)
        (listed,) = await home.desk.held()
        assert (listed.state, listed.profile_name) == (LeaseState.ACTIVE, AGENT)


async def test_stranded_leases_are_named_before_a_sign_out(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        held = await home.claim(session)
        done = await home.claim(session, "experimenter")
        await home.desk.submit(session, done.uid, home.body(done))
        assert [one.uid for one in await home.desk.stranded_by(AGENT)] == [held.uid]
        assert await home.desk.stranded_by("owner") == []
        home.store.clear_credentials(AGENT)
        (stranded,) = [one for one in await home.desk.held() if one.uid == held.uid]
        assert (stranded.state, stranded.usable) == (LeaseState.NO_CREDENTIAL, False)
        assert "signed out" in stranded.reason


async def test_cancelling_does_not_tear_down_a_claim(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        await session.principal()
        for pause in (0.0, 0.002, 0.005, 0.01):
            claiming = asyncio.create_task(home.desk.request(session, server.project_id, "ideator"))
            await asyncio.sleep(pause)
            claiming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await claiming
            await home.desk.aclose()
            held = [one for one in await home.desk.held() if one.usable]
            assert await home.desk.pending() == []
            assert all(one.has_token for one in held)
            assert held
            for one in held:
                await home.desk.release(session, one.uid)
