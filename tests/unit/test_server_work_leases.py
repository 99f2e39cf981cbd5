"""Leases: who holds one, when it ends, and what becomes of its tasks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from expb_tui.server.identity.authentication import verifier
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS
from expb_tui.server.problems import Problem
from expb_tui.server.store.research_tables import work_packages
from expb_tui.server.store.schema import agent_authorizations
from expb_tui.server.work import leases
from expb_tui.server.work.expiry import sweep_database
from expb_tui.server.work.packages import WORK_PACKAGES
from expb_tui.wire.work import output_digest
from tests.support import answers
from tests.support.research import Desk, Held, Lab, lab

__all__ = ["lab"]


@pytest.fixture
def desk(lab: Lab) -> Desk:
    desk = lab.project()
    desk.experiments(desk.objective(), 3)
    return desk


@pytest.fixture
def agent(lab: Lab, desk: Desk) -> str:
    desk.role("experimenter", concurrentExperiments=8, maxTasks=4)
    return lab.agent("a", desk)


def code(act: object, *args: object) -> str:
    """The code of the refusal that a call ends with."""
    with pytest.raises(Problem) as refused:
        act(*args)  # type: ignore[operator]  # parametrized with functions
    return refused.value.code


def test_the_token_is_43_characters_and_only_its_verifier_is_stored(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    assert len(held.token) == 43
    with lab.database.read() as conn:
        row = conn.execute(select(work_packages)).one()
    assert row.token_verifier == verifier(held.token)
    assert held.token not in str(tuple(row))


def test_renewal_moves_the_end_up_to_the_absolute_one(lab: Lab, desk: Desk, agent: str) -> None:
    desk.role("experimenter", leaseSeconds=60, absoluteLeaseSeconds=100)
    held = desk.must_claim(agent, "experimenter")
    first = lab.row(WORK_PACKAGES, held.uid)
    assert first.expires_at == first.issued_at + timedelta(seconds=60)
    lab.later(30)
    second = desk.renew(held)
    assert (second.renewals, second.version) == (1, 2)
    assert timedelta(seconds=89) < second.expires_at - first.issued_at < timedelta(seconds=92)
    lab.later(30)
    assert desk.renew(held).expires_at == first.absolute_expires_at
    lab.later(1)
    assert code(desk.renew, held) == "lease-limit"
    lab.later(60)
    assert code(desk.renew, held) == "lease-expired"


def test_nothing_is_accepted_after_expiry_and_the_task_goes_to_the_next(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    lab.later(900)
    output = answers.report(held.tasks[0]["input"])
    assert code(desk.submit, held, output) == "lease-expired"
    assert code(desk.renew, held) == "lease-expired"
    assert code(desk.release, held) == "lease-expired"
    shown = desk.package(held)
    assert (shown["status"]["phase"], shown["status"]["tasks"][0]["phase"]) == ("expired", "expired")
    assert shown["metadata"]["version"] == 2
    again = desk.must_claim(lab.agent("b", desk), "experimenter")
    assert again.task_ids == held.task_ids, "the oldest task first"
    assert desk.package(held) == shown, "what a read foretold is what was stored"
    assert code(desk.submit, held, output) == "lease-expired"


def test_the_sweeper_expires_in_batches(lab: Lab, desk: Desk, agent: str) -> None:
    desk.role("experimenter", concurrentExperiments=64)
    desk.limit("agent-active-packages", 64)
    desk.experiments(desk.objective("other"), 21)
    for _ in range(24):
        desk.must_claim(agent, "experimenter")
    assert sweep_database(lab.database) == 0
    lab.later(901)
    assert [sweep_database(lab.database) for _ in range(3)] == [20, 4, 0]
    assert desk.open_tasks("experimenter") == 24


def test_a_wrong_token_and_an_ended_package_conflict(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    assert code(desk.renew, Held(agent, held.uid, "x" * 43, held.tasks)) == "lease-conflict"
    desk.release(held)
    assert desk.package(held)["status"]["phase"] == "released"
    assert desk.package(held)["status"]["tasks"][0]["phase"] == "released"
    for act in (desk.renew, desk.release):
        assert code(act, held) == "lease-conflict"
    assert code(desk.submit, held, answers.report(held.tasks[0]["input"])) == "lease-conflict"
    assert desk.must_claim(agent, "experimenter").task_ids == held.task_ids


def test_another_agents_package_is_not_there(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    thief = lab.agent("thief", desk)
    assert code(desk.renew, Held(thief, held.uid, held.token, held.tasks)) == "not-found"


def test_a_member_can_withdraw_a_stuck_package(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    with lab.unit() as unit:
        leases.revoke(unit, leases.lock_package(unit, held.uid))
    assert desk.package(held)["status"]["phase"] == "revoked"
    assert code(desk.submit, held, answers.report(held.tasks[0]["input"])) == "lease-conflict"
    assert desk.must_claim(agent, "experimenter").task_ids == held.task_ids


def test_a_revoked_authorization_blocks_the_next_claim_not_the_running_lease(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter")
    with lab.unit() as unit:
        grant = unit.one(select(agent_authorizations).where(agent_authorizations.c.agent_id == agent))
        assert grant is not None
        unit.update(AGENT_AUTHORIZATIONS, grant, phase="revoked")
    assert code(desk.claim, agent, "experimenter") == "not-found"
    desk.renew(held)
    assert desk.submit(held, answers.report(held.tasks[0]["input"])).package.phase == "completed"


def test_a_submitted_task_carries_what_confirms_it_and_takes_no_other(lab: Lab, desk: Desk, agent: str) -> None:
    held = desk.must_claim(agent, "experimenter", 2)
    output = answers.report(held.tasks[0]["input"])
    receipt = desk.submit(held, output)
    assert receipt.outcome is not None
    task = desk.package(held)["status"]["tasks"][0]
    assert (task["phase"], task["outcome"], task["recordId"], task["outputSha256"]) == (
        "submitted",
        "completed",
        receipt.outcome.record.id,
        output_digest(output),
    )
    assert receipt.package.phase == "active"
    assert code(desk.submit, held, output) == "task-closed"
    assert desk.submit(held, None, 1).package.phase == "completed"
    assert desk.package(held)["status"]["tasks"][1]["outcome"] == "failed"
    assert code(desk.submit, held, output) == "task-closed", "also once the package is completed"
    lab.later(1000)
    assert code(desk.submit, held, output) == "task-closed", "and after its lease"


def test_a_package_takes_as_many_tasks_as_role_request_and_limits_allow(lab: Lab, desk: Desk, agent: str) -> None:
    desk.role("experimenter", concurrentExperiments=2, maxTasks=4)
    held = desk.must_claim(agent, "experimenter", 9)
    assert (len(held.tasks), lab.row(WORK_PACKAGES, held.uid).max_tasks) == (2, 4)
    assert code(desk.claim, agent, "experimenter") == "limit-exceeded"
    other = lab.agent("b", desk)
    assert len(desk.must_claim(other, "experimenter", 9).tasks) == 1
    assert desk.claim(lab.agent("c", desk), "experimenter") is None


def test_newest_first_is_the_other_order(lab: Lab, desk: Desk, agent: str) -> None:
    oldest = desk.must_claim(agent, "experimenter")
    desk.release(oldest)
    desk.role("experimenter", ordering="newest-first")
    newest = desk.must_claim(agent, "experimenter")
    assert newest.task_ids != oldest.task_ids


def test_claims_are_refused_by_who_and_where(lab: Lab, desk: Desk, agent: str) -> None:
    stranger = Lab(lab.database, "Other lab")
    foreign = stranger.agent("x", stranger.project())
    assert code(desk.claim, foreign, "experimenter") == "not-found"
    assert code(desk.claim, lab.agent("idea-only", desk, roles=["ideator"]), "experimenter") == "role-not-authorized"
    assert code(desk.claim, agent, "chief") == "validation"
    assert desk.claim(agent, "result_reviewer") is None, "the other spellings are understood"
    desk.phase("inactive")
    assert code(desk.claim, agent, "experimenter") == "project-inactive"


def test_an_interval_and_a_rate_make_the_agent_wait(lab: Lab, desk: Desk, agent: str) -> None:
    desk.role("experimenter", assignmentIntervalSeconds=60)
    desk.must_claim(agent, "experimenter")
    with pytest.raises(Problem) as refused:
        desk.claim(agent, "experimenter")
    assert (refused.value.code, refused.value.headers["Retry-After"]) == ("rate-limited", "60")
    assert desk.offered(agent, "experimenter")["retry_after_seconds"] == 60
    lab.later(60)
    desk.must_claim(agent, "experimenter")

    desk.limit("requests-per-minute", 2)
    other = lab.agent("b", desk)
    assert desk.claim(other, "integrator") is None
    assert desk.claim(other, "integrator") is None
    assert code(desk.claim, other, "integrator") == "rate-limited"
    lab.later(61)
    assert desk.claim(other, "integrator") is None
