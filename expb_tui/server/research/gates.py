"""What a change of a review gate does to the records that wait at it.

A gate that is switched off lets everything pass that no reviewer has in hand; one that is switched on holds only what
comes after.
"""

from __future__ import annotations

from sqlalchemy import Table, select

from expb_tui.server.context import Unit
from expb_tui.server.research.flow import settle_result, start_experiment
from expb_tui.server.research.kinds import HYPOTHESES, OBJECTIVES, RESULTS
from expb_tui.server.research.settings import load_rules
from expb_tui.server.resources import RowOf
from expb_tui.server.store.research_tables import hypotheses, results, work_tasks
from expb_tui.server.work.queue import move, withdraw


def open_gates(unit: Unit, account_id: str, project_id: str) -> None:
    """Let pass what waits at gates of a locked project that are off."""
    rules = load_rules(unit.conn, account_id, project_id)
    if not rules.hypothesis_review:
        for row in _waiting(unit, hypotheses, "proposed", "hypothesis-reviewer", project_id):
            move(unit, HYPOTHESES, [row.id], ["proposed"], "ready")
            start_experiment(unit, unit.fetch(HYPOTHESES, row.id), goes_on=_goes_on(unit, row))
    if not rules.result_review:
        for row in _waiting(unit, results, "reported", "results-reviewer", project_id):
            move(unit, RESULTS, [row.id], ["reported"], "accepted")
            objective = unit.fetch(OBJECTIVES, row.objective_id)
            settle_result(unit, unit.fetch(RESULTS, row.id), objective, goes_on=objective.phase != "closed")


def _waiting(unit: Unit, table: Table, phase: str, role: str, project_id: str) -> list[RowOf]:
    """The records in the queue for a review, oldest first; their review tasks are withdrawn."""
    task = work_tasks.c
    withdraw(unit, select(work_tasks).where(task.project_id == project_id, task.role == role, task.phase == "open"))
    query = select(table).where(table.c.project_id == project_id, table.c.phase == phase)
    return list(unit.conn.execute(query.order_by(table.c.created_at, table.c.id)).all())


def _goes_on(unit: Unit, row: RowOf) -> bool:
    return bool(unit.fetch(OBJECTIVES, row.objective_id).phase != "closed")
