"""Why there is no work: each of the six causes, set alone, is the one that is shown (hazards 20)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from expb_tui.server.research.kinds import POLICIES_KIND
from expb_tui.server.store.research_tables import hypotheses
from expb_tui.wire.work import EMPTY_CAUSES, ROLES
from tests.support.research import Desk, Lab, lab

__all__ = ["lab"]


@pytest.fixture
def desk(lab: Lab) -> Desk:
    """Both gates on, work for every role, one objective."""
    desk = lab.project(hypothesisReview=True, resultReview=True)
    desk.objective()
    desk.role("experimenter", concurrentExperiments=8)
    author = lab.agent("author", desk)
    for _ in range(4):
        desk.work(author, "ideator")
    for _ in range(3):
        desk.work(author, "hypothesis-reviewer")
    for _ in range(2):
        desk.work(author, "experimenter")
    desk.work(author, "results-reviewer")
    return desk


def objective_of(desk: Desk, agent: str) -> str:
    ids: list[str] = desk.offered(agent, "ideator")["objective_ids"]
    return ids[0]


def test_every_role_has_work_and_shows_no_cause(lab: Lab, desk: Desk) -> None:
    agent = lab.agent("a", desk)
    items = lab.opportunities(agent)
    assert [item["role"] for item in items] == sorted(ROLES)
    assert all(item["available"] == 1 and item["blocked_by"] == [] for item in items)
    assert lab.opportunities(agent, role="ideator") == [desk.offered(agent, "ideator")]


def _hold_project(desk: Desk, agent: str) -> None:
    desk.hold("project", desk.id)


def _hold_objective(desk: Desk, agent: str) -> None:
    desk.hold("objective", objective_of(desk, agent))


def _limit_packages(desk: Desk, agent: str) -> None:
    desk.limit("agent-active-packages", 0)


SETTINGS: dict[str, tuple[str, Callable[[Desk, str], None]]] = {
    "project-inactive": ("project-inactive", lambda desk, agent: desk.phase("suspended")),
    "objective-paused": ("objective-inactive", lambda desk, agent: desk.drive(objective_of(desk, agent), "pause")),
    "project-hold": ("hold", _hold_project),
    "objective-hold": ("hold", _hold_objective),
    "package-limit": ("limit", _limit_packages),
    "capacity": ("limit", lambda desk, agent: desk.limit("total-capacity", 3)),
    "rate": ("limit", lambda desk, agent: desk.limit("requests-per-minute", 0)),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_one_cause_for_all_roles(lab: Lab, desk: Desk, setting: str) -> None:
    agent = lab.agent("a", desk)
    cause, act = SETTINGS[setting]
    act(desk, agent)
    assert lab.opportunities(agent) == []
    for role in ROLES:
        assert desk.offered(agent, role)["blocked_by"] == [cause], role
        assert cause in EMPTY_CAUSES


@pytest.mark.parametrize("role", ROLES)
def test_a_disabled_role_alone_is_shown_as_such(lab: Lab, desk: Desk, role: str) -> None:
    agent = lab.agent("a", desk)
    desk.role(role, enabled=False)
    assert desk.claim(agent, role) is None
    assert [item["role"] for item in lab.opportunities(agent, all_roles=True) if item["blocked_by"]] == [role]
    assert desk.offered(agent, role)["blocked_by"] == ["role-disabled"]


@pytest.mark.parametrize("role", ["hypothesis-reviewer", "results-reviewer"])
def test_a_reviewer_without_a_gate(lab: Lab, desk: Desk, role: str) -> None:
    agent = lab.agent("a", desk)
    gate = "hypothesisReview" if role == "hypothesis-reviewer" else "resultReview"
    desk.set(POLICIES_KIND, "", **{gate: False})
    desk.open_gates()
    assert desk.claim(agent, role) is None
    assert desk.offered(agent, role)["blocked_by"] == ["review-gate"]
    assert all(item["available"] for item in lab.opportunities(agent, all_roles=True) if item["role"] != role)


@pytest.mark.parametrize("role", ["experimenter", "integrator"])
def test_a_role_behind_a_gate_at_which_its_work_waits(lab: Lab, desk: Desk, role: str) -> None:
    agent, worker = lab.agent("a", desk), lab.agent("w", desk)
    held = desk.must_claim(worker, role)
    assert desk.claim(agent, role) is None
    assert desk.offered(agent, role)["blocked_by"] == ["review-gate"]
    desk.release(held)
    assert desk.offered(agent, role)["blocked_by"] == []


@pytest.mark.parametrize(
    ("role", "limit"), [("ideator", "open-hypotheses"), ("experimenter", "concurrent-experiments")]
)
def test_a_limit_that_bears_on_one_role(lab: Lab, desk: Desk, role: str, limit: str) -> None:
    agent = lab.agent("a", desk)
    desk.limit(limit, 0)
    assert desk.offered(agent, role)["blocked_by"] == ["limit"]
    assert all(item["available"] for item in lab.opportunities(agent, all_roles=True) if item["role"] != role)


def test_held_work_of_one_hypothesis(lab: Lab, desk: Desk) -> None:
    agent = lab.agent("a", desk)
    with lab.database.read() as conn:
        ready = conn.execute(hypotheses.select().where(hypotheses.c.phase == "ready")).one()
    uid = desk.hold("hypothesis", ready.id)
    assert desk.claim(agent, "experimenter") is None
    assert desk.offered(agent, "experimenter")["blocked_by"] == ["hold"]
    assert desk.offered(agent, "ideator")["available"] == 1
    desk.release_hold(uid)
    assert desk.offered(agent, "experimenter")["blocked_by"] == []


def test_work_of_a_paused_objective_beside_an_active_one(lab: Lab, desk: Desk) -> None:
    agent = lab.agent("a", desk)
    desk.drive(objective_of(desk, agent), "pause")
    desk.objective("second")
    assert desk.offered(agent, "ideator")["available"] == 1
    for role in ROLES[1:]:
        assert desk.offered(agent, role)["blocked_by"] == ["objective-inactive"]


def test_nothing_in_the_way_and_nothing_to_do_shows_no_cause(lab: Lab) -> None:
    desk = lab.project()
    desk.objective()
    agent = lab.agent("a", desk)
    assert desk.offered(agent, "experimenter")["blocked_by"] == []
    assert desk.offered(agent, "experimenter")["available"] == 0
    assert [item["role"] for item in lab.opportunities(agent)] == ["ideator"]


def test_an_agent_that_may_not_review_its_own(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True)
    desk.objective()
    author, other = lab.agent("a", desk), lab.agent("b", desk)
    desk.work(author, "ideator")
    assert desk.claim(author, "hypothesis-reviewer", self_review=False) is None
    mine = desk.offered(author, "hypothesis-reviewer", self_review=False)
    assert (mine["available"], mine["blocked_by"]) == (0, ["review-gate"])
    assert desk.offered(other, "hypothesis-reviewer", self_review=False)["available"] == 1
    assert desk.claim(other, "hypothesis-reviewer", self_review=False) is not None


def test_an_unswept_lease_is_work_already(lab: Lab, desk: Desk) -> None:
    agent, worker = lab.agent("a", desk), lab.agent("w", desk)
    desk.must_claim(worker, "experimenter")
    assert desk.offered(agent, "experimenter")["available"] == 0
    lab.later(901)
    assert desk.offered(agent, "experimenter")["available"] == 1
    assert desk.offered(worker, "ideator")["active_packages"] == 0
