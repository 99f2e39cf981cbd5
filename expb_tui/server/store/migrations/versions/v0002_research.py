"""Research records, the queue of tasks, work packages, settings by scope, and the event log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from expb_tui.server.store.columns import InstantColumn, JsonColumn
from expb_tui.server.store.research_tables import OrderedJson, RowNumber

revision = "0002_research"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "claim_windows",
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("agent_id", sa.String(length=36), nullable=False),
        sa.Column("opened_at", InstantColumn(), nullable=False),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "agent_id", name=op.f("pk_claim_windows")),
    )
    op.create_table(
        "event_log",
        sa.Column("id", RowNumber, sa.Identity(always=True), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("uid", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("action", sa.String(length=8), nullable=False),
        sa.Column("request_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", InstantColumn(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_log")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_event_log_account_id_id"), "event_log", ["account_id", "id"], unique=False)
    op.create_index(op.f("ix_event_log_created_at"), "event_log", ["created_at"], unique=False)
    op.create_table(
        "holds",
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
        sa.Column("target_kind", sa.String(length=16), nullable=False),
        sa.Column("target_id", sa.String(length=36), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_holds_account_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_holds_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holds")),
    )
    op.create_index(
        op.f("ix_holds_project_id_created_at_id"), "holds", ["project_id", "created_at", "id"], unique=False
    )
    op.create_index(
        op.f("ix_holds_project_id_phase_target_id"), "holds", ["project_id", "phase", "target_id"], unique=False
    )
    op.create_table(
        "objectives",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("best_result_id", sa.String(length=36), nullable=True),
        sa.Column("best_value", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_objectives_account_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_objectives_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_objectives")),
    )
    op.create_index(
        op.f("ix_objectives_project_id_created_at_id"), "objectives", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "research_settings",
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
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("project_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("subject", sa.String(length=40), nullable=False),
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("configured", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_research_settings_account_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_research_settings_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_research_settings")),
        sa.UniqueConstraint(
            "account_id",
            "project_id",
            "kind",
            "subject",
            name=op.f("uq_research_settings_account_id_project_id_kind_subject"),
        ),
    )
    op.create_index(
        op.f("ix_research_settings_account_id_kind"), "research_settings", ["account_id", "kind"], unique=False
    )
    op.create_index(
        op.f("ix_research_settings_project_id_kind"), "research_settings", ["project_id", "kind"], unique=False
    )
    op.create_table(
        "work_packages",
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
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("max_tasks", sa.Integer(), nullable=False),
        sa.Column("issued_at", InstantColumn(), nullable=False),
        sa.Column("expires_at", InstantColumn(), nullable=False),
        sa.Column("absolute_expires_at", InstantColumn(), nullable=False),
        sa.Column("lease_seconds", sa.Integer(), nullable=False),
        sa.Column("renewals", sa.Integer(), nullable=False),
        sa.Column("token_verifier", sa.LargeBinary(length=32), nullable=False),
        sa.Column("tasks", OrderedJson, nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_work_packages_account_id")),
        sa.ForeignKeyConstraint(["agent_id"], ["agent_identities.id"], name=op.f("fk_work_packages_agent_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_work_packages_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_work_packages")),
    )
    op.create_index(op.f("ix_work_packages_phase_expires_at"), "work_packages", ["phase", "expires_at"], unique=False)
    op.create_index(
        op.f("ix_work_packages_project_id_agent_id_phase_expires_at"),
        "work_packages",
        ["project_id", "agent_id", "phase", "expires_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_work_packages_project_id_created_at_id"),
        "work_packages",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_work_packages_project_id_phase_expires_at"),
        "work_packages",
        ["project_id", "phase", "expires_at"],
        unique=False,
    )
    op.create_table(
        "hypotheses",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("objective_id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("agent_id", sa.String(length=36), nullable=True),
        sa.Column("review_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_hypotheses_account_id")),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_hypotheses_objective_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_hypotheses_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hypotheses")),
        sa.UniqueConstraint("task_id", name=op.f("uq_hypotheses_task_id")),
    )
    op.create_index(op.f("ix_hypotheses_objective_id_phase"), "hypotheses", ["objective_id", "phase"], unique=False)
    op.create_index(
        op.f("ix_hypotheses_project_id_created_at_id"), "hypotheses", ["project_id", "created_at", "id"], unique=False
    )
    op.create_index(op.f("ix_hypotheses_project_id_phase"), "hypotheses", ["project_id", "phase"], unique=False)
    op.create_table(
        "integrations",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("objective_id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_integrations_account_id")),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_integrations_objective_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_integrations_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_integrations")),
        sa.UniqueConstraint("task_id", name=op.f("uq_integrations_task_id")),
    )
    op.create_index(
        op.f("ix_integrations_project_id_created_at_id"),
        "integrations",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "experiments",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("objective_id", sa.String(length=36), nullable=False),
        sa.Column("hypothesis_id", sa.String(length=36), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("evidence_requests", OrderedJson, nullable=False),
        sa.Column("package_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_experiments_account_id")),
        sa.ForeignKeyConstraint(["hypothesis_id"], ["hypotheses.id"], name=op.f("fk_experiments_hypothesis_id")),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_experiments_objective_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_experiments_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
    )
    op.create_index(op.f("ix_experiments_hypothesis_id"), "experiments", ["hypothesis_id"], unique=False)
    op.create_index(
        op.f("ix_experiments_project_id_created_at_id"), "experiments", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "hypothesis_reviews",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("hypothesis_id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_hypothesis_reviews_account_id")),
        sa.ForeignKeyConstraint(["hypothesis_id"], ["hypotheses.id"], name=op.f("fk_hypothesis_reviews_hypothesis_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_hypothesis_reviews_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hypothesis_reviews")),
        sa.UniqueConstraint("task_id", name=op.f("uq_hypothesis_reviews_task_id")),
    )
    op.create_index(
        op.f("ix_hypothesis_reviews_project_id_created_at_id"),
        "hypothesis_reviews",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "results",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("objective_id", sa.String(length=36), nullable=False),
        sa.Column("hypothesis_id", sa.String(length=36), nullable=False),
        sa.Column("experiment_id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("agent_id", sa.String(length=36), nullable=True),
        sa.Column("integration_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_results_account_id")),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_results_experiment_id")),
        sa.ForeignKeyConstraint(["hypothesis_id"], ["hypotheses.id"], name=op.f("fk_results_hypothesis_id")),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_results_objective_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_results_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_results")),
        sa.UniqueConstraint("task_id", name=op.f("uq_results_task_id")),
    )
    op.create_index(op.f("ix_results_hypothesis_id"), "results", ["hypothesis_id"], unique=False)
    op.create_index(op.f("ix_results_objective_id_phase"), "results", ["objective_id", "phase"], unique=False)
    op.create_index(
        op.f("ix_results_project_id_created_at_id"), "results", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "result_reviews",
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
        sa.Column("spec", OrderedJson, nullable=False),
        sa.Column("result_id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_result_reviews_account_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_result_reviews_project_id")),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name=op.f("fk_result_reviews_result_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_result_reviews")),
        sa.UniqueConstraint("task_id", name=op.f("uq_result_reviews_task_id")),
    )
    op.create_index(
        op.f("ix_result_reviews_project_id_created_at_id"),
        "result_reviews",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "work_tasks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=False),
        sa.Column("objective_id", sa.String(length=36), nullable=False),
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("queued_at", InstantColumn(), nullable=False),
        sa.Column("hypothesis_id", sa.String(length=36), nullable=True),
        sa.Column("experiment_id", sa.String(length=36), nullable=True),
        sa.Column("result_id", sa.String(length=36), nullable=True),
        sa.Column("author_id", sa.String(length=36), nullable=True),
        sa.Column("package_id", sa.String(length=36), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiments.id"], name=op.f("fk_work_tasks_experiment_id")),
        sa.ForeignKeyConstraint(["hypothesis_id"], ["hypotheses.id"], name=op.f("fk_work_tasks_hypothesis_id")),
        sa.ForeignKeyConstraint(["objective_id"], ["objectives.id"], name=op.f("fk_work_tasks_objective_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_work_tasks_project_id")),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name=op.f("fk_work_tasks_result_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_work_tasks")),
    )
    op.create_index(op.f("ix_work_tasks_hypothesis_id"), "work_tasks", ["hypothesis_id"], unique=False)
    op.create_index(op.f("ix_work_tasks_package_id"), "work_tasks", ["package_id"], unique=False)
    op.create_index(
        op.f("ix_work_tasks_objective_id_role_phase"), "work_tasks", ["objective_id", "role", "phase"], unique=False
    )
    op.create_index(
        op.f("ix_work_tasks_project_id_role_phase_queued_at_id"),
        "work_tasks",
        ["project_id", "role", "phase", "queued_at", "id"],
        unique=False,
    )
