"""What a journaled package is at this moment: its state, why, and what the operator can do."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from expb_tui.core.clock import Clock
from expb_tui.core.leases.credentials import NEXT_STEP
from expb_tui.core.leases.model import OVERDUE_SHARE, HeldPackage, HeldTask, LeaseState, Receipt
from expb_tui.core.leases.schema import PackageRow, tasks_in

_BY_PHASE = {
    "completed": LeaseState.COMPLETED,
    "released": LeaseState.RELEASED,
    "revoked": LeaseState.REVOKED,
    "expired": LeaseState.EXPIRED,
}
_KEPT = "Drafts stay; request new work to go on"
TOKEN_LOST_STEP = (
    "It ends by itself; a project member can withdraw it now, or adopt the saved answer of the claim, if there is one"  # noqa: S105
)


def held_of(
    row: PackageRow,
    *,
    clock: Clock,
    credential_problem: str = "",
    receipts: Mapping[str, Receipt] | None = None,
    drafted: Container[str] = frozenset(),
    drafted_before: Container[str] = frozenset(),
    sending: bool = False,
) -> HeldPackage:
    """The package for a face; ``receipts`` and ``drafted`` by task id, ``credential_problem`` from ``ProfileLook``.

    ``drafted_before`` are tasks that have a draft of any package: it is offered where the task comes again.
    """
    state, reason, step = _state(row, clock, credential_problem)
    return HeldPackage(
        uid=row.uid,
        endpoint=row.pin.endpoint,
        account_id=row.pin.account_id,
        agent_id=row.pin.agent_id,
        project_id=row.project_id,
        project_name=row.project_name,
        role=row.role,
        profile_name=row.pin.profile_name,
        profile_file=row.pin.profile_file,
        state=state,
        reason=reason,
        next_step=step,
        version=row.version,
        phase=row.phase,
        times=row.times,
        renewals=row.renewals,
        tasks=_tasks(row, receipts or {}, drafted, drafted_before),
        has_token=row.token is not None,
        claimed_at=row.claimed_at,
        last_answer_at=row.answered_at,
        row_id=row.id,
        sending=sending,
        kept=row.kept,
        keeping_problem=row.keeping_problem,
    )


def _state(row: PackageRow, clock: Clock, credential_problem: str) -> tuple[LeaseState, str, str]:
    if row.phase in _BY_PHASE:
        reasons = {
            "revoked": ("A project member revoked it", _KEPT),
            "expired": ("The lease ran out with open tasks", _KEPT),
        }
        reason, step = reasons.get(row.phase, ("", ""))
        return _BY_PHASE[row.phase], reason, step
    if row.lost_code:
        return LeaseState.LOST, row.lost_reason, _KEPT
    times = row.times
    left = times.remaining(clock) if times else None
    if times is not None and left is not None and left <= 0:
        sure = times.verified()
        return (
            LeaseState.EXPIRED,
            "The lease ran out" if sure else "The lease ran out, by this host's clock",
            _KEPT if sure else "Show it to be sure",
        )
    if row.token is None:
        return (
            LeaseState.TOKEN_LOST,
            "The lease token is not here: its answer never arrived, or was lost with the journal",
            TOKEN_LOST_STEP,
        )
    if credential_problem:
        return LeaseState.NO_CREDENTIAL, credential_problem, NEXT_STEP
    late = times is not None and left is not None and not times.capped and left < times.lease_seconds * OVERDUE_SHARE
    if late and row.kept:
        return LeaseState.OVERDUE, "No renewal has been confirmed in time", "Renew it now, or submit"
    return LeaseState.ACTIVE, "", ""


def _tasks(
    row: PackageRow, receipts: Mapping[str, Receipt], drafted: Container[str], before: Container[str]
) -> tuple[HeldTask, ...]:
    out = []
    for item in tasks_in(row.document or {}):
        task_id = _text(item, "taskId", "task_id")
        given = item.get("input")
        out.append(
            HeldTask(
                task_id,
                _text(item, "role") or row.role,
                _text(item, "phase"),
                given if isinstance(given, dict) else {},
                _text(item, "recordId", "record_id") or None,
                _text(item, "outputSha256", "output_sha256") or None,
                task_id in drafted,
                task_id not in drafted and task_id in before,
                receipts.get(task_id),
            )
        )
    return tuple(out)


def _text(item: Mapping[str, Any], *keys: str) -> str:
    return next((value for key in keys if isinstance(value := item.get(key), str)), "")
