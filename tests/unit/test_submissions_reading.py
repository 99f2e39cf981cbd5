"""A task's input as sections: everything is shown, nothing can steer a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expb_tui.core.submissions.task_view import MAX_TEXT, Section, number_text, sections
from expb_tui.core.text import clean
from tests.unit.test_submissions_forms import INPUTS, ROLES


def texts(shown: list[Section]) -> list[str]:
    out = []
    for section in shown:
        out.append(section.title)
        out += [text for fact in (*section.facts, *section.quiet) for text in (fact.label, fact.value)]
        out += [*section.prose, *section.bullets]
    return out


def by_title(role: str, task_input: dict[str, Any]) -> dict[str, Section]:
    return {section.title: section for section in sections(role, task_input)}


def test_an_experiment_is_laid_out_for_reading() -> None:
    shown = by_title("experimenter", INPUTS["experimenter"] | {"instructions": ["Warm up for 2 minutes."]})
    assert list(shown) == [
        "Instructions",
        "Objective",
        "Constraints",
        "Hypothesis",
        "Evidence requested",
        "Experiment",
    ]
    assert [fact.label for fact in shown["Experiment"].quiet] == ["Id"]
    assert shown["Experiment"].facts == ()
    assert shown["Objective"].prose == ("Lower checkout latency",)
    facts = {fact.label: fact.value for fact in shown["Objective"].facts}
    assert (facts["Measure"], facts["Direction"], facts["Unit"]) == ("p95_ms", "minimize", "ms")
    assert (facts["Baseline"], facts["Target"]) == ("455 ms", "380 ms")
    assert shown["Constraints"].bullets == ("error_rate <= 0.01 ratio", "memory < 512 MiB")
    assert shown["Hypothesis"].prose[0].startswith("Caching price lookups")


def test_a_result_shows_measurement_constraints_and_evidence() -> None:
    result = {
        "metadata": {"uid": "res-1"},
        "spec": {
            "conclusion": "supported",
            "summary": "Mean of three runs.",
            "measurement": {"name": "p95_ms", "value": 396.4, "unit": "ms", "samples": 3},
            "constraints": [{"name": "error_rate", "value": 0.02, "unit": "ratio", "satisfied": False}],
            "evidence": [{"kind": "log", "name": "run", "sha256": "ab", "sizeBytes": 12}],
            "laterField": "kept",
        },
        "status": {"phase": "in-review"},
    }
    section = by_title("results-reviewer", {"result": result})["Result under review"]
    facts = {fact.label: fact.value for fact in section.facts}
    assert facts["p95_ms"] == "396.4 ms"
    assert facts["Later field"] == "kept"
    assert section.bullets[0] == "Constraint error_rate: 0.02 ratio NOT satisfied"
    assert section.bullets[1] == "Evidence, log: run · 12 bytes · SHA-256 ab"
    assert "Accepted result 2" in by_title("integrator", {"results": [result, result]})


def test_unknown_inputs_are_shown_as_sent() -> None:
    shown = by_title("ideator", {"novelty": {"deep": [1, {"x": "y"}]}, "objective": "just text"})
    assert '"x": "y"' in shown["Novelty"].prose[0]
    assert shown["Objective"].prose == ("just text",)


@pytest.mark.parametrize("role", ROLES)
@settings(max_examples=25, deadline=None)
@given(text=st.text(max_size=40))
def test_every_text_is_clean(role: str, text: str) -> None:
    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return text if isinstance(value, str) else value

    for shown in texts(sections(role, spoil(INPUTS[role]) | {text: text})):
        assert shown == clean(shown, multiline=True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "x",
        [],
        [None, 1, [2]],
        {"spec": None},
        {"spec": []},
        {"spec": {"risks": "x", "measure": 3, "evidence": {}}},
    ],
)
def test_any_shape_is_shown_and_never_a_crash(value: Any) -> None:
    keys = ("objective", "hypothesis", "experiment", "result", "results", "candidates", "instructions", "target")
    texts(sections("ideator", dict.fromkeys(keys, value)))


def test_a_huge_text_is_cut_and_counted() -> None:
    shown = by_title("ideator", {"instructions": ["x" * (MAX_TEXT + 5)]})["Instructions"].bullets[0]
    assert shown.endswith("… 5 more characters")


@pytest.mark.parametrize(("value", "text"), [(455.0, "455"), (1e20, "1e+20"), (0.1, "0.1"), (7, "7"), (True, "true")])
def test_numbers_keep_their_digits(value: object, text: str) -> None:
    assert number_text(value) == text
