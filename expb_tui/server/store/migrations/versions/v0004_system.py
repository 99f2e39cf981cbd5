"""System sessions: who may open them, sessions and tokens without an account, and the settings of the system."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from expb_tui.server.store.columns import InstantColumn, JsonColumn
from expb_tui.server.store.research_tables import OrderedJson

revision = "0004_system"
down_revision = "0003_people"
branch_labels = None
depends_on = None

_SUBJECTS = (
    *(
        ("research-roles", role)
        for role in ("ideator", "hypothesis-reviewer", "experimenter", "results-reviewer", "integrator")
    ),
    ("review-policies", ""),
    *(
        ("limits", name)
        for name in (
            "agent-active-packages",
            "concurrent-experiments",
            "open-hypotheses",
            "requests-per-minute",
            "total-capacity",
        )
    ),
)


def upgrade() -> None:
    op.create_table(
        "system_entitlements",
        sa.Column("user_id", sa.String(length=36), nullable=False),
        sa.Column("granted_at", InstantColumn(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_system_entitlements_user_id")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_system_entitlements")),
    )
    op.add_column("device_requests", sa.Column("scope", sa.String(length=8), nullable=True))
    op.execute("UPDATE device_requests SET scope = 'account' WHERE state = 'approved'")
    _free_from_accounts()
    _open_system()


def _free_from_accounts() -> None:
    # SQLite alters a table by making it anew, and would drop the tokens with the sessions that they belong to.
    sqlite = op.get_bind().dialect.name == "sqlite"
    if sqlite:
        op.execute("CREATE TEMPORARY TABLE kept_credentials AS SELECT * FROM credentials")
        op.execute("DELETE FROM credentials")
    for table in ("sessions", "credentials"):
        with op.batch_alter_table(table) as batch:
            batch.alter_column("account_id", existing_type=sa.String(length=36), nullable=True)
    if sqlite:
        op.execute("INSERT INTO credentials SELECT * FROM kept_credentials")
        op.execute("DROP TABLE kept_credentials")


def _open_system() -> None:
    texts = ("id", "name", "name_key", "phase", "authority", "modified_by_type", "kind", "subject")
    settings = sa.table(
        "research_settings",
        *(sa.column(name, sa.String) for name in texts),
        *(sa.column(name, InstantColumn) for name in ("created_at", "updated_at")),
        sa.column("labels", JsonColumn),
        sa.column("version", sa.Integer),
        sa.column("spec", OrderedJson),
        sa.column("configured", sa.Boolean),
    )
    now = datetime.now(UTC)
    rows = []
    for kind, subject in _SUBJECTS:
        name = subject or "review-policy"
        common = {"labels": {}, "version": 1, "phase": "active", "authority": "service", "modified_by_type": "service"}
        own = {"id": str(uuid4()), "name": name, "name_key": name, "kind": kind, "subject": subject}
        rows.append({**own, **common, "created_at": now, "updated_at": now, "spec": {}, "configured": False})
    op.get_bind().execute(sa.insert(settings), rows)
