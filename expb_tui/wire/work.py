"""Opportunities, work packages, leases, tasks and submissions (sections 6.2.1 to 6.2.5)."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from expb_tui.wire.base import AnyResource, Instant, Resource, SnakeModel, Status, Text, WireModel, at_field

ROLES = ("ideator", "hypothesis-reviewer", "experimenter", "results-reviewer", "integrator")
_ROLE_SPELLINGS = {"result-reviewer": "results-reviewer"}

EMPTY_CAUSES = ("project-inactive", "objective-inactive", "role-disabled", "review-gate", "hold", "limit")
"""Why a role may have no work, in the order in which a person should look."""

LEASE_HEADER = "X-Lease-Token"


def canonical_role(role: str) -> str:
    """The hyphen spelling of a role identifier; an unknown word comes back as typed.

    Source: 6.2.1, the server accepts ``_`` for ``-`` and ``result-reviewer``.
    """
    word = role.strip().lower().replace("_", "-")
    word = _ROLE_SPELLINGS.get(word, word)
    return word if word in ROLES else role


def output_digest(output: Any) -> str:
    """SHA-256 (hex) of a submission's ``output`` as canonical JSON: sorted keys, no spaces, UTF-8.

    The server keeps it with the task (``outputSha256``), so that a client whose answer was lost can tell
    by reading whether its own submission was recorded.
    """
    text = json.dumps(output, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Opportunity(SnakeModel):
    """Work for one role in one project; it reserves nothing."""

    project_id: str
    project_name: str = ""
    role: str
    available: int = 0
    active_packages: int = 0
    objective_ids: list[str] = Field(default_factory=list)
    blocked_by: list[str] = Field(default_factory=list)
    retry_after_seconds: int = 0


class WorkRequest(SnakeModel):
    """The documented body of a claim."""

    project_id: str | None = None
    role: Annotated[str, Field(strict=True, min_length=1, max_length=64)]
    max_tasks: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 1


class Lease(WireModel):
    """All instants are the server's; ``leaseSeconds`` is what one renewal buys."""

    issued_at: Instant | None = None
    expires_at: Instant
    absolute_expires_at: Instant | None = None
    lease_seconds: int | None = None
    renewals: int = 0


class Task(WireModel):
    """One unit of a package. ``input`` differs by role; ``outcome`` appears once submitted, ``recordId`` and
    ``outputSha256`` with the outcome ``completed``."""

    task_id: str
    role: str = ""
    phase: str = ""
    input: dict[str, Any] = Field(default_factory=dict)
    outcome: str | None = None
    record_id: str | None = None
    output_sha256: str | None = Field(default=None, validation_alias="outputSha256", serialization_alias="outputSha256")


class WorkPackageSpec(WireModel):
    role: str
    agent_id: str | None = None
    max_tasks: int | None = None


class WorkPackageStatus(Status):
    lease: Lease | None = None
    tasks: list[Task] = Field(default_factory=list)


WorkPackage = Resource[WorkPackageSpec, WorkPackageStatus]


class WorkPackageResult(WireModel):
    """The answer of a claim or a renewal; ``leaseToken`` comes with a claim, once."""

    resource: WorkPackage | None = None
    lease_token: SecretStr | None = None


class Submission(WireModel):
    """``completed`` carries the role's output, ``failed`` carries a reason."""

    task_id: Annotated[str, Field(strict=True, min_length=1, max_length=200)]
    outcome: Literal["completed", "failed"]
    output: dict[str, Any] | None = None
    reason: Text | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Submission:
        if self.outcome == "completed" and self.output is None:
            raise at_field("output", "is required when outcome is completed")
        if self.outcome == "completed" and self.reason is not None:
            raise at_field("reason", "is only for a failed outcome")
        if self.outcome == "failed" and self.reason is None:
            raise at_field("reason", "is required when outcome is failed")
        if self.outcome == "failed" and self.output is not None:
            raise at_field("output", "is not allowed when outcome is failed")
        return self


class SubmissionResult(WireModel):
    """Only a 2xx with this body counts as submitted; ``resource`` is absent for ``failed``."""

    resource: AnyResource | None = None
    package: WorkPackage | None = None
