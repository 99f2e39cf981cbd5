"""Assignment: open tasks become a work package with a lease (contract, section 6.2.3).

The project is locked first, so that one task is never given twice and no limit is passed; then the agent, so that a
revoked authorization blocks at once; then the clock is read (hazards 11).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from expb_tui.server.context import Unit
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.problems import Problem, invalid, not_found
from expb_tui.server.research.settings import RoleRules, load_rules
from expb_tui.server.resources import RowOf
from expb_tui.server.store.research_tables import claim_windows
from expb_tui.server.store.schema import agent_authorizations, agent_identities
from expb_tui.server.work.expiry import expire_project, lock_project
from expb_tui.server.work.inputs import Candidate, build_input, fitting, open_tasks
from expb_tui.server.work.packages import WORK_PACKAGES
from expb_tui.server.work.queue import mark_assigned
from expb_tui.server.work.stocktaking import read_supply
from expb_tui.server.work.supply import Supply
from expb_tui.wire.work import ROLES, canonical_role

_GRANT = (
    select(agent_authorizations.c.roles, agent_authorizations.c.phase)
    .join(agent_identities, agent_identities.c.id == agent_authorizations.c.agent_id)
    .where(
        agent_authorizations.c.project_id == bindparam("of_project"),
        agent_authorizations.c.agent_id == bindparam("of_agent"),
    )
)
_GRANT_LOCKED = _GRANT.with_for_update(key_share=True)


class Assignment:
    """What a request for work led to: a package with its token, or none and how many tasks might have been in it."""

    def __init__(self, max_tasks: int, package: RowOf | None = None, token: str = "") -> None:
        self.max_tasks = max_tasks
        self.package = package
        self.token = token


def assign(
    unit: Unit, *, account_id: str, project_id: str, agent_id: str, role: str, max_tasks: int, self_review: bool
) -> Assignment:
    """Give an agent up to ``max_tasks`` tasks of a role, under one lease.

    Raises 404 without an active authorization in the project, 403 ``role-not-authorized``, 422 for an unknown role, 409
    ``project-inactive``, 409 ``limit-exceeded`` where a limit keeps back work that is there, 429 ``rate-limited``.
    """
    role = _known_role(role)
    project = _lock(unit, account_id, project_id, agent_id, role)
    unit.read_clock()
    if project.phase != "active":
        raise Problem(409, "project-inactive", "The project is not active.")
    rules = load_rules(unit.conn, account_id, project_id)
    config = rules.role(role)
    supply = read_supply(unit.conn, project, agent_id, rules, unit.now, role)
    if supply.usage.overdue:
        expire_project(unit, project_id)
        supply = read_supply(unit.conn, project, agent_id, rules, unit.now, role)
    if pause := supply.request_pause():
        raise _rate_limited("The agent asks for work too often.", pause)
    if rules.limit("requests-per-minute") is not None:
        _count_request(unit, project_id, agent_id, supply)
    wanted = min(max_tasks, config.max_tasks)
    if supply.shut(role, config):
        return Assignment(wanted)
    tasks = open_tasks(
        unit.conn, project_id, agent_id, role, ordering=config.ordering, self_review=self_review, limit=wanted
    )
    if not tasks:
        return Assignment(wanted)
    room, limit = supply.room(role, config)
    if not room:
        raise Problem(409, "limit-exceeded", "There is work, but a limit is used up.", fields={"limit": limit})
    if pause := supply.assignment_pause(role, config):
        raise _rate_limited("The role gives out work at intervals.", pause)
    return _issue(unit, project, agent_id, role, config, fitting(tasks[: min(wanted, room)]), wanted)


def _known_role(role: str) -> str:
    known = canonical_role(role)
    if known not in ROLES:
        raise invalid({"role": f"must be one of {', '.join(ROLES)}"})
    return known


def _lock(unit: Unit, account_id: str, project_id: str, agent_id: str, role: str) -> RowOf:
    project = lock_project(unit, project_id)
    if project is None or project.account_id != account_id:
        raise not_found()
    grant = unit.conn.execute(
        _GRANT_LOCKED if unit.database.postgres else _GRANT, {"of_project": project_id, "of_agent": agent_id}
    ).one_or_none()
    if grant is None or grant.phase != "active":
        raise not_found()
    if role not in grant.roles:
        raise Problem(403, "role-not-authorized", f"The agent is not authorized as {role} in this project.")
    return project


def _rate_limited(detail: str, seconds: int) -> Problem:
    return Problem(429, "rate-limited", detail, headers={"Retry-After": str(seconds)})


def _count_request(unit: Unit, project_id: str, agent_id: str, supply: Supply) -> None:
    """Count this request in the agent's window; a new window begins where the last one is over."""
    period = timedelta(seconds=supply.rules.period("requests-per-minute"))
    opened, count = supply.claims or (unit.now, 0)
    if unit.now >= opened + period:
        opened, count = unit.now, 0
    values = {"project_id": project_id, "agent_id": agent_id, "opened_at": opened, "claims": count + 1}
    insert: Any = postgres_insert if unit.database.postgres else sqlite_insert
    changed = {"opened_at": opened, "claims": count + 1}
    unit.conn.execute(
        insert(claim_windows)
        .values(values)
        .on_conflict_do_update(index_elements=["project_id", "agent_id"], set_=changed)
    )


def _issue(
    unit: Unit,
    project: RowOf,
    agent_id: str,
    role: str,
    config: RoleRules,
    candidates: list[Candidate],
    wanted: int,
) -> Assignment:
    uid, token = str(uuid4()), new_secret()
    lease = timedelta(seconds=config.lease_seconds)
    absolute = unit.now + timedelta(seconds=config.absolute_lease_seconds)
    moved = mark_assigned(unit, role, [candidate.task for candidate in candidates], uid)
    for candidate in candidates:
        candidate.renew(moved)
    tasks = [
        {
            "taskId": candidate.task.id,
            "role": role,
            "phase": "assigned",
            "input": build_input(unit.conn, candidate, project, config.instructions),
        }
        for candidate in candidates
    ]
    row = unit.insert(
        WORK_PACKAGES,
        uid=uid,
        account_id=project.account_id,
        project_id=project.id,
        agent_id=agent_id,
        role=role,
        max_tasks=wanted,
        issued_at=unit.now,
        expires_at=min(unit.now + lease, absolute),
        absolute_expires_at=absolute,
        lease_seconds=config.lease_seconds,
        renewals=0,
        token_verifier=verifier(token),
        tasks=tasks,
    )
    return Assignment(wanted, row, token)
