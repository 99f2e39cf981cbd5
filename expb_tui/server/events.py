"""The log behind ``/v1/events``: which record changed, never what is in it (contract, section 6.2.9; hazards 15).

``record_event`` only notes; ``flush_events``, called last before COMMIT, writes. Inside one account the numbers become
visible in the order of the commits: SQLite has one writer, on PostgreSQL the flush holds a lock of the account until
the transaction ends, taken after every other lock so that it cannot be part of a deadlock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

from sqlalchemy import BigInteger, Connection, bindparam, delete, func, insert, select

from expb_tui.server.store.research_tables import event_log
from expb_tui.wire.base import IDENTITY_GROUP, RESEARCH_GROUP
from expb_tui.wire.events import Invalidation

Action = Literal["create", "update"]

_IDENTITY_KINDS = frozenset(
    {
        "accounts",
        "account-memberships",
        "agent-identities",
        "agent-identity-tokens",
        "projects",
        "project-memberships",
        "agent-authorizations",
        "limits",
    }
)
_PRIVATE_KINDS = frozenset({"sessions", "personal-profiles", "sign-in-methods"})
"""A person's own records, which are no news for the account."""

_noted: WeakKeyDictionary[Connection, dict[tuple[str, str], dict[str, Any]]] = WeakKeyDictionary()

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
    kind: str
    uid: str
    version: int
    action: str
    request_id: str | None

    def invalidation(self) -> dict[str, Any]:
        """The ``data`` of the event."""
        return Invalidation(
            api_version=IDENTITY_GROUP if self.kind in _IDENTITY_KINDS else RESEARCH_GROUP,
            kind=self.kind,
            uid=self.uid,
            account_id=self.account_id,
            project_id=self.project_id,
            version=self.version,
            action=self.action,
            request_id=self.request_id,
        ).wire()


_AFTER = (
    select(*(event_log.c[field.name] for field in fields(Event)))
    .where(event_log.c.account_id == bindparam("account_id"), event_log.c.id > bindparam("after"))
    .order_by(event_log.c.id)
    .limit(bindparam("at_most"))
)


def record_event(
    conn: Connection,
    *,
    kind: str,
    uid: str,
    account_id: str,
    version: int,
    project_id: str | None = None,
    action: Action = "update",
) -> None:
    """Note a change of this transaction; forgotten with it where it is rolled back.

    Several changes of one record in one transaction become one event with the last version.
    """
    if kind in _PRIVATE_KINDS:
        return
    pending = _noted.setdefault(conn, {})
    known = pending.get((kind, uid))
    pending[kind, uid] = {
        "account_id": account_id,
        "project_id": project_id,
        "kind": kind,
        "uid": uid,
        "version": version,
        "action": known["action"] if known else action,
    }


def flush_events(conn: Connection, now: datetime, request_id: str | None = None) -> frozenset[str]:
    """Write what was noted, as the last act before COMMIT; returns the accounts that have news (often none)."""
    pending = _noted.pop(conn, None)
    if not pending:
        return frozenset()
    rows = [{**row, "request_id": request_id, "created_at": now} for row in pending.values()]
    accounts = frozenset(row["account_id"] for row in rows)
    if conn.dialect.name == "postgresql":
        for account_id in sorted(accounts):
            conn.execute(_LOCK, {"key": _lock_key(account_id)})
    conn.execute(_WRITE, rows)
    return accounts


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


def _lock_key(account_id: str) -> int:
    return int.from_bytes(hashlib.sha256(b"events\0" + account_id.encode()).digest()[:8], "big", signed=True)
