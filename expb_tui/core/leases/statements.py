"""Statements on the journal's tables, each for use inside somebody's transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from expb_tui.core.leases.schema import LEASE_COLUMNS, Intent, PackageRow, instant, merged

_KEEP_INTENTS = timedelta(days=7)
_KEEP_PACKAGES = timedelta(days=30)


def prune(db: sqlite3.Connection, now: datetime) -> None:
    """Forget requests after a week, packages a month after their end or their lease's; receipts and drafts stay."""
    long_ago = instant(now - _KEEP_INTENTS)
    db.execute("DELETE FROM intent WHERE settled_at < ? OR created_wall < ?", (long_ago, long_ago))
    over = instant(now - _KEEP_PACKAGES)
    db.execute(
        "DELETE FROM package WHERE answered_at < ? AND (token IS NULL OR expires_at < ?)"
        " AND NOT EXISTS (SELECT 1 FROM draft WHERE draft.package_uid = package.uid)",
        (over, over),
    )


def known(db: sqlite3.Connection, row: PackageRow) -> bool:
    """Whether the package of an answer is still in the journal."""
    found = db.execute("SELECT 1 FROM package WHERE endpoint = ? AND uid = ?", (row.pin.endpoint, row.uid)).fetchone()
    return found is not None


def merge(db: sqlite3.Connection, row: PackageRow) -> PackageRow:
    """Take in what the server said of a package; the rules are ``schema.merged``'s."""
    columns = "*" if row.document is not None else LEASE_COLUMNS
    statement = f"SELECT {columns} FROM package WHERE endpoint = ? AND uid = ?"  # noqa: S608 - own words
    found = db.execute(statement, (row.pin.endpoint, row.uid)).fetchone()
    old = PackageRow.of(found) if found else None
    new = merged(old, row)
    if old is None:
        return replace(new, id=insert(db, "package", new.columns()))
    if new != old:
        values = new.columns()
        # The number of the change with it: a trigger's would write the whole row, document included, once more.
        sets = ", ".join([*(f"{name} = ?" for name in values), "changed = (SELECT max(changed) + 1 FROM package)"])
        db.execute(f"UPDATE package SET {sets} WHERE id = ?", (*values.values(), old.id))  # noqa: S608 - own names
    return new


def insert(db: sqlite3.Connection, table: str, columns: dict[str, Any]) -> int:
    """A new row; its number."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - own names
    return int(db.execute(statement, tuple(columns.values())).lastrowid or 0)


def settle(db: sqlite3.Connection, intent: Intent, outcome: str) -> None:
    """What became of a request is known. Old rows go with it."""
    db.execute(
        "UPDATE intent SET outcome = ?, settled_at = ?, body = NULL WHERE id = ?",
        (outcome, instant(datetime.now(UTC)), intent.id),
    )
    prune(db, datetime.now(UTC))
