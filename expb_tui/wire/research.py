"""What each role submits, and the research records made of it (sections 6.2.7 and 6.2.8)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from expb_tui.wire.base import Count, Instant, Label, Number, Resource, Status, Text, WireModel, at_field

Identifier = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
Digest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]
Address = Annotated[str, Field(strict=True, min_length=1, max_length=2048)]
Path = Annotated[str, Field(strict=True, min_length=1, max_length=1024)]

Operator = Literal["<", "<=", "==", ">=", ">"]


class Measure(WireModel):
    """What an objective is judged by."""

    name: Label
    unit: Label
    direction: Literal["minimize", "maximize"]
    baseline: Number | None = None
    target: Number | None = None


class Constraint(WireModel):
    """A condition that a result must keep: ``name operator value unit``."""

    name: Label
    operator: Operator
    value: Number
    unit: Annotated[str, Field(strict=True, max_length=200)] = ""

    def holds(self, measured: float) -> bool:
        """Whether a measured value (in the constraint's unit) satisfies it."""
        return {
            "<": measured < self.value,
            "<=": measured <= self.value,
            "==": measured == self.value,
            ">=": measured >= self.value,
            ">": measured > self.value,
        }[self.operator]


class ObjectiveSpec(WireModel):
    description: Annotated[str, Field(strict=True, max_length=65_536)] = ""
    measure: Measure
    constraints: list[Constraint] = Field(default_factory=list, max_length=64)


class Best(WireModel):
    """The best accepted result of an objective, in the measure's unit."""

    result_id: str
    value: float


class ObjectiveStatus(Status):
    best: Best | None = None


Objective = Resource[ObjectiveSpec, ObjectiveStatus]


class ExpectedEffect(WireModel):
    value: Number
    unit: Label


class HypothesisOutput(WireModel):
    objective_id: Identifier
    statement: Text
    rationale: Text
    expected_effect: ExpectedEffect | None = None
    plan: Text
    risks: list[Text] = Field(default_factory=list, max_length=64)


class IdeatorOutput(WireModel):
    """Role ``ideator``: propose a hypothesis for an objective."""

    hypothesis: HypothesisOutput


class Refinement(WireModel):
    statement: Text
    plan: Text | None = None
    rationale: Text | None = None
    expected_effect: ExpectedEffect | None = None


class HypothesisReview(WireModel):
    hypothesis_id: Identifier
    verdict: Literal["accept", "refine", "combine", "reject"]
    rationale: Text
    refinement: Refinement | None = None
    combine_with: list[Identifier] = Field(default_factory=list, max_length=64)

    @model_validator(mode="after")
    def _verdict_needs(self) -> HypothesisReview:
        needs_refinement = self.verdict in ("refine", "combine")
        if needs_refinement and self.refinement is None:
            raise at_field("refinement", f"is required for the verdict {self.verdict}")
        if not needs_refinement and self.refinement is not None:
            raise at_field("refinement", f"is not allowed for the verdict {self.verdict}")
        if self.verdict == "combine" and not self.combine_with:
            raise at_field("combineWith", "is required for the verdict combine")
        if self.verdict != "combine" and self.combine_with:
            raise at_field("combineWith", f"is not allowed for the verdict {self.verdict}")
        return self


class HypothesisReviewerOutput(WireModel):
    """Role ``hypothesis-reviewer``: accept, refine, combine or reject a proposal."""

    review: HypothesisReview


class Measurement(WireModel):
    """One measured value in the objective's unit; ``uncertainty`` in the same unit, ``samples`` a count."""

    name: Label
    value: Number
    unit: Label
    baseline: Number | None = None
    samples: Count | None = None
    uncertainty: Number | None = None
    measured_at: Instant | None = None


class ConstraintAnswer(WireModel):
    name: Label
    value: Number
    unit: Annotated[str, Field(strict=True, max_length=200)] = ""
    satisfied: Annotated[bool, Field(strict=True)]


class Evidence(WireModel):
    """A reference and a digest; the service stores no bytes."""

    kind: Literal["artifact", "log", "metric", "revision", "note"]
    name: Label
    uri: Address | None = None
    media_type: Label | None = None
    size_bytes: Count | None = None
    sha256: Digest | None = None
    revision: Label | None = None
    note: Text | None = None


class ResultOutput(WireModel):
    experiment_id: Identifier
    conclusion: Literal["supported", "refuted", "inconclusive"]
    summary: Text
    measurement: Measurement
    constraints: list[ConstraintAnswer] = Field(default_factory=list, max_length=64)
    evidence: list[Evidence] = Field(min_length=1, max_length=256)


class ExperimenterOutput(WireModel):
    """Role ``experimenter``: test a ready hypothesis and report evidence."""

    result: ResultOutput


class ResultReview(WireModel):
    result_id: Identifier
    verdict: Literal["accept", "reject", "request-evidence"]
    rationale: Text
    evidence_requests: list[Text] = Field(default_factory=list, max_length=32)

    @model_validator(mode="after")
    def _verdict_needs(self) -> ResultReview:
        if self.verdict == "request-evidence" and not self.evidence_requests:
            raise at_field("evidenceRequests", "is required for the verdict request-evidence")
        if self.verdict != "request-evidence" and self.evidence_requests:
            raise at_field("evidenceRequests", f"is not allowed for the verdict {self.verdict}")
        return self


class ResultsReviewerOutput(WireModel):
    """Role ``results-reviewer``: review a reported result or ask for more evidence."""

    review: ResultReview


class Change(WireModel):
    path: Path
    action: Literal["add", "modify", "delete", "rename"]
    from_path: Path | None = None

    @model_validator(mode="after")
    def _rename_needs_origin(self) -> Change:
        if (self.action == "rename") != (self.from_path is not None):
            raise at_field("fromPath", "is required for a rename and for nothing else")
        return self


class Patch(WireModel):
    """A diff in the body itself; ``sha256`` is of ``content`` in UTF-8."""

    media_type: Label = "text/x-diff"
    content: Annotated[str, Field(strict=True, min_length=1, max_length=900_000)]
    sha256: Digest


class Reference(WireModel):
    uri: Address
    revision: Label


class ChangeSet(WireModel):
    target: Address
    base_revision: Label
    changes: list[Change] = Field(min_length=1, max_length=2000)
    patch: Patch | None = None
    reference: Reference | None = None

    @model_validator(mode="after")
    def _either(self) -> ChangeSet:
        if self.patch is None and self.reference is None:
            raise at_field("patch", "or reference is required: exactly one of patch and reference")
        if self.patch is not None and self.reference is not None:
            raise at_field("reference", "is not allowed beside patch: exactly one of patch and reference")
        return self


class IntegrationOutput(WireModel):
    result_ids: list[Identifier] = Field(min_length=1, max_length=256)
    summary: Text
    change_set: ChangeSet
    verification: Text | None = None


class IntegratorOutput(WireModel):
    """Role ``integrator``: prepare a change set from accepted results."""

    integration: IntegrationOutput


OUTPUTS: dict[str, type[WireModel]] = {
    "ideator": IdeatorOutput,
    "hypothesis-reviewer": HypothesisReviewerOutput,
    "experimenter": ExperimenterOutput,
    "results-reviewer": ResultsReviewerOutput,
    "integrator": IntegratorOutput,
}
"""The model that an ``output`` must satisfy, by role."""


class RoleSettings(WireModel):
    """Spec (null = inherit) and ``effective`` (no nulls) of a research role."""

    role: str | None = None
    enabled: bool | None = None
    instructions: list[str] | None = None
    max_tasks: int | None = None
    lease_seconds: int | None = None
    absolute_lease_seconds: int | None = None
    concurrent_experiments: int | None = None
    assignment_interval_seconds: int | None = None
    ordering: str | None = None


class RoleStatus(Status):
    effective: RoleSettings | None = None
    sources: dict[str, str] | None = None


ResearchRole = Resource[RoleSettings, RoleStatus]


class PolicySettings(WireModel):
    hypothesis_review: bool | None = None
    result_review: bool | None = None


class PolicyStatus(Status):
    effective: PolicySettings | None = None
    sources: dict[str, str] | None = None


ReviewPolicy = Resource[PolicySettings, PolicyStatus]


class HoldSpec(WireModel):
    target_kind: str
    target_id: str
    reason: str


Hold = Resource[HoldSpec, Status]


class LimitSpec(WireModel):
    value: int | None = None
    unit: str | None = None
    period_seconds: int | None = None


class LimitStatus(Status):
    effective: int | None = None
    usage: int | None = None
    limiting_source: str | None = None
    over_limit: bool | None = None


Limit = Resource[LimitSpec, LimitStatus]
