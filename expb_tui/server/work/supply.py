"""What there is to do for an agent, and why there is nothing (contract, section 6.2.3; hazards 20).

The rules of availability stand here once: assignment and opportunities both ask ``Supply``. A cause is shown where it
shuts a role out altogether, or where it is what keeps queued work from being given out:

- ``project-inactive``: the project is not active;
- ``objective-inactive``: no objective is active, or all queued work belongs to objectives that are not;
- ``role-disabled``: the role is switched off;
- ``review-gate``: a reviewer whose gate is off (nothing passes it); an experimenter or integrator with an empty queue
  while something waits at the gate before them; a reviewer left with only its own work where it may not judge that;
- ``hold``: the project or every active objective is held, or all queued work is;
- ``limit``: a limit that bears on the role is used up.

Several causes may hold at once. None is named where nothing stands in the way but the queue is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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

from expb_tui.server.research.settings import ProjectRules, RoleRules
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

OPEN_HYPOTHESIS_PHASES = ("proposed", "in-review", "ready", "in-experiment")
GATES = {"hypothesis-reviewer": "hypothesis", "results-reviewer": "result"}
"""The gate that a reviewing role stands at."""
GATE_BEFORE = {"experimenter": "hypothesis", "integrator": "result"}
"""The gate that the work of a role has to pass first."""

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


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use in a project now. Leases that ran out do not count, swept or not."""

    overdue: bool = False
    """Whether there are packages whose lease ran out and that are still to be expired."""
    packages: int = 0
    """Active packages of the agent."""
    experiments: int = 0
    """Experiments in anybody's hands."""
    own_experiments: int = 0
    open_hypotheses: int = 0
    """Not yet tested, rejected or combined."""
    ideas: int = 0
    """Being worked out."""


@dataclass(slots=True)
class Stock:
    """The queue of one role in one project: how many open tasks are free, and what keeps the others back."""

    free: dict[str, int] = field(default_factory=dict)
    """Objective to count."""
    idle: int = 0
    """Of objectives that are not active."""
    held: int = 0
    own: int = 0
    """Of the agent's own output, where that is not for it to review."""

    @property
    def available(self) -> int:
        return sum(self.free.values())

    @property
    def queued(self) -> int:
        return self.available + self.idle + self.held + self.own


@dataclass(frozen=True, slots=True)
class Supply:
    """All that decides about one agent in one project."""

    now: datetime
    project_phase: str
    rules: ProjectRules
    usage: Usage
    active_objectives: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    """Targets of active holds: of the project, objectives, hypotheses."""
    project_id: str = ""
    stocks: Mapping[str, Stock] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Gate to the number of records that wait at it, under active objectives."""
    claims: tuple[datetime, int] | None = None
    """The agent's window of work requests: when it was opened, and how many it counts."""
    last_assignment: Mapping[str, datetime] = field(default_factory=dict)
    capacity: int | None = None
    """Records of the project; None where no limit asks for it."""

    def gate_is_on(self, gate: str) -> bool:
        return self.rules.hypothesis_review if gate == "hypothesis" else self.rules.result_review

    def shut(self, role: str, config: RoleRules) -> bool:
        """Whether the role gets nothing, whatever is queued: switched off, or a reviewer without a gate."""
        return not config.enabled or (role in GATES and not self.gate_is_on(GATES[role]))

    def room(self, role: str, config: RoleRules) -> tuple[int, str]:
        """How many tasks the limits leave to the role, and the name of the tightest limit."""
        rooms = [(config.max_tasks, "")]
        if (most := self.rules.limit("agent-active-packages")) is not None and self.usage.packages >= most:
            rooms.append((0, "agent-active-packages"))
        if role == "experimenter":
            rooms.append((config.concurrent_experiments - self.usage.own_experiments, "concurrent-experiments"))
            if (most := self.rules.limit("concurrent-experiments")) is not None:
                rooms.append((most - self.usage.experiments, "concurrent-experiments"))
        if role == "ideator" and (most := self.rules.limit("open-hypotheses")) is not None:
            rooms.append((most - self.usage.open_hypotheses - self.usage.ideas, "open-hypotheses"))
        if (
            (most := self.rules.limit("total-capacity")) is not None
            and self.capacity is not None
            and self.capacity >= most
        ):
            rooms.append((0, "total-capacity"))
        room, name = min(rooms, key=lambda entry: entry[0])
        return max(0, room), name

    def request_pause(self) -> int:
        """Seconds until the agent may ask for work again, by ``requests-per-minute``; 0 if now."""
        most = self.rules.limit("requests-per-minute")
        if most is None:
            return 0
        period = timedelta(seconds=self.rules.period("requests-per-minute"))
        opened, count = self.claims or (self.now, 0)
        if self.now >= opened + period:
            opened, count = self.now, 0
        return _whole_seconds(opened + period - self.now) if count >= most else 0

    def assignment_pause(self, role: str, config: RoleRules) -> int:
        """Seconds until the agent may be given work in this role again, by the role's interval; 0 if now."""
        last = self.last_assignment.get(role)
        if last is None or not config.assignment_interval_seconds:
            return 0
        return _whole_seconds(last + timedelta(seconds=config.assignment_interval_seconds) - self.now)

    def causes(self, role: str) -> list[str]:
        """Why the role has no work, in the order in which a person should look."""
        config, stock = self.rules.role(role), self.stocks.get(role, Stock())
        found = []
        if self.project_phase != "active":
            found.append("project-inactive")
        if not self.active_objectives or (stock.idle and not stock.available + stock.held + stock.own):
            found.append("objective-inactive")
        if not config.enabled:
            found.append("role-disabled")
        if self._gate_blocks(role, stock):
            found.append("review-gate")
        if self._hold_blocks(stock):
            found.append("hold")
        if self.room(role, config)[0] == 0 or self.request_pause():
            found.append("limit")
        return found

    def _gate_blocks(self, role: str, stock: Stock) -> bool:
        if role in GATES:
            return not self.gate_is_on(GATES[role]) or (stock.own > 0 and not stock.available + stock.held)
        gate = GATE_BEFORE.get(role)
        return gate is not None and not stock.queued and self.gate_is_on(gate) and self.waiting.get(gate, 0) > 0

    def _hold_blocks(self, stock: Stock) -> bool:
        if self.project_id in self.held or (self.active_objectives and self.active_objectives <= self.held):
            return True
        return stock.held > 0 and not stock.available + stock.own

    def offer(self, role: str) -> tuple[int, list[str], int]:
        """For an opportunity: tasks to be had now, their objectives, and seconds to wait before asking."""
        config, stock = self.rules.role(role), self.stocks.get(role, Stock())
        pause = self.request_pause()
        blocked = self.project_phase != "active" or self.shut(role, config) or pause or not self.room(role, config)[0]
        if blocked:
            return 0, [], pause
        return stock.available, sorted(stock.free), self.assignment_pause(role, config)


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
    mine = and_(_TASK.project_id == project, _TASK.phase == "assigned")

    def in_hand(of: str) -> Any:
        # The first count needs nothing but an index, the second is of very few.
        role_is = _TASK.role == of
        return _count(mine, role_is, table=work_tasks) - _count(
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
    if any(rules.role(role).assignment_interval_seconds for role in _roles_of(rules)):
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
    return Supply(
        now=supply.now,
        project_phase=supply.project_phase,
        rules=rules,
        usage=supply.usage,
        project_id=project.id,
        claims=supply.claims,
        last_assignment=supply.last_assignment,
        capacity=supply.capacity,
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


def _whole_seconds(span: timedelta) -> int:
    return max(0, math.ceil(span.total_seconds()))
