"""What the demo's walker submits for each role: made of the task's own input, as the contract's section 6.2.7 asks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from expb_tui.core.errors import ExpbError

_PATCH = """\
--- a/config/flags.yaml
+++ b/config/flags.yaml
@@ -1 +1 @@
-price_cache: off
+price_cache: on
"""


def output_for(role: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """The ``output`` for a task with this input. Raises ``ExpbError`` for a role that is not one of the five."""
    try:
        return _ANSWERS[role](task)
    except KeyError as error:
        raise ExpbError(f"The demo has no answer for {role}", cause=f"{error} is missing in the task") from None


def _ideator(task: Mapping[str, Any]) -> dict[str, Any]:
    objective = task["objective"]
    measure = objective["spec"]["measure"]
    return {
        "hypothesis": {
            "objectiveId": objective["metadata"]["uid"],
            "statement": f"Caching lookups for 60 s improves {measure['name']}.",
            "rationale": "Lookups are a fifth of the request time and rarely change.",
            "expectedEffect": {"value": _better(measure), "unit": measure["unit"]},
            "plan": "Enable the cache on one replica and replay the recorded load for 20 minutes.",
            "risks": ["stale values for up to 60 s"],
        }
    }


def _hypothesis_reviewer(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "review": {
            "hypothesisId": task["hypothesis"]["metadata"]["uid"],
            "verdict": "accept",
            "rationale": "It names a measurable effect and a plan that one replica can carry.",
        }
    }


def _experimenter(task: Mapping[str, Any]) -> dict[str, Any]:
    spec = task["objective"]["spec"]
    measure = spec["measure"]
    report = b"run 1 of 3 finished\nrun 2 of 3 finished\nrun 3 of 3 finished\n"
    measurement = {"name": measure["name"], "value": _better(measure), "unit": measure["unit"], "samples": 3}
    if measure.get("baseline") is not None:
        measurement["baseline"] = measure["baseline"]
    return {
        "result": {
            "experimentId": task["experiment"]["metadata"]["uid"],
            "conclusion": "supported",
            "summary": "Mean of three runs; every constraint was kept.",
            "measurement": measurement,
            "constraints": [
                {
                    "name": constraint["name"],
                    "value": _keeping(constraint),
                    "unit": constraint.get("unit", ""),
                    "satisfied": True,
                }
                for constraint in spec.get("constraints", [])
            ],
            "evidence": [
                {
                    "kind": "artifact",
                    "name": "runs.txt",
                    "mediaType": "text/plain",
                    "sizeBytes": len(report),
                    "sha256": hashlib.sha256(report).hexdigest(),
                }
            ],
        }
    }


def _results_reviewer(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "review": {
            "resultId": task["result"]["metadata"]["uid"],
            "verdict": "accept",
            "rationale": "Three runs agree, and the evidence carries its digest.",
        }
    }


def _integrator(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "integration": {
            "resultIds": [result["metadata"]["uid"] for result in task["results"]],
            "summary": "Turns the lookup cache on.",
            "changeSet": {
                "target": task["target"],
                "baseRevision": "9f2c1ab",
                "changes": [{"path": "config/flags.yaml", "action": "modify"}],
                "patch": {
                    "mediaType": "text/x-diff",
                    "content": _PATCH,
                    "sha256": hashlib.sha256(_PATCH.encode()).hexdigest(),
                },
            },
            "verification": "The recorded load passes with the flag on.",
        }
    }


_ANSWERS = {
    "ideator": _ideator,
    "hypothesis-reviewer": _hypothesis_reviewer,
    "experimenter": _experimenter,
    "results-reviewer": _results_reviewer,
    "integrator": _integrator,
}


def _better(measure: Mapping[str, Any]) -> float:
    """A tenth better than the baseline, or the target where there is no baseline."""
    baseline = measure.get("baseline")
    if baseline is None:
        return float(measure.get("target") or 1.0)
    step = abs(float(baseline)) / 10
    return float(baseline) - step if measure["direction"] == "minimize" else float(baseline) + step


def _keeping(constraint: Mapping[str, Any]) -> float:
    """A value that satisfies the constraint."""
    bound = float(constraint["value"])
    step = abs(bound) / 2 or 1.0
    return {"<": bound - step, "<=": bound, "==": bound, ">=": bound, ">": bound + step}[constraint["operator"]]
