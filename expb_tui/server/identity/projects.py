"""Projects and their members, who administer them (contract, section 3)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import ColumnElement, or_, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, Unit, created, item
from expb_tui.server.identity.access import account_admin, require_member, require_reader
from expb_tui.server.identity.kinds import PROJECT_MEMBERSHIPS, PROJECTS
from expb_tui.server.problems import Problem, already_exists, invalid, not_found
from expb_tui.server.research.settings import open_project
from expb_tui.server.resources import (
    ACTIVATE,
    PRINTABLE,
    REVOKE,
    Command,
    Create,
    Description,
    Edit,
    NoSpec,
    Patch,
    RowOf,
    create_body,
    edit_body,
    metadata_changes,
    spec_changes,
)
from expb_tui.server.routing import LIST_QUERY, SEARCH_QUERY, Operations, Param, Who
from expb_tui.server.store.schema import (
    account_memberships,
    agent_authorizations,
    project_memberships,
    projects,
    users,
)
from expb_tui.wire.base import AnyResource, Page, SnakeModel, WireModel
from expb_tui.wire.identity import Project

operations = Operations("projects")

Target = Annotated[str, Field(strict=True, max_length=2048, pattern=PRINTABLE)]


class ProjectSpec(WireModel):
    description: Description | None = None
    target: Target | None = None


class MemberSpec(WireModel):
    user_id: Annotated[str, Field(strict=True, min_length=36, max_length=36)]


class MemberCandidate(SnakeModel):
    user_id: str
    email: str
    display_name: str | None = None


CreateProject = create_body(PROJECTS, ProjectSpec, named=True)
EditProject = edit_body(PROJECTS, ProjectSpec)
CreateMember = create_body(PROJECT_MEMBERSHIPS, MemberSpec)
EditMember = edit_body(PROJECT_MEMBERSHIPS, NoSpec)
CANDIDATE_QUERY = (*LIST_QUERY[:2], Param("q", description="Part of a name or address."))

_SEARCHED = (projects.c.name, projects.c.description, projects.c.target)


def create_project(unit: Unit, user_id: str, *, account_id: str, name: str, **columns: Any) -> RowOf:
    """A project with this user as its first member. Raises 409 ``already-exists``."""
    try:
        row = unit.insert(PROJECTS, name=name, account_id=account_id, **columns)
    except Problem as problem:
        raise already_exists("The account has a project of that name.") from problem
    unit.insert(PROJECT_MEMBERSHIPS, account_id=account_id, project_id=row.id, user_id=user_id)
    open_project(unit, account_id, row.id)
    return row


def _visible(call: Call) -> ColumnElement[bool]:
    """Projects that the caller is a member of, or an agent is authorized in."""
    if call.me.type == "agent":
        grant = agent_authorizations.c
        mine = select(grant.project_id).where(grant.agent_id == call.me.agent_id, grant.phase == "active")
    else:
        member = project_memberships.c
        mine = select(member.project_id).where(member.user_id == call.me.user_id, member.phase == "active")
    return projects.c.id.in_(mine)


@operations.get(
    "/v1/projects",
    "listProjects",
    "The projects that the caller belongs to",
    who=Who.EITHER,
    query=SEARCH_QUERY,
    answers={200: Page[Project]},
)
def list_projects(call: Call) -> Answer:
    return lists.page(call, PROJECTS, projects.c.account_id == call.me.account_id, _visible(call), search=_SEARCHED)


@operations.get(
    "/v1/accounts/{account}/projects",
    "listAccountProjects",
    "The projects of an account that the caller belongs to",
    who=Who.EITHER,
    query=SEARCH_QUERY,
    answers={200: Page[Project]},
)
def list_account_projects(call: Call) -> Answer:
    account_admin(call, call.path["account"])
    return lists.page(call, PROJECTS, projects.c.account_id == call.path["account"], _visible(call), search=_SEARCHED)


@operations.post(
    "/v1/accounts/{account}/projects",
    "createProject",
    "Create a project; the caller becomes its first member",
    who=Who.EITHER,
    body=CreateProject,
    answers={201: Project},
)
def post_project(call: Call, body: Create[ProjectSpec]) -> Answer:
    if not call.me.is_account_admin or call.path["account"] != call.me.account_id:
        raise not_found()
    call.act_as("account-administrator")
    row = create_project(
        call,
        call.me.user_id or "",
        account_id=call.path["account"],
        name=body.metadata.name,
        labels=body.metadata.labels,
        description=body.spec.description,
        target=body.spec.target,
    )
    return created(PROJECTS, row)


@operations.get("/v1/projects/{project}", "readProject", "A project", who=Who.EITHER, answers={200: Project})
def read_project(call: Call) -> Answer:
    return item(PROJECTS, require_reader(call, call.path["project"]))


@operations.patch(
    "/v1/projects/{project}",
    "editProject",
    "Change a project's name, labels, description or target, or activate, deactivate or suspend it",
    who=Who.EITHER,
    body=Patch(EditProject, {**ACTIVATE, "suspend": "suspended"}),
    answers={200: Project},
)
def edit_project(call: Call, body: Edit[ProjectSpec] | Command) -> Answer:
    row = require_member(call, call.path["project"], lock=True)
    call.match(row)
    call.read_clock()
    if isinstance(body, Command):
        return item(PROJECTS, call.update(PROJECTS, row, phase=body.phase))
    return item(PROJECTS, call.update(PROJECTS, row, **metadata_changes(row, body), **spec_changes(body)))


@operations.get(
    "/v1/projects/{project}/memberships",
    "listProjectMemberships",
    "A project's members",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[AnyResource]},
)
def list_members(call: Call) -> Answer:
    require_member(call, call.path["project"])
    return lists.page(call, PROJECT_MEMBERSHIPS, project_memberships.c.project_id == call.path["project"])


@operations.post(
    "/v1/projects/{project}/memberships",
    "createProjectMembership",
    "Take an account member into a project",
    who=Who.EITHER,
    body=CreateMember,
    answers={201: AnyResource},
)
def post_member(call: Call, body: Create[MemberSpec]) -> Answer:
    project = require_member(call, call.path["project"])
    member = account_memberships.c
    known = select(member.id).where(
        member.account_id == project.account_id, member.user_id == body.spec.user_id, member.phase == "active"
    )
    if call.one(known) is None:
        raise invalid({"spec.userId": "is not an active member of the account"})
    try:
        row = call.insert(
            PROJECT_MEMBERSHIPS,
            name=body.metadata.name,
            labels=body.metadata.labels,
            account_id=project.account_id,
            project_id=project.id,
            user_id=body.spec.user_id,
        )
    except Problem as problem:
        raise already_exists("That user has a membership here already.") from problem
    return created(PROJECT_MEMBERSHIPS, row)


@operations.get(
    "/v1/project-memberships/{uid}",
    "readProjectMembership",
    "A project's member",
    who=Who.EITHER,
    answers={200: AnyResource},
)
def read_member(call: Call) -> Answer:
    return item(PROJECT_MEMBERSHIPS, _membership(call))


@operations.patch(
    "/v1/project-memberships/{uid}",
    "editProjectMembership",
    "Change a membership's labels, or activate, deactivate or revoke it",
    who=Who.EITHER,
    body=Patch(EditMember, {**ACTIVATE, **REVOKE}),
    answers={200: AnyResource},
)
def edit_member(call: Call, body: Edit[NoSpec] | Command) -> Answer:
    row = _membership(call)
    call.match(row)
    changes = {"phase": body.phase} if isinstance(body, Command) else metadata_changes(row, body)
    return item(PROJECT_MEMBERSHIPS, call.update(PROJECT_MEMBERSHIPS, row, **changes))


def _membership(call: Call) -> RowOf:
    row = call.fetch(PROJECT_MEMBERSHIPS, call.path["uid"])
    require_member(call, row.project_id)
    return row


@operations.get(
    "/v1/projects/{project}/member-candidates",
    "listMemberCandidates",
    "Account members who could join a project, by address",
    who=Who.EITHER,
    query=CANDIDATE_QUERY,
    answers={200: Page[MemberCandidate]},
)
def member_candidates(call: Call) -> Answer:
    project = require_member(call, call.path["project"])
    member = account_memberships.c
    inside = select(project_memberships.c.user_id).where(project_memberships.c.project_id == project.id)
    query = (
        select(users.c.id, users.c.email, users.c.email_key, users.c.display_name)
        .join(account_memberships, member.user_id == users.c.id)
        .where(
            member.account_id == project.account_id,
            member.phase == "active",
            users.c.phase == "active",
            users.c.id.not_in(inside),
        )
    )
    sought = call.query.get("q", "")
    if sought:
        query = query.where(
            or_(*(column.icontains(sought, autoescape=True) for column in (users.c.email, users.c.display_name)))
        )
    rows = sorted(call.conn.execute(query), key=lambda row: (row.email_key, row.id))
    items = [
        {"user_id": row.id, "email": row.email, **({"display_name": row.display_name} if row.display_name else {})}
        for row in rows
    ]
    keys = {row.id: (row.email_key, row.id) for row in rows}
    return lists.page_of(call, items, lambda entry: keys[entry["user_id"]], "member-candidates")
