"""The kinds of research records and of settings (contract, section 6.2.8)."""

from __future__ import annotations

from collections.abc import Callable
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


OBJECTIVES = Kind(
    "objectives",
    RESEARCH_GROUP,
    tables.objectives,
    project=True,
    spec=_spec,
    status=_best,
    fields={
        "spec.measure.name": _text(tables.objectives, "measure", "name"),
        "spec.measure.unit": _text(tables.objectives, "measure", "unit"),
        "spec.measure.direction": _text(tables.objectives, "measure", "direction"),
    },
)
HYPOTHESES = Kind(
    "hypotheses",
    RESEARCH_GROUP,
    tables.hypotheses,
    project=True,
    spec=_spec,
    status=lambda row: {"reviewId": row.review_id},
    fields={
        "spec.objectiveId": tables.hypotheses.c.objective_id,
        "status.reviewId": tables.hypotheses.c.review_id,
    },
)
HYPOTHESIS_REVIEWS = Kind(
    "hypothesis-reviews",
    RESEARCH_GROUP,
    tables.hypothesis_reviews,
    project=True,
    spec=_spec,
    fields={
        "spec.hypothesisId": tables.hypothesis_reviews.c.hypothesis_id,
        "spec.verdict": _text(tables.hypothesis_reviews, "verdict"),
    },
)
EXPERIMENTS = Kind(
    "experiments",
    RESEARCH_GROUP,
    tables.experiments,
    project=True,
    spec=_spec,
    status=lambda row: {"packageId": row.package_id},
    fields={
        "spec.hypothesisId": tables.experiments.c.hypothesis_id,
        "spec.objectiveId": tables.experiments.c.objective_id,
        "status.packageId": tables.experiments.c.package_id,
    },
)
RESULTS = Kind(
    "results",
    RESEARCH_GROUP,
    tables.results,
    project=True,
    spec=_spec,
    fields={
        "spec.experimentId": tables.results.c.experiment_id,
        "spec.hypothesisId": tables.results.c.hypothesis_id,
        "spec.objectiveId": tables.results.c.objective_id,
        "spec.conclusion": _text(tables.results, "conclusion"),
    },
)
RESULT_REVIEWS = Kind(
    "result-reviews",
    RESEARCH_GROUP,
    tables.result_reviews,
    project=True,
    spec=_spec,
    fields={
        "spec.resultId": tables.result_reviews.c.result_id,
        "spec.verdict": _text(tables.result_reviews, "verdict"),
    },
)
INTEGRATIONS = Kind(
    "integrations",
    RESEARCH_GROUP,
    tables.integrations,
    project=True,
    spec=_spec,
    fields={"spec.changeSet.target": _text(tables.integrations, "changeSet", "target")},
)
HOLDS = Kind(
    "holds",
    RESEARCH_GROUP,
    tables.holds,
    project=True,
    spec=lambda row: {"targetKind": row.target_kind, "targetId": row.target_id, "reason": row.reason},
    fields={"spec.targetKind": tables.holds.c.target_kind, "spec.targetId": tables.holds.c.target_id},
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
