"""Holds stop new assignment for a project, an objective or a hypothesis, never running leases (contract, 6.2.8)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, created, item
from expb_tui.server.identity.access import require_member
from expb_tui.server.problems import Problem, invalid
from expb_tui.server.research.editing import record_to_change
from expb_tui.server.research.kinds import HOLDS
from expb_tui.server.resources import Command, Create, Patch, RowOf, create_body
from expb_tui.server.routing import LIST_QUERY, Operations, Who
from expb_tui.server.store.research_tables import holds, hypotheses, objectives
from expb_tui.server.work.queue import forgive
from expb_tui.wire.base import Page, Text, WireModel
from expb_tui.wire.research import Hold

operations = Operations("research")

_PLURALS = {"projects": "project", "objectives": "objective", "hypotheses": "hypothesis"}


class HoldBody(WireModel):
    """``targetKind`` may also be the name of the kind; the singular is kept."""

    target_kind: Literal["project", "objective", "hypothesis", "projects", "objectives", "hypotheses"]
    target_id: Annotated[str, Field(strict=True, min_length=36, max_length=36)]
    reason: Text


@operations.get(
    "/v1/projects/{project}/holds",
    "listHolds",
    "The holds of a project",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[Hold]},
)
def list_holds(call: Call) -> Answer:
    require_member(call, call.path["project"])
    return lists.page(call, HOLDS, holds.c.project_id == call.path["project"])


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


@operations.get("/v1/holds/{uid}", "readHold", "A hold", who=Who.EITHER, answers={200: Hold})
def read_hold(call: Call) -> Answer:
    row = call.fetch(HOLDS, call.path["uid"])
    require_member(call, row.project_id)
    return item(HOLDS, row)


@operations.patch(
    "/v1/holds/{uid}",
    "releaseHold",
    "Release a hold; tasks that were parked under it may be tried again",
    who=Who.EITHER,
    body=Patch(None, {"release": "released"}),
    answers={200: Hold},
)
def release_hold(call: Call, body: Command) -> Answer:
    row = record_to_change(call, HOLDS)
    if row.phase != "active":
        raise Problem(409, "phase-conflict", f"The hold is {row.phase} already.")
    forgive(call, row.target_kind, row.target_id)
    return item(HOLDS, call.update(HOLDS, row, phase=body.phase))
