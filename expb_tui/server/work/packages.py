"""Work packages as rows and as resources (contract, section 6.2.3), and what becomes of the tasks in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy import update

from expb_tui.server.context import SERVICE, Unit
from expb_tui.server.resources import Kind, RowOf, envelope
from expb_tui.server.store.research_tables import work_packages
from expb_tui.wire.base import RESEARCH_GROUP, instant_text

Task = dict[str, Any]
"""One entry of a package: ``taskId``, ``role``, ``phase``, ``input``, and what was submitted."""


def _lease(row: RowOf) -> dict[str, Any]:
    return {
        "issuedAt": instant_text(row.issued_at),
        "expiresAt": instant_text(row.expires_at),
        "absoluteExpiresAt": instant_text(row.absolute_expires_at),
        "leaseSeconds": row.lease_seconds,
        "renewals": row.renewals,
    }


WORK_PACKAGES = Kind(
    "work-packages",
    RESEARCH_GROUP,
    work_packages,
    project=True,
    spec=lambda row: {"role": row.role, "agentId": row.agent_id, "maxTasks": row.max_tasks},
    status=lambda row: {"lease": _lease(row), "tasks": row.tasks},
    fields={
        "spec.role": work_packages.c.role,
        "spec.agentId": work_packages.c.agent_id,
        "status.lease.expiresAt": work_packages.c.expires_at,
    },
)


def empty_package(project_id: str, role: str, max_tasks: int) -> dict[str, Any]:
    """The normal answer where there is no work: no invented identity, no token."""
    return {
        "resource": {
            "apiVersion": WORK_PACKAGES.group,
            "kind": WORK_PACKAGES.name,
            "metadata": {"project": project_id},
            "spec": {"role": role, "maxTasks": max_tasks},
            "status": {"phase": "empty", "tasks": []},
        }
    }


def is_overdue(row: RowOf, now: datetime) -> bool:
    """Whether the lease ran out and nobody has written that down yet."""
    return bool(row.phase == "active" and row.expires_at <= now)


def expired_columns(row: RowOf) -> dict[str, Any]:
    """What the expiry of a package changes in its row, whoever notices it and whenever."""
    return {
        "phase": "expired",
        "version": row.version + 1,
        "updated_at": row.expires_at,
        "modified_by_type": SERVICE.type,
        "modified_by": SERVICE.id,
        "tasks": with_phase(row.tasks, open_tasks(row), "expired"),
    }


def package_envelope(row: RowOf, now: datetime) -> dict[str, Any]:
    """The package as it is at ``now``: one past its lease shows as expired, exactly as it will be stored."""
    if is_overdue(row, now):
        # For mypy: reads like a row.
        return envelope(WORK_PACKAGES, SimpleNamespace(**{**row._mapping, **expired_columns(row)}))  # type: ignore[arg-type]
    return envelope(WORK_PACKAGES, row)


def open_tasks(row: RowOf) -> list[str]:
    """The ids of the package's tasks that nobody submitted."""
    return [task["taskId"] for task in row.tasks if task["phase"] == "assigned"]


def with_phase(tasks: list[Task], ids: Collection[str], phase: str, **more: Any) -> list[Task]:
    """The tasks with those of ``ids`` moved to ``phase``; ``more`` are further keys for them."""
    return [{**task, "phase": phase, **more} if task["taskId"] in ids else task for task in tasks]


def after_change(tasks: list[Task]) -> str:
    """The phase of an active package whose tasks were changed: ``completed`` once none is left to do."""
    return "active" if any(task["phase"] == "assigned" for task in tasks) else "completed"


def revoke_tasks(unit: Unit, withdrawn: Mapping[str, str], keep: str = "") -> None:
    """Show tasks that were withdrawn from the loop as revoked in the packages that hold them.

    ``withdrawn`` maps task to package id; the package ``keep`` is left to the caller, who is changing it anyway.
    """
    by_package: dict[str, set[str]] = {}
    for task_id, package_id in withdrawn.items():
        if package_id != keep:
            by_package.setdefault(package_id, set()).add(task_id)
    for package_id in sorted(by_package):
        row = unit.fetch(WORK_PACKAGES, package_id, lock=True)
        tasks = with_phase(row.tasks, by_package[package_id], "revoked")
        unit.update(WORK_PACKAGES, row, tasks=tasks, phase=after_change(tasks))


def write_expired(unit: Unit, row: RowOf) -> bool:
    """Store the expiry of a package; False where it was renewed or ended meanwhile."""
    table = work_packages.c
    statement = (
        update(work_packages)
        .where(table.id == row.id, table.version == row.version, table.phase == "active")
        .values(**expired_columns(row))
        .returning(work_packages)
    )
    changed = unit.conn.execute(statement).one_or_none()
    if changed is None:
        return False
    unit.changed(WORK_PACKAGES, changed)
    return True
