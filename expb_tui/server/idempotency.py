"""Idempotency keys (contract, section 1.6): one answer for one key, kept in the transaction that made it.

The row is inserted first, so that a concurrent duplicate waits on it and then reads the answer. 401, 429 and 5xx are
never stored. A refusal rolls its transaction back and is stored in one of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from expb_tui.server.context import Caller
from expb_tui.server.problems import Problem
from expb_tui.server.store.database import Database
from expb_tui.server.store.schema import idempotency_records

LONGEST_KEY = 200
_NEVER_STORED = frozenset({401, 429})
SECRET_KEYS = frozenset(
    {
        "token",
        "lease_token",
        "leaseToken",
        "access_token",
        "accessToken",
        "refresh_token",
        "refreshToken",
        "invitationToken",
    }
)
_SECRET_KEY = re.compile(rb'"(?:%s)":' % "|".join(sorted(SECRET_KEYS)).encode())
KEPT_HEADERS = frozenset({"ETag", "Location", "Cache-Control"})

_RECORD = idempotency_records.c
_SQLITE_OPEN = sqlite_insert(idempotency_records).on_conflict_do_nothing()
_POSTGRES_OPEN = postgres_insert(idempotency_records).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
_READ = select(_RECORD.digest, _RECORD.status, _RECORD.headers, _RECORD.body).where(
    _RECORD.scope == bindparam("of_scope")
)
_CLOSE = update(idempotency_records).where(_RECORD.scope == bindparam("of_scope"))
_DROP = delete(idempotency_records).where(_RECORD.scope == bindparam("of_scope"))


@dataclass(frozen=True, slots=True)
class Ticket:
    """One use of a key: the stored scope, the digest of the body, and when the record may go."""

    scope: bytes
    digest: bytes
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Stored:
    """An earlier answer; ``body`` is None where it was not kept."""

    status: int
    headers: dict[str, str]
    body: bytes | None


def ticket(
    key: str | None, caller: Caller, method: str, path: str, body: bytes, now: datetime, keep_seconds: int
) -> Ticket:
    """The use of a key. Raises 422 ``validation`` where it is missing or too long."""
    if not key or len(key.encode("utf-8", "surrogatepass")) > LONGEST_KEY:
        wrong = "is required" if not key else f"must be at most {LONGEST_KEY} bytes"
        raise Problem(422, "validation", "Send an Idempotency-Key.", fields={"Idempotency-Key": wrong}, shape=True)
    who = caller.user_id or caller.agent_id or ""
    parts = (caller.scope, caller.credential_id, who, caller.account_id, method, path, key)
    scope = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return Ticket(scope, body_digest(body), now + timedelta(seconds=keep_seconds))


def body_digest(body: bytes) -> bytes:
    """SHA-256 of the JSON value: white space and the order of keys do not matter."""
    value = from_json(body) if body else None
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def open_record(database: Database, conn: Connection, use: Ticket) -> Stored | None:
    """Take the key, or return the answer that it got. Waits for a duplicate in flight; raises 409 for another body."""
    statement = _POSTGRES_OPEN if database.postgres else _SQLITE_OPEN
    values = {"scope": use.scope, "digest": use.digest, "expires_at": use.expires_at}
    if conn.execute(statement, values).rowcount == 1:
        return None
    row = conn.execute(_READ, {"of_scope": use.scope}).one_or_none()
    if row is None or row.status is None:
        raise Problem(
            409, "idempotency-in-progress", "The same request is still running.", headers={"Retry-After": "1"}
        )
    if row.digest != use.digest:
        raise Problem(409, "idempotency-conflict", "This Idempotency-Key was used with another body.")
    return Stored(row.status, json.loads(row.headers), row.body)


def close_record(
    conn: Connection, use: Ticket, status: int, headers: Mapping[str, str], value: Any, *, keep_body: bool
) -> None:
    """Keep the answer, without its secrets."""
    kept = {name: text for name, text in headers.items() if name in KEPT_HEADERS}
    conn.execute(
        _CLOSE,
        {
            "of_scope": use.scope,
            "status": status,
            "headers": json.dumps(kept),
            "body": stored_body(value) if keep_body else None,
        },
    )


def stored_body(value: Any) -> bytes:
    """The JSON text of an answer without its secrets. One-time data is at the top, so the depths are seldom walked."""
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if key not in SECRET_KEYS}
    text = to_json(value)
    return text if _SECRET_KEY.search(text) is None else to_json(without_secrets(value))


def drop_record(conn: Connection, use: Ticket) -> None:
    """Give the key back: its answer is not one to repeat."""
    conn.execute(_DROP, {"of_scope": use.scope})


def is_kept(status: int) -> bool:
    """Whether an answer of this status is stored; those that a repeat may change are not."""
    return status < 500 and status not in _NEVER_STORED


def without_secrets(value: Any) -> Any:
    """The JSON value without one-time credentials at any depth; labels may be called what they like."""
    if isinstance(value, dict):
        return {
            key: part if key == "labels" else without_secrets(part)
            for key, part in value.items()
            if key not in SECRET_KEYS
        }
    if isinstance(value, list):
        return [without_secrets(part) for part in value]
    return value
