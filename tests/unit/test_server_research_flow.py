"""The research loop with its gates on and off, through the domain functions on SQLite."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from expb_tui.server.problems import Problem
from expb_tui.server.research.kinds import (
    EXPERIMENTS,
    HYPOTHESES,
    HYPOTHESIS_REVIEWS,
    INTEGRATIONS,
    OBJECTIVES,
    POLICIES_KIND,
    RESULTS,
)
from expb_tui.server.resources import Kind, envelope
from expb_tui.server.store.research_tables import experiments, holds, hypotheses, results
from tests.support import answers
from tests.support.research import Lab, lab

__all__ = ["lab"]


def as_stored(lab: Lab, kind: Kind, snapshot: dict[str, Any]) -> bool:
    """Whether a snapshot in a task's input is what a read shows."""
    return envelope(kind, lab.row(kind, snapshot["metadata"]["uid"])) == snapshot


def test_with_both_gates_off_an_idea_goes_straight_to_a_proposed_integration(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)

    hypothesis = desk.work(agent, "ideator")
    assert hypothesis.phase == "ready"
    result = desk.work(agent, "experimenter", value=400.5)
    assert result.phase == "accepted"
    assert lab.row(HYPOTHESES, hypothesis.id).phase == "tested"
    assert lab.row(EXPERIMENTS, result.experiment_id).phase == "reported"
    integration = desk.work(agent, "integrator", patch="--- a\n+++ b\n")

    assert integration.phase == "proposed"
    assert integration.spec["resultIds"] == [result.id]
    assert (lab.row(OBJECTIVES, objective).best_result_id, lab.row(OBJECTIVES, objective).best_value) == (
        result.id,
        400.5,
    )
    assert desk.claim(agent, "integrator") is None
    for role in ("hypothesis-reviewer", "results-reviewer"):
        assert desk.offered(agent, role)["blocked_by"] == ["review-gate"]
        assert desk.claim(agent, role) is None


def test_with_both_gates_on_every_step_waits_for_its_review(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True, resultReview=True)
    desk.objective()
    agent = lab.agent("a", desk)

    hypothesis = desk.work(agent, "ideator")
    assert hypothesis.phase == "proposed"
    assert desk.claim(agent, "experimenter") is None
    review = desk.must_claim(agent, "hypothesis-reviewer")
    assert lab.row(HYPOTHESES, hypothesis.id).phase == "in-review"
    assert as_stored(lab, HYPOTHESES, review.tasks[0]["input"]["hypothesis"])
    recorded = desk.submit(review, answers.hypothesis_review(review.tasks[0]["input"])).outcome
    assert recorded is not None
    assert recorded.kind is HYPOTHESIS_REVIEWS
    ready = lab.row(HYPOTHESES, hypothesis.id)
    assert (ready.phase, ready.review_id) == ("ready", recorded.record.id)

    run = desk.must_claim(agent, "experimenter")
    assert lab.row(HYPOTHESES, hypothesis.id).phase == "in-experiment"
    experiment = run.tasks[0]["input"]["experiment"]["metadata"]["uid"]
    assert (lab.row(EXPERIMENTS, experiment).phase, lab.row(EXPERIMENTS, experiment).package_id) == (
        "assigned",
        run.uid,
    )
    for kind, name in ((EXPERIMENTS, "experiment"), (HYPOTHESES, "hypothesis"), (OBJECTIVES, "objective")):
        assert as_stored(lab, kind, run.tasks[0]["input"][name])
    reported = desk.submit(run, answers.report(run.tasks[0]["input"])).outcome
    assert reported is not None
    assert reported.record.phase == "reported"
    assert desk.claim(agent, "integrator") is None
    judged = desk.must_claim(agent, "results-reviewer")
    assert as_stored(lab, RESULTS, judged.tasks[0]["input"]["result"])
    assert lab.row(RESULTS, reported.record.id).phase == "in-review"
    desk.submit(judged, answers.result_review(judged.tasks[0]["input"]))
    assert lab.row(RESULTS, reported.record.id).phase == "accepted"
    assert desk.work(agent, "integrator").phase == "proposed"


def test_refine_makes_a_ready_child_of_the_refined(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True)
    desk.objective()
    agent = lab.agent("a", desk)
    parent = desk.work(agent, "ideator")
    desk.work(agent, "hypothesis-reviewer", verdict="refine")

    assert lab.row(HYPOTHESES, parent.id).phase == "combined"
    task = desk.must_claim(agent, "experimenter").tasks[0]["input"]["hypothesis"]
    assert task["spec"]["parentIds"] == [parent.id]
    assert task["spec"]["statement"] == "A sharper statement."
    assert task["spec"]["rationale"] == parent.spec["rationale"]


def test_combine_takes_the_other_hypotheses_with_it_in_whoevers_hands_they_are(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True)
    desk.objective()
    first, second = lab.agent("a", desk), lab.agent("b", desk)
    parents = [desk.work(first, "ideator").id for _ in range(3)]
    mine = desk.must_claim(first, "hypothesis-reviewer")
    theirs = desk.must_claim(second, "hypothesis-reviewer")

    desk.submit(mine, answers.hypothesis_review(mine.tasks[0]["input"], "combine"))

    assert {lab.row(HYPOTHESES, uid).phase for uid in parents} == {"combined"}
    with lab.database.read() as conn:
        child = conn.execute(select(hypotheses).where(hypotheses.c.phase == "ready")).one()
    assert child.spec["parentIds"] == parents
    package = desk.package(theirs)
    assert package["status"]["phase"] == "completed"
    assert package["status"]["tasks"][0]["phase"] == "revoked"
    with pytest.raises(Problem) as refused:
        desk.submit(theirs, answers.hypothesis_review(theirs.tasks[0]["input"]))
    assert refused.value.code == "task-closed"
    assert desk.claim(second, "hypothesis-reviewer") is None


def test_combining_with_what_was_decided_meanwhile_is_refused_with_its_place(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True)
    desk.objective()
    first, second = lab.agent("a", desk), lab.agent("b", desk)
    for _ in range(2):
        desk.work(first, "ideator")
    mine = desk.must_claim(first, "hypothesis-reviewer")
    desk.work(second, "hypothesis-reviewer", verdict="reject")
    with pytest.raises(Problem) as refused:
        desk.submit(mine, answers.hypothesis_review(mine.tasks[0]["input"], "combine"))
    assert refused.value.fields == {"output.review.combineWith.0": "is no longer open to be combined"}
    assert desk.submit(mine, answers.hypothesis_review(mine.tasks[0]["input"])).outcome is not None


def test_evidence_may_be_asked_for_three_times(lab: Lab) -> None:
    desk = lab.project(resultReview=True)
    desk.objective()
    agent = lab.agent("a", desk)
    hypothesis = desk.work(agent, "ideator")
    for left in (3, 2, 1):
        desk.work(agent, "experimenter")
        held = desk.must_claim(agent, "results-reviewer")
        assert held.tasks[0]["input"]["evidenceRoundsLeft"] == left
        desk.submit(held, answers.result_review(held.tasks[0]["input"], "request-evidence"))
        assert lab.row(HYPOTHESES, hypothesis.id).phase == "in-experiment"
    run = desk.must_claim(agent, "experimenter")
    assert run.tasks[0]["input"]["evidenceRequests"] == ["Repeat on two further replicas."]
    assert len(run.tasks[0]["input"]["earlierResults"]) == 3
    desk.submit(run, answers.report(run.tasks[0]["input"]))
    held = desk.must_claim(agent, "results-reviewer")
    with pytest.raises(Problem) as refused:
        desk.submit(held, answers.result_review(held.tasks[0]["input"], "request-evidence"))
    assert set(refused.value.fields) == {"output.review.verdict"}
    desk.submit(held, answers.result_review(held.tasks[0]["input"], "reject"))
    assert lab.row(HYPOTHESES, hypothesis.id).phase == "tested"
    assert lab.count(results, results.c.phase == "evidence-requested") == 3


def test_only_supported_results_within_the_constraints_are_integrated(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)
    desk.experiments(objective, 4)
    desk.work(agent, "experimenter", value=300.0, error_rate=0.5)
    assert lab.row(OBJECTIVES, objective).best_result_id is None
    refuted = desk.work(agent, "experimenter", value=450.0, conclusion="refuted")
    assert lab.row(OBJECTIVES, objective).best_result_id == refuted.id
    assert desk.claim(agent, "integrator") is None
    best = desk.work(agent, "experimenter", value=390.0)
    desk.work(agent, "experimenter", value=395.0)
    assert lab.row(OBJECTIVES, objective).best_result_id == best.id

    held = desk.must_claim(agent, "integrator")
    output = answers.integration(held.tasks[0]["input"])
    offered = [result["metadata"]["uid"] for result in held.tasks[0]["input"]["results"]]
    assert len(offered) == 2
    output["integration"]["resultIds"] = offered
    outcome = desk.submit(held, output).outcome
    assert outcome is not None
    assert outcome.kind is INTEGRATIONS
    assert desk.claim(agent, "integrator") is None, "both results are in one change set"


def test_a_gate_that_is_switched_off_lets_the_queue_pass(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True, resultReview=True)
    desk.objective()
    agent, other = lab.agent("a", desk), lab.agent("b", desk)
    for _ in range(3):
        desk.work(agent, "ideator")
    desk.work(agent, "hypothesis-reviewer")
    reported = desk.work(agent, "experimenter")
    in_hand = desk.must_claim(other, "hypothesis-reviewer")
    desk.set(POLICIES_KIND, "", hypothesisReview=False, resultReview=False)
    desk.open_gates()

    assert lab.row(RESULTS, reported.id).phase == "accepted"
    assert desk.open_tasks("hypothesis-reviewer") == desk.open_tasks("results-reviewer") == 0
    assert desk.open_tasks("experimenter") == 1
    assert desk.open_tasks("integrator") == 1
    desk.submit(in_hand, answers.hypothesis_review(in_hand.tasks[0]["input"]))
    assert desk.open_tasks("experimenter") == 2


def test_a_closed_objective_ends_its_queue_and_takes_what_is_in_hand(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)
    desk.experiments(objective, 3)
    finished, returned = desk.must_claim(agent, "experimenter"), lab.agent("b", desk)
    given_up = desk.must_claim(returned, "experimenter")
    desk.drive(objective, "close")
    assert lab.count(experiments, experiments.c.phase == "abandoned") == 1
    outcome = desk.submit(finished, answers.report(finished.tasks[0]["input"])).outcome
    assert outcome is not None
    assert outcome.record.phase == "accepted"
    assert desk.open_tasks("integrator") == 0, "nothing new follows"
    desk.release(given_up)
    assert lab.count(experiments, experiments.c.phase == "abandoned") == 2
    with pytest.raises(Problem) as refused:
        desk.drive(objective, "activate")
    assert refused.value.code == "phase-conflict"


def test_a_poison_task_is_parked_under_a_hold_that_a_member_releases(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)
    desk.experiments(objective, 1)
    for _ in range(2):
        desk.submit(desk.must_claim(agent, "experimenter"), reason="the rig burnt")
        assert lab.count(holds) == 0
    held = desk.must_claim(agent, "experimenter")
    lab.later(901)
    assert desk.package(held)["status"]["phase"] == "expired"
    assert desk.claim(agent, "experimenter") is None, "the claim itself writes the third failure down"
    with lab.database.read() as conn:
        hold = conn.execute(select(holds)).one()
    assert (hold.target_kind, hold.phase) == ("hypothesis", "active")
    assert "3 tries" in hold.reason
    assert desk.offered(agent, "experimenter")["blocked_by"] == ["hold"]

    desk.release_hold(hold.id)
    desk.submit(desk.must_claim(agent, "experimenter"))
    assert desk.claim(agent, "experimenter") is not None, "the count began afresh"


def test_a_poisoned_idea_holds_its_objective(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)
    for _ in range(3):
        desk.submit(desk.must_claim(agent, "ideator"))
    with lab.database.read() as conn:
        hold = conn.execute(select(holds)).one()
    assert (hold.target_kind, hold.target_id) == ("objective", objective)
    assert desk.claim(agent, "ideator") is None
    assert desk.open_tasks("ideator") == 1, "returned ideas do not pile up"
