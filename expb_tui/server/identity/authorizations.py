"""What agents may do in a project (contract, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, WithJsonSchema
from sqlalchemy import select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, created
from expb_tui.server.identity.access import require_member
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS, AGENT_IDENTITIES
from expb_tui.server.identity.projects import CANDIDATE_QUERY
from expb_tui.server.offers import Changes, offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, invalid, not_found
from expb_tui.server.resources import (
    ACTIVATE,
    REVOKE,
    Create,
    Patch,
    RowOf,
    create_body,
    edit_body,
)
from expb_tui.server.routing import Operations, Who
from expb_tui.server.store.schema import agent_authorizations, agent_identities
from expb_tui.wire.base import Page, SnakeModel, WireModel
from expb_tui.wire.identity import AgentAuthorization
from expb_tui.wire.work import ROLES, canonical_role

operations = Operations("authorizations")

Role = Annotated[
    str, Field(strict=True, min_length=1, max_length=64), WithJsonSchema({"type": "string", "enum": list(ROLES)})
]
Roles = Annotated[list[Role], Field(max_length=16)]


class AuthorizationSpec(WireModel):
    agent_id: Annotated[str, Field(strict=True, min_length=36, max_length=36)]
    roles: Annotated[Roles, Field(min_length=1)]


class AuthorizationEdit(WireModel):
    roles: Roles = Field(default_factory=list)


class AgentCandidate(SnakeModel):
    agent_id: str
    name: str


CreateAuthorization = create_body(AGENT_AUTHORIZATIONS, AuthorizationSpec)
EditAuthorization = edit_body(AGENT_AUTHORIZATIONS, AuthorizationEdit)


def known_roles(words: Sequence[str]) -> list[str]:
    """The canonical roles, each once, in the order of the research loop. Raises 422 for none and for unknown ones."""
    given = {canonical_role(word) for word in words}
    unknown = sorted(given - set(ROLES))
    if unknown or not given:
        message = f"does not know {unknown[0]!r}; the roles are {', '.join(ROLES)}" if unknown else "must name a role"
        raise invalid({"spec.roles": message})
    return [role for role in ROLES if role in given]


@operations.post(
    "/v1/projects/{project}/agent-authorizations",
    "createAgentAuthorization",
    "Authorize an agent for roles in a project",
    who=Who.EITHER,
    body=CreateAuthorization,
    answers={201: AgentAuthorization},
)
def post_authorization(call: Call, body: Create[AuthorizationSpec]) -> Answer:
    project = require_member(call, call.path["project"])
    roles = known_roles(body.spec.roles)
    agent = call.one(AGENT_IDENTITIES.by_id(body.spec.agent_id.lower()))
    if agent is None or agent.account_id != project.account_id:
        raise not_found()
    if agent.phase != "active":
        raise Problem(409, "identity-inactive", "The agent is not active.")
    row = call.insert(
        AGENT_AUTHORIZATIONS,
        name=body.metadata.name,
        labels=body.metadata.labels,
        account_id=project.account_id,
        project_id=project.id,
        agent_id=agent.id,
        roles=roles,
        taken="The agent has an authorization here already, perhaps a revoked one.",
    )
    return created(AGENT_AUTHORIZATIONS, row)


def _authorization(call: Call) -> RowOf:
    """An authorization, for the members of its project."""
    row = call.fetch(AGENT_AUTHORIZATIONS, call.path["uid"])
    require_member(call, row.project_id)
    return row


def _readable_authorization(call: Call) -> RowOf:
    """As ``_authorization``, and for the agent whose it is: to read, never to change."""
    row = call.fetch(AGENT_AUTHORIZATIONS, call.path["uid"])
    if row.agent_id != call.me.agent_id:
        require_member(call, row.project_id)
    return row


def _roles_rule(call: Call, row: RowOf, changes: Changes) -> Changes:
    return {**changes, "roles": known_roles(changes["roles"])} if "roles" in changes else changes


@operations.get(
    "/v1/projects/{project}/agent-candidates",
    "listAgentCandidates",
    "Agents of the account that have no authorization in a project yet, by name",
    who=Who.EITHER,
    query=CANDIDATE_QUERY,
    answers={200: Page[AgentCandidate]},
)
def agent_candidates(call: Call) -> Answer:
    project = require_member(call, call.path["project"])
    agent, grant = agent_identities.c, agent_authorizations.c
    authorized = select(grant.agent_id).where(grant.project_id == project.id)
    query = select(agent.id, agent.name, agent.name_key).where(
        agent.account_id == project.account_id, agent.phase == "active", agent.id.not_in(authorized)
    )
    if call.query.get("q"):
        query = query.where(agent.name.icontains(call.query["q"], autoescape=True))
    rows = sorted(call.conn.execute(query), key=lambda row: (row.name_key, row.id))
    keys = {row.id: (row.name_key, row.id) for row in rows}
    items = [{"agent_id": row.id, "name": row.name} for row in rows]
    return lists.page_of(call, items, lambda entry: keys[entry["agent_id"]], "agent-candidates")


offer_list(
    operations,
    AGENT_AUTHORIZATIONS,
    "/v1/projects/{project}/agent-authorizations",
    id="listAgentAuthorizations",
    summary="The agents of a project",
    answer=AgentAuthorization,
    where=lambda call: [agent_authorizations.c.project_id == require_member(call, call.path["project"]).id],
)
offer_read(
    operations,
    AGENT_AUTHORIZATIONS,
    see=_readable_authorization,
    id="readAgentAuthorization",
    summary="An agent's authorization",
    answer=AgentAuthorization,
)
offer_patch(
    operations,
    AGENT_AUTHORIZATIONS,
    see=_authorization,
    check=_roles_rule,
    body=Patch(EditAuthorization, {**ACTIVATE, **REVOKE}),
    id="editAgentAuthorization",
    summary="Change an authorization's roles, name or labels, or activate, deactivate or revoke it",
    answer=AgentAuthorization,
)
