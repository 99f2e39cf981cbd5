"""The queue: tasks enter it, are given back to it, and are withdrawn from it.

A task is one unit of work for one role. Which tasks exist when:

- ideator: one open task for each active objective, followed by the next as soon as it is taken;
- hypothesis reviewer: one for each ``proposed`` hypothesis, where the gate is on;
- experimenter: one for each ``queued`` experiment: a hypothesis became ``ready``, or more evidence was asked for;
- results reviewer: one for each ``reported`` result, where the gate is on;
- integrator: one for each accepted result that supports its hypothesis within all constraints.

Every function here expects the lock of the project, which makes all of them exclusive within it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any
from uuid import uuid4

from sqlalchemy import Select, String, bindparam, insert, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from expb_tui.server.context import SERVICE, Unit
from expb_tui.server.research.kinds import EXPERIMENTS, HOLDS, HYPOTHESES, RESULTS
from expb_tui.server.resources import Kind, RowOf
from expb_tui.server.store.research_tables import experiments, holds, objectives, work_tasks

MAX_FAILURES = 3
"""After so many failures or expiries a task is parked under a hold (hazards 12)."""

SUBJECTS: dict[str, tuple[Kind, str, str, str]] = {
    "hypothesis-reviewer": (HYPOTHESES, "hypothesis_id", "proposed", "in-review"),
    "experimenter": (EXPERIMENTS, "experiment_id", "queued", "assigned"),
    "results-reviewer": (RESULTS, "result_id", "reported", "in-review"),
}
"""The record that a role's task is about: its kind, the task's column, its phase while waiting and while assigned."""

_TASK = work_tasks.c
_ENQUEUE = insert(work_tasks)
_OPEN_IDEA = (
    select(_TASK.id)
    .where(_TASK.objective_id == bindparam("of_objective"), _TASK.role == "ideator", _TASK.phase == "open")
    .limit(1)
)
_TAKE = (
    update(work_tasks)
    .where(_TASK.id == bindparam("of_task"), _TASK.phase == "open")
    .values(phase="assigned", package_id=bindparam("of_package"))
)
_FINISH = (
    update(work_tasks)
    .where(_TASK.id == bindparam("of_task"), _TASK.package_id == bindparam("of_package"), _TASK.phase == "assigned")
    .values(phase="submitted")
)


def enqueue(
    unit: Unit,
    role: str,
    *,
    project_id: str,
    objective_id: str,
    hypothesis_id: str | None = None,
    experiment_id: str | None = None,
    result_id: str | None = None,
    author_id: str | None = None,
) -> str:
    """Add a task at the end of the queue; returns its id."""
    uid = str(uuid4())
    unit.conn.execute(
        _ENQUEUE,
        {
            "id": uid,
            "project_id": project_id,
            "objective_id": objective_id,
            "role": role,
            "phase": "open",
            "queued_at": unit.now,
            "hypothesis_id": hypothesis_id,
            "experiment_id": experiment_id,
            "result_id": result_id,
            "author_id": author_id,
            "failures": 0,
        },
    )
    return uid


def ensure_idea_task(unit: Unit, project_id: str, objective_id: str) -> None:
    """See to it that the objective has an open ideator task."""
    if unit.conn.execute(_OPEN_IDEA, {"of_objective": objective_id}).first() is None:
        enqueue(unit, "ideator", project_id=project_id, objective_id=objective_id)


def move(unit: Unit, kind: Kind, ids: Iterable[str], waiting: Sequence[str], phase: str, **columns: Any) -> list[RowOf]:
    """Move those of the records that are in a ``waiting`` phase (one or two) to ``phase``; returns them as they are."""
    moved: list[RowOf] = []
    for uid in ids:
        values = {
            "of_uid": uid,
            "was": waiting[0],
            "or_was": waiting[-1],
            "phase": phase,
            "updated_at": unit.now,
            "modified_by_type": unit.actor.type,
            "modified_by": unit.actor.id,
            **columns,
        }
        moved += unit.conn.execute(_moving(kind), values).all()
    for row in moved:
        unit.changed(kind, row)
    return moved


@cache
def _moving(kind: Kind) -> ReturningUpdate[Any]:
    columns = kind.table.c
    waits = columns.phase.in_([bindparam("was", type_=String), bindparam("or_was", type_=String)])
    statement = update(kind.table).where(columns.id == bindparam("of_uid"), waits).values(version=columns.version + 1)
    return statement.returning(kind.table)


def mark_assigned(unit: Unit, role: str, tasks: Sequence[Any], package_id: str) -> dict[str, RowOf]:
    """Take open tasks out of the queue for a package, and say so in the records that they are about.

    Returns those records as they are now, by id.
    """
    for task in tasks:
        if unit.conn.execute(_TAKE, {"of_task": task.id, "of_package": package_id}).rowcount != 1:
            raise RuntimeError("a task left the queue under the lock of its project")
    if role == "ideator":
        for objective_id in sorted({task.objective_id for task in tasks}):
            ensure_idea_task(unit, tasks[0].project_id, objective_id)
    if role not in SUBJECTS:
        return {}
    kind, column, waiting, assigned = SUBJECTS[role]
    extra = {"package_id": package_id} if kind is EXPERIMENTS else {}
    moved = move(unit, kind, [getattr(task, column) for task in tasks], [waiting], assigned, **extra)
    if kind is EXPERIMENTS:
        moved += move(unit, HYPOTHESES, [task.hypothesis_id for task in tasks], ["ready"], "in-experiment")
    return {row.id: row for row in moved}


def tasks_of(unit: Unit, task_ids: Collection[str]) -> Sequence[RowOf]:
    """The queue's rows of these tasks."""
    return unit.conn.execute(select(work_tasks).where(_TASK.id.in_(task_ids))).all()


def give_back(unit: Unit, task_ids: Collection[str], *, failed: bool, why: str = "") -> None:
    """Return assigned tasks to the queue, at the place that they had.

    ``failed`` counts against the task (a failed outcome, an expired lease); the third time it is parked: a hold on its
    hypothesis, or on its objective where there is none, which a member releases. ``why`` goes into the hold's reason.
    """
    closed = set(
        unit.conn.execute(
            select(_TASK.id)
            .join(objectives, objectives.c.id == _TASK.objective_id)
            .where(_TASK.id.in_(task_ids), objectives.c.phase == "closed")
        ).scalars()
    )
    for task in tasks_of(unit, task_ids):
        if task.phase != "assigned":
            continue
        failures = task.failures + (1 if failed else 0)
        phase = "withdrawn" if task.id in closed else "open"
        unit.conn.execute(
            update(work_tasks).where(_TASK.id == task.id).values(phase=phase, package_id=None, failures=failures)
        )
        _release_subject(unit, task, abandoned=phase == "withdrawn")
        if failures >= MAX_FAILURES and phase == "open":
            _park(unit, task, failures, why)


def _release_subject(unit: Unit, task: RowOf, *, abandoned: bool) -> None:
    if task.role == "ideator":
        # The successor that was queued when this one was taken is not needed any more.
        spare = (
            select(_TASK.id)
            .where(
                _TASK.objective_id == task.objective_id,
                _TASK.role == "ideator",
                _TASK.phase == "open",
                _TASK.id != task.id,
                _TASK.failures == 0,
            )
            .limit(1)
        )
        unit.conn.execute(update(work_tasks).where(_TASK.id.in_(spare)).values(phase="withdrawn"))
    if task.role not in SUBJECTS:
        return
    kind, column, waiting, assigned = SUBJECTS[task.role]
    if kind is not EXPERIMENTS:
        move(unit, kind, [getattr(task, column)], [assigned], waiting)
        return
    move(unit, kind, [task.experiment_id], [assigned], "abandoned" if abandoned else waiting, package_id=None)
    first_round = select(experiments.c.round).where(experiments.c.id == task.experiment_id)
    if unit.conn.execute(first_round).scalar_one() == 0:
        move(unit, HYPOTHESES, [task.hypothesis_id], ["in-experiment"], "ready")


def _park(unit: Unit, task: RowOf, failures: int, why: str) -> None:
    target_kind = "hypothesis" if task.hypothesis_id else "objective"
    target_id = task.hypothesis_id or task.objective_id
    held = select(holds.c.id).where(
        holds.c.project_id == task.project_id, holds.c.phase == "active", holds.c.target_id == target_id
    )
    if unit.conn.execute(held.limit(1)).first() is not None:
        return
    owner = select(objectives.c.account_id).where(objectives.c.id == task.objective_id)
    reason = f"Parked: {failures} tries of its {task.role} task failed or ran out of time. {why}".strip()
    unit.insert(
        HOLDS,
        actor=SERVICE,
        account_id=unit.conn.execute(owner).scalar_one(),
        project_id=task.project_id,
        target_kind=target_kind,
        target_id=target_id,
        reason=reason,
    )


def forgive(unit: Unit, target_kind: str, target_id: str) -> None:
    """Start the count of failures afresh for the tasks under a hold's target that is released."""
    column = {"hypothesis": _TASK.hypothesis_id, "objective": _TASK.objective_id}.get(target_kind)
    if column is not None:
        unit.conn.execute(update(work_tasks).where(column == target_id, _TASK.failures > 0).values(failures=0))


def finish(unit: Unit, task_id: str, package_id: str) -> bool:
    """Take the one submission of a task; False where somebody else was faster."""
    return unit.conn.execute(_FINISH, {"of_task": task_id, "of_package": package_id}).rowcount == 1


def withdraw(unit: Unit, query: Select[Any]) -> Sequence[RowOf]:
    """Take the selected open or assigned tasks out of the loop for good; returns them as they were.

    Packages that hold one of them are told by ``packages.revoke_tasks``.
    """
    rows = unit.conn.execute(query.where(_TASK.phase.in_(("open", "assigned")))).all()
    if rows:
        unit.conn.execute(update(work_tasks).where(_TASK.id.in_([row.id for row in rows])).values(phase="withdrawn"))
    return rows
