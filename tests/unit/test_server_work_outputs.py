"""An output may name only what its task named, and must agree with what the server computes (hazards 12)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from expb_tui.server.problems import Problem
from expb_tui.server.store.research_tables import hypotheses, integrations, results
from tests.support import answers
from tests.support.research import Desk, Held, Lab, lab

__all__ = ["lab"]

Change = Callable[[dict[str, Any]], None]


def _set(path: str, value: Any) -> Change:
    """Put a value at a dotted path; ``...`` removes the key."""

    def change(output: dict[str, Any]) -> None:
        here: Any = output
        *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
        for part in way:
            here = here[part]
        if value is ...:
            del here[last]
        else:
            here[last] = value

    return change


def _answer_twice(output: dict[str, Any]) -> None:
    output["result"]["constraints"] *= 2


BAD: list[tuple[str, str, Change]] = [
    ("ideator", "output.hypothesis.objectiveId", _set("hypothesis.objectiveId", "FOREIGN")),
    ("ideator", "output.hypothesis.expectedEffect.unit", _set("hypothesis.expectedEffect.unit", "s")),
    ("ideator", "output.hypothesis.statement", _set("hypothesis.statement", "")),
    ("ideator", "output.hypothesis.plan", _set("hypothesis.plan", ...)),
    ("ideator", "output.hypothesis.bogus", _set("hypothesis.bogus", 1)),
    ("hypothesis-reviewer", "output.review.hypothesisId", _set("review.hypothesisId", "FOREIGN")),
    ("hypothesis-reviewer", "output.review.combineWith.0", _set("review.combineWith", ["FOREIGN"])),
    ("hypothesis-reviewer", "output.review.refinement", _set("review.refinement", ...)),
    ("hypothesis-reviewer", "output.review.combineWith", _set("review.combineWith", [])),
    ("hypothesis-reviewer", "output.review.refinement", _set("review.verdict", "accept")),
    ("experimenter", "output.result.experimentId", _set("result.experimentId", "FOREIGN")),
    ("experimenter", "output.result.measurement.name", _set("result.measurement.name", "p99_ms")),
    ("experimenter", "output.result.measurement.unit", _set("result.measurement.unit", "s")),
    ("experimenter", "output.result.measurement.value", _set("result.measurement.value", "396")),
    *(
        ("experimenter", "output.result.measurement.measuredAt", _set("result.measurement.measuredAt", instant))
        for instant in (5, "2026-10-05T09:12:30", "2026-10-05 09:12:30Z", "2026-10-05", "2026-13-05T09:12:30Z", "5")
    ),
    ("experimenter", "output.result.constraints", _set("result.constraints", [])),
    ("experimenter", "output.result.constraints.1.name", _answer_twice),
    ("experimenter", "output.result.constraints.0.name", _set("result.constraints.0.name", "other")),
    ("experimenter", "output.result.constraints.0.unit", _set("result.constraints.0.unit", "%")),
    ("experimenter", "output.result.constraints.0.satisfied", _set("result.constraints.0.satisfied", False)),
    ("experimenter", "output.result.evidence", _set("result.evidence", [])),
    ("experimenter", "output.result.evidence.0.sha256", _set("result.evidence.0.sha256", "abc")),
    ("results-reviewer", "output.review.resultId", _set("review.resultId", "FOREIGN")),
    ("results-reviewer", "output.review.verdict", _set("review.verdict", "maybe")),
    ("results-reviewer", "output.review.evidenceRequests", _set("review.verdict", "request-evidence")),
    ("experimenter", "output.result.measurement.samples", _set("result.measurement.samples", 2**53)),
    ("experimenter", "output.result.evidence.0.sizeBytes", _set("result.evidence.0.sizeBytes", 10**400)),
    (
        "integrator",
        "output.integration.changeSet.changes.0.fromPath",
        _set("integration.changeSet.changes.0.action", "rename"),
    ),
    ("integrator", "output.integration.changeSet.patch", _set("integration.changeSet.patch", ...)),
    (
        "integrator",
        "output.integration.changeSet.reference",
        _set("integration.changeSet.reference", {"uri": "https://git.example.test/1", "revision": "2"}),
    ),
    ("integrator", "output.integration.resultIds.0", _set("integration.resultIds", ["FOREIGN"])),
    ("integrator", "output.integration.changeSet.target", _set("integration.changeSet.target", "https://evil.test")),
    ("integrator", "output.integration.changeSet.patch.sha256", _set("integration.changeSet.patch.sha256", "0" * 64)),
]


def _ready(lab: Lab, desk: Desk, agent: str, role: str) -> Held:
    """A task of the role, with a candidate to combine where that is possible."""
    desk.objective()
    for _ in range(2):
        desk.work(agent, "ideator")
    for before in ("hypothesis-reviewer", "experimenter", "results-reviewer"):
        if role in ("ideator", before):
            break
        desk.work(agent, before)
    return desk.must_claim(agent, role)


def _output(role: str, task: dict[str, Any]) -> dict[str, Any]:
    if role == "hypothesis-reviewer":
        return answers.hypothesis_review(task, "combine")
    if role == "integrator":
        return answers.integration(task, patch="--- a\n+++ b\n")
    return answers.USUAL[role](task)


@pytest.mark.parametrize(
    ("role", "path", "change"), BAD, ids=[f"{number}-{role}-{path}" for number, (role, path, _) in enumerate(BAD)]
)
def test_a_bad_output_is_refused_with_its_path_and_may_be_corrected(
    lab: Lab, role: str, path: str, change: Change
) -> None:
    desk = lab.project(hypothesisReview=True, resultReview=True)
    agent = lab.agent("a", desk)
    other = Lab(lab.database, "Other lab")
    other_desk = other.project(hypothesisReview=True, resultReview=True)
    foreign = _ready(other, other_desk, other.agent("x", other_desk), role)
    held = _ready(lab, desk, agent, role)
    good = _output(role, held.tasks[0]["input"])
    bad = copy.deepcopy(good)
    change(bad)
    bad = _with_foreign_ids(bad, _output(role, foreign.tasks[0]["input"]))
    before = other.everything()

    with pytest.raises(Problem) as refused:
        desk.submit(held, bad)
    assert (refused.value.status, refused.value.code) == (422, "validation")
    assert path in refused.value.fields, refused.value.fields
    assert all(field.startswith("output") for field in refused.value.fields)
    assert other_desk.package(foreign)["status"]["phase"] == "active"
    assert other.everything() == before, "the other tenant is as it was"
    assert desk.submit(held, good).outcome is not None, "the task is still open"


def _with_foreign_ids(bad: Any, foreign: Any) -> Any:
    """Replace ``FOREIGN`` by the real id at the same place of another account's output."""
    if isinstance(bad, dict):
        known = foreign if isinstance(foreign, dict) else {}
        return {key: _with_foreign_ids(part, known.get(key)) for key, part in bad.items()}
    if isinstance(bad, list):
        there = foreign if isinstance(foreign, list) else []
        return [_with_foreign_ids(part, there[i] if i < len(there) else None) for i, part in enumerate(bad)]
    return foreign if bad == "FOREIGN" else bad


def test_an_instant_is_kept_in_utc(lab: Lab) -> None:
    desk = lab.project()
    desk.experiments(desk.objective(), 1)
    held = desk.must_claim(lab.agent("a", desk), "experimenter")
    output = answers.report(held.tasks[0]["input"])
    output["result"]["measurement"]["measuredAt"] = "2026-10-05T11:12:30.25+02:00"
    outcome = desk.submit(held, output).outcome
    assert outcome is not None
    assert outcome.record.spec["measurement"]["measuredAt"] == "2026-10-05T09:12:30.250000Z"


def test_a_result_that_somebody_else_integrated_meanwhile(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    first, second = lab.agent("a", desk), lab.agent("b", desk)
    desk.experiments(objective, 2)
    for agent in (first, second):
        desk.work(agent, "experimenter")
    mine = desk.must_claim(first, "integrator")
    both = answers.integration(mine.tasks[0]["input"])
    both["integration"]["resultIds"] = [result["metadata"]["uid"] for result in mine.tasks[0]["input"]["results"]]
    assert len(both["integration"]["resultIds"]) == 2
    desk.work(second, "integrator")
    with pytest.raises(Problem) as refused:
        desk.submit(mine, both)
    assert list(refused.value.fields) == ["output.integration.resultIds.1"]
    assert desk.submit(mine, answers.integration(mine.tasks[0]["input"])).outcome is not None
    assert lab.count(integrations) == 2
    assert lab.count(results, results.c.integration_id.is_(None)) == 0


def test_the_task_must_be_of_this_package(lab: Lab) -> None:
    desk = lab.project()
    desk.objective()
    agent, other = lab.agent("a", desk), lab.agent("b", desk)
    mine, theirs = desk.must_claim(agent, "ideator"), desk.must_claim(other, "ideator")
    with pytest.raises(Problem) as refused:
        desk.submit(Held(agent, mine.uid, mine.token, theirs.tasks), answers.idea(mine.tasks[0]["input"]))
    assert refused.value.code == "not-found"
    assert lab.count(hypotheses) == 0
