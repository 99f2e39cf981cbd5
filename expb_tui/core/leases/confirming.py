"""What an answer must say before an act counts as done (contract, 6.2.4 and 6.2.5).

A status alone confirms nothing: proxies, maintenance pages and queues answer 2xx too. What is raised here has an
unknown outcome, so that the package itself is read before anybody is told anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import BadAnswer, bad_answer
from expb_tui.core.leases.schema import ENDED_PHASES
from expb_tui.wire.work import output_digest

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Answer
    from expb_tui.core.api.work import PackageAnswer, SubmissionAnswer
    from expb_tui.wire.work import Task, WorkPackage

_TAKEN = (200, 201)
"""202 says that it may be taken later."""
_PHASES = frozenset({"assigned", "submitted", "expired", "released", "revoked"})
"""Of tasks; any other word is opaque."""


def task_id_of(body: Mapping[str, Any]) -> str:
    """The task that a submission is for, in either spelling (contract, 6.2.1); empty where it names none."""
    named = body.get("taskId", body.get("task_id"))
    return named if isinstance(named, str) else ""


def digest_of(body: Mapping[str, Any]) -> str:
    """The digest of a submission's output; empty for a failed outcome, which has none."""
    output = body.get("output")
    return "" if output is None else output_digest(output)


def shown(package: WorkPackage, body: Mapping[str, Any]) -> bool | None:
    """Whether a package shows that this very submission was taken; None where it does not tell whose it was."""
    task = _task(package, body)
    if task is None:
        return None if package.status.phase == "completed" else False
    if task.phase != "submitted" or task.outcome not in (None, body.get("outcome")):
        return False
    if task.outcome == "failed":
        return True  # a failed task holds nothing that could be somebody else's
    return None if task.output_sha256 is None else task.output_sha256 == digest_of(body)


def took(answer: SubmissionAnswer, package_id: str, body: Mapping[str, Any]) -> SubmissionAnswer:
    """The answer, if it says that the submission was taken. Raises ``BadAnswer`` otherwise.

    It must hold the record made of the output, or this package with the task submitted; a failed task makes no record
    and may be gone from the package already. Where record and package contradict each other, nothing is confirmed.
    """
    package = answer.package.package if answer.package else None
    completed, record = body.get("outcome") == "completed", bool(answer.record_id)
    told = completed and record
    if package is not None:
        task = _task(package, body)
        if task is None:
            told = told or not completed or shown(package, body) is not False
        elif task.phase in _PHASES or not told:
            told = shown(package, body) is not False
        told = told and package.uid == package_id
    if not told or answer.answer.status not in _TAKEN:
        raise _unconfirmed(answer.answer, "it does not say that the submission was taken")
    return answer


def extended(answer: PackageAnswer) -> PackageAnswer:
    """The answer to a renewal, if it tells until when the lease runs now. Raises ``BadAnswer`` otherwise."""
    if answer.package is None or answer.package.status.lease is None:
        raise _unconfirmed(answer.answer, "it does not say until when the lease runs")
    return answer


def ended(answer: PackageAnswer) -> PackageAnswer:
    """The answer to a release or withdrawal, if the package has ended by it. Raises ``BadAnswer`` otherwise."""
    if answer.package is None or answer.package.status.phase not in ENDED_PHASES:
        raise _unconfirmed(answer.answer, "it does not say that the package has ended")
    return answer


def _task(package: WorkPackage, body: Mapping[str, Any]) -> Task | None:
    return next((task for task in package.status.tasks if task.task_id == task_id_of(body)), None)


def _unconfirmed(answer: Answer, cause: str) -> BadAnswer:
    failure = bad_answer(answer.request, "unexpected-shape", cause, answer.status)
    failure.next_step = "Show the package to see what became of it"
    return failure
