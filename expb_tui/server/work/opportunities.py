"""Work on offer to one agent, and why there is none (contract, section 6.2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from expb_tui.server.research.settings import load_rules
from expb_tui.server.work.stocktaking import read_whole_supply
from expb_tui.server.work.supply import Supply
from expb_tui.wire.work import ROLES, Opportunity


def opportunities(
    conn: Connection,
    grants: Iterable[Any],
    agent_id: str,
    now: datetime,
    *,
    role: str | None = None,
    all_roles: bool = False,
    self_review: bool = True,
) -> list[dict[str, Any]]:
    """One item per project and granted role that has work, by project name then role.

    ``grants`` are project rows with the agent's ``roles`` in them. ``all_roles`` adds the roles without work, with
    their causes. Nothing is reserved.
    """
    items: list[Opportunity] = []
    for project in grants:
        rules = load_rules(conn, project.account_id, project.id)
        supply = read_whole_supply(conn, project, agent_id, rules, now, self_review=self_review)
        roles = [granted for granted in project.roles if granted in ROLES and role in (None, granted)]
        items += [_item(project, granted, supply) for granted in roles]
    shown = [item for item in items if item.available or all_roles]
    shown.sort(key=lambda item: (item.project_name.casefold(), item.project_id, item.role))
    return [item.wire() for item in shown]


def _item(project: Any, role: str, supply: Supply) -> Opportunity:
    available, objective_ids, pause = supply.offer(role)
    return Opportunity(
        project_id=project.id,
        project_name=project.name,
        role=role,
        available=available,
        active_packages=supply.usage.packages,
        objective_ids=objective_ids,
        blocked_by=[] if available else supply.causes(role),
        retry_after_seconds=pause,
    )
