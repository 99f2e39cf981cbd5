"""The tables of the journal, and their rows as values."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from expb_tui.core.leases.model import LeaseTimes, Receipt
from expb_tui.core.leases.owner import Owner
from expb_tui.core.secret import SecretStr

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE package (
          id INTEGER PRIMARY KEY AUTOINCREMENT,
          endpoint TEXT NOT NULL, uid TEXT NOT NULL,
          account_id TEXT NOT NULL, agent_id TEXT NOT NULL, credential_id TEXT NOT NULL,
          profile_name TEXT NOT NULL, profile_file TEXT NOT NULL,
          project_id TEXT NOT NULL, project_name TEXT NOT NULL, role TEXT NOT NULL,
          version INTEGER NOT NULL, phase TEXT NOT NULL, token TEXT, document TEXT NOT NULL,
          expires_at TEXT, absolute_expires_at TEXT, lease_seconds REAL, server_date TEXT,
          sent_wall TEXT, sent_ticks REAL, sent_boot TEXT, renewals INTEGER NOT NULL,
          lost_code TEXT NOT NULL DEFAULT '', lost_reason TEXT NOT NULL DEFAULT '',
          claimed_at TEXT NOT NULL, answered_at TEXT NOT NULL,
          UNIQUE (endpoint, uid))
        """,
        """
        CREATE TABLE intent (
          id INTEGER PRIMARY KEY AUTOINCREMENT,
          kind TEXT NOT NULL, key TEXT NOT NULL, route TEXT NOT NULL, body TEXT, body_sha256 TEXT NOT NULL,
          endpoint TEXT NOT NULL, account_id TEXT NOT NULL, agent_id TEXT NOT NULL, credential_id TEXT NOT NULL,
          profile_name TEXT NOT NULL, profile_file TEXT NOT NULL,
          project_id TEXT NOT NULL, project_name TEXT NOT NULL, role TEXT NOT NULL,
          package_uid TEXT NOT NULL, task_id TEXT NOT NULL,
          owner_host TEXT NOT NULL, owner_boot TEXT NOT NULL, owner_pid INTEGER NOT NULL, owner_start TEXT NOT NULL,
          created_wall TEXT NOT NULL, created_ticks REAL NOT NULL, created_boot TEXT NOT NULL,
          given_up INTEGER NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '', settled_at TEXT)
        """,
        "CREATE INDEX intent_open ON intent (endpoint, agent_id) WHERE settled_at IS NULL",
        """
        CREATE TABLE draft (
          package_uid TEXT NOT NULL, task_id TEXT NOT NULL, content TEXT NOT NULL, yaml TEXT,
          updated_at TEXT NOT NULL, PRIMARY KEY (package_uid, task_id))
        """,
        """
        CREATE TABLE receipt (
          id INTEGER PRIMARY KEY AUTOINCREMENT,
          endpoint TEXT NOT NULL, package_uid TEXT NOT NULL, task_id TEXT NOT NULL, role TEXT NOT NULL,
          project_name TEXT NOT NULL, outcome TEXT NOT NULL, submitted_at TEXT NOT NULL,
          record_kind TEXT NOT NULL, record_id TEXT NOT NULL, output_sha256 TEXT NOT NULL,
          request_id TEXT NOT NULL, confirmed_by TEXT NOT NULL,
          UNIQUE (endpoint, package_uid, task_id))
        """,
    ),
    (
        "ALTER TABLE package ADD COLUMN kept INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE package ADD COLUMN keeping_problem TEXT NOT NULL DEFAULT ''",
        # Numbers each write of a row, whoever writes it, so that a renewer reads what changed and nothing else.
        "ALTER TABLE package ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX package_changed ON package (changed)",
        "CREATE INDEX package_uid ON package (uid)",
        """
        CREATE TRIGGER package_begun AFTER INSERT ON package BEGIN
          UPDATE package SET changed = (SELECT max(changed) + 1 FROM package) WHERE id = NEW.id;
        END
        """,
        """
        CREATE TRIGGER package_written AFTER UPDATE ON package WHEN NEW.changed = OLD.changed BEGIN
          UPDATE package SET changed = (SELECT max(changed) + 1 FROM package) WHERE id = NEW.id;
        END
        """,
    ),
)
"""The statements that lead from each schema version (``PRAGMA user_version``) to the next."""


def instant(value: datetime | None) -> str | None:
    """An instant as stored."""
    return None if value is None else value.astimezone(UTC).isoformat()


def from_instant(text: str | None) -> datetime | None:
    """An instant as read."""
    return None if text is None else datetime.fromisoformat(text)


def _needed(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class Pin:
    """Whom a request speaks for: what a package and an intent are tied to (hazards 4 and 6)."""

    endpoint: str
    account_id: str
    agent_id: str
    credential_id: str
    profile_name: str
    profile_file: str


LEASE_COLUMNS = (
    "id, endpoint, account_id, agent_id, credential_id, profile_name, profile_file, uid, project_id, project_name,"
    " role, version, phase, token, expires_at, absolute_expires_at, lease_seconds, server_date, sent_wall, sent_ticks,"
    " sent_boot, renewals, lost_code, lost_reason, claimed_at, answered_at, kept, keeping_problem, changed"
)
"""A package without its document, which is most of it and of no interest to a renewal."""
_PIN = ("endpoint", "account_id", "agent_id", "credential_id", "profile_name", "profile_file")


@dataclass(frozen=True)
class PackageRow:
    """A package as journaled. ``token`` is None where it never arrived or the package has ended."""

    pin: Pin
    uid: str
    project_id: str
    project_name: str
    role: str
    version: int
    phase: str
    token: SecretStr | None
    document: dict[str, Any] | None = field(repr=False)
    """What the server told; None where it is not read, or tells nothing new about the tasks."""
    times: LeaseTimes | None
    renewals: int
    claimed_at: datetime
    answered_at: datetime
    lost_code: str = ""
    lost_reason: str = ""
    id: int = 0
    kept: bool = True
    """Renewers of this host look after it; a person says so, never an answer."""
    keeping_problem: str = ""
    """Why they cannot: said by a keeper before the first renewal is due."""

    def columns(self) -> dict[str, Any]:
        """What answers write of a row, as SQLite stores it."""
        times = self.times
        return {
            **{name: getattr(self.pin, name) for name in _PIN},
            "uid": self.uid,
            "project_id": self.project_id,
            "project_name": self.project_name,
            "role": self.role,
            "version": self.version,
            "phase": self.phase,
            "token": self.token.get_secret_value() if self.token else None,
            **({} if self.document is None else {"document": json.dumps(self.document, ensure_ascii=True)}),
            "expires_at": instant(times.expires_at) if times else None,
            "absolute_expires_at": instant(times.absolute_expires_at) if times else None,
            "lease_seconds": times.lease_seconds if times else None,
            "server_date": instant(times.server_date) if times else None,
            "sent_wall": instant(times.sent_wall) if times else None,
            "sent_ticks": times.sent_ticks if times else None,
            "sent_boot": times.sent_boot if times else None,
            "renewals": self.renewals,
            "lost_code": self.lost_code,
            "lost_reason": self.lost_reason,
            "claimed_at": instant(self.claimed_at),
            "answered_at": instant(self.answered_at),
        }

    @classmethod
    def of(cls, row: sqlite3.Row) -> PackageRow:
        """The value of a table row."""
        times = None
        if row["expires_at"] is not None:
            times = LeaseTimes(
                _needed(row["expires_at"]),
                from_instant(row["absolute_expires_at"]),
                row["lease_seconds"],
                _needed(row["server_date"]),
                _needed(row["sent_wall"]),
                row["sent_ticks"],
                row["sent_boot"],
            )
        return cls(
            Pin(*(row[name] for name in _PIN)),
            row["uid"],
            row["project_id"],
            row["project_name"],
            row["role"],
            row["version"],
            row["phase"],
            SecretStr(row["token"]) if row["token"] else None,
            json.loads(row["document"]) if "document" in row.keys() else None,  # noqa: SIM118 - a row looks up values
            times,
            row["renewals"],
            _needed(row["claimed_at"]),
            _needed(row["answered_at"]),
            row["lost_code"],
            row["lost_reason"],
            row["id"],
            bool(row["kept"]),
            row["keeping_problem"],
        )


ENDED_PHASES = frozenset({"completed", "released", "revoked", "expired"})
"""Phases after which the server accepts nothing: the token is of no more use and is wiped."""


def merged(old: PackageRow | None, new: PackageRow) -> PackageRow:
    """What the journal holds after an answer (hazards 3 and 4).

    An answer of a lower version is ignored, but a token that it brings is kept where there was none; token, phase and
    lease are never replaced by their absence. A new token, or an end, clears an earlier *lost*.
    """
    if old is None:
        return _wiped(new)
    if 0 < new.version < old.version:  # 0: it tells no version, and is what came last
        gains = old.token is None and new.token is not None and old.phase not in ENDED_PHASES
        return replace(old, token=new.token, lost_code="", lost_reason="") if gains else old
    result = replace(
        new,
        id=old.id,
        version=max(old.version, new.version),
        pin=old.pin,
        project_name=new.project_name or old.project_name,
        phase=new.phase or old.phase,
        token=new.token or old.token,
        document=_with_tasks(new.document, old.document or {}) if new.document is not None else old.document,
        times=new.times or old.times,
        claimed_at=old.claimed_at,
        lost_code=old.lost_code,
        lost_reason=old.lost_reason,
        kept=old.kept,
        keeping_problem=old.keeping_problem,
    )
    if (new.token is not None and new.token != old.token) or new.phase in ENDED_PHASES:
        result = replace(result, lost_code="", lost_reason="")
    return _wiped(result)


def tasks_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The task entries of a package's document; what is no object is left out."""
    status = document.get("status")
    listed = status.get("tasks") if isinstance(status, dict) else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _with_tasks(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """A short answer (no tasks, or tasks without their input) does not take away what was told before."""
    known = {_task_id(task): task for task in tasks_in(old)}
    told = tasks_in(new)
    if not told:
        kept = list(known.values())
    else:
        kept = [task if task.get("input") else {**task, **_input_of(known.get(_task_id(task)))} for task in told]
    status = new.get("status")
    return {**new, "status": {**(status if isinstance(status, dict) else {}), "tasks": kept}}


def _task_id(task: dict[str, Any]) -> Any:
    return task.get("taskId", task.get("task_id"))


def _input_of(task: dict[str, Any] | None) -> dict[str, Any]:
    return {"input": task["input"]} if task and task.get("input") else {}


def _wiped(row: PackageRow) -> PackageRow:
    return replace(row, token=None) if row.phase in ENDED_PHASES else row


@dataclass(frozen=True)
class Intent:
    """A request that will be, or was, sent: written before it leaves. ``body`` is kept until it is settled."""

    kind: Literal["claim", "submit", "release"]
    key: str
    route: str
    body: Any = field(repr=False)
    body_sha256: str
    pin: Pin
    owner: Owner
    created_wall: datetime
    created_ticks: float
    created_boot: str
    project_id: str = ""
    project_name: str = ""
    role: str = ""
    package_uid: str = ""
    task_id: str = ""
    given_up: bool = False
    """Its process still lives but no longer waits for the answer."""
    id: int = 0

    def columns(self) -> dict[str, Any]:
        """The row as SQLite stores it, without its id."""
        return {
            "kind": self.kind,
            "key": self.key,
            "route": self.route,
            "body": json.dumps(self.body),
            "body_sha256": self.body_sha256,
            **{name: getattr(self.pin, name) for name in _PIN},
            "project_id": self.project_id,
            "project_name": self.project_name,
            "role": self.role,
            "package_uid": self.package_uid,
            "task_id": self.task_id,
            "owner_host": self.owner.host,
            "owner_boot": self.owner.boot,
            "owner_pid": self.owner.pid,
            "owner_start": self.owner.start,
            "created_wall": instant(self.created_wall),
            "created_ticks": self.created_ticks,
            "created_boot": self.created_boot,
            "given_up": int(self.given_up),
        }

    @classmethod
    def of(cls, row: sqlite3.Row) -> Intent:
        """The value of a table row."""
        return cls(
            row["kind"],
            row["key"],
            row["route"],
            json.loads(row["body"]) if row["body"] else None,
            row["body_sha256"],
            Pin(*(row[name] for name in _PIN)),
            Owner(row["owner_host"], row["owner_boot"], row["owner_pid"], row["owner_start"]),
            _needed(row["created_wall"]),
            row["created_ticks"],
            row["created_boot"],
            row["project_id"],
            row["project_name"],
            row["role"],
            row["package_uid"],
            row["task_id"],
            bool(row["given_up"]),
            row["id"],
        )


def receipt_columns(endpoint: str, receipt: Receipt) -> dict[str, Any]:
    """A receipt as SQLite stores it."""
    return {
        "endpoint": endpoint,
        "package_uid": receipt.package_id,
        "task_id": receipt.task_id,
        "role": receipt.role,
        "project_name": receipt.project_name,
        "outcome": receipt.outcome,
        "submitted_at": instant(receipt.submitted_at),
        "record_kind": receipt.record_kind,
        "record_id": receipt.record_id,
        "output_sha256": receipt.output_sha256,
        "request_id": receipt.request_id,
        "confirmed_by": receipt.confirmed_by,
    }


def receipt_of(row: sqlite3.Row) -> Receipt:
    """The value of a receipt row."""
    return Receipt(
        row["package_uid"],
        row["task_id"],
        row["role"],
        row["project_name"],
        row["outcome"],
        _needed(row["submitted_at"]),
        row["record_kind"],
        row["record_id"],
        row["output_sha256"],
        row["request_id"],
        row["confirmed_by"],
    )
