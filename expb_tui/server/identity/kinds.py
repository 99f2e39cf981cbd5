"""The identity kinds: how their rows become envelopes (contract, section 3)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, func, select

from expb_tui.server.resources import Kind
from expb_tui.server.store.research_tables import work_packages
from expb_tui.server.store.schema import (
    account_invitations,
    account_memberships,
    accounts,
    agent_authorizations,
    agent_identities,
    agent_tokens,
    project_memberships,
    projects,
    sessions,
    sign_in_methods,
    users,
)
from expb_tui.wire.base import IDENTITY_GROUP, instant_text


def _with_user(table: Table) -> Select[Any]:
    return select(table, users.c.email, users.c.display_name).join(users, users.c.id == table.c.user_id)


def active_packages() -> ColumnElement[int]:
    """How many packages of the authorization's agent are active and not past their lease, in its project."""
    packages = work_packages.c
    return (
        select(func.count())
        .select_from(work_packages)
        .where(
            packages.project_id == agent_authorizations.c.project_id,
            packages.agent_id == agent_authorizations.c.agent_id,
            packages.phase == "active",
        )
        .scalar_subquery()
    )


PROFILES = Kind(
    "personal-profiles",
    IDENTITY_GROUP,
    users,
    account=False,
    announced=False,
    spec=lambda row: {"displayName": row.display_name},
    status=lambda row: {"email": row.email},
)

ACCOUNTS = Kind(
    "accounts",
    IDENTITY_GROUP,
    accounts,
    account=False,
    spec=lambda row: {"description": row.description},
    status=lambda row: {
        "lifecycleReason": row.lifecycle_reason,
        "lifecycleAt": None if row.lifecycle_at is None else instant_text(row.lifecycle_at),
    },
    fields={"spec.description": accounts.c.description},
)

ACCOUNT_MEMBERSHIPS = Kind(
    "account-memberships",
    IDENTITY_GROUP,
    account_memberships,
    spec=lambda row: {"userId": row.user_id, "role": row.role},
    status=lambda row: {"email": row.email, "displayName": row.display_name},
    fields={
        "spec.userId": account_memberships.c.user_id,
        "spec.role": account_memberships.c.role,
        "status.email": users.c.email,
    },
    query=lambda: _with_user(account_memberships),
)

ACCOUNT_INVITATIONS = Kind(
    "account-invitations",
    IDENTITY_GROUP,
    account_invitations,
    spec=lambda row: {"email": row.email, "role": row.role, "delivery": row.delivery},
    status=lambda row: {
        "emailDelivery": "not-requested",
        "expiresAt": instant_text(row.expires_at),
        "acceptedBy": row.accepted_by,
        "membershipId": row.membership_id,
    },
    fields={
        "spec.email": account_invitations.c.email,
        "spec.role": account_invitations.c.role,
        "status.expiresAt": account_invitations.c.expires_at,
    },
)

SIGN_IN_METHODS = Kind(
    "sign-in-methods",
    IDENTITY_GROUP,
    sign_in_methods,
    account=False,
    announced=False,
    base="/v1/profile",
    spec=lambda row: {},
    status=lambda row: {
        "method": row.method,
        "lastUsedAt": None if row.last_used_at is None else instant_text(row.last_used_at),
    },
    fields={"status.method": sign_in_methods.c.method},
)

AGENT_IDENTITIES = Kind(
    "agent-identities",
    IDENTITY_GROUP,
    agent_identities,
    spec=lambda row: {"description": row.description},
    status=lambda row: {"lastSeenAt": None if row.last_seen_at is None else instant_text(row.last_seen_at)},
    fields={"spec.description": agent_identities.c.description, "status.lastSeenAt": agent_identities.c.last_seen_at},
)

AGENT_TOKENS = Kind(
    "agent-identity-tokens",
    IDENTITY_GROUP,
    agent_tokens,
    spec=lambda row: {
        "agentId": row.agent_id,
        "expiresAt": None if row.expires_at is None else instant_text(row.expires_at),
    },
    fields={"spec.agentId": agent_tokens.c.agent_id, "spec.expiresAt": agent_tokens.c.expires_at},
)

PROJECTS = Kind(
    "projects",
    IDENTITY_GROUP,
    projects,
    spec=lambda row: {"description": row.description, "target": row.target},
    status=lambda row: {"currentContextId": row.current_context_id},
    fields={"spec.description": projects.c.description, "spec.target": projects.c.target},
)

PROJECT_MEMBERSHIPS = Kind(
    "project-memberships",
    IDENTITY_GROUP,
    project_memberships,
    project=True,
    spec=lambda row: {"userId": row.user_id},
    status=lambda row: {"email": row.email, "displayName": row.display_name},
    fields={"spec.userId": project_memberships.c.user_id, "status.email": users.c.email},
    query=lambda: _with_user(project_memberships),
)

AGENT_AUTHORIZATIONS = Kind(
    "agent-authorizations",
    IDENTITY_GROUP,
    agent_authorizations,
    project=True,
    spec=lambda row: {"agentId": row.agent_id, "roles": row.roles},
    status=lambda row: {"activePackages": row.active_packages},
    fields={"spec.agentId": agent_authorizations.c.agent_id},
    query=lambda: select(agent_authorizations, active_packages().label("active_packages")),
)

SESSIONS = Kind(
    "sessions",
    IDENTITY_GROUP,
    sessions,
    announced=False,
    spec=lambda row: {},
    status=lambda row: {
        "scope": row.scope,
        "authenticatedAt": instant_text(row.authenticated_at),
        "authenticationMethod": row.authentication_method,
        "userId": row.user_id,
        "clientId": row.client_id,
        "origin": row.origin,
        "ipAddress": row.ip_address,
        "userAgent": row.user_agent,
        "expiresAt": instant_text(row.expires_at),
        "refreshExpiresAt": instant_text(row.refresh_expires_at),
    },
    fields={
        "status.scope": sessions.c.scope,
        "status.clientId": sessions.c.client_id,
        "status.origin": sessions.c.origin,
        "status.ipAddress": sessions.c.ip_address,
        "status.authenticatedAt": sessions.c.authenticated_at,
        "status.expiresAt": sessions.c.expires_at,
        "status.refreshExpiresAt": sessions.c.refresh_expires_at,
    },
)
