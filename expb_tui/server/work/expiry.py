"""Leases that ran out: judged at every access, written down in small batches (hazards 11).

Reads show an overdue package as expired (``packages.package_envelope``); assignment writes the expiries of its project
first; the sweeper finds the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from expb_tui.server.context import SERVICE, Unit
from expb_tui.server.identity.kinds import AGENT_IDENTITIES, PROJECTS
from expb_tui.server.resources import Kind, RowOf
from expb_tui.server.store.research_tables import work_packages
from expb_tui.server.work.packages import WORK_PACKAGES, is_overdue, open_tasks, write_expired
from expb_tui.server.work.queue import give_back

if TYPE_CHECKING:
    from expb_tui.server.context import Services
    from expb_tui.server.store.database import Database

BATCH = 20
"""Packages that one access or one round of the sweeper expires at most."""

_PACKAGE = work_packages.c


def expire_package(unit: Unit, row: RowOf) -> bool:
    """Write the expiry of a locked package and give its open tasks back; False if it is not overdue."""
    if not is_overdue(row, unit.now) or not write_expired(unit, row):
        return False
    acting, unit.actor = unit.actor, SERVICE
    try:
        give_back(unit, open_tasks(row), failed=True, why="The last one ran out of its lease.")
    finally:
        unit.actor = acting
    return True


def expire_project(unit: Unit, project_id: str) -> int:
    """Expire overdue packages of a locked project, at most ``BATCH``; returns how many."""
    overdue = (
        select(_PACKAGE.id)
        .where(_PACKAGE.project_id == project_id, _PACKAGE.phase == "active", _PACKAGE.expires_at <= unit.now)
        .order_by(_PACKAGE.expires_at)
        .limit(BATCH)
    )
    found = unit.conn.execute(overdue).scalars().all()
    return sum(expire_package(unit, unit.fetch(WORK_PACKAGES, uid, lock=True)) for uid in found)


def sweep(services: Services) -> int:
    """Expire up to ``BATCH`` overdue packages of any project, each in a transaction of its own; returns how many."""
    return sweep_database(services.database)


def sweep_database(database: Database) -> int:
    """As ``sweep``."""
    with database.read() as conn:
        now = database.clock(conn)
        overdue = (
            select(_PACKAGE.id, _PACKAGE.project_id, _PACKAGE.agent_id)
            .where(_PACKAGE.phase == "active", _PACKAGE.expires_at <= now)
            .order_by(_PACKAGE.expires_at)
            .limit(BATCH)
        )
        found = conn.execute(overdue).all()
    expired = 0
    for row in found:
        with database.write() as conn:
            unit = Unit(conn, database)
            lock_project(unit, row.project_id)
            lock_agent(unit, row.agent_id)
            package = unit.fetch(WORK_PACKAGES, row.id, lock=True)
            unit.read_clock()
            expired += expire_package(unit, package)
    return expired


def lock_project(unit: Unit, project_id: str) -> RowOf | None:
    """The project's row, locked: the first lock of all."""
    return _locked(unit, PROJECTS, project_id)


def lock_agent(unit: Unit, agent_id: str) -> RowOf | None:
    """The agent's row, locked: the second lock."""
    return _locked(unit, AGENT_IDENTITIES, agent_id)


def _locked(unit: Unit, kind: Kind, uid: str) -> RowOf | None:
    query = kind.fetching_locked if unit.database.postgres else kind.fetching
    return unit.conn.execute(query, {"of_uid": uid}).one_or_none()
