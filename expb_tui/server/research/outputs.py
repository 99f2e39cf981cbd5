"""Whether an output answers its task: shape by the wire model, then every id, name and figure against the input.

Nothing outside the task's own input is ever looked up by an id from an output (hazards 12): what the input does not
name is refused, so an output cannot touch another project.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from expb_tui.server.problems import invalid, shape_problem
from expb_tui.server.rfc3339 import StrictInstant
from expb_tui.wire.base import WireModel
from expb_tui.wire.research import (
    OUTPUTS,
    Constraint,
    ExpectedEffect,
    ExperimenterOutput,
    HypothesisReviewerOutput,
    IdeatorOutput,
    IntegratorOutput,
    Measurement,
    ResultOutput,
    ResultsReviewerOutput,
)


class _Measurement(Measurement):
    """As the contract has it; the wire model reads other spellings of an instant, and guesses a missing zone."""

    measured_at: StrictInstant | None = None


class _ResultOutput(ResultOutput):
    measurement: _Measurement


class _ExperimenterOutput(ExperimenterOutput):
    result: _ResultOutput


_MODELS: dict[str, type[WireModel]] = {**OUTPUTS, "experimenter": _ExperimenterOutput}

Input = Mapping[str, Any]
Wrong = dict[str, str]
"""Field path, without the leading ``output.``, to what is wrong there."""


def read_output(role: str, output: Any, task_input: Input) -> WireModel:
    """The output as a model of its role. Raises 422 ``validation`` with paths such as ``output.result.summary``."""
    try:
        model = _MODELS[role].model_validate_json(to_json(output), strict=True, extra="forbid")
    except ValidationError as error:
        raise shape_problem(error, ("output",)) from error
    wrong = _CHECKS[role](model, task_input)
    if wrong:
        raise invalid(
            {f"output.{path}": message for path, message in wrong.items()}, "The output does not fit its task."
        )
    return model


def _uid(resource: Mapping[str, Any]) -> str:
    uid: str = resource["metadata"]["uid"]
    return uid


def _measure(task_input: Input) -> Mapping[str, Any]:
    measure: Mapping[str, Any] = task_input["objective"]["spec"]["measure"]
    return measure


def _check_effect(effect: ExpectedEffect | None, task_input: Input, path: str) -> Wrong:
    unit = _measure(task_input)["unit"]
    if effect is not None and effect.unit != unit:
        return {f"{path}.expectedEffect.unit": f"must be {unit}, the objective's unit"}
    return {}


def _check_idea(model: IdeatorOutput, task_input: Input) -> Wrong:
    wrong = _check_effect(model.hypothesis.expected_effect, task_input, "hypothesis")
    if model.hypothesis.objective_id != _uid(task_input["objective"]):
        wrong["hypothesis.objectiveId"] = "must be the objective of this task"
    return wrong


def _check_hypothesis_review(model: HypothesisReviewerOutput, task_input: Input) -> Wrong:
    review, wrong = model.review, Wrong()
    if review.hypothesis_id != _uid(task_input["hypothesis"]):
        wrong["review.hypothesisId"] = "must be the hypothesis of this task"
    candidates = {candidate["uid"] for candidate in task_input["candidates"]}
    for index, uid in enumerate(review.combine_with):
        if uid not in candidates:
            wrong[f"review.combineWith.{index}"] = "must be one of the task's candidates"
        elif uid in review.combine_with[:index]:
            wrong[f"review.combineWith.{index}"] = "is named twice"
    if review.refinement is not None:
        wrong |= _check_effect(review.refinement.expected_effect, task_input, "review.refinement")
    return wrong


def _check_result(model: ExperimenterOutput, task_input: Input) -> Wrong:
    result, wrong = model.result, Wrong()
    if result.experiment_id != _uid(task_input["experiment"]):
        wrong["result.experimentId"] = "must be the experiment of this task"
    measure = _measure(task_input)
    for field in ("name", "unit"):
        if getattr(result.measurement, field) != measure[field]:
            wrong[f"result.measurement.{field}"] = f"must be {measure[field]}, as the objective measures it"
    constraints = {
        spec["name"]: Constraint.model_validate(spec) for spec in task_input["objective"]["spec"]["constraints"]
    }
    answered: set[str] = set()
    for index, answer in enumerate(result.constraints):
        path = f"result.constraints.{index}"
        constraint = constraints.get(answer.name)
        if constraint is None:
            wrong[f"{path}.name"] = "must be a constraint of the objective"
            continue
        if answer.name in answered:
            wrong[f"{path}.name"] = "is answered twice"
        answered.add(answer.name)
        if answer.unit != constraint.unit:
            wrong[f"{path}.unit"] = f"must be {constraint.unit or 'empty'}, as in the objective"
        if answer.satisfied != constraint.holds(answer.value):
            truth = "true" if constraint.holds(answer.value) else "false"
            condition = f"{constraint.operator} {constraint.value:g}"
            wrong[f"{path}.satisfied"] = f"must be {truth}: the constraint is {condition}"
    missing = [name for name in constraints if name not in answered]
    if missing:
        wrong["result.constraints"] = f"must answer {', '.join(missing)} too"
    return wrong


def _check_result_review(model: ResultsReviewerOutput, task_input: Input) -> Wrong:
    wrong = Wrong()
    if model.review.result_id != _uid(task_input["result"]):
        wrong["review.resultId"] = "must be the result of this task"
    if model.review.verdict == "request-evidence" and task_input["evidenceRoundsLeft"] <= 0:
        wrong["review.verdict"] = "no more evidence may be asked for: accept or reject"
    return wrong


def _check_integration(model: IntegratorOutput, task_input: Input) -> Wrong:
    integration, wrong = model.integration, Wrong()
    offered = [_uid(result) for result in task_input["results"]]
    for index, uid in enumerate(integration.result_ids):
        if uid not in offered:
            wrong[f"integration.resultIds.{index}"] = "must be one of the task's results"
        elif uid in integration.result_ids[:index]:
            wrong[f"integration.resultIds.{index}"] = "is named twice"
    if offered[0] not in integration.result_ids and not wrong:
        wrong["integration.resultIds"] = f"must hold {offered[0]}, the result that this task is about"
    target = task_input.get("target")
    change = integration.change_set
    if target is not None and change.target != target:
        wrong["integration.changeSet.target"] = "must be the target of this task"
    if change.patch is not None and hashlib.sha256(change.patch.content.encode()).hexdigest() != change.patch.sha256:
        wrong["integration.changeSet.patch.sha256"] = "is not the digest of the content"
    return wrong


_CHECKS: dict[str, Callable[[Any, Input], Wrong]] = {
    "ideator": _check_idea,
    "hypothesis-reviewer": _check_hypothesis_review,
    "experimenter": _check_result,
    "results-reviewer": _check_result_review,
    "integrator": _check_integration,
}
