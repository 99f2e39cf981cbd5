"""The open tasks of a role with all that they are about, and what an agent gets to read of it.

The input holds canonical snapshots as of the assignment (contract, section 6.2.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, func, or_, select

from expb_tui.server.research.kinds import EXPERIMENTS, HYPOTHESES, OBJECTIVES, RESULTS
from expb_tui.server.resources import Kind, envelope
from expb_tui.server.store.research_tables import experiments, hypotheses, objectives, results, work_tasks
from expb_tui.server.work.stocktaking import is_held

MAX_EVIDENCE_ROUNDS = 3
"""How often more evidence may be asked for about one hypothesis (hazards 12)."""

LONGEST_LIST = 50
"""The newest hypotheses that an ideator is told of, and candidates that a reviewer may combine with."""

LONGEST_BRIEF = 500
"""Characters of a statement in such a list; the record itself has the rest."""

MOST_RESULTS = 16
"""Further accepted results that an integrator may take along."""

FURTHER_BYTES = 256 * 1024
"""Of records that a task's input holds beside those that it is about."""

PACKAGE_BYTES = 2 * 1024 * 1024
"""Of records in one package, beyond its first task."""

_TASK = work_tasks.c
_JOINED: dict[str, tuple[Kind, ...]] = {
    "ideator": (OBJECTIVES,),
    "hypothesis-reviewer": (OBJECTIVES, HYPOTHESES),
    "experimenter": (OBJECTIVES, HYPOTHESES, EXPERIMENTS),
    "results-reviewer": (OBJECTIVES, HYPOTHESES, EXPERIMENTS, RESULTS),
    "integrator": (OBJECTIVES, HYPOTHESES, RESULTS),
}
_LINKS: dict[Kind, ColumnElement[bool]] = {
    OBJECTIVES: objectives.c.id == _TASK.objective_id,
    HYPOTHESES: hypotheses.c.id == _TASK.hypothesis_id,
    EXPERIMENTS: experiments.c.id == _TASK.experiment_id,
    RESULTS: results.c.id == _TASK.result_id,
}


class Candidate:
    """An open task and the records that it is about, by kind."""

    def __init__(self, row: Row[Any], kinds: Sequence[Kind]) -> None:
        values = tuple(row)
        width = len(_TASK)
        self.task = _named(work_tasks, values[:width])
        self.records: dict[Kind, Any] = {}
        for kind in kinds:
            end = width + len(kind.table.c)
            self.records[kind] = _named(kind.table, values[width:end])
            width = end

    @property
    def weight(self) -> int:
        """Bytes of the records that the task is about."""
        return sum(len(to_json(record.spec)) for record in self.records.values())

    def renew(self, rows: Mapping[str, Any]) -> None:
        """Take these rows, by id, for the records that they are."""
        for kind, record in self.records.items():
            self.records[kind] = rows.get(record.id, record)

    def snapshot(self, kind: Kind) -> dict[str, Any]:
        """The record of that kind as a resource."""
        return envelope(kind, self.records[kind])


def _named(table: Table, values: Sequence[Any]) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip(table.c.keys(), values, strict=True)))


@cache
def _open_tasks(role: str, ordering: str, self_review: bool) -> Select[Any]:
    joined: Any = work_tasks
    for kind in _JOINED[role]:
        joined = joined.join(kind.table, _LINKS[kind])
    columns = [*_TASK, *(column for kind in _JOINED[role] for column in kind.table.c)]
    query = (
        select(*columns)
        .select_from(joined)
        .where(
            _TASK.project_id == bindparam("of_project"),
            _TASK.role == role,
            _TASK.phase == "open",
            objectives.c.phase == "active",
            ~is_held(_TASK.project_id, _TASK.objective_id, _TASK.hypothesis_id),
        )
        .limit(bindparam("at_most"))
    )
    if not self_review:
        query = query.where(or_(_TASK.author_id.is_(None), _TASK.author_id != bindparam("of_agent")))
    if ordering == "newest-first":
        return query.order_by(_TASK.queued_at.desc(), _TASK.id.desc())
    return query.order_by(_TASK.queued_at, _TASK.id)


def open_tasks(
    conn: Connection, project_id: str, agent_id: str, role: str, *, ordering: str, self_review: bool, limit: int
) -> list[Candidate]:
    """The next tasks that a role may be given, at most ``limit``, in the order of the queue."""
    parameters: dict[str, Any] = {"of_project": project_id, "at_most": limit}
    if not self_review:
        parameters["of_agent"] = agent_id
    rows = conn.execute(_open_tasks(role, ordering, self_review), parameters)
    return [Candidate(row, _JOINED[role]) for row in rows]


def fitting(candidates: list[Candidate]) -> list[Candidate]:
    """As many of the tasks, and at least the first, as one package can carry."""
    if len(candidates) < 2:
        return candidates
    weights = accumulate(candidate.weight for candidate in candidates)
    return candidates[: max(1, sum(weight <= PACKAGE_BYTES for weight in weights))]


def build_input(conn: Connection, candidate: Candidate, project: Any, instructions: Sequence[str]) -> dict[str, Any]:
    """What the agent reads; ``project`` is its row."""
    common = {"instructions": list(instructions), "objective": candidate.snapshot(OBJECTIVES)}
    return common | _BUILDERS[candidate.task.role](conn, candidate, project)


_STATEMENT = func.substr(hypotheses.c.spec["statement"].as_string(), 1, LONGEST_BRIEF + 1).label("statement")
_KNOWN = (
    select(hypotheses.c.id, _STATEMENT, hypotheses.c.phase)
    .where(hypotheses.c.objective_id == bindparam("of_objective"))
    .order_by(hypotheses.c.created_at.desc(), hypotheses.c.id)
    .limit(LONGEST_LIST)
)
_COMBINABLE = (
    select(hypotheses.c.id, _STATEMENT, hypotheses.c.phase)
    .where(
        hypotheses.c.objective_id == bindparam("of_objective"),
        hypotheses.c.id != bindparam("but"),
        hypotheses.c.phase.in_(("proposed", "in-review")),
    )
    .order_by(hypotheses.c.created_at, hypotheses.c.id)
    .limit(LONGEST_LIST)
)
_EARLIER = (
    select(results)
    .where(results.c.hypothesis_id == bindparam("of_hypothesis"))
    .order_by(results.c.created_at.desc(), results.c.id)
    .limit(MAX_EVIDENCE_ROUNDS)
)
_ALSO_ACCEPTED = (
    select(results)
    .join(work_tasks, _TASK.result_id == results.c.id)
    .where(
        results.c.objective_id == bindparam("of_objective"),
        results.c.id != bindparam("but"),
        results.c.integration_id.is_(None),
        _TASK.role == "integrator",
        _TASK.phase == "open",
        ~is_held(_TASK.project_id, _TASK.objective_id, _TASK.hypothesis_id),
    )
    .order_by(results.c.created_at, results.c.id)
    .limit(MOST_RESULTS)
)
_ROUNDS = select(func.max(experiments.c.round)).where(experiments.c.hypothesis_id == bindparam("of_hypothesis"))


def evidence_rounds(conn: Connection, hypothesis_id: str) -> int:
    """How often more evidence was asked for about a hypothesis."""
    return conn.execute(_ROUNDS, {"of_hypothesis": hypothesis_id}).scalar() or 0


def _brief(rows: Any) -> list[dict[str, Any]]:
    return [{"uid": row.id, "statement": _short(row.statement), "phase": row.phase} for row in rows]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_BRIEF else text[: LONGEST_BRIEF - 1] + "…"


def _further(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Results that the input also shows, as many as there is room for."""
    shown: list[dict[str, Any]] = []
    room = FURTHER_BYTES
    for row in rows:
        snapshot = envelope(RESULTS, row)
        room -= len(to_json(snapshot))
        if room < 0:
            break
        shown.append(snapshot)
    return shown


def _idea(conn: Connection, candidate: Candidate, project: Any) -> dict[str, Any]:
    known = conn.execute(_KNOWN, {"of_objective": candidate.task.objective_id})
    context = {"contextId": project.current_context_id} if project.current_context_id else {}
    return {**context, "knownHypotheses": _brief(known)}


def _hypothesis_review(conn: Connection, candidate: Candidate, project: Any) -> dict[str, Any]:
    task = candidate.task
    found = conn.execute(_COMBINABLE, {"of_objective": task.objective_id, "but": task.hypothesis_id})
    return {"hypothesis": candidate.snapshot(HYPOTHESES), "candidates": _brief(found)}


def _experiment(conn: Connection, candidate: Candidate, project: Any) -> dict[str, Any]:
    record = candidate.records[EXPERIMENTS]
    more: dict[str, Any] = {}
    if record.round:
        earlier = conn.execute(_EARLIER, {"of_hypothesis": record.hypothesis_id})
        more = {"earlierResults": _further(earlier)}
    return {
        "hypothesis": candidate.snapshot(HYPOTHESES),
        "experiment": candidate.snapshot(EXPERIMENTS),
        "evidenceRequests": record.evidence_requests,
        **more,
    }


def _result_review(conn: Connection, candidate: Candidate, project: Any) -> dict[str, Any]:
    return {
        "hypothesis": candidate.snapshot(HYPOTHESES),
        "result": candidate.snapshot(RESULTS),
        "evidenceRoundsLeft": MAX_EVIDENCE_ROUNDS - candidate.records[EXPERIMENTS].round,
    }


def _integration(conn: Connection, candidate: Candidate, project: Any) -> dict[str, Any]:
    task = candidate.task
    others = conn.execute(_ALSO_ACCEPTED, {"of_objective": task.objective_id, "but": task.result_id})
    shown = [candidate.snapshot(RESULTS), *_further(others)]
    return {"results": shown, **({"target": project.target} if project.target else {})}


_BUILDERS = {
    "ideator": _idea,
    "hypothesis-reviewer": _hypothesis_review,
    "experimenter": _experiment,
    "results-reviewer": _result_review,
    "integrator": _integration,
}
