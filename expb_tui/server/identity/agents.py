"""Agent identities and their tokens (contract, sections 3.1 and 3.2)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, Unit, created, result
from expb_tui.server.identity.access import account_admin, administered
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.kinds import AGENT_IDENTITIES, AGENT_TOKENS
from expb_tui.server.offers import Changes, offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, invalid
from expb_tui.server.resources import (
    ACTIVATE,
    REVOKE,
    Create,
    Description,
    Patch,
    RowOf,
    create_body,
    edit_body,
)
from expb_tui.server.rfc3339 import StrictInstant
from expb_tui.server.routing import CURSOR_QUERY, Operations, Who
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
    row = call.insert(
        AGENT_IDENTITIES,
        name=body.metadata.name,
        labels=body.metadata.labels,
        account_id=call.path["account"],
        description=body.spec.description,
        taken="The account has an agent of that name.",
    )
    return created(AGENT_IDENTITIES, row)


def administered_agent(call: Call, *, lock: bool = False) -> RowOf:
    """The agent that the URL names, for the administrators of its account. Raises 404 or, in the account, 403."""
    row = call.fetch(AGENT_IDENTITIES, call.path["uid"], lock=lock)
    account_admin(call, row.account_id)
    return row


def _readable_agent(call: Call) -> RowOf:
    """As ``administered_agent``, and the agent itself."""
    if call.path["uid"] == call.me.agent_id:
        return call.fetch(AGENT_IDENTITIES, call.path["uid"])
    return administered_agent(call)


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


@operations.post(
    "/v1/agent-identities/{uid}/tokens",
    "createAgentToken",
    "Issue a token; its secret is shown this once",
    who=Who.EITHER,
    body=CreateToken,
    answers={201: AgentTokenResult},
)
def post_token(call: Call, body: Create[TokenSpec]) -> Answer:
    agent = administered_agent(call, lock=True)
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


def _token(call: Call) -> RowOf:
    row = call.fetch(AGENT_TOKENS, call.path["uid"])
    account_admin(call, row.account_id)
    return row


def _end_tokens(call: Call, row: RowOf, changes: Changes) -> Changes:
    """A revoked agent that is activated again needs new tokens; those that it had may have leaked."""
    if changes.get("phase") == "revoked":
        mine = AGENT_TOKENS.select.where(agent_tokens.c.agent_id == row.id, agent_tokens.c.phase == "active")
        for token in call.conn.execute(mine).all():
            call.update(AGENT_TOKENS, token, **_forget_secret(call, token, {"phase": "revoked"}))
    return changes


def _forget_secret(call: Call, row: RowOf, changes: Changes) -> Changes:
    call.conn.execute(delete(credentials).where(credentials.c.agent_token_id == row.id))
    return changes


offer_list(
    operations,
    AGENT_IDENTITIES,
    "/v1/accounts/{account}/agent-identities",
    id="listAgentIdentities",
    summary="The agents of an account",
    answer=AgentIdentity,
    where=lambda call: [agent_identities.c.account_id == administered(call)],
)
offer_read(
    operations,
    AGENT_IDENTITIES,
    see=_readable_agent,
    id="readAgentIdentity",
    summary="An agent",
    answer=AgentIdentity,
)
offer_patch(
    operations,
    AGENT_IDENTITIES,
    see=administered_agent,
    check=_end_tokens,
    body=Patch(EditAgent, {**ACTIVATE, **REVOKE}),
    id="editAgentIdentity",
    summary="Change an agent's name, labels or description, or activate, deactivate or revoke it",
    answer=AgentIdentity,
)
offer_list(
    operations,
    AGENT_TOKENS,
    "/v1/agent-identities/{uid}/tokens",
    id="listAgentTokens",
    summary="An agent's tokens, never their secrets",
    answer=AgentToken,
    where=lambda call: [agent_tokens.c.agent_id == administered_agent(call).id],
)
offer_read(
    operations,
    AGENT_TOKENS,
    see=_token,
    id="readAgentToken",
    summary="A token's record",
    answer=AgentToken,
)
offer_patch(
    operations,
    AGENT_TOKENS,
    see=_token,
    check=_forget_secret,
    show=result,
    body=Patch(None, REVOKE),
    id="revokeAgentToken",
    summary="Revoke a token",
    answer=AgentTokenResult,
)
