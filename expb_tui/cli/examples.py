"""Input examples for ``--help``: the documented request, and one submission per role (contract, section 6.2.7)."""

from __future__ import annotations

REQUEST = '{{"project_id": "PROJECT_ID", "role": "{role}", "max_tasks": 1}}'
"""Filled with each role in turn; JSON is YAML too."""

SUBMISSIONS = {
    "ideator": """\
taskId: TASK_ID
outcome: completed
output:
  hypothesis:
    objectiveId: OBJECTIVE_ID
    statement: Caching price lookups for 60 s lowers p95 below 420 ms.
    rationale: Price lookups are 22% of the request time.
    expectedEffect: {value: 415.0, unit: ms}
    plan: Enable the cache flag on one replica and replay the recorded load.
    risks: [stale prices]
""",
    "hypothesis-reviewer": """\
taskId: TASK_ID
outcome: completed
output:
  review:
    hypothesisId: HYPOTHESIS_ID
    verdict: combine              # accept, refine, combine or reject
    rationale: Both ideas touch the same cache layer.
    combineWith: [OTHER_HYPOTHESIS_ID]   # for combine only
    refinement:                   # for refine and combine only
      statement: Caching price and stock lookups lowers p95 below 400 ms.
      plan: One run with both flags on.
""",
    "experimenter": """\
taskId: TASK_ID
outcome: completed
output:
  result:
    experimentId: EXPERIMENT_ID
    conclusion: supported         # supported, refuted or inconclusive
    summary: Mean of three runs; cache hit rate 91%.
    measurement: {name: p95_ms, value: 396.4, unit: ms, baseline: 455.0, samples: 3}
    constraints:                  # every constraint of the objective, once
      - {name: error_rate, value: 0.002, unit: ratio, satisfied: true}
    evidence:                     # artifact, log, metric, revision or note
      - kind: artifact
        name: load-report.json
        uri: https://artifacts.example.test/r/881
        mediaType: application/json
        sizeBytes: 48211
        sha256: b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184
""",
    "results-reviewer": """\
taskId: TASK_ID
outcome: completed
output:
  review:
    resultId: RESULT_ID
    verdict: request-evidence     # accept, reject or request-evidence
    rationale: One replica does not show the variance between replicas.
    evidenceRequests: [Repeat on two further replicas.]   # for request-evidence only
""",
    "integrator": """\
taskId: TASK_ID
outcome: completed
output:
  integration:
    resultIds: [RESULT_ID]
    summary: Adds the lookup cache behind a flag.
    changeSet:
      target: https://git.example.test/shop
      baseRevision: 9f2c1ab
      changes:                    # add, modify, delete or rename (with fromPath)
        - {path: cache/lookup.py, action: modify}
      reference: {uri: https://git.example.test/shop/pull/77, revision: c0ffee1}
      # or instead of reference, patch: {mediaType: text/x-diff, content: ..., sha256: ...}
    verification: Unit tests and the recorded load pass on c0ffee1.
""",
}

FAILED = """\
taskId: TASK_ID
outcome: failed
reason: The load generator cannot reach the target environment.
"""


def request_help() -> str:
    """The epilogue of ``agent work request --help``."""
    lines = ["Input for each role:"]
    lines += [f"  {REQUEST.format(role=role)}" for role in SUBMISSIONS]
    lines += [
        "",
        "From a script:",
        """  printf '%s' '{"project_id":"PROJECT_ID","role":"ideator","max_tasks":1}' |""",
        "    expb-tui --profile=researcher --format=json agent work request --file -",
    ]
    return "\n".join(lines)


def submit_help() -> str:
    """The epilogue of ``agent work submit --help``."""
    parts = ["Input for each role (JSON with the same keys is read too):"]
    for role, text in SUBMISSIONS.items():
        parts += ["", f"  {role}:", *(f"    {line}" for line in text.splitlines())]
    parts += ["", "  any role, where the task cannot be done:", *(f"    {line}" for line in FAILED.splitlines())]
    return "\n".join(parts)
