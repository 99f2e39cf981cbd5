"""A held package and a clock without a journal, for presenters and judgements."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from expb_tui.core.clock import boot_id
from expb_tui.core.leases.model import HeldPackage, HeldTask, LeaseState, LeaseTimes

NOW = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)


class FixedClock:
    """Stands still until ``at`` is changed."""

    def __init__(self, ticks: float = 1000.0) -> None:
        self.at = ticks

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.at - 1000.0)

    def ticks(self) -> float:
        return self.at


def held(
    left: float = 900.0, state: LeaseState = LeaseState.ACTIVE, length: float = 900.0, **changes: object
) -> HeldPackage:
    """An experimenter's package: two tasks, one submitted; ``left`` and ``length`` in seconds, its end in 4 h."""
    times = LeaseTimes(
        expires_at=NOW + timedelta(seconds=left + 1),
        absolute_expires_at=NOW + timedelta(hours=4),
        lease_seconds=length,
        server_date=NOW,
        sent_wall=NOW,
        sent_ticks=1000.0,
        sent_boot=boot_id(),
    )
    package = HeldPackage(
        uid="wp-1",
        endpoint="https://bench.example.test",
        account_id="acc-1",
        agent_id="agt-1",
        project_id="prj-1",
        project_name="checkout-latency",
        role="experimenter",
        profile_name="researcher",
        profile_file="/home/x/profiles.json",
        state=state,
        reason="",
        next_step="",
        version=1,
        phase="active",
        times=times,
        renewals=0,
        tasks=(HeldTask("task-1", "experimenter", "assigned"), HeldTask("task-2", "experimenter", "submitted")),
        has_token=True,
        claimed_at=NOW,
        last_answer_at=NOW,
    )
    return replace(package, **changes)  # type: ignore[arg-type]  # the tests name real fields
