"""Holds stop new assignment for a project, an objective or a hypothesis, never running leases (contract, 6.2.8)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import ColumnElement, select

from expb_tui.server.context import Answer, Call, created
from expb_tui.server.identity.access import require_member
from expb_tui.server.offers import Changes, offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, invalid
from expb_tui.server.research.editing import rows_of_project, shown_to, to_change
from expb_tui.server.research.kinds import HOLDS
from expb_tui.server.resources import Create, Patch, RowOf, create_body
from expb_tui.server.routing import Operations, Who
from expb_tui.server.store.research_tables import hypotheses, objectives
from expb_tui.server.work.queue import forgive
from expb_tui.wire.base import Text, WireModel
from expb_tui.wire.research import Hold

operations = Operations("research")

_PLURALS = {"projects": "project", "objectives": "objective", "hypotheses": "hypothesis"}


class HoldBody(WireModel):
    """``targetKind`` may also be the name of the kind; the singular is kept."""

    target_kind: Literal["project", "objective", "hypothesis", "projects", "objectives", "hypotheses"]
    target_id: Annotated[str, Field(strict=True, min_length=36, max_length=36)]
    reason: Text


def _of_project(call: Call) -> list[ColumnElement[bool]]:
    require_member(call, call.path["project"])
    return rows_of_project(HOLDS, call)


offer_list(
    operations,
    HOLDS,
    "/v1/projects/{project}/holds",
    id="listHolds",
    summary="The holds of a project",
    answer=Hold,
    where=_of_project,
)
offer_read(operations, HOLDS, see=shown_to(HOLDS, require_member), id="readHold", summary="A hold", answer=Hold)


@operations.post(
    "/v1/projects/{project}/holds",
    "createHold",
    "Stop new assignment for a project, an objective or a hypothesis",
    who=Who.EITHER,
    body=create_body(HOLDS, HoldBody),
    answers={201: Hold},
)
def post_hold(call: Call, body: Create[HoldBody]) -> Answer:
    project = require_member(call, call.path["project"], lock=True)
    call.read_clock()
    kind = _PLURALS.get(body.spec.target_kind, body.spec.target_kind)
    target_id = body.spec.target_id.lower()
    if not _is_in_project(call, project, kind, target_id):
        raise invalid({"spec.targetId": f"is not {'this' if kind == 'project' else 'a'} {kind} of the project"})
    row = call.insert(
        HOLDS,
        name=body.metadata.name,
        labels=body.metadata.labels,
        account_id=project.account_id,
        project_id=project.id,
        target_kind=kind,
        target_id=target_id,
        reason=body.spec.reason,
    )
    return created(HOLDS, row)


def _is_in_project(call: Call, project: RowOf, kind: str, target_id: str) -> bool:
    if kind == "project":
        return bool(target_id == project.id)
    table = objectives if kind == "objective" else hypotheses
    return call.one(select(table.c.id).where(table.c.id == target_id, table.c.project_id == project.id)) is not None


def _release(call: Call, row: RowOf, changes: Changes) -> Changes:
    if row.phase != "active":
        raise Problem(409, "phase-conflict", f"The hold is {row.phase} already.")
    forgive(call, row.target_kind, row.target_id)
    return changes


offer_patch(
    operations,
    HOLDS,
    see=to_change(HOLDS),
    body=Patch(None, {"release": "released"}),
    check=_release,
    id="releaseHold",
    summary="Release a hold; tasks that were parked under it may be tried again",
    answer=Hold,
)
