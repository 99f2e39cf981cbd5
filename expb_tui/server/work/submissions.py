"""Taking a submission: once per task, by who holds the lease, before it ends (contract, section 6.2.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from expb_tui.server.context import Unit
from expb_tui.server.problems import Problem, not_found
from expb_tui.server.research.flow import Loop, Outcome
from expb_tui.server.research.outputs import read_output
from expb_tui.server.resources import RowOf
from expb_tui.server.work.leases import check_active, check_token, lock_package
from expb_tui.server.work.packages import WORK_PACKAGES, Task, after_change, revoke_tasks, with_phase
from expb_tui.server.work.queue import finish, give_back, tasks_of
from expb_tui.wire.work import Submission, output_digest


class Receipt(NamedTuple):
    """What the server confirms: the record made of the output (none for a failed task) and the package after it."""

    outcome: Outcome | None
    package: RowOf


def submit(unit: Unit, package_id: str, agent_id: str, token: str, submission: Submission) -> Receipt:
    """Take a submission.

    Raises 404 for a foreign package or task; 409 ``lease-conflict`` for another token, ``task-closed`` for a task that
    was submitted or withdrawn, ``lease-expired``; 422 ``validation`` where the output does not fit.
    """
    row = lock_package(unit, package_id, agent_id)
    check_token(row, token)
    task = _task(row, submission.task_id)
    if task["phase"] == "submitted" or (task["phase"] == "revoked" and row.phase in ("active", "completed")):
        raise _closed()
    check_active(unit, row)
    if submission.outcome == "failed":
        return _take_failure(unit, row, submission)
    output = read_output(row.role, submission.output, task["input"])
    if not finish(unit, task["taskId"], row.id):
        raise _closed()
    queued = tasks_of(unit, [task["taskId"]])[0]
    outcome = Loop(unit, queued).record(output)
    revoke_tasks(unit, outcome.void, keep=row.id)
    own_void = [task_id for task_id, holder in outcome.void.items() if holder == row.id]
    tasks = with_phase(
        with_phase(row.tasks, own_void, "revoked"),
        [task["taskId"]],
        "submitted",
        outcome="completed",
        recordId=outcome.record.id,
        outputSha256=output_digest(submission.output),
    )
    return Receipt(outcome, unit.update(WORK_PACKAGES, row, tasks=tasks, phase=after_change(tasks)))


def _take_failure(unit: Unit, row: RowOf, submission: Submission) -> Receipt:
    tasks = with_phase(row.tasks, [submission.task_id], "submitted", outcome="failed")
    give_back(unit, [submission.task_id], failed=True, why=f"The last reason: {submission.reason}")
    return Receipt(None, unit.update(WORK_PACKAGES, row, tasks=tasks, phase=after_change(tasks)))


def _task(row: RowOf, task_id: str) -> Task:
    for task in row.tasks:
        if task["taskId"] == task_id:
            found: dict[str, Any] = task
            return found
    raise not_found()


def _closed() -> Problem:
    return Problem(409, "task-closed", "The task was submitted or withdrawn already; read the package.")
