"""The contract's models: spelling, strictness on demand, instants, and what each role's output must hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from expb_tui.wire import work
from expb_tui.wire.research import (
    OUTPUTS,
    ChangeSet,
    Constraint,
    ExperimenterOutput,
    HypothesisReviewerOutput,
    Measurement,
)

RESULT: dict[str, Any] = {
    "experimentId": "exp-1",
    "conclusion": "supported",
    "summary": "Mean of three runs.",
    "measurement": {"name": "p95_ms", "value": 396.4, "unit": "ms", "measuredAt": "2026-10-05T11:12:30.5+02:00"},
    "constraints": [{"name": "error_rate", "value": 0.002, "unit": "ratio", "satisfied": True}],
    "evidence": [{"kind": "revision", "name": "target", "uri": "https://git.example.test/shop", "revision": "9f2c1ab"}],
}


def test_a_body_is_read_in_both_spellings_and_written_in_its_own() -> None:
    request = work.WorkRequest.model_validate({"projectId": "p", "role": "ideator", "maxTasks": 2}, extra="forbid")
    assert request.wire() == {"project_id": "p", "role": "ideator", "max_tasks": 2}
    submission = work.Submission.model_validate({"task_id": "t", "outcome": "failed", "reason": "no GPU"})
    assert submission.wire() == {"taskId": "t", "outcome": "failed", "reason": "no GPU"}


def test_both_spellings_of_one_key_together_are_refused_where_strictness_is_asked_for() -> None:
    body = {"project_id": "p", "role": "ideator", "max_tasks": 1, "maxTasks": 2}
    with pytest.raises(ValidationError, match="Extra inputs"):
        work.WorkRequest.model_validate(body, extra="forbid")


def test_unknown_keys_are_refused_deep_inside_when_strict_and_kept_when_not() -> None:
    body = {"result": {**RESULT, "measurement": {**RESULT["measurement"], "surprise": 1}}}
    with pytest.raises(ValidationError) as caught:
        ExperimenterOutput.model_validate(body, extra="forbid")
    assert caught.value.errors()[0]["loc"] == ("result", "measurement", "surprise")
    assert ExperimenterOutput.model_validate(body).wire()["result"]["measurement"]["surprise"] == 1


def test_instants_become_utc_whatever_their_offset() -> None:
    measured = Measurement.model_validate(RESULT["measurement"])
    assert measured.measured_at == datetime(2026, 10, 5, 9, 12, 30, 500_000, tzinfo=UTC)
    assert measured.wire()["measuredAt"] == "2026-10-05T09:12:30.500000Z"


@pytest.mark.parametrize("value", [True, "396.4", float("nan"), float("inf"), None])
def test_a_measurement_is_a_finite_number(value: object) -> None:
    with pytest.raises(ValidationError):
        Measurement.model_validate({**RESULT["measurement"], "value": value})


@pytest.mark.parametrize(
    ("verdict", "more", "fault"),
    [
        ("refine", {}, "refinement is required"),
        ("combine", {"refinement": {"statement": "s"}}, "combineWith is required"),
        ("accept", {"refinement": {"statement": "s"}}, "refinement is not allowed"),
        ("reject", {"combineWith": ["h"]}, "combineWith is not allowed"),
        ("maybe", {}, "'accept', 'refine', 'combine' or 'reject'"),
    ],
)
def test_each_verdict_carries_what_it_needs(verdict: str, more: dict[str, Any], fault: str) -> None:
    review = {"hypothesisId": "h", "verdict": verdict, "rationale": "because", **more}
    with pytest.raises(ValidationError, match=fault):
        HypothesisReviewerOutput.model_validate({"review": review})


def test_a_change_set_has_either_a_patch_or_a_reference() -> None:
    base = {"target": "https://t", "baseRevision": "1", "changes": [{"path": "a", "action": "add"}]}
    reference = {"reference": {"uri": "https://t/1", "revision": "2"}}
    patch = {"patch": {"content": "x", "sha256": "0" * 64}}
    assert ChangeSet.model_validate({**base, **reference}).reference is not None
    for wrong in (base, {**base, **reference, **patch}):
        with pytest.raises(ValidationError, match="exactly one of patch and reference"):
            ChangeSet.model_validate(wrong)


@pytest.mark.parametrize(
    ("operator", "measured", "holds"),
    [("<", 1.0, False), ("<=", 1.0, True), ("==", 1.0, True), (">=", 0.9, False), (">", 1.1, True)],
)
def test_a_constraint_tells_whether_a_value_keeps_it(operator: str, measured: float, holds: bool) -> None:
    constraint = Constraint.model_validate({"name": "c", "operator": operator, "value": 1.0, "unit": "ratio"})
    assert constraint.holds(measured) is holds


def test_every_role_has_an_output_model_and_role_words_are_forgiving() -> None:
    assert set(OUTPUTS) == set(work.ROLES)
    assert work.canonical_role("Result_Reviewer") == "results-reviewer"
    assert work.canonical_role("hypothesis_reviewer") == "hypothesis-reviewer"
    assert work.canonical_role("chef_de_cuisine") == "chef_de_cuisine"


def test_the_digest_ignores_key_order_and_spacing_but_not_content() -> None:
    one = work.output_digest({"b": 1.5, "a": ["ä", None]})
    assert one == work.output_digest({"a": ["ä", None], "b": 1.5})
    assert one != work.output_digest({"a": ["ä"], "b": 1.5})


def test_the_empty_package_has_no_identity() -> None:
    answer = {
        "apiVersion": "exp-bench.sre-norns.com/v1",
        "kind": "work-packages",
        "metadata": {"project": "prj-1"},
        "spec": {"role": "experimenter", "maxTasks": 1},
        "status": {"phase": "empty", "tasks": []},
    }
    package = work.WorkPackage.model_validate(answer, extra="forbid")
    assert package.uid == ""
    assert package.wire() == answer
