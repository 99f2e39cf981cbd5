"""Sign-in methods, and invitations to accounts. Everybody who is there already has a password."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from expb_tui.server.store.columns import InstantColumn, JsonColumn

revision = "0003_people"
down_revision = "0002_research"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sign_in_methods",
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
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("method", sa.String(length=16), nullable=False),
        sa.Column("last_used_at", InstantColumn(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sign_in_methods_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_methods")),
        sa.UniqueConstraint("user_id", "method", name=op.f("uq_sign_in_methods_user_id_method")),
    )
    op.create_table(
        "account_invitations",
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
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("delivery", sa.String(length=16), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.Column("verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("accepted_by", sa.String(length=36), nullable=True),
        sa.Column("membership_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["accepted_by"], ["users.id"], name=op.f("fk_account_invitations_accepted_by")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_account_invitations_account_id")),
        sa.ForeignKeyConstraint(
            ["membership_id"], ["account_memberships.id"], name=op.f("fk_account_invitations_membership_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_invitations")),
        sa.UniqueConstraint("verifier", name=op.f("uq_account_invitations_verifier")),
    )
    op.create_index(
        op.f("ix_account_invitations_account_id_created_at"),
        "account_invitations",
        ["account_id", "created_at"],
        unique=False,
    )
    _give_passwords()


def _give_passwords() -> None:
    users = sa.table("users", sa.column("id", sa.String), sa.column("created_at", InstantColumn))
    methods = sa.table(
        "sign_in_methods",
        *(sa.column(name, sa.String) for name in ("id", "name", "name_key", "phase", "authority", "modified_by_type")),
        *(sa.column(name, sa.String) for name in ("user_id", "method")),
        sa.column("labels", JsonColumn),
        sa.column("version", sa.Integer),
        *(sa.column(name, InstantColumn) for name in ("created_at", "updated_at")),
    )
    conn = op.get_bind()
    rows = []
    for user in conn.execute(sa.select(users)):
        uid = str(uuid4())
        times = {"created_at": user.created_at, "updated_at": user.created_at}
        common = {"labels": {}, "version": 1, "phase": "active", "authority": "service", "modified_by_type": "service"}
        rows.append(
            {"id": uid, "name": uid, "name_key": uid, "user_id": user.id, "method": "password", **times, **common}
        )
    if rows:
        conn.execute(sa.insert(methods), rows)
