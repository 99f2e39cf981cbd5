"""Outputs for tasks of each role, made from the task's own input as an agent would make them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

Input = Mapping[str, Any]


def idea(task: Input, statement: str = "Caching price lookups lowers p95.") -> dict[str, Any]:
    objective = task["objective"]
    return {
        "hypothesis": {
            "objectiveId": objective["metadata"]["uid"],
            "statement": statement,
            "rationale": "Price lookups are 22% of the request time.",
            "expectedEffect": {"value": 415.0, "unit": objective["spec"]["measure"]["unit"]},
            "plan": "Enable the cache on one replica and replay the load.",
            "risks": ["stale prices"],
        }
    }


def hypothesis_review(task: Input, verdict: str = "accept") -> dict[str, Any]:
    review: dict[str, Any] = {
        "hypothesisId": task["hypothesis"]["metadata"]["uid"],
        "verdict": verdict,
        "rationale": "Worth a run.",
    }
    if verdict in ("refine", "combine"):
        review["refinement"] = {"statement": "A sharper statement.", "plan": "One run with both flags on."}
    if verdict == "combine":
        review["combineWith"] = [candidate["uid"] for candidate in task["candidates"]]
    return {"review": review}


def report(
    task: Input, value: float = 396.4, conclusion: str = "supported", error_rate: float = 0.002
) -> dict[str, Any]:
    spec = task["objective"]["spec"]
    return {
        "result": {
            "experimentId": task["experiment"]["metadata"]["uid"],
            "conclusion": conclusion,
            "summary": "Mean of three runs.",
            "measurement": {"name": spec["measure"]["name"], "value": value, "unit": spec["measure"]["unit"]},
            "constraints": [
                {
                    "name": constraint["name"],
                    "value": error_rate,
                    "unit": constraint["unit"],
                    "satisfied": error_rate <= constraint["value"],
                }
                for constraint in spec.get("constraints", ())
            ],
            "evidence": [{"kind": "note", "name": "rig", "note": "Three replicas, recorded load."}],
        }
    }


def result_review(task: Input, verdict: str = "accept") -> dict[str, Any]:
    review: dict[str, Any] = {
        "resultId": task["result"]["metadata"]["uid"],
        "verdict": verdict,
        "rationale": "The runs agree.",
    }
    if verdict == "request-evidence":
        review["evidenceRequests"] = ["Repeat on two further replicas."]
    return {"review": review}


def integration(task: Input, *, patch: str | None = None) -> dict[str, Any]:
    target = task.get("target", "https://git.example.test/shop")
    change: dict[str, Any] = {
        "target": target,
        "baseRevision": "9f2c1ab",
        "changes": [{"path": "cache/lookup.py", "action": "modify"}],
    }
    if patch is None:
        change["reference"] = {"uri": f"{target}/pull/77", "revision": "c0ffee1"}
    else:
        digest = hashlib.sha256(patch.encode()).hexdigest()
        change["patch"] = {"mediaType": "text/x-diff", "content": patch, "sha256": digest}
    return {
        "integration": {
            "resultIds": [task["results"][0]["metadata"]["uid"]],
            "summary": "Adds the lookup cache behind a flag.",
            "changeSet": change,
            "verification": "Unit tests pass.",
        }
    }


USUAL: dict[str, Callable[..., dict[str, Any]]] = {
    "ideator": idea,
    "hypothesis-reviewer": hypothesis_review,
    "experimenter": report,
    "results-reviewer": result_review,
    "integrator": integration,
}
"""The output that lets the loop go on, by role."""
