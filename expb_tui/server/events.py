"""The log behind ``/v1/events``: which record changed, never what is in it (contract, section 6.2.9; hazards 15).

``EventLog.record`` runs last before COMMIT. Inside one account the numbers become visible in the order of the commits: SQLite
has one writer, and on PostgreSQL the writer holds a lock of the account until the transaction ends, taken after every
other lock so that it cannot be part of a deadlock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, func, insert, select

from expb_tui.server.store.research_tables import event_log
from expb_tui.wire.events import Invalidation

if TYPE_CHECKING:
    from expb_tui.server.bell import Bell
    from expb_tui.server.context import Change, Unit

_PRIVATE_KINDS = frozenset({"sessions", "personal-profiles", "sign-in-methods"})
"""A person's own records, which are no news for the account."""

_LOCK = select(func.pg_advisory_xact_lock(bindparam("key", type_=BigInteger)))
_WRITE = insert(event_log)
_LAST = select(func.max(event_log.c.id)).where(event_log.c.account_id == bindparam("account_id"))
_KNOWN = select(event_log.c.id).where(
    event_log.c.id == bindparam("event_id"), event_log.c.account_id == bindparam("account_id")
)


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log."""

    id: int
    account_id: str
    project_id: str | None
    api_version: str
    kind: str
    uid: str
    version: int
    action: str
    request_id: str | None

    def invalidation(self) -> dict[str, Any]:
        """The ``data`` of the event."""
        return Invalidation(**{name: getattr(self, name) for name in Invalidation.model_fields}).wire()


_COLUMNS = [event_log.c[field.name] for field in fields(Event)]
_AFTER = (
    select(*_COLUMNS)
    .where(event_log.c.account_id == bindparam("account_id"), event_log.c.id > bindparam("after"))
    .order_by(event_log.c.id)
    .limit(bindparam("at_most"))
)


class EventLog:
    """The ``ChangeLog`` of the server: writes a unit's changes, and rings once they are committed."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell

    def record(self, unit: Unit) -> None:
        """Write what the unit changed, several changes of one record as one event with its last version."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for change in unit.changes:
            account_id = _account_of(change)
            if account_id is None or change.kind.name in _PRIVATE_KINDS:
                continue
            earlier = rows.get((change.kind.name, change.uid))
            rows[change.kind.name, change.uid] = {
                "account_id": account_id,
                "project_id": change.project_id,
                "api_version": change.kind.group,
                "kind": change.kind.name,
                "uid": change.uid,
                "version": change.version,
                "action": earlier["action"] if earlier else change.action,
                "request_id": unit.request_id or None,
                "created_at": unit.now,
            }
        if not rows:
            return
        if unit.database.postgres:
            for account_id in sorted({row["account_id"] for row in rows.values()}):
                unit.conn.execute(_LOCK, {"key": _lock_key(account_id)})
        unit.conn.execute(_WRITE, list(rows.values()))

    def announce(self) -> None:
        """Wake the streams of this process."""
        self._bell.ring()


def last_event_id(conn: Connection, account_id: str) -> int:
    """The newest number of the account, 0 where there is none."""
    return conn.execute(_LAST, {"account_id": account_id}).scalar() or 0


def knows_event(conn: Connection, account_id: str, event_id: int) -> bool:
    """Whether a stream of this account may go on after ``event_id``: it was one of its events and is not pruned yet."""
    return conn.execute(_KNOWN, {"account_id": account_id, "event_id": event_id}).first() is not None


def events_after(conn: Connection, account_id: str, after: int, limit: int) -> Sequence[Event]:
    """The account's events with a higher number, oldest first."""
    rows = conn.execute(_AFTER, {"account_id": account_id, "after": after, "at_most": limit})
    return [Event(*row) for row in rows]


def prune_events(conn: Connection, before: datetime, limit: int) -> int:
    """Delete at most ``limit`` events that are older than ``before``; returns how many."""
    old = select(event_log.c.id).where(event_log.c.created_at < before).order_by(event_log.c.created_at).limit(limit)
    return conn.execute(delete(event_log).where(event_log.c.id.in_(old))).rowcount


def _account_of(change: Change) -> str | None:
    return change.uid if change.kind.name == "accounts" else change.account_id


def _lock_key(account_id: str) -> int:
    return int.from_bytes(hashlib.sha256(b"events\0" + account_id.encode()).digest()[:8], "big", signed=True)
