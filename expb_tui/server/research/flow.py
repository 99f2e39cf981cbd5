"""The loop: what each submitted output becomes, and which tasks follow from it (contract, section 6.2.8).

::

    idea -> hypothesis proposed -[gate]-> ready -> experiment
         -> result reported -[gate]-> accepted -> integration proposed

Every function expects the locks of a submission and an output that was checked against its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select

from expb_tui.server.context import Unit
from expb_tui.server.problems import invalid
from expb_tui.server.research.kinds import (
    EXPERIMENTS,
    HYPOTHESES,
    HYPOTHESIS_REVIEWS,
    INTEGRATIONS,
    OBJECTIVES,
    RESULT_REVIEWS,
    RESULTS,
)
from expb_tui.server.research.settings import load_rules
from expb_tui.server.resources import Kind, RowOf
from expb_tui.server.store.research_tables import hypotheses, results, work_tasks
from expb_tui.server.work.inputs import MAX_EVIDENCE_ROUNDS, evidence_rounds
from expb_tui.server.work.queue import enqueue, move, withdraw
from expb_tui.wire.research import (
    ExperimenterOutput,
    HypothesisReviewerOutput,
    IdeatorOutput,
    IntegratorOutput,
    Refinement,
    ResultOutput,
    ResultsReviewerOutput,
)


class Outcome(NamedTuple):
    """The record made of an output, and the other tasks that became void: task to the package that holds it."""

    kind: Kind
    record: RowOf
    void: dict[str, str]


class Loop:
    """One submission: the unit of work, the task's row in the queue, its objective, and the settings that count now."""

    def __init__(self, unit: Unit, task: RowOf) -> None:
        self.unit = unit
        self.task = task
        self.objective = unit.fetch(OBJECTIVES, task.objective_id)
        self.rules = load_rules(unit.conn, self.objective.account_id, task.project_id)
        self.owner = {"account_id": self.objective.account_id, "project_id": task.project_id}

    @property
    def goes_on(self) -> bool:
        """Whether work may follow: a closed objective takes what was still being worked on, and no more."""
        return bool(self.objective.phase != "closed")

    def record(self, output: Any) -> Outcome:
        """Make the record of a checked output and queue what follows. Raises 422 where the world has moved on."""
        if isinstance(output, IdeatorOutput):
            return self._propose(output)
        if isinstance(output, HypothesisReviewerOutput):
            return self._review_hypothesis(output)
        if isinstance(output, ExperimenterOutput):
            return self._report(output.result)
        if isinstance(output, ResultsReviewerOutput):
            return self._review_result(output)
        if isinstance(output, IntegratorOutput):
            return self._integrate(output)
        raise TypeError(type(output).__name__)

    def _make(self, kind: Kind, spec: dict[str, Any], **columns: Any) -> RowOf:
        """The one record of this submission."""
        return self.unit.insert(kind, spec=spec, task_id=self.task.id, **self.owner, **columns)

    def _propose(self, output: IdeatorOutput) -> Outcome:
        gate = self.rules.hypothesis_review
        hypothesis = self._make(
            HYPOTHESES,
            {**output.hypothesis.wire(), "parentIds": []},
            phase="proposed" if gate else "ready",
            objective_id=self.task.objective_id,
            agent_id=self.unit.actor.id,
        )
        if not gate:
            self._make_ready(hypothesis)
        elif self.goes_on:
            self._enqueue("hypothesis-reviewer", hypothesis_id=hypothesis.id, author_id=hypothesis.agent_id)
        return Outcome(HYPOTHESES, hypothesis, {})

    def _review_hypothesis(self, output: HypothesisReviewerOutput) -> Outcome:
        review = output.review
        parents = [review.hypothesis_id, *review.combine_with]
        void = self._check_combined(review.combine_with)
        recorded = self._make(HYPOTHESIS_REVIEWS, review.wire(), phase="recorded", hypothesis_id=review.hypothesis_id)
        waiting = ("proposed", "in-review")
        if review.verdict == "accept":
            move(self.unit, HYPOTHESES, [review.hypothesis_id], waiting, "ready", review_id=recorded.id)
            self._make_ready(self.unit.fetch(HYPOTHESES, review.hypothesis_id))
        elif review.verdict == "reject":
            move(self.unit, HYPOTHESES, [review.hypothesis_id], waiting, "rejected", review_id=recorded.id)
        else:
            move(self.unit, HYPOTHESES, parents, waiting, "combined", review_id=recorded.id)
            assert review.refinement is not None  # the wire model requires it for these verdicts
            self._make_ready(self._child(parents, review.refinement, recorded.id))
        return Outcome(HYPOTHESIS_REVIEWS, recorded, void)

    def _check_combined(self, uids: Sequence[str]) -> dict[str, str]:
        """Take the reviews of hypotheses that are combined out of the queue, in whoever's hands they are."""
        if not uids:
            return {}
        query = select(hypotheses.c.id).where(
            hypotheses.c.id.in_(uids), hypotheses.c.phase.in_(("proposed", "in-review"))
        )
        still = set(self.unit.conn.execute(query).scalars())
        gone = {
            f"output.review.combineWith.{index}": "is no longer open to be combined"
            for index, uid in enumerate(uids)
            if uid not in still
        }
        if gone:
            raise invalid(gone, "The candidates changed since the task was given out.")
        return self._withdraw("hypothesis-reviewer", work_tasks.c.hypothesis_id.in_(uids))

    def _child(self, parents: Sequence[str], refinement: Refinement, review_id: str) -> RowOf:
        first = self.unit.fetch(HYPOTHESES, parents[0])
        spec = {**first.spec, **refinement.wire(), "parentIds": list(parents)}
        return self.unit.insert(
            HYPOTHESES,
            phase="ready",
            spec=spec,
            objective_id=self.task.objective_id,
            agent_id=self.unit.actor.id,
            review_id=review_id,
            **self.owner,
        )

    def _make_ready(self, hypothesis: RowOf) -> None:
        start_experiment(self.unit, hypothesis, goes_on=self.goes_on)

    def _report(self, output: ResultOutput) -> Outcome:
        gate = self.rules.result_review
        about = {"hypothesisId": self.task.hypothesis_id, "objectiveId": self.task.objective_id}
        result = self._make(
            RESULTS,
            {**output.wire(), **about},
            phase="reported" if gate else "accepted",
            objective_id=self.task.objective_id,
            hypothesis_id=self.task.hypothesis_id,
            experiment_id=self.task.experiment_id,
            agent_id=self.unit.actor.id,
        )
        move(self.unit, EXPERIMENTS, [result.experiment_id], ["assigned"], "reported")
        if not gate:
            self._settle(result)
        elif self.goes_on:
            self._enqueue(
                "results-reviewer",
                hypothesis_id=result.hypothesis_id,
                experiment_id=result.experiment_id,
                result_id=result.id,
                author_id=result.agent_id,
            )
        return Outcome(RESULTS, result, {})

    def _review_result(self, output: ResultsReviewerOutput) -> Outcome:
        review = output.review
        result = self.unit.fetch(RESULTS, review.result_id)
        if review.verdict == "request-evidence" and self._rounds(result) >= MAX_EVIDENCE_ROUNDS:
            raise invalid({"output.review.verdict": "no more evidence may be asked for: accept or reject"})
        recorded = self._make(RESULT_REVIEWS, review.wire(), phase="recorded", result_id=result.id)
        waiting = ("reported", "in-review")
        if review.verdict == "accept":
            move(self.unit, RESULTS, [result.id], waiting, "accepted")
            self._settle(result)
        elif review.verdict == "reject":
            move(self.unit, RESULTS, [result.id], waiting, "rejected")
            move(self.unit, HYPOTHESES, [result.hypothesis_id], ["in-experiment"], "tested")
        else:
            move(self.unit, RESULTS, [result.id], waiting, "evidence-requested")
            start_experiment(
                self.unit,
                self.unit.fetch(HYPOTHESES, result.hypothesis_id),
                evidence_requests=review.evidence_requests,
                goes_on=self.goes_on,
            )
        return Outcome(RESULT_REVIEWS, recorded, {})

    def _rounds(self, result: RowOf) -> int:
        return evidence_rounds(self.unit.conn, result.hypothesis_id)

    def _settle(self, result: RowOf) -> None:
        settle_result(self.unit, result, self.objective, goes_on=self.goes_on)

    def _integrate(self, output: IntegratorOutput) -> Outcome:
        integration = output.integration
        open_results = set(
            self.unit.conn.execute(
                select(results.c.id).where(
                    results.c.id.in_(integration.result_ids),
                    results.c.phase == "accepted",
                    results.c.integration_id.is_(None),
                )
            ).scalars()
        )
        gone = {
            f"output.integration.resultIds.{index}": "is part of another integration already"
            for index, uid in enumerate(integration.result_ids)
            if uid not in open_results
        }
        if gone:
            raise invalid(gone, "The results changed since the task was given out.")
        recorded = self._make(INTEGRATIONS, integration.wire(), phase="proposed", objective_id=self.task.objective_id)
        move(self.unit, RESULTS, integration.result_ids, ["accepted"], "accepted", integration_id=recorded.id)
        void = self._withdraw("integrator", work_tasks.c.result_id.in_(integration.result_ids))
        return Outcome(INTEGRATIONS, recorded, void)

    def _withdraw(self, role: str, which: Any) -> dict[str, str]:
        task = work_tasks.c
        query = select(work_tasks).where(
            task.project_id == self.task.project_id, task.role == role, task.id != self.task.id, which
        )
        return {row.id: row.package_id for row in withdraw(self.unit, query) if row.package_id is not None}

    def _enqueue(self, role: str, **about: Any) -> None:
        enqueue(self.unit, role, project_id=self.task.project_id, objective_id=self.task.objective_id, **about)


def start_experiment(
    unit: Unit, hypothesis: RowOf, *, evidence_requests: Sequence[str] = (), goes_on: bool = True
) -> RowOf:
    """Queue an experiment on a hypothesis, with the evidence that was asked for, if any."""
    experiment = unit.insert(
        EXPERIMENTS,
        phase="queued" if goes_on else "abandoned",
        spec={"hypothesisId": hypothesis.id, "objectiveId": hypothesis.objective_id},
        account_id=hypothesis.account_id,
        project_id=hypothesis.project_id,
        objective_id=hypothesis.objective_id,
        hypothesis_id=hypothesis.id,
        round=evidence_rounds(unit.conn, hypothesis.id) + 1 if evidence_requests else 0,
        evidence_requests=list(evidence_requests),
    )
    if goes_on:
        enqueue(
            unit,
            "experimenter",
            project_id=hypothesis.project_id,
            objective_id=hypothesis.objective_id,
            hypothesis_id=hypothesis.id,
            experiment_id=experiment.id,
        )
    return experiment


def settle_result(unit: Unit, result: RowOf, objective: RowOf, *, goes_on: bool = True) -> None:
    """What follows from an accepted result: its hypothesis is tested, the objective may have a new best, and a result
    that supports the hypothesis within all constraints waits to be integrated."""
    move(unit, HYPOTHESES, [result.hypothesis_id], ["in-experiment"], "tested")
    if not within_constraints(result.spec):
        return
    judge_best(unit, objective)
    if result.spec["conclusion"] == "supported" and goes_on:
        enqueue(
            unit,
            "integrator",
            project_id=result.project_id,
            objective_id=result.objective_id,
            hypothesis_id=result.hypothesis_id,
            result_id=result.id,
            author_id=None,
        )


def within_constraints(spec: dict[str, Any]) -> bool:
    """Whether a result keeps every constraint."""
    return all(answer["satisfied"] for answer in spec.get("constraints", ()))


def judge_best(unit: Unit, objective: RowOf) -> RowOf:
    """The objective with its best accepted result, by the measure that it has now; only written where that changed."""
    measure = objective.spec["measure"]
    best: tuple[str, float] | None = None
    accepted = select(results.c.id, results.c.spec).where(
        results.c.objective_id == objective.id, results.c.phase == "accepted"
    )
    for row in unit.conn.execute(accepted.order_by(results.c.created_at, results.c.id)):
        measured = row.spec["measurement"]
        if measured["name"] != measure["name"] or measured["unit"] != measure["unit"]:
            continue
        if not within_constraints(row.spec):
            continue
        value = measured["value"]
        if best is None or (value < best[1] if measure["direction"] == "minimize" else value > best[1]):
            best = (row.id, value)
    result_id, value = best if best is not None else (None, None)
    if (objective.best_result_id, objective.best_value) == (result_id, value):
        return objective
    return unit.update(OBJECTIVES, objective, best_result_id=result_id, best_value=value)
