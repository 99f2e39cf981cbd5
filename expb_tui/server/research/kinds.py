"""The kinds of research records and of settings (contract, section 6.2.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Table, select

from expb_tui.server.research.settings import LIMITS
from expb_tui.server.resources import Kind, RowOf
from expb_tui.server.store import research_tables as tables
from expb_tui.wire.base import IDENTITY_GROUP, RESEARCH_GROUP


def _spec(row: RowOf) -> dict[str, Any]:
    spec: dict[str, Any] = row.spec
    return spec


def _text(table: Table, *path: str) -> ColumnElement[Any]:
    column: ColumnElement[Any] = table.c.spec[path].as_string()
    return column


def _best(row: RowOf) -> dict[str, Any]:
    if row.best_result_id is None:
        return {}
    return {"best": {"resultId": row.best_result_id, "value": row.best_value}}


def _records(
    name: str,
    table: Table,
    fields: Mapping[str, ColumnElement[Any]],
    *,
    spec: Callable[[RowOf], dict[str, Any]] = _spec,
    status: Callable[[RowOf], dict[str, Any]] = lambda row: {},
) -> Kind:
    """A kind of a project's records; ``fields`` are its own selectable paths."""
    return Kind(name, RESEARCH_GROUP, table, project=True, spec=spec, status=status, fields=fields)


OBJECTIVES = _records(
    "objectives",
    tables.objectives,
    {
        "spec.measure.name": _text(tables.objectives, "measure", "name"),
        "spec.measure.unit": _text(tables.objectives, "measure", "unit"),
        "spec.measure.direction": _text(tables.objectives, "measure", "direction"),
    },
    status=_best,
)
HYPOTHESES = _records(
    "hypotheses",
    tables.hypotheses,
    {"spec.objectiveId": tables.hypotheses.c.objective_id, "status.reviewId": tables.hypotheses.c.review_id},
    status=lambda row: {"reviewId": row.review_id},
)
HYPOTHESIS_REVIEWS = _records(
    "hypothesis-reviews",
    tables.hypothesis_reviews,
    {
        "spec.hypothesisId": tables.hypothesis_reviews.c.hypothesis_id,
        "spec.verdict": _text(tables.hypothesis_reviews, "verdict"),
    },
)
EXPERIMENTS = _records(
    "experiments",
    tables.experiments,
    {
        "spec.hypothesisId": tables.experiments.c.hypothesis_id,
        "spec.objectiveId": tables.experiments.c.objective_id,
        "status.packageId": tables.experiments.c.package_id,
    },
    status=lambda row: {"packageId": row.package_id},
)
RESULTS = _records(
    "results",
    tables.results,
    {
        "spec.experimentId": tables.results.c.experiment_id,
        "spec.hypothesisId": tables.results.c.hypothesis_id,
        "spec.objectiveId": tables.results.c.objective_id,
        "spec.conclusion": _text(tables.results, "conclusion"),
    },
)
RESULT_REVIEWS = _records(
    "result-reviews",
    tables.result_reviews,
    {"spec.resultId": tables.result_reviews.c.result_id, "spec.verdict": _text(tables.result_reviews, "verdict")},
)
INTEGRATIONS = _records(
    "integrations",
    tables.integrations,
    {"spec.changeSet.target": _text(tables.integrations, "changeSet", "target")},
)
HOLDS = _records(
    "holds",
    tables.holds,
    {"spec.targetKind": tables.holds.c.target_kind, "spec.targetId": tables.holds.c.target_id},
    spec=lambda row: {"targetKind": row.target_kind, "targetId": row.target_id, "reason": row.reason},
)


def _settings_kind(name: str, group: str, spec: Callable[[RowOf], dict[str, Any]]) -> Kind:
    table = tables.research_settings
    return Kind(
        name,
        group,
        table,
        project=True,
        spec=spec,
        fields={"spec.role": table.c.subject} if name == "research-roles" else {},
        query=lambda: select(table).where(table.c.kind == name),
    )


def _limit_spec(row: RowOf) -> dict[str, Any]:
    rule = LIMITS[row.subject]
    return {"unit": rule.unit, "periodSeconds": rule.period, **row.spec}


ROLES_KIND = _settings_kind("research-roles", RESEARCH_GROUP, lambda row: {"role": row.subject, **row.spec})
POLICIES_KIND = _settings_kind("review-policies", RESEARCH_GROUP, _spec)
LIMITS_KIND = _settings_kind("limits", IDENTITY_GROUP, _limit_spec)
"""A limit is told apart by its ``metadata.name``."""


def system_kind(kind: Kind) -> Kind:
    """The settings of the system itself, of one of the three kinds above, with item URLs of their own."""
    table = kind.table
    own = (table.c.kind == kind.name, table.c.account_id.is_(None))
    return replace(kind, base="/v1/system", query=lambda: select(table).where(*own))
