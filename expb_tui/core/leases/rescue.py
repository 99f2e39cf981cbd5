"""Reading what a damaged journal's file still gives, row by row, and writing it into a new one."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from expb_tui.core.leases.schema import Intent, PackageRow, receipt_of
from expb_tui.core.secret import is_token

UNREADABLE = (sqlite3.DatabaseError, ValueError, TypeError, LookupError, ArithmeticError)
"""What reading a damaged row can raise: SQLite's own words, and values that are not what we wrote."""
NEWER = 16
"""A format further ahead than this is damage: no later program numbers like that."""
_PROBES = 100_000
_BLIND_PROBES = 1000
"""Row numbers that are tried one by one where a table cannot be walked; the second where its end is not known."""
_LEAP = 1 << 20
"""Added to the counters of the new journal: no process may take a new row or change for one that it has seen."""


def connect(path: Path) -> sqlite3.Connection:
    """A plain connection."""
    db = sqlite3.connect(path, timeout=1.0, isolation_level=None)
    db.row_factory = sqlite3.Row
    return db


def upgrade(db: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> None:
    """Bring a journal to the newest format, in one transaction. Raises ``sqlite3.DatabaseError``."""
    known = len(migrations)
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found == known:
        return
    if found > known + NEWER:
        raise sqlite3.DatabaseError(f"it names the format {found}, which nobody has written")
    db.execute("BEGIN IMMEDIATE")
    try:
        (start,) = db.execute("PRAGMA user_version").fetchone()
        for statements in migrations[start:]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {known}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _draft(row: Any) -> None:
    if not isinstance(json.loads(row["content"]), dict):
        raise TypeError("a draft is an object")
    datetime.fromisoformat(row["updated_at"])


VALUES: Mapping[str, Callable[[Any], object]] = {
    "package": PackageRow.of,
    "intent": Intent.of,
    "draft": _draft,
    "receipt": receipt_of,
}
"""What makes a value of a table's row, and so says whether the row is what we wrote."""


def rescue(copy: Path, fresh: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> Counter[str]:
    """Bring everything over that ``copy``, which may be changed, still gives.

    Returns how many rows of each table, how many of them have a ``token``, and how many are ``unreadable``.
    """
    counts: Counter[str] = Counter()
    old = _readable(copy, migrations)
    if old is not None:
        with closing(old):
            for table in VALUES:
                for row in _walk(old, table):
                    if row is not None and row.get("settled_at"):
                        continue  # a request whose end was known is of no more use
                    kept = _mended(table, row) if row is not None else None
                    if kept is None or not _insert(fresh, table, kept):
                        counts["unreadable"] += 1
                        continue
                    counts[table] += 1
                    counts["token"] += bool(kept.get("token"))
    for table in ("package", "intent", "receipt"):
        # Beyond every number that was ever given: processes know packages by it, and its lock's name comes from it.
        (highest,) = fresh.execute(f"SELECT max(id) FROM {table}").fetchone()  # noqa: S608 - own words
        fresh.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        number = max((highest or 0) + _LEAP, int(time.time()))
        fresh.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))
    return counts


def _readable(copy: Path, migrations: tuple[tuple[str, ...], ...]) -> sqlite3.Connection | None:
    """The copy, with its first page written anew where the table of contents itself is damaged."""
    log = copy.with_name(copy.name + "-wal")
    # Of an empty file SQLite would throw the log away, which may hold everything.
    for mended in ("nothing", "first page", "log") if copy.stat().st_size else ("first page", "log"):
        db = None
        try:
            if mended == "first page":
                _new_first_page(copy, migrations)
            elif mended == "log":
                log.unlink(missing_ok=True)
            db = connect(copy)
            for table in VALUES:
                db.execute(f"SELECT 1 FROM {table} LIMIT 0")  # noqa: S608 - own words
        except (sqlite3.Error, OSError):
            if db is not None:
                db.close()
            continue
        return db
    return None


def _new_first_page(copy: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
    """The tables of the first version stand at the same pages in every journal; later ones only add columns."""
    model = copy.with_name("model.db")
    model.unlink(missing_ok=True)
    with closing(connect(model)) as db:
        upgrade(db, migrations[:1])
        (size,) = db.execute("PRAGMA page_size").fetchone()
    page = bytearray(model.read_bytes()[:size])
    pages = copy.stat().st_size // size
    if not pages:  # all that is left is in the log; there are no more than these
        log = copy.with_name(copy.name + "-wal")
        pages = (model.stat().st_size + (log.stat().st_size if log.exists() else 0)) // size
    page[18:20] = b"\2\2"  # there may be a log
    page[28:32] = pages.to_bytes(4, "big")
    page[32:40] = bytes(8)  # no free ones
    page[92:96] = page[24:28]  # these numbers are of this change
    with open(copy, "r+b") as handle:
        handle.write(page)
        handle.truncate(pages * size)
    with closing(connect(copy)) as db, suppress(sqlite3.Error):
        for statements in migrations[1:]:
            for statement in statements:
                if statement.lstrip().startswith("ALTER TABLE"):
                    db.execute(statement)


def _walk(db: sqlite3.Connection, table: str) -> Iterator[dict[str, Any] | None]:
    """Every row that the file still gives; None for one that is there and cannot be read."""
    # Text that is no UTF-8 any more is shown with a mark in it rather than lost.
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    at = 0
    while True:
        try:
            query = f"SELECT rowid AS row_number, * FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT 1"  # noqa: S608 - own words
            row = db.execute(query, (at,)).fetchone()
        except sqlite3.DatabaseError:
            break
        if row is None:
            return
        at = row["row_number"]
        yield dict(row)
    highest = _highest(db, table)
    missed = 0
    for number in range(at + 1, min(highest or at + _BLIND_PROBES, at + _PROBES) + 1):
        try:
            row = db.execute(f"SELECT * FROM {table} WHERE rowid = ?", (number,)).fetchone()  # noqa: S608 - own words
        except sqlite3.DatabaseError:
            missed += 1
            continue
        if row is not None:
            yield dict(row)
    yield from [None] * (missed if highest else 1)


def _highest(db: sqlite3.Connection, table: str) -> int:
    """The last row's number; 0 where nothing tells it."""
    for query in (
        f"SELECT max(rowid) FROM {table}",  # noqa: S608 - own words
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608 - own words
    ):
        with suppress(sqlite3.DatabaseError, TypeError):
            return int(db.execute(query).fetchone()[0])
    return 0


def _mended(table: str, row: dict[str, Any]) -> dict[str, Any] | None:
    """The row as the new journal takes it, without what is damaged in it; None where nothing of use is left."""
    row.pop("row_number", None)
    if table == "package":
        row = _mended_package(row)
    elif table == "draft" and not _reads(_draft, row):
        # What was typed is worth more than its form: it comes back as text that does not parse yet.
        now = datetime.now(UTC).isoformat()
        row |= {"content": "{}", "yaml": row.get("yaml") or row.get("content"), "updated_at": now}
    return row if _reads(VALUES[table], row) else None


def _mended_package(row: dict[str, Any]) -> dict[str, Any]:
    row.setdefault("kept", 1)
    row.setdefault("keeping_problem", "")
    row["changed"] = (row["changed"] if isinstance(row.get("changed"), int) else 0) + _LEAP
    if not (isinstance(row["token"], str) and is_token(row["token"])):
        row["token"] = None
    now = datetime.now(UTC).isoformat()
    for damage in ({"document": "{}"}, {"claimed_at": now, "answered_at": now}, {"expires_at": None}):
        if _reads(PackageRow.of, row):
            break
        row |= damage
    return row


def _reads(value: Callable[[Any], object], row: Mapping[str, Any]) -> bool:
    try:
        value(row)
    except UNREADABLE:
        return False
    return True


def _insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> bool:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    try:
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))  # noqa: S608 - own names
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise
        return False
    return True
