"""The form of each role, as data; the words beside the fields are the only help that a person needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from expb_tui.core.errors import ExpbError
from expb_tui.core.submissions.experiment import experimenter
from expb_tui.core.submissions.fields import Choice, Condition, Field, Form, Kind
from expb_tui.core.submissions.integration import integrator
from expb_tui.core.submissions.parts import Built, expected_effect, objective_id, part, settled, short, word
from expb_tui.core.text import clean
from expb_tui.wire.work import canonical_role

_COMPLETED = Condition("outcome", frozenset({"completed"}))

OUTCOME = Field(
    "outcome",
    "Outcome",
    Kind.CHOICE,
    required=True,
    default="completed",
    wire_path="outcome",
    choices=(
        Choice("completed", "completed", "The task was done; its result is below."),
        Choice("failed", "failed", "The task could not be done; it returns to the queue."),
    ),
    help="What happened to the task.",
)
REASON = Field(
    "reason",
    "Reason",
    Kind.PROSE,
    required=True,
    wire_path="reason",
    visible_when=(Condition("outcome", frozenset({"failed"})),),
    help="Why the task could not be done; the project's people read it.",
)


def form_for(role: str, task_id: str, task_input: Mapping[str, Any]) -> Form:
    """The form of a task. Raises ``ExpbError`` (code ``unknown-role``) for a role that this version does not know."""
    build = _ROLES.get(canonical_role(role))
    if build is None:
        raise ExpbError(
            f"No form for the role {clean(role)}",
            cause="this version of expb-tui does not know it",
            next_step="Send a prepared body with agent work submit --file",
            code="unknown-role",
        )
    fields, fixed, constraints = build(task_input)
    shown = tuple(replace(one, visible_when=(_COMPLETED, *one.visible_when)) for one in fields)
    return Form(canonical_role(role), task_id, (OUTCOME, REASON, *shown), tuple(fixed), constraints)


def _ideator(task: Mapping[str, Any]) -> Built:
    base = "output.hypothesis"
    asked, fixed = settled(f"{base}.objectiveId", objective_id(task), "objective_id", "Objective id")
    effect, unit = expected_effect(task, "expected_effect", f"{base}.expectedEffect", "Expected effect")
    fields = [
        *asked,
        Field(
            "statement",
            "Statement",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.statement",
            help="One sentence that an experiment can support or refute, with the expected value.",
        ),
        Field(
            "rationale",
            "Rationale",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.rationale",
            help="Why it should be so: what you saw or know.",
        ),
        *effect,
        Field(
            "plan",
            "Plan",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.plan",
            help="How an experimenter can test it, step by step.",
        ),
        Field("risks", "Risks", Kind.LIST, wire_path=f"{base}.risks", help="What may go wrong, one a line."),
    ]
    return fields, [*fixed, *unit], {}


def _hypothesis_reviewer(task: Mapping[str, Any]) -> Built:
    base = "output.review"
    uid = part(task, "hypothesis", "metadata", "uid")
    asked, fixed = settled(f"{base}.hypothesisId", uid, "hypothesis_id", "Hypothesis id")
    changed = (Condition("verdict", frozenset({"refine", "combine"})),)
    candidates = tuple(
        Choice(candidate["uid"], short(word(candidate.get("statement")) or candidate["uid"]))
        for candidate in part(task, "candidates") or []
        if isinstance(candidate, Mapping) and word(candidate.get("uid"))
    )
    effect, unit = expected_effect(task, "refined_effect", f"{base}.refinement.expectedEffect", "New expected effect")
    fields = [
        *asked,
        Field(
            "verdict",
            "Verdict",
            Kind.CHOICE,
            required=True,
            wire_path=f"{base}.verdict",
            choices=(
                Choice("accept", "accept", "It can be tested as it stands."),
                Choice("refine", "refine", "A better statement replaces it."),
                Choice("combine", "combine", "One statement replaces it and others."),
                Choice("reject", "reject", "It should not be tested."),
            ),
            help="What should become of the proposal.",
        ),
        Field(
            "rationale",
            "Rationale",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.rationale",
            help="Why; the proposer reads it.",
        ),
        Field(
            "combine_with",
            "Combine with",
            Kind.LIST,
            required=True,
            choices=candidates,
            wire_path=f"{base}.combineWith",
            visible_when=(Condition("verdict", frozenset({"combine"})),),
            help="The other hypotheses that the new statement replaces, by id.",
        ),
        Field(
            "refined_statement",
            "New statement",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.refinement.statement",
            visible_when=changed,
            help="The statement that will be tested.",
        ),
        Field("refined_plan", "New plan", Kind.PROSE, wire_path=f"{base}.refinement.plan", visible_when=changed),
        Field(
            "refined_rationale",
            "New rationale",
            Kind.PROSE,
            wire_path=f"{base}.refinement.rationale",
            visible_when=changed,
        ),
        *(replace(one, visible_when=changed) for one in effect),
    ]
    return fields, [*fixed, *unit], {}


def _results_reviewer(task: Mapping[str, Any]) -> Built:
    base = "output.review"
    asked, fixed = settled(f"{base}.resultId", part(task, "result", "metadata", "uid"), "result_id", "Result id")
    fields = [
        *asked,
        Field(
            "verdict",
            "Verdict",
            Kind.CHOICE,
            required=True,
            wire_path=f"{base}.verdict",
            choices=(
                Choice("accept", "accept", "The result can be built on."),
                Choice("reject", "reject", "The result cannot be trusted."),
                Choice("request-evidence", "request evidence", "A new experiment must show more."),
            ),
            help="What should become of the result.",
        ),
        Field(
            "rationale",
            "Rationale",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.rationale",
            help="Why; the experimenter reads it.",
        ),
        Field(
            "evidence_requests",
            "Evidence requests",
            Kind.LIST,
            required=True,
            wire_path=f"{base}.evidenceRequests",
            visible_when=(Condition("verdict", frozenset({"request-evidence"})),),
            help="What the next experiment must show, one a line.",
        ),
    ]
    return fields, fixed, {}


_ROLES: dict[str, Callable[[Mapping[str, Any]], Built]] = {
    "ideator": _ideator,
    "hypothesis-reviewer": _hypothesis_reviewer,
    "experimenter": experimenter,
    "results-reviewer": _results_reviewer,
    "integrator": integrator,
}
