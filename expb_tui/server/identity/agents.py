"""Agent identities and their tokens (contract, sections 3.1 and 3.2)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, Unit, created, item, result
from expb_tui.server.identity.access import account_admin
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.kinds import AGENT_IDENTITIES, AGENT_TOKENS
from expb_tui.server.problems import Problem, already_exists, invalid, not_found
from expb_tui.server.resources import (
    ACTIVATE,
    REVOKE,
    Command,
    Create,
    Description,
    Edit,
    Patch,
    RowOf,
    create_body,
    edit_body,
    metadata_changes,
    spec_changes,
)
from expb_tui.server.rfc3339 import StrictInstant
from expb_tui.server.routing import CURSOR_QUERY, LIST_QUERY, Operations, Who
from expb_tui.server.store.schema import agent_authorizations, agent_identities, agent_tokens, credentials, projects
from expb_tui.wire.base import Page, SnakeModel, WireModel
from expb_tui.wire.identity import AgentIdentity, AgentToken, AgentTokenResult

operations = Operations("agents")


class AgentSpec(WireModel):
    description: Description | None = None


class TokenSpec(WireModel):
    expires_at: StrictInstant | None = None


CreateAgent = create_body(AGENT_IDENTITIES, AgentSpec, named=True)
EditAgent = edit_body(AGENT_IDENTITIES, AgentSpec)
CreateToken = create_body(AGENT_TOKENS, TokenSpec)


class ProjectAuthorization(SnakeModel):
    """One row of an agent's project authorizations."""

    authorization_id: str
    project_id: str
    project_name: str
    roles: list[str]
    status: str


@operations.get(
    "/v1/accounts/{account}/agent-identities",
    "listAgentIdentities",
    "The agents of an account",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[AgentIdentity]},
)
def list_agents(call: Call) -> Answer:
    account_admin(call, call.path["account"])
    return lists.page(call, AGENT_IDENTITIES, agent_identities.c.account_id == call.path["account"])


@operations.post(
    "/v1/accounts/{account}/agent-identities",
    "createAgentIdentity",
    "Register an agent",
    who=Who.EITHER,
    body=CreateAgent,
    answers={201: AgentIdentity},
)
def post_agent(call: Call, body: Create[AgentSpec]) -> Answer:
    account_admin(call, call.path["account"])
    try:
        row = call.insert(
            AGENT_IDENTITIES,
            name=body.metadata.name,
            labels=body.metadata.labels,
            account_id=call.path["account"],
            description=body.spec.description,
        )
    except Problem as problem:
        raise already_exists("The account has an agent of that name.") from problem
    return created(AGENT_IDENTITIES, row)


def administered_agent(call: Call, uid: str, *, lock: bool = False) -> RowOf:
    """The agent, for the administrators of its account. Raises 404 for a foreign one, 403 for others of the account."""
    row = call.fetch(AGENT_IDENTITIES, uid, lock=lock)
    account_admin(call, row.account_id)
    return row


def _readable_agent(call: Call) -> RowOf:
    """As ``administered_agent``, and the agent itself."""
    if call.path["uid"] == call.me.agent_id:
        return call.fetch(AGENT_IDENTITIES, call.path["uid"])
    return administered_agent(call, call.path["uid"])


@operations.get(
    "/v1/agent-identities/{uid}", "readAgentIdentity", "An agent", who=Who.EITHER, answers={200: AgentIdentity}
)
def read_agent(call: Call) -> Answer:
    return item(AGENT_IDENTITIES, _readable_agent(call))


@operations.patch(
    "/v1/agent-identities/{uid}",
    "editAgentIdentity",
    "Change an agent's name, labels or description, or activate, deactivate or revoke it",
    who=Who.EITHER,
    body=Patch(EditAgent, {**ACTIVATE, **REVOKE}),
    answers={200: AgentIdentity},
)
def edit_agent(call: Call, body: Edit[AgentSpec] | Command) -> Answer:
    row = administered_agent(call, call.path["uid"])
    call.match(row)
    if isinstance(body, Command):
        return item(AGENT_IDENTITIES, call.update(AGENT_IDENTITIES, row, phase=body.phase))
    changes = {**metadata_changes(row, body), **spec_changes(body)}
    return item(AGENT_IDENTITIES, call.update(AGENT_IDENTITIES, row, **changes))


@operations.get(
    "/v1/agent-identities/{uid}/project-authorizations",
    "listAgentProjectAuthorizations",
    "Where an agent may work, by project name",
    who=Who.EITHER,
    query=CURSOR_QUERY,
    answers={200: Page[ProjectAuthorization]},
)
def list_project_authorizations(call: Call) -> Answer:
    agent = _readable_agent(call)
    grant = agent_authorizations.c
    query = (
        select(grant.id, grant.project_id, grant.roles, grant.phase, projects.c.name, projects.c.name_key)
        .join(projects, projects.c.id == grant.project_id)
        .where(grant.agent_id == agent.id)
    )
    rows = sorted(call.conn.execute(query), key=lambda row: (row.name_key, row.id))
    keys = {row.id: (row.name_key, row.id) for row in rows}
    items = [
        {
            "authorization_id": row.id,
            "project_id": row.project_id,
            "project_name": row.name,
            "roles": row.roles,
            "status": row.phase,
        }
        for row in rows
    ]
    return lists.page_of(call, items, lambda entry: keys[entry["authorization_id"]], "project-authorizations")


@operations.get(
    "/v1/agent-identities/{uid}/tokens",
    "listAgentTokens",
    "An agent's tokens, never their secrets",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[AgentToken]},
)
def list_tokens(call: Call) -> Answer:
    agent = administered_agent(call, call.path["uid"])
    return lists.page(call, AGENT_TOKENS, agent_tokens.c.agent_id == agent.id)


@operations.post(
    "/v1/agent-identities/{uid}/tokens",
    "createAgentToken",
    "Issue a token; its secret is shown this once",
    who=Who.EITHER,
    body=CreateToken,
    answers={201: AgentTokenResult},
)
def post_token(call: Call, body: Create[TokenSpec]) -> Answer:
    agent = administered_agent(call, call.path["uid"], lock=True)
    call.read_clock()
    if agent.phase != "active":
        raise Problem(409, "identity-inactive", "The agent is not active.")
    if body.spec.expires_at is not None and body.spec.expires_at <= call.now:
        raise invalid({"spec.expiresAt": "is in the past"})
    row, secret = issue_token(
        call, agent, name=body.metadata.name, labels=body.metadata.labels, expires_at=body.spec.expires_at
    )
    return created(AGENT_TOKENS, row, token=secret)


def issue_token(unit: Unit, agent: RowOf, *, expires_at: Any = None, **metadata: Any) -> tuple[RowOf, str]:
    """A token of an agent: its record, and the secret that is kept nowhere."""
    secret = new_secret()
    row = unit.insert(AGENT_TOKENS, account_id=agent.account_id, agent_id=agent.id, expires_at=expires_at, **metadata)
    unit.conn.execute(
        insert(credentials),
        {
            "verifier": verifier(secret),
            "purpose": "agent",
            "account_id": agent.account_id,
            "agent_token_id": row.id,
            "expires_at": expires_at,
        },
    )
    return row, secret


@operations.get(
    "/v1/agent-identity-tokens/{uid}", "readAgentToken", "A token's record", who=Who.EITHER, answers={200: AgentToken}
)
def read_token(call: Call) -> Answer:
    return item(AGENT_TOKENS, _token(call))


@operations.patch(
    "/v1/agent-identity-tokens/{uid}",
    "revokeAgentToken",
    "Revoke a token",
    who=Who.EITHER,
    body=Patch(None, REVOKE),
    answers={200: AgentTokenResult},
)
def revoke_token(call: Call, body: Command) -> Answer:
    row = _token(call)
    call.match(row)
    call.conn.execute(delete(credentials).where(credentials.c.agent_token_id == row.id))
    return result(AGENT_TOKENS, call.update(AGENT_TOKENS, row, phase=body.phase))


def _token(call: Call) -> RowOf:
    row = call.fetch(AGENT_TOKENS, call.path["uid"])
    if row.account_id != call.me.account_id:
        raise not_found()
    account_admin(call, row.account_id)
    return row
