"""Objectives: what a project is after (contract, section 6.2.8)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from sqlalchemy import select

from expb_tui.server.context import Answer, Call, Unit, created, item
from expb_tui.server.identity.access import require_member
from expb_tui.server.problems import Problem, invalid
from expb_tui.server.research.editing import to_change
from expb_tui.server.research.flow import judge_best
from expb_tui.server.research.kinds import EXPERIMENTS, OBJECTIVES
from expb_tui.server.research.settings import load_rules
from expb_tui.server.resources import Command, Create, Edit, Patch, RowOf, create_body, edit_body, metadata_changes
from expb_tui.server.routing import Operations, Who
from expb_tui.server.store.research_tables import experiments, work_tasks
from expb_tui.server.work.queue import ensure_idea_task, move, withdraw
from expb_tui.server.work.stocktaking import count_capacity
from expb_tui.wire.base import WireModel
from expb_tui.wire.research import Constraint, Measure, Objective, ObjectiveSpec

operations = Operations("research")

_to_change = to_change(OBJECTIVES)

VERBS = {"activate": "active", "pause": "paused", "achieve": "achieved", "close": "closed"}
_FROM = {
    "activate": ("draft", "active", "paused", "achieved"),
    "pause": ("active", "paused"),
    "achieve": ("active", "paused", "achieved"),
    "close": ("draft", "active", "paused", "achieved", "closed"),
}
"""The phases in which a verb makes sense. A closed objective stays closed."""


class ObjectiveEdit(WireModel):
    """What may be changed of an objective; a task that is being worked on keeps the snapshot that it was given."""

    description: Annotated[str, Field(strict=True, max_length=65_536)] = ""
    measure: Measure = Field(default_factory=lambda: Measure.model_construct())
    constraints: list[Constraint] = Field(default_factory=list, max_length=64)


@operations.post(
    "/v1/projects/{project}/objectives",
    "createObjective",
    "Create an objective, as a draft",
    who=Who.EITHER,
    body=create_body(OBJECTIVES, ObjectiveSpec),
    answers={201: Objective},
)
def post_objective(call: Call, body: Create[ObjectiveSpec]) -> Answer:
    project = require_member(call, call.path["project"], lock=True)
    call.read_clock()
    check_constraints(body.spec.constraints)
    most = load_rules(call.conn, project.account_id, project.id).limit("total-capacity")
    if most is not None and count_capacity(call.conn, project.id) >= most:
        raise Problem(409, "limit-exceeded", "The project is full.", fields={"limit": "total-capacity"})
    row = create_objective(call, project, body.spec, name=body.metadata.name, labels=body.metadata.labels)
    return created(OBJECTIVES, row)


def create_objective(
    unit: Unit, project: RowOf, spec: ObjectiveSpec, *, name: str = "", labels: dict[str, str] | None = None
) -> RowOf:
    """A draft objective."""
    return unit.insert(
        OBJECTIVES,
        name=name,
        labels=labels,
        phase="draft",
        spec=spec.wire(),
        account_id=project.account_id,
        project_id=project.id,
    )


def check_constraints(constraints: list[Constraint]) -> None:
    """Raises 422 where two constraints have one name: answers are matched by it."""
    names = [constraint.name for constraint in constraints]
    twice = {
        f"spec.constraints.{index}.name": "is used twice" for index, name in enumerate(names) if name in names[:index]
    }
    if twice:
        raise invalid(twice)


@operations.patch(
    "/v1/objectives/{uid}",
    "editObjective",
    "Change an objective, or activate, pause, achieve or close it",
    who=Who.EITHER,
    body=Patch(edit_body(OBJECTIVES, ObjectiveEdit), VERBS),
    answers={200: Objective},
)
def edit_objective(call: Call, body: Edit[ObjectiveEdit] | Command) -> Answer:
    row = _to_change(call)
    call.match(row)
    if isinstance(body, Command):
        return item(OBJECTIVES, drive_objective(call, row, body.verb))
    given = body.spec.model_fields_set
    if "constraints" in given:
        check_constraints(body.spec.constraints)
    changed = body.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=given)
    row = call.update(OBJECTIVES, row, **metadata_changes(row, body), spec={**row.spec, **changed})
    return item(OBJECTIVES, judge_best(call, row) if "measure" in given else row)


def drive_objective(unit: Unit, row: RowOf, verb: str) -> RowOf:
    """Carry out a verb of ``VERBS`` under the lock of the project. Raises 409 ``phase-conflict``."""
    if row.phase not in _FROM[verb]:
        raise Problem(409, "phase-conflict", f"An objective that is {row.phase} cannot be told to {verb}.")
    row = unit.update(OBJECTIVES, row, phase=VERBS[verb])
    if verb == "activate":
        ensure_idea_task(unit, row.project_id, row.id)
    elif verb == "close":
        task = work_tasks.c
        withdraw(unit, select(work_tasks).where(task.objective_id == row.id, task.phase == "open"))
        queued = select(experiments.c.id).where(experiments.c.objective_id == row.id, experiments.c.phase == "queued")
        move(unit, EXPERIMENTS, unit.conn.execute(queued).scalars().all(), ["queued"], "abandoned")
    return row
