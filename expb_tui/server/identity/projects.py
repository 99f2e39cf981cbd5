"""Projects and their members, who administer them (contract, section 3)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field
from sqlalchemy import ColumnElement, or_, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, Unit, created
from expb_tui.server.identity.access import administered, require_member, require_reader
from expb_tui.server.identity.kinds import PROJECT_MEMBERSHIPS, PROJECTS
from expb_tui.server.offers import offer_list, offer_patch, offer_read
from expb_tui.server.problems import invalid, not_found
from expb_tui.server.research.settings import open_project
from expb_tui.server.resources import (
    ACTIVATE,
    PRINTABLE,
    REVOKE,
    Create,
    Description,
    NoSpec,
    Patch,
    RowOf,
    create_body,
    edit_body,
    printable,
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

Target = Annotated[str, Field(strict=True, max_length=2048, pattern=PRINTABLE), AfterValidator(printable)]


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
    taken = "The account has a project of that name."
    row = unit.insert(PROJECTS, name=name, account_id=account_id, taken=taken, **columns)
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
    row = call.insert(
        PROJECT_MEMBERSHIPS,
        name=body.metadata.name,
        labels=body.metadata.labels,
        account_id=project.account_id,
        project_id=project.id,
        user_id=body.spec.user_id,
        taken="That user has a membership here already.",
    )
    return created(PROJECT_MEMBERSHIPS, row)


def _project(call: Call) -> RowOf:
    """The project that the URL names, locked, for its members."""
    row = require_member(call, call.path["project"], lock=True)
    call.read_clock()
    return row


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


offer_list(
    operations,
    PROJECTS,
    "/v1/projects",
    id="listProjects",
    summary="The projects that the caller belongs to",
    answer=Project,
    where=lambda call: [projects.c.account_id == call.me.account_id, _visible(call)],
    query=SEARCH_QUERY,
    search=_SEARCHED,
)
offer_list(
    operations,
    PROJECTS,
    "/v1/accounts/{account}/projects",
    id="listAccountProjects",
    summary="The projects of an account that the caller belongs to",
    answer=Project,
    where=lambda call: [projects.c.account_id == administered(call), _visible(call)],
    query=SEARCH_QUERY,
    search=_SEARCHED,
)
offer_read(
    operations,
    PROJECTS,
    path="/v1/projects/{project}",
    see=lambda call: require_reader(call, call.path["project"]),
    id="readProject",
    summary="A project",
    answer=Project,
)
offer_patch(
    operations,
    PROJECTS,
    path="/v1/projects/{project}",
    see=_project,
    body=Patch(EditProject, {**ACTIVATE, "suspend": "suspended"}),
    id="editProject",
    summary="Change a project's name, labels, description or target, or activate, deactivate or suspend it",
    answer=Project,
)
offer_list(
    operations,
    PROJECT_MEMBERSHIPS,
    "/v1/projects/{project}/memberships",
    id="listProjectMemberships",
    summary="A project's members",
    answer=AnyResource,
    where=lambda call: [project_memberships.c.project_id == require_member(call, call.path["project"]).id],
)
offer_read(
    operations,
    PROJECT_MEMBERSHIPS,
    see=_membership,
    id="readProjectMembership",
    summary="A project's member",
    answer=AnyResource,
)
offer_patch(
    operations,
    PROJECT_MEMBERSHIPS,
    see=_membership,
    body=Patch(EditMember, {**ACTIVATE, **REVOKE}),
    id="editProjectMembership",
    summary="Change a membership's labels, or activate, deactivate or revoke it",
    answer=AnyResource,
)
