"""Identity, OAuth and idempotency records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from expb_tui.server.store.columns import InstantColumn, JsonColumn

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("lifecycle_reason", sa.Text(), nullable=True),
        sa.Column("lifecycle_at", InstantColumn(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name_key", name=op.f("uq_accounts_name_key")),
    )
    op.create_table(
        "idempotency_records",
        sa.Column("scope", sa.LargeBinary(length=32), nullable=False),
        sa.Column("digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_idempotency_records")),
    )
    op.create_index(op.f("ix_idempotency_records_expires_at"), "idempotency_records", ["expires_at"], unique=False)
    op.create_table(
        "sign_in_failures",
        sa.Column("email_verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("window_ends_at", InstantColumn(), nullable=False),
        sa.PrimaryKeyConstraint("email_verifier", name=op.f("pk_sign_in_failures")),
    )
    op.create_index(op.f("ix_sign_in_failures_window_ends_at"), "sign_in_failures", ["window_ends_at"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("email_key", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email_key", name=op.f("uq_users_email_key")),
    )
    op.create_table(
        "account_memberships",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_account_memberships_account_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_account_memberships_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_memberships")),
        sa.UniqueConstraint("account_id", "user_id", name=op.f("uq_account_memberships_account_id_user_id")),
    )
    op.create_index(op.f("ix_account_memberships_user_id"), "account_memberships", ["user_id"], unique=False)
    op.create_table(
        "agent_identities",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("last_seen_at", InstantColumn(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_agent_identities_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_identities")),
        sa.UniqueConstraint("account_id", "name_key", name=op.f("uq_agent_identities_account_id_name_key")),
    )
    op.create_table(
        "device_requests",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("device_verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("user_verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("preferred_context", sa.String(length=8), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("poll_interval", sa.Integer(), nullable=False),
        sa.Column("last_poll_at", InstantColumn(), nullable=True),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.Column("ip_address", sa.Text(), nullable=False),
        sa.Column("user_agent", sa.Text(), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("authenticated_at", InstantColumn(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_device_requests_account_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_device_requests_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_requests")),
        sa.UniqueConstraint("device_verifier", name=op.f("uq_device_requests_device_verifier")),
        sa.UniqueConstraint("user_verifier", name=op.f("uq_device_requests_user_verifier")),
    )
    op.create_index(op.f("ix_device_requests_expires_at"), "device_requests", ["expires_at"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("current_context_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_projects_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("account_id", "name_key", name=op.f("uq_projects_account_id_name_key")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("authenticated_at", InstantColumn(), nullable=False),
        sa.Column("authentication_method", sa.String(length=16), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("ip_address", sa.Text(), nullable=False),
        sa.Column("user_agent", sa.Text(), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.Column("refresh_expires_at", InstantColumn(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_sessions_account_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_refresh_expires_at"), "sessions", ["refresh_expires_at"], unique=False)
    op.create_index(op.f("ix_sessions_user_id_created_at"), "sessions", ["user_id", "created_at"], unique=False)
    op.create_table(
        "agent_authorizations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", sa.String(length=36), nullable=False),
        sa.Column("roles", JsonColumn, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_agent_authorizations_account_id")),
        sa.ForeignKeyConstraint(["agent_id"], ["agent_identities.id"], name=op.f("fk_agent_authorizations_agent_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_agent_authorizations_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_authorizations")),
        sa.UniqueConstraint("project_id", "agent_id", name=op.f("uq_agent_authorizations_project_id_agent_id")),
    )
    op.create_index(op.f("ix_agent_authorizations_agent_id"), "agent_authorizations", ["agent_id"], unique=False)
    op.create_table(
        "agent_identity_tokens",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", sa.String(length=36), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_agent_identity_tokens_account_id")),
        sa.ForeignKeyConstraint(["agent_id"], ["agent_identities.id"], name=op.f("fk_agent_identity_tokens_agent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent_identity_tokens")),
    )
    op.create_index(
        op.f("ix_agent_identity_tokens_agent_id_created_at"),
        "agent_identity_tokens",
        ["agent_id", "created_at"],
        unique=False,
    )
    op.create_table(
        "project_memberships",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("labels", JsonColumn, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.Column("updated_at", InstantColumn(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("authority", sa.String(length=40), nullable=False),
        sa.Column("modified_by_type", sa.String(length=8), nullable=False),
        sa.Column("modified_by", sa.String(length=36), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_project_memberships_account_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_project_memberships_project_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_project_memberships_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project_memberships")),
        sa.UniqueConstraint("project_id", "user_id", name=op.f("uq_project_memberships_project_id_user_id")),
    )
    op.create_index(op.f("ix_project_memberships_user_id"), "project_memberships", ["user_id"], unique=False)
    op.create_table(
        "sign_in_tickets",
        sa.Column("verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("device_request_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("authenticated_at", InstantColumn(), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.ForeignKeyConstraint(
            ["device_request_id"],
            ["device_requests.id"],
            name=op.f("fk_sign_in_tickets_device_request_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sign_in_tickets_user_id")),
        sa.PrimaryKeyConstraint("verifier", name=op.f("pk_sign_in_tickets")),
    )
    op.create_index(
        op.f("ix_sign_in_tickets_device_request_id"), "sign_in_tickets", ["device_request_id"], unique=False
    )
    op.create_index(op.f("ix_sign_in_tickets_expires_at"), "sign_in_tickets", ["expires_at"], unique=False)
    op.create_table(
        "credentials",
        sa.Column("verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("purpose", sa.String(length=8), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=True),
        sa.Column("agent_token_id", sa.String(length=36), nullable=True),
        sa.Column("expires_at", InstantColumn(), nullable=True),
        sa.Column("spent_at", InstantColumn(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_credentials_account_id")),
        sa.ForeignKeyConstraint(
            ["agent_token_id"],
            ["agent_identity_tokens.id"],
            name=op.f("fk_credentials_agent_token_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_credentials_session_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("verifier", name=op.f("pk_credentials")),
    )
    op.create_index(op.f("ix_credentials_agent_token_id"), "credentials", ["agent_token_id"], unique=False)
    op.create_index(op.f("ix_credentials_expires_at"), "credentials", ["expires_at"], unique=False)
    op.create_index(op.f("ix_credentials_session_id"), "credentials", ["session_id"], unique=False)
