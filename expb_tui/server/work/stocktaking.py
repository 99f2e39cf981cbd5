"""Reading the supply of work: what is in use, what is queued, and what keeps it back.

Statements are built once. Leases that ran out do not count, swept or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
)

from expb_tui.server.research.settings import ProjectRules
from expb_tui.server.store.columns import InstantColumn
from expb_tui.server.store.research_tables import (
    claim_windows,
    experiments,
    holds,
    hypotheses,
    hypothesis_reviews,
    integrations,
    objectives,
    result_reviews,
    results,
    work_packages,
    work_tasks,
)
from expb_tui.server.work.supply import Stock, Supply, Usage

OPEN_HYPOTHESIS_PHASES = ("proposed", "in-review", "ready", "in-experiment")

_TASK, _PACKAGE, _OBJECTIVE = work_tasks.c, work_packages.c, objectives.c
_CAPACITY_TABLES = (
    objectives,
    hypotheses,
    hypothesis_reviews,
    experiments,
    results,
    result_reviews,
    integrations,
    holds,
    work_packages,
)


def is_held(project_id: ColumnElement[Any], objective_id: ColumnElement[Any], hypothesis_id: ColumnElement[Any]) -> Any:
    """SQL: whether an active hold keeps a task back."""
    hold = holds.c
    return exists(
        select(literal(1)).where(
            hold.project_id == project_id,
            hold.phase == "active",
            or_(hold.target_id == project_id, hold.target_id == objective_id, hold.target_id == hypothesis_id),
        )
    )


def _count(*where: ColumnElement[bool], table: Any = work_packages) -> Any:
    return select(func.count()).select_from(table).where(*where).scalar_subquery()


@cache
def _usage_query(role: str | None) -> Select[Any]:
    """What bears on one role, zero for the rest; on all of them where it is None."""
    project: BindParameter[str] = bindparam("of_project")
    agent: BindParameter[str] = bindparam("of_agent")
    now = bindparam("now", type_=InstantColumn())
    active = and_(_PACKAGE.project_id == project, _PACKAGE.phase == "active")
    overdue = select(_PACKAGE.id).where(active, _PACKAGE.expires_at <= now)
    held = and_(active, _PACKAGE.agent_id == agent, _PACKAGE.expires_at > now)
    assigned = and_(_TASK.project_id == project, _TASK.phase == "assigned")

    def in_hand(of: str) -> Any:
        # The first count needs nothing but an index, the second is of very few.
        role_is = _TASK.role == of
        return _count(assigned, role_is, table=work_tasks) - _count(
            role_is, _TASK.phase == "assigned", _TASK.package_id.in_(overdue), table=work_tasks
        )

    counts = {"overdue": exists(overdue), "packages": _count(held)}
    if role in (None, "experimenter"):
        experimenting = select(_PACKAGE.id).where(held, _PACKAGE.role == "experimenter")
        counts["experiments"] = in_hand("experimenter")
        counts["own_experiments"] = _count(
            _TASK.package_id.in_(experimenting), _TASK.phase == "assigned", table=work_tasks
        )
    if role in (None, "ideator"):
        untested = hypotheses.c.phase.in_(OPEN_HYPOTHESIS_PHASES)
        counts["open_hypotheses"] = _count(hypotheses.c.project_id == project, untested, table=hypotheses)
        counts["ideas"] = in_hand("ideator")
    return select(*(count.label(name) for name, count in counts.items()))


_LAST_ASSIGNMENT = (
    select(_PACKAGE.role, func.max(_PACKAGE.issued_at).label("issued_at"))
    .where(_PACKAGE.project_id == bindparam("of_project"), _PACKAGE.agent_id == bindparam("of_agent"))
    .group_by(_PACKAGE.role)
)
_CAPACITY = select(
    sum(
        (_count(table.c.project_id == bindparam("of_project"), table=table) for table in _CAPACITY_TABLES[1:]),
        _count(_CAPACITY_TABLES[0].c.project_id == bindparam("of_project"), table=_CAPACITY_TABLES[0]),
    )
)
_WINDOW = select(claim_windows.c.opened_at, claim_windows.c.claims).where(
    claim_windows.c.project_id == bindparam("of_project"), claim_windows.c.agent_id == bindparam("of_agent")
)
_ACTIVE_OBJECTIVES = select(_OBJECTIVE.id).where(
    _OBJECTIVE.project_id == bindparam("of_project"), _OBJECTIVE.phase == "active"
)
_HELD_TARGETS = select(holds.c.target_id).where(
    holds.c.project_id == bindparam("of_project"), holds.c.phase == "active"
)


def _stock_query() -> Select[Any]:
    now = bindparam("now", type_=InstantColumn())
    overdue = and_(_TASK.phase == "assigned", _PACKAGE.phase == "active", _PACKAGE.expires_at <= now)
    tasks = (
        select(
            _TASK.role,
            _TASK.objective_id,
            (_OBJECTIVE.phase == "active").label("active"),
            is_held(_TASK.project_id, _TASK.objective_id, _TASK.hypothesis_id).label("held"),
            func.coalesce(_TASK.author_id == bindparam("of_agent"), literal(False)).label("own"),
        )
        .select_from(
            work_tasks.join(objectives, _OBJECTIVE.id == _TASK.objective_id).outerjoin(
                work_packages, _PACKAGE.id == _TASK.package_id
            )
        )
        .where(_TASK.project_id == bindparam("of_project"), or_(_TASK.phase == "open", overdue))
        .subquery()
    )
    columns = tasks.c
    return select(*columns, func.count().label("tasks")).group_by(*columns)


_STOCK = _stock_query()


def _waiting_query() -> Select[Any]:
    active = select(_OBJECTIVE.id).where(_OBJECTIVE.project_id == bindparam("of_project"), _OBJECTIVE.phase == "active")
    return select(
        _count(
            hypotheses.c.objective_id.in_(active), hypotheses.c.phase.in_(("proposed", "in-review")), table=hypotheses
        ),
        _count(results.c.objective_id.in_(active), results.c.phase.in_(("reported", "in-review")), table=results),
    )


_WAITING = _waiting_query()


def read_usage(conn: Connection, project_id: str, agent_id: str, now: datetime, role: str | None = None) -> Usage:
    """What is in use in a project, seen by one agent; only as far as it bears on ``role`` where that is given."""
    of = {"of_project": project_id, "of_agent": agent_id, "now": now}
    return Usage(**conn.execute(_usage_query(role), of).one()._mapping)


def count_capacity(conn: Connection, project_id: str) -> int:
    """How many research records and packages the project has."""
    return int(conn.execute(_CAPACITY, {"of_project": project_id}).scalar_one())


def read_supply(
    conn: Connection, project: Any, agent_id: str, rules: ProjectRules, now: datetime, role: str | None = None
) -> Supply:
    """Usage and pauses, as assignment needs them for ``role``; ``project`` is its row. The queue is not read."""
    of = {"of_project": project.id, "of_agent": agent_id}
    claims = last = None
    if rules.limit("requests-per-minute") is not None:
        claims = conn.execute(_WINDOW, of).one_or_none()
    if any(rules.role(configured).assignment_interval_seconds for configured in _roles_of(rules)):
        last = {row.role: row.issued_at for row in conn.execute(_LAST_ASSIGNMENT, of)}
    capacity = None
    if rules.limit("total-capacity") is not None:
        capacity = count_capacity(conn, project.id)
    return Supply(
        now=now,
        project_phase=project.phase,
        rules=rules,
        usage=read_usage(conn, project.id, agent_id, now, role),
        project_id=project.id,
        claims=(claims.opened_at, claims.claims) if claims else None,
        last_assignment=last or {},
        capacity=capacity,
    )


def read_whole_supply(
    conn: Connection, project: Any, agent_id: str, rules: ProjectRules, now: datetime, *, self_review: bool
) -> Supply:
    """As ``read_supply``, with the queue and everything that explains it."""
    of = {"of_project": project.id, "of_agent": agent_id}
    supply = read_supply(conn, project, agent_id, rules, now)
    hypotheses_waiting, results_waiting = conn.execute(_WAITING, {"of_project": project.id}).one()
    return replace(
        supply,
        active_objectives=frozenset(conn.execute(_ACTIVE_OBJECTIVES, {"of_project": project.id}).scalars()),
        held=frozenset(conn.execute(_HELD_TARGETS, {"of_project": project.id}).scalars()),
        stocks=_sort_stock(conn.execute(_STOCK, {**of, "now": now}).all(), self_review=self_review),
        waiting={"hypothesis": hypotheses_waiting, "result": results_waiting},
    )


def _sort_stock(rows: Sequence[Any], *, self_review: bool) -> dict[str, Stock]:
    stocks: dict[str, Stock] = {}
    for row in rows:
        stock = stocks.setdefault(row.role, Stock())
        if not row.active:
            stock.idle += row.tasks
        elif row.held:
            stock.held += row.tasks
        elif row.own and not self_review:
            stock.own += row.tasks
        else:
            stock.free[row.objective_id] = stock.free.get(row.objective_id, 0) + row.tasks
    return stocks


def _roles_of(rules: ProjectRules) -> Iterable[str]:
    return (subject for kind, subject in rules.specs if kind == "research-roles")
