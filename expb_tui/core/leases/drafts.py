"""What a person typed for a task. A write names the version that it was based on, so that no window overwrites what
another one has saved meanwhile: its own version is then kept beside, and its operator is told.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.schema import instant

_BESIDE = "#"
"""Between a package's id and the mark of a version that is kept beside its draft."""

_OF_THE_SAME_SERVICE = "SELECT uid FROM package WHERE endpoint = (SELECT endpoint FROM package WHERE uid = ?)"


@dataclass(frozen=True)
class Draft:
    """What a person typed for one task. ``text`` is a YAML draft that does not parse yet, kept word for word."""

    package_id: str
    """With a mark behind it where this version is kept beside the draft (``beside``)."""
    task_id: str
    values: dict[str, Any]
    text: str | None
    updated_at: datetime

    def says(self, values: dict[str, Any], text: str | None) -> bool:
        """It reads so."""
        return (self.values, self.text) == (values, text)


class DraftMoved(ExpbError):
    """Somebody else has written the draft since the version that a write was based on; ``draft`` is what it is now."""

    code = "draft-moved"

    def __init__(self, draft: Draft) -> None:
        super().__init__(
            "This draft was changed in another window",
            cause="it is not what this one has begun with",
            next_step="Both versions are kept; open the task and choose one",
        )
        self.draft = draft


def beside(package_id: str, mark: str) -> str:
    """Where a version is kept beside the draft of a package."""
    return f"{package_id}{_BESIDE}{mark}"


def save(
    db: sqlite3.Connection,
    package_id: str,
    task_id: str,
    values: dict[str, Any],
    text: str | None,
    based_on: Draft | None,
    mark: str,
) -> tuple[Draft, Draft | None]:
    """What is written, and the draft that it did not replace: None where it did, as it was based on that."""
    values = json.loads(json.dumps(values))  # as it is read back: a list, where a form gives a tuple
    now = _now(db, package_id, task_id)
    known = now is None or now.says(values, text) or (based_on is not None and now.says(based_on.values, based_on.text))
    place = package_id if known else beside(package_id, mark)
    return _write(db, Draft(place, task_id, values, text, datetime.now(UTC))), None if known else now


def take(db: sqlite3.Connection, package_id: str, version: Draft) -> Draft:
    """One of several versions goes on as the draft; what it replaces is kept beside it."""
    now = _now(db, package_id, version.task_id)
    if now is not None and not now.says(version.values, version.text):
        _write(db, replace(now, package_id=beside(package_id, uuid4().hex[:8])))
    if version.package_id.startswith(beside(package_id, "")):
        db.execute("DELETE FROM draft WHERE package_uid = ? AND task_id = ?", (version.package_id, version.task_id))
    # Written also where it is the draft already: it is now the newest of all versions.
    return _write(db, replace(version, package_id=package_id, updated_at=datetime.now(UTC)))


def _now(db: sqlite3.Connection, package_id: str, task_id: str) -> Draft | None:
    found = db.execute("SELECT * FROM draft WHERE package_uid = ? AND task_id = ?", (package_id, task_id)).fetchone()
    return of(found) if found else None


def _write(db: sqlite3.Connection, draft: Draft) -> Draft:
    db.execute(
        "INSERT INTO draft (package_uid, task_id, content, yaml, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (package_uid, task_id) DO UPDATE SET content = excluded.content, yaml = excluded.yaml,"
        " updated_at = excluded.updated_at",
        (draft.package_id, draft.task_id, json.dumps(draft.values), draft.text, instant(draft.updated_at)),
    )
    return draft


def of(row: sqlite3.Row) -> Draft:
    """The value of a table row."""
    return Draft(
        row["package_uid"],
        row["task_id"],
        json.loads(row["content"]),
        row["yaml"],
        datetime.fromisoformat(row["updated_at"]),
    )


def others(db: sqlite3.Connection, package_id: str, task_id: str) -> list[Draft]:
    """Every other version of the draft of a package's task, newest first: of packages of the same service that had it
    before, and those that are kept beside."""
    ours = {uid for (uid,) in db.execute(_OF_THE_SAME_SERVICE, (package_id,)).fetchall()}
    rows = db.execute(
        "SELECT * FROM draft WHERE task_id = ? AND package_uid <> ? ORDER BY updated_at DESC", (task_id, package_id)
    ).fetchall()
    return [of(row) for row in rows if row["package_uid"] in ours or row["package_uid"].rpartition(_BESIDE)[0] in ours]


def served(db: sqlite3.Connection, package_id: str, task_id: str) -> None:
    """The task of this package is submitted: neither its draft nor what is kept beside it is of use any more."""
    marked = beside(package_id, "")
    db.execute(
        "DELETE FROM draft WHERE task_id = ? AND (package_uid = ? OR substr(package_uid, 1, ?) = ?)",
        (task_id, package_id, len(marked), marked),
    )
