"""The forms of the five roles: what is asked, what is wrong, and the body that is sent (contract, 6.2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from expb_tui.core.errors import ExpbError
from expb_tui.core.submissions.fields import PATCH_TEXT, Form, Kind, wire_problems
from expb_tui.core.submissions.integration import change_of
from expb_tui.core.submissions.roles import form_for

OBJECTIVE = {
    "apiVersion": "exp-bench.sre-norns.com/v1",
    "kind": "objectives",
    "metadata": {"uid": "obj-1", "name": "p95-latency", "version": 3},
    "spec": {
        "description": "Lower checkout latency",
        "measure": {"name": "p95_ms", "unit": "ms", "direction": "minimize", "baseline": 455.0, "target": 380.0},
        "constraints": [
            {"name": "error_rate", "operator": "<=", "value": 0.01, "unit": "ratio"},
            {"name": "memory", "operator": "<", "value": 512, "unit": "MiB"},
        ],
    },
    "status": {"phase": "active"},
}
HYPOTHESIS = {
    "metadata": {"uid": "hyp-7", "name": "hyp-7", "version": 1},
    "spec": {"objectiveId": "obj-1", "statement": "Caching price lookups for 60 s lowers p95 below 420 ms."},
    "status": {"phase": "in-review"},
}
INPUTS: dict[str, dict[str, Any]] = {
    "ideator": {"objective": OBJECTIVE, "instructions": ["Be bold."], "contextId": "ctx-4"},
    "hypothesis-reviewer": {
        "objective": OBJECTIVE,
        "hypothesis": HYPOTHESIS,
        "candidates": [{"uid": "hyp-8", "statement": "Caching stock lookups lowers p95.", "phase": "in-review"}],
    },
    "experimenter": {
        "objective": OBJECTIVE,
        "hypothesis": HYPOTHESIS,
        "experiment": {"metadata": {"uid": "exp-1"}, "spec": {"hypothesisId": "hyp-7", "objectiveId": "obj-1"}},
        "evidenceRequests": ["Show the histogram."],
    },
    "results-reviewer": {"objective": OBJECTIVE, "result": {"metadata": {"uid": "res-1"}, "spec": {}}},
    "integrator": {
        "objective": OBJECTIVE,
        "results": [{"metadata": {"uid": "res-1"}, "spec": {"conclusion": "supported"}}],
        "target": "https://git.example.test/shop",
    },
}
FILLED: dict[str, dict[str, Any]] = {
    "ideator": {
        "statement": "Caching lowers p95 below 420 ms.",
        "rationale": "Lookups are 22% of the time.",
        "expected_effect": "415",
        "plan": "Enable the flag on one replica.",
        "risks": ["stale prices"],
    },
    "hypothesis-reviewer": {
        "verdict": "combine",
        "rationale": "Same cache layer.",
        "combine_with": ["hyp-8"],
        "refined_statement": "Caching both lowers p95 below 400 ms.",
        "refined_plan": "One run with both flags on.",
    },
    "experimenter": {
        "conclusion": "supported",
        "summary": "Mean of three runs.",
        "value": "396.4",
        "samples": "3",
        "uncertainty": "4.2",
        "measured_at": "2026-10-05T09:12:30Z",
        "constraint_1": "0.002",
        "constraint_2": "512",
        "evidence": [{"kind": "revision", "name": "target", "revision": "9f2c1ab"}],
    },
    "results-reviewer": {
        "verdict": "request-evidence",
        "rationale": "One replica shows no variance.",
        "evidence_requests": ["Repeat on two further replicas."],
    },
    "integrator": {
        "summary": "Adds the lookup cache behind a flag.",
        "base_revision": "9f2c1ab",
        "delivery": "reference",
        "reference_uri": "https://git.example.test/shop/pull/77",
        "reference_revision": "c0ffee1",
        "changes": ["modify cache/lookup.py", "rename a.py -> b.py"],
        "verification": "Unit tests pass.",
    },
}
BODIES: dict[str, dict[str, Any]] = {
    "ideator": {
        "hypothesis": {
            "objectiveId": "obj-1",
            "statement": "Caching lowers p95 below 420 ms.",
            "rationale": "Lookups are 22% of the time.",
            "expectedEffect": {"value": 415, "unit": "ms"},
            "plan": "Enable the flag on one replica.",
            "risks": ["stale prices"],
        }
    },
    "hypothesis-reviewer": {
        "review": {
            "hypothesisId": "hyp-7",
            "verdict": "combine",
            "rationale": "Same cache layer.",
            "combineWith": ["hyp-8"],
            "refinement": {
                "statement": "Caching both lowers p95 below 400 ms.",
                "plan": "One run with both flags on.",
            },
        }
    },
    "experimenter": {
        "result": {
            "experimentId": "exp-1",
            "conclusion": "supported",
            "summary": "Mean of three runs.",
            "measurement": {
                "name": "p95_ms",
                "value": 396.4,
                "unit": "ms",
                "baseline": 455.0,
                "samples": 3,
                "uncertainty": 4.2,
                "measuredAt": "2026-10-05T09:12:30Z",
            },
            "constraints": [
                {"name": "error_rate", "value": 0.002, "unit": "ratio", "satisfied": True},
                {"name": "memory", "value": 512, "unit": "MiB", "satisfied": False},
            ],
            "evidence": [{"kind": "revision", "name": "target", "revision": "9f2c1ab"}],
        }
    },
    "results-reviewer": {
        "review": {
            "resultId": "res-1",
            "verdict": "request-evidence",
            "rationale": "One replica shows no variance.",
            "evidenceRequests": ["Repeat on two further replicas."],
        }
    },
    "integrator": {
        "integration": {
            "resultIds": ["res-1"],
            "summary": "Adds the lookup cache behind a flag.",
            "changeSet": {
                "target": "https://git.example.test/shop",
                "baseRevision": "9f2c1ab",
                "changes": [
                    {"path": "cache/lookup.py", "action": "modify"},
                    {"path": "b.py", "action": "rename", "fromPath": "a.py"},
                ],
                "reference": {"uri": "https://git.example.test/shop/pull/77", "revision": "c0ffee1"},
            },
            "verification": "Unit tests pass.",
        }
    },
}
ROLES = list(INPUTS)


def form_of(role: str, task_input: Mapping[str, Any] | None = None) -> Form:
    return form_for(role, "task-1", INPUTS[role] if task_input is None else task_input)


@pytest.mark.parametrize("role", ROLES)
def test_a_filled_form_gives_the_body_of_the_contract(role: str) -> None:
    form = form_of(role)
    values = form.defaults() | FILLED[role]
    assert form.problems(values) == {}
    assert form.to_body(values) == {"taskId": "task-1", "outcome": "completed", "output": BODIES[role]}
    assert wire_problems(role, form.to_body(values)) == {}


@pytest.mark.parametrize("role", ROLES)
def test_every_needed_field_is_missed_and_no_other(role: str) -> None:
    form = form_of(role)
    values = form.defaults() | FILLED[role]
    assert form.problems(form.defaults())
    for field in form.visible(values):
        emptied = values | {field.key: [] if field.kind in (Kind.LIST, Kind.FILES) else ""}
        expected = field.required or field.key == "changes"
        assert (field.key in form.problems(emptied)) is expected, field.key


@pytest.mark.parametrize("role", ROLES)
def test_failed_needs_a_reason_and_nothing_else(role: str) -> None:
    form = form_of(role)
    values = form.defaults() | FILLED[role] | {"outcome": "failed"}
    assert [field.key for field in form.visible(values)] == ["outcome", "reason"]
    assert form.problems(values) == {"reason": "is needed"}
    values["reason"] = "The rig is down."
    assert form.problems(values) == {}
    assert form.to_body(values) == {"taskId": "task-1", "outcome": "failed", "reason": "The rig is down."}


def test_fields_of_another_verdict_are_neither_shown_nor_sent() -> None:
    form = form_of("hypothesis-reviewer")
    values = form.defaults() | FILLED["hypothesis-reviewer"] | {"verdict": "accept"}
    assert not {"combine_with", "refined_statement"} & {field.key for field in form.visible(values)}
    assert form.to_body(values)["output"]["review"].keys() == {"hypothesisId", "verdict", "rationale"}
    refine = values | {"verdict": "refine", "combine_with": []}
    assert form.problems(refine) == {}
    assert "combineWith" not in form.to_body(refine)["output"]["review"]


def test_constraints_show_their_bound_and_say_whether_they_are_satisfied() -> None:
    form = form_of("experimenter")
    field = form.field("constraint_1")
    assert field is not None
    assert field.label == "error_rate <= 0.01 ratio"
    assert field.group == "Constraints"
    assert form.notes({"constraint_1": "0.01", "constraint_2": "600"}) == {
        "constraint_1": "satisfied",
        "constraint_2": "not satisfied",
    }
    assert form.notes({"constraint_1": "many"}) == {}


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("396.4", True),
        ("1e3", True),
        ("-.5", True),
        ("+3", True),
        (396, True),
        (True, False),
        ("396,4", False),
        ("nan", False),
        ("inf", False),
        ("1e999", False),
        ("0x10", False),
        ("1_000", False),
        ("٣", False),
        (10**400, False),
        ("4 ms", False),
    ],
)
def test_numbers_are_finite_and_plain(typed: object, right: bool) -> None:
    form = form_of("experimenter")
    values = form.defaults() | FILLED["experimenter"] | {"value": typed}
    assert ("value" not in form.problems(values)) is right


@pytest.mark.parametrize("typed", ["2.5", "-1", "three"])
def test_samples_are_whole(typed: str) -> None:
    form = form_of("experimenter")
    assert "samples" in form.problems(form.defaults() | FILLED["experimenter"] | {"samples": typed})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kind": "log", "name": "run"}, "needs a file"),
        ({"kind": "blob", "name": "run", "note": "x"}, "choose one of"),
        ({"kind": "log", "name": "run", "uri": "report.json"}, "an address such as"),
        ({"kind": "log", "note": "seen on screen"}, "needs a name"),
    ],
)
def test_evidence_entries_are_judged_one_by_one(row: dict[str, str], words: str) -> None:
    form = form_of("experimenter")
    good = {"kind": "note", "name": "fine", "note": "ok"}
    problem = form.problems(form.defaults() | FILLED["experimenter"] | {"evidence": [good, row]})["evidence"]
    assert problem.startswith("entry 2")
    assert words in problem


def test_what_the_task_does_not_name_is_asked_for() -> None:
    form = form_of("experimenter", {})
    asked = {"experiment_id", "measure_name", "measure_unit"}
    assert asked <= {field.key for field in form.fields if field.required}
    values = form.defaults() | FILLED["experimenter"]
    values |= {"experiment_id": "exp-9", "measure_name": "p95_ms", "measure_unit": "ms"}
    assert form.to_body(values)["output"]["result"]["experimentId"] == "exp-9"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "broken",
    [
        {
            "objective": "obj-1",
            "hypothesis": 3,
            "result": [],
            "results": "x",
            "candidates": {"a": 1},
            "experiment": None,
        },
        {"objective": {"spec": {"measure": [], "constraints": [None, 3, {"operator": "~", "value": "x"}]}}},
        {"objective": {"spec": {"constraints": {"name": "x"}}}},
    ],
)
def test_a_malformed_task_still_gives_a_form(role: str, broken: dict[str, Any]) -> None:
    form = form_of(role, broken)
    assert form.problems(form.defaults())
    form.to_body(form.defaults())


def test_a_constraint_of_a_later_contract_is_judged_by_the_operator() -> None:
    task = {
        "objective": {"spec": {"measure": {"name": "x", "unit": "ms"}, "constraints": [{"name": "q", "operator": "~"}]}}
    }
    form = form_of("experimenter", task)
    values = form.defaults() | {"constraint_1": "3", "constraint_1_satisfied": True}
    assert form.to_body(values)["output"]["result"]["constraints"] == [
        {"value": 3, "satisfied": True, "name": "q", "unit": ""}
    ]


def test_an_unknown_role_has_no_form() -> None:
    with pytest.raises(ExpbError) as caught:
        form_for("archivist", "task-1", {})
    assert caught.value.code == "unknown-role"


def test_server_problems_find_their_fields_in_either_spelling() -> None:
    form = form_of("experimenter")
    found = form.by_key(
        {
            "output.result.measurement.value": "must be finite",
            "output.result.measurement.measured_at": "is in the future",
            "output.result.constraints[1].value": "is wrong",
            "output.result.evidence.0.sha256": "is no digest",
            "taskId": "is unknown",
        }
    )
    assert found == {
        "value": "must be finite",
        "measured_at": "is in the future",
        "constraint_2": "is wrong",
        "evidence": "is no digest",
        "": "taskId: is unknown",
    }


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("modify cache/lookup.py", {"path": "cache/lookup.py", "action": "modify"}),
        ("A new file.py", {"path": "new file.py", "action": "add"}),
        ("D x", {"path": "x", "action": "delete"}),
        ("R old.py -> new.py", {"path": "new.py", "action": "rename", "fromPath": "old.py"}),
    ],
)
def test_changes_are_read_as_people_write_them(line: str, change: dict[str, str]) -> None:
    assert change_of(line) == change


@pytest.mark.parametrize("line", ["cache/lookup.py", "rename a b", "rename -> b", "touch x", "modify"])
def test_other_lines_are_no_changes(line: str) -> None:
    with pytest.raises(ValueError, match="should read like"):
        change_of(line)


def test_a_patch_is_sent_with_its_digest() -> None:
    form = form_of("integrator")
    values = form.defaults() | FILLED["integrator"] | {"delivery": "patch", "patch_file": "x.diff", PATCH_TEXT: "a\n"}
    patch = form.to_body(values)["output"]["integration"]["changeSet"]["patch"]
    assert patch["sha256"] == "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
    assert form.problems(values) == {}
    unread = {key: value for key, value in values.items() if key != PATCH_TEXT} | {"changes": []}
    assert form.problems(unread) == {}


def test_what_is_wrong_is_said_in_words_for_people() -> None:
    form = form_for("experimenter", "task-1", {"objective": {"spec": {"measure": {"name": "p95", "unit": "ms"}}}})
    values = {
        **form.defaults(),
        "experiment_id": "exp-1",
        "conclusion": "supported",
        "summary": "s" * 70_000,
        "value": "1",
        "measured_at": "yesterday",
        "evidence": [{"kind": "note", "name": "n", "note": "n"}],
    }
    problems = form.problems(values)
    assert problems["measured_at"] == "an instant with its offset is expected, such as 2026-10-05T09:12:30Z"
    assert problems["summary"] == "is longer than 65536 characters"
    body = {"taskId": "t", "outcome": "completed", "output": {"review": {}, "odd": 1}, "extra": True}
    said = wire_problems("results-reviewer", body)
    assert said["extra"] == said["output.odd"] == "is not known here"
    assert said["output.review.verdict"] == "is needed"
    body["output"] = {"review": {"resultId": 3, "verdict": "perhaps", "rationale": "", "evidenceRequests": "x"}}
    said = wire_problems("results-reviewer", body)
    assert said["output.review.resultId"] == "text is expected"
    assert said["output.review.verdict"] == "must be 'accept', 'reject' or 'request-evidence'"
    assert said["output.review.rationale"] == "must not be empty"
    assert said["output.review.evidenceRequests"] == "a list is expected"
