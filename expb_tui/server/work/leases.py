"""Renewing, releasing and revoking a package (contract, section 6.2.4; hazards 16).

Who holds the lease is decided by the token; when it ends, by the database clock read after the last lock.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import timedelta

from expb_tui.server.context import Unit
from expb_tui.server.identity.authentication import verifier
from expb_tui.server.problems import Problem, not_found
from expb_tui.server.resources import RowOf
from expb_tui.server.work.expiry import lock_agent, lock_project
from expb_tui.server.work.packages import WORK_PACKAGES, open_tasks, with_phase
from expb_tui.server.work.queue import give_back
from expb_tui.wire.work import LEASE_HEADER

HEADERS = (LEASE_HEADER.lower(), "lease-token")
_LONGEST_TOKEN = 512


def lease_token(headers: Mapping[str, str]) -> str:
    """The lease token of a request. Raises 400 ``lease-token-required``."""
    for name in HEADERS:
        if token := headers.get(name, ""):
            return token
    raise Problem(400, "lease-token-required", f"Send the package's lease token in {LEASE_HEADER}.")


def lock_package(unit: Unit, package_id: str, agent_id: str | None = None) -> RowOf:
    """The package, locked after its project and its agent, with the clock read after that.

    Raises 404 for an unknown one, and for one that is not ``agent_id``'s where that is given.
    """
    found = unit.fetch(WORK_PACKAGES, package_id)
    if agent_id is not None and found.agent_id != agent_id:
        raise not_found()
    lock_project(unit, found.project_id)
    lock_agent(unit, found.agent_id)
    row = unit.fetch(WORK_PACKAGES, package_id, lock=True) if unit.database.postgres else found
    unit.read_clock()
    return row


def check_token(row: RowOf, token: str) -> None:
    """Raises 409 ``lease-conflict`` unless the token is this package's."""
    if len(token) > _LONGEST_TOKEN or not hmac.compare_digest(verifier(token), row.token_verifier):
        raise Problem(409, "lease-conflict", "The lease token is not this package's.")


def check_active(unit: Unit, row: RowOf) -> None:
    """Raises 409 ``lease-expired`` once the lease time passed, ``lease-conflict`` where the package ended otherwise."""
    if row.phase == "expired" or (row.phase == "active" and row.expires_at <= unit.now):
        raise Problem(409, "lease-expired", "The lease ran out; its open tasks go back to the queue.")
    if row.phase != "active":
        raise Problem(409, "lease-conflict", f"The package is {row.phase}.")


def renew(unit: Unit, package_id: str, agent_id: str, token: str) -> RowOf:
    """Move the end of the lease to now plus the lease time, at most to its absolute end.

    Raises 404, 409 ``lease-conflict``, ``lease-expired``, ``lease-limit`` (the end cannot move any further).
    """
    row = lock_package(unit, package_id, agent_id)
    check_token(row, token)
    check_active(unit, row)
    if row.expires_at >= row.absolute_expires_at:
        raise Problem(409, "lease-limit", "The lease has reached its absolute end; submit before it.")
    end = min(unit.now + timedelta(seconds=row.lease_seconds), row.absolute_expires_at)
    return unit.update(WORK_PACKAGES, row, expires_at=max(end, row.expires_at), renewals=row.renewals + 1)


def release(unit: Unit, row: RowOf) -> RowOf:
    """Give a locked, active package back; its open tasks return to the queue without a mark against them."""
    return _end(unit, row, "released")


def revoke(unit: Unit, row: RowOf) -> RowOf:
    """Withdraw a locked, active package from its agent; the open tasks return to the queue as in a release."""
    return _end(unit, row, "revoked")


def _end(unit: Unit, row: RowOf, phase: str) -> RowOf:
    check_active(unit, row)
    still_open = open_tasks(row)
    ended = unit.update(WORK_PACKAGES, row, phase=phase, tasks=with_phase(row.tasks, still_open, phase))
    give_back(unit, still_open, failed=False)
    return ended
