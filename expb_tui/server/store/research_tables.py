"""The research tables: records of the loop, the queue of tasks, work packages, settings by scope, and the event log.

The identity tables are in ``schema``. A change here needs a new file in ``migrations/versions``; a test compares.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from expb_tui.server.store.columns import InstantColumn, Uid, metadata, resource_columns

OrderedJson = JSON(none_as_null=True)
"""JSON that keeps the order of its keys, for what is only read back whole."""

RowNumber = BigInteger().with_variant(Integer(), "sqlite")
"""Numbers rows in the order in which they were made."""


def _records(name: str, *columns: Any) -> Table:
    """A kind of research record: the envelope's columns and the whole ``spec``."""
    return Table(
        name,
        metadata,
        *resource_columns(project=True),
        Column("spec", OrderedJson, nullable=False),
        *columns,
        Index(None, "project_id", "created_at", "id"),
    )


def _reference(target: str, column: str, *, nullable: bool = False) -> Column[Any]:
    return Column(column, Uid, ForeignKey(f"{target}.id"), nullable=nullable)


objectives = _records(
    "objectives",
    Column("best_result_id", Uid),
    Column("best_value", Float),
)

hypotheses = _records(
    "hypotheses",
    _reference("objectives", "objective_id"),
    # The task whose submission made the record: at most one record a task, whatever happens above.
    Column("task_id", Uid, unique=True),
    Column("agent_id", Uid),
    Column("review_id", Uid),
    Index(None, "objective_id", "phase"),
    Index(None, "project_id", "phase"),
)

hypothesis_reviews = _records(
    "hypothesis_reviews",
    _reference("hypotheses", "hypothesis_id"),
    Column("task_id", Uid, unique=True),
)

experiments = _records(
    "experiments",
    _reference("objectives", "objective_id"),
    _reference("hypotheses", "hypothesis_id"),
    Column("round", Integer, nullable=False),  # 0 first, then one for each request for evidence
    Column("evidence_requests", OrderedJson, nullable=False),
    Column("package_id", Uid),
    Index(None, "hypothesis_id"),
)

results = _records(
    "results",
    _reference("objectives", "objective_id"),
    _reference("hypotheses", "hypothesis_id"),
    _reference("experiments", "experiment_id"),
    Column("task_id", Uid, unique=True),
    Column("agent_id", Uid),
    Column("integration_id", Uid),
    Index(None, "objective_id", "phase"),
    Index(None, "hypothesis_id"),
)

result_reviews = _records(
    "result_reviews",
    _reference("results", "result_id"),
    Column("task_id", Uid, unique=True),
)

integrations = _records(
    "integrations",
    _reference("objectives", "objective_id"),
    Column("task_id", Uid, unique=True),
)

holds = Table(
    "holds",
    metadata,
    *resource_columns(project=True),
    Column("target_kind", String(16), nullable=False),  # project, objective, hypothesis
    Column("target_id", Uid, nullable=False),
    Column("reason", Text, nullable=False),
    Index(None, "project_id", "phase", "target_id"),
    Index(None, "project_id", "created_at", "id"),
)

research_settings = Table(
    "research_settings",
    metadata,
    *resource_columns(account=False),
    # Null for the scopes above: a row without account is the system's, one without project the account's.
    Column("account_id", Uid, ForeignKey("accounts.id")),
    Column("project_id", Uid, ForeignKey("projects.id")),
    Column("kind", String(24), nullable=False),  # research-roles, review-policies, limits
    Column("subject", String(40), nullable=False),  # the role or the limit; "" for a policy
    Column("spec", OrderedJson, nullable=False),  # only what this scope sets
    Column("configured", Boolean, nullable=False),  # whether it sets anything: the others are not read for a claim
    Column("reason", Text),
    UniqueConstraint("account_id", "project_id", "kind", "subject"),
    Index(None, "project_id", "kind"),
    Index(None, "account_id", "kind"),
)

work_packages = Table(
    "work_packages",
    metadata,
    *resource_columns(project=True),
    Column("agent_id", Uid, ForeignKey("agent_identities.id"), nullable=False),
    Column("role", String(24), nullable=False),
    Column("max_tasks", Integer, nullable=False),
    Column("issued_at", InstantColumn, nullable=False),
    Column("expires_at", InstantColumn, nullable=False),
    Column("absolute_expires_at", InstantColumn, nullable=False),
    Column("lease_seconds", Integer, nullable=False),
    Column("renewals", Integer, nullable=False),
    Column("token_verifier", LargeBinary(32), nullable=False),
    Column("tasks", OrderedJson, nullable=False),  # as the agent reads them; the queue's own rows are in work_tasks
    # These two answer the counts of a claim from the index alone, with thousands of packages out.
    Index(None, "project_id", "agent_id", "phase", "expires_at"),
    Index(None, "phase", "expires_at"),
    Index(None, "project_id", "phase", "expires_at"),
    Index(None, "project_id", "created_at", "id"),
)

work_tasks = Table(
    "work_tasks",
    metadata,
    Column("id", Uid, primary_key=True),
    _reference("projects", "project_id"),
    _reference("objectives", "objective_id"),
    Column("role", String(24), nullable=False),
    Column("phase", String(16), nullable=False),  # open, assigned, submitted, withdrawn
    Column("queued_at", InstantColumn, nullable=False),
    _reference("hypotheses", "hypothesis_id", nullable=True),
    _reference("experiments", "experiment_id", nullable=True),
    _reference("results", "result_id", nullable=True),
    Column("author_id", Uid),  # the agent whose output the task judges
    Column("package_id", Uid),
    Column("failures", Integer, nullable=False),
    Index(None, "project_id", "role", "phase", "queued_at", "id"),
    Index(None, "objective_id", "role", "phase"),
    Index(None, "hypothesis_id"),
    Index(None, "package_id"),
)

claim_windows = Table(
    "claim_windows",
    metadata,
    Column("project_id", Uid, primary_key=True),
    Column("agent_id", Uid, primary_key=True),
    Column("opened_at", InstantColumn, nullable=False),
    Column("claims", Integer, nullable=False),
)

event_log = Table(
    "event_log",
    metadata,
    Column("id", RowNumber, Identity(always=True), primary_key=True),
    Column("account_id", Uid, nullable=False),
    Column("project_id", Uid),
    Column("kind", String(40), nullable=False),
    Column("uid", Uid, nullable=False),
    Column("version", Integer, nullable=False),
    Column("action", String(8), nullable=False),  # create, update
    Column("request_id", Uid),
    Column("created_at", InstantColumn, nullable=False),
    Index(None, "account_id", "id"),
    Index(None, "created_at"),
    sqlite_autoincrement=True,  # a pruned number never comes back
)
