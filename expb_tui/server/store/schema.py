"""The identity tables: people, accounts, projects, agents, credentials, OAuth and idempotency records.

The research tables are in ``research_tables``. A change needs a new file in ``migrations/versions``; a test compares.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from expb_tui.server.store.columns import InstantColumn, JsonColumn, Uid, metadata, resource_columns

users = Table(
    "users",
    metadata,
    *resource_columns(account=False),
    Column("email", Text, nullable=False),
    Column("email_key", Text, nullable=False, unique=True),
    Column("display_name", Text),
    Column("password_hash", Text, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    *resource_columns(account=False),
    Column("description", Text),
    Column("lifecycle_reason", Text),
    Column("lifecycle_at", InstantColumn),
    UniqueConstraint("name_key"),
)

account_memberships = Table(
    "account_memberships",
    metadata,
    *resource_columns(),
    Column("user_id", Uid, ForeignKey("users.id"), nullable=False),
    Column("role", String(16), nullable=False),
    UniqueConstraint("account_id", "user_id"),
    Index(None, "user_id"),
)

sign_in_methods = Table(
    "sign_in_methods",
    metadata,
    *resource_columns(account=False),
    Column("user_id", Uid, ForeignKey("users.id"), nullable=False),
    Column("method", String(16), nullable=False),
    Column("last_used_at", InstantColumn),
    UniqueConstraint("user_id", "method"),
)

account_invitations = Table(
    "account_invitations",
    metadata,
    *resource_columns(),
    Column("email", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("delivery", String(16), nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("verifier", LargeBinary(32), nullable=False, unique=True),
    Column("accepted_by", Uid, ForeignKey("users.id")),
    Column("membership_id", Uid, ForeignKey("account_memberships.id")),
    Index(None, "account_id", "created_at"),
)

agent_identities = Table(
    "agent_identities",
    metadata,
    *resource_columns(),
    Column("description", Text),
    Column("last_seen_at", InstantColumn),
    UniqueConstraint("account_id", "name_key"),
)

agent_tokens = Table(
    "agent_identity_tokens",
    metadata,
    *resource_columns(),
    Column("agent_id", Uid, ForeignKey("agent_identities.id"), nullable=False),
    Column("expires_at", InstantColumn),
    Index(None, "agent_id", "created_at"),
)

projects = Table(
    "projects",
    metadata,
    *resource_columns(),
    Column("description", Text),
    Column("target", Text),
    Column("current_context_id", Uid),
    UniqueConstraint("account_id", "name_key"),
)

project_memberships = Table(
    "project_memberships",
    metadata,
    *resource_columns(project=True),
    Column("user_id", Uid, ForeignKey("users.id"), nullable=False),
    UniqueConstraint("project_id", "user_id"),
    Index(None, "user_id"),
)

agent_authorizations = Table(
    "agent_authorizations",
    metadata,
    *resource_columns(project=True),
    Column("agent_id", Uid, ForeignKey("agent_identities.id"), nullable=False),
    Column("roles", JsonColumn, nullable=False),
    UniqueConstraint("project_id", "agent_id"),
    Index(None, "agent_id"),
)

system_entitlements = Table(
    "system_entitlements",
    metadata,
    Column("user_id", Uid, ForeignKey("users.id"), primary_key=True),
    Column("granted_at", InstantColumn, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    *resource_columns(account=False),
    Column("account_id", Uid, ForeignKey("accounts.id")),  # null exactly for the scope system
    Column("user_id", Uid, ForeignKey("users.id"), nullable=False),
    Column("scope", String(8), nullable=False),
    Column("client_id", Text, nullable=False),
    Column("authenticated_at", InstantColumn, nullable=False),
    Column("authentication_method", String(16), nullable=False),
    Column("origin", String(16), nullable=False),
    Column("ip_address", Text, nullable=False),
    Column("user_agent", Text, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("refresh_expires_at", InstantColumn, nullable=False),
    Index(None, "user_id", "created_at"),
    Index(None, "refresh_expires_at"),
)

credentials = Table(
    "credentials",
    metadata,
    Column("verifier", LargeBinary(32), primary_key=True),
    Column("purpose", String(8), nullable=False),  # access, refresh, agent
    Column("account_id", Uid, ForeignKey("accounts.id")),  # null for a system session
    Column("session_id", Uid, ForeignKey("sessions.id", ondelete="CASCADE")),
    Column("agent_token_id", Uid, ForeignKey("agent_identity_tokens.id", ondelete="CASCADE")),
    Column("expires_at", InstantColumn),
    Column("spent_at", InstantColumn),
    Index(None, "session_id"),
    Index(None, "agent_token_id"),
    Index(None, "expires_at"),
)

device_requests = Table(
    "device_requests",
    metadata,
    Column("id", Uid, primary_key=True),
    Column("device_verifier", LargeBinary(32), nullable=False, unique=True),
    Column("user_verifier", LargeBinary(32), nullable=False, unique=True),
    Column("client_id", Text, nullable=False),
    Column("preferred_context", String(8), nullable=False),
    Column("state", String(10), nullable=False),  # pending, approved, denied, used
    Column("poll_interval", Integer, nullable=False),
    Column("last_poll_at", InstantColumn),
    Column("created_at", InstantColumn, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("ip_address", Text, nullable=False),
    Column("user_agent", Text, nullable=False),
    Column("user_id", Uid, ForeignKey("users.id")),
    Column("account_id", Uid, ForeignKey("accounts.id")),
    Column("scope", String(8)),  # account, system; null until it is approved
    Column("authenticated_at", InstantColumn),
    Index(None, "expires_at"),
)

sign_in_tickets = Table(
    "sign_in_tickets",
    metadata,
    Column("verifier", LargeBinary(32), primary_key=True),
    Column("device_request_id", Uid, ForeignKey("device_requests.id", ondelete="CASCADE"), nullable=False),
    Column("user_id", Uid, ForeignKey("users.id"), nullable=False),
    Column("authenticated_at", InstantColumn, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Index(None, "expires_at"),
    Index(None, "device_request_id"),
)

sign_in_failures = Table(
    "sign_in_failures",
    metadata,
    Column("email_verifier", LargeBinary(32), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("window_ends_at", InstantColumn, nullable=False),
    Index(None, "window_ends_at"),
)

idempotency_records = Table(
    "idempotency_records",
    metadata,
    Column("scope", LargeBinary(32), primary_key=True),
    Column("digest", LargeBinary(32), nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("status", Integer),
    Column("headers", Text),
    Column("body", LargeBinary),
    Index(None, "expires_at"),
)
