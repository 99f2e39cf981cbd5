"""A journal whose file is damaged: set aside whole, and a new one begun with every row that can still be read.

What stands on the disk at each moment of it, so that a kill anywhere loses nothing: a working folder ``salvage.tmp``
(nothing has happened yet); ``journal.db.fresh`` (the new journal is complete, and whoever opens next puts it in place);
``broken-TIME`` (the old files, whole). All of it under one kernel lock, which every process that opens the journal
shares for that moment: SQLite finds a log by its name and must never meet another file's.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from expb_tui.core.leases.rescue import UNREADABLE, VALUES, connect, rescue, upgrade
from expb_tui.core.locks import file_lock
from expb_tui.core.paths import private_dir
from expb_tui.core.text import clean

_LOCK_PATIENCE = 30.0


@dataclass(frozen=True)
class Salvaged:
    """What became of a damaged journal. ``listed``: endpoints and agents whose packages were asked for since."""

    at: datetime
    folder: Path
    """The damaged files."""
    cause: str
    packages: int = 0
    tokens: int = 0
    drafts: int = 0
    receipts: int = 0
    unreadable: int = 0
    """Rows, or stretches of them, that could not be read; others may be lost without a trace."""
    listed: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def lines(self) -> list[str]:
        """Words for a person: what happened, what is left, where the rest is."""
        saved = [_counted(self.packages, "package"), _counted(self.drafts, "draft"), _counted(self.receipts, "receipt")]
        saved[0] += f" ({self.tokens} with the lease token)" if self.packages else ""
        lost = "; not all of it could be read" if self.unreadable else ""
        found = self.packages or self.drafts or self.receipts
        told = f"Saved from it: {', '.join(saved)}{lost}" if found else "Nothing could be saved from it"
        return [
            f"The journal was damaged ({self.cause}) and was set aside at {self.at:%Y-%m-%d %H:%M:%S} UTC",
            told,
            f"What the service has assigned beyond that is listed as token lost; the old files are in {self.folder}",
        ]


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


class Salvage:
    """Judges and mends one journal's file. Blocking: for the threads that the journal runs in."""

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
        self.path = path
        self._migrations = migrations
        self.lock = path.parent / "locks" / "journal.lock"
        self._fresh = path.with_name(path.name + ".fresh")
        self._working = path.parent / "salvage.tmp"
        self._report = path.parent / "salvaged.json"
        self._told: tuple[tuple[int, int] | None, Salvaged | None] = (None, None)
        self._kept_open: list[int] = []

    # What faces ask

    def last(self) -> Salvaged | None:
        """The latest one on this host; one ``stat`` while nothing has changed."""
        try:
            state = self._report.stat()
            stamp = (state.st_ino, state.st_mtime_ns)
            if self._told[0] != stamp:
                self._told = stamp, _read_report(self._report)
        except (OSError, ValueError, TypeError, LookupError):
            return None
        return self._told[1]

    def mark_listed(self, endpoint: str, agent_id: str) -> None:
        """This agent's packages have been asked for. Raises ``OSError``."""
        with file_lock(self.lock, timeout=_LOCK_PATIENCE):
            told = self.last()
            if told is not None:
                _write_report(self._report, replace(told, listed=told.listed | {(endpoint, agent_id)}))

    # What the journal's door asks

    def pending(self) -> bool:
        """A new journal is complete and not yet in place."""
        return self._fresh.exists()

    def finish(self) -> None:
        """Put it in place: whoever opens the journal next does this where a process was killed before it could."""
        with file_lock(self.lock, timeout=_LOCK_PATIENCE):
            self._swap()

    def mend(self, seen: tuple[int, int] | None) -> bool:
        """Replace the file, device and inode ``seen``, if it is damaged; True if another file stands there now.

        Raises ``OSError`` where the disk takes no copy: then nothing has changed.
        """
        with file_lock(self.lock, timeout=_LOCK_PATIENCE):
            if self.pending():
                self._swap()
            if identity(self.path) != seen:
                return True
            shutil.rmtree(self._working, ignore_errors=True)
            private_dir(self._working)
            with ExitStack() as opened:
                # Open until the end: while it has the file, nobody else writes to it, and SQLite leaves its log alone.
                # Of an empty one it would throw the log away at once.
                if self.path.stat().st_size:
                    held = opened.enter_context(closing(sqlite3.connect(self.path, timeout=1.0, isolation_level=None)))
                    with suppress(sqlite3.Error):  # too damaged to be locked is too damaged to be written
                        held.execute("BEGIN IMMEDIATE")
                try:
                    copy = self._copy()
                    cause = self._fault(copy)
                    if cause:
                        self._build(copy, cause)
                        self._swap()
                finally:
                    shutil.rmtree(self._working, ignore_errors=True)
                return bool(cause)

    def _swap(self) -> None:
        """From a complete new journal to the only one; may be begun again at any point."""
        if not self.pending():
            return
        at = datetime.fromtimestamp(self._fresh.stat().st_mtime, UTC)
        aside = private_dir(self._aside(at))
        for ending in ("-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + ending).rename(aside / f"{self.path.name}{ending}")
        shutil.rmtree(self._working, ignore_errors=True)  # it holds a copy of every token
        self._fresh.rename(self.path)
        _sync(self.path.parent)

    def _aside(self, at: datetime) -> Path:
        return self.path.parent / f"broken-{at:%Y%m%dT%H%M%SZ}"

    def _copy(self) -> Path:
        copy = self._working / self.path.name
        for ending in ("-wal", ""):
            with suppress(FileNotFoundError):
                self._copy_one(self.path.with_name(self.path.name + ending), copy.with_name(copy.name + ending))
        return copy

    def _copy_one(self, source: Path, target: Path) -> None:
        # Closing a file takes away the locks that this process's other connections have on it: this one stays open.
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        self._kept_open.append(descriptor)
        with open(target, "xb", opener=_private) as handle:
            offset = 0
            while part := os.pread(descriptor, 1 << 20, offset):
                handle.write(part)
                offset += len(part)

    def _fault(self, copy: Path) -> str:
        """What is wrong with the journal; empty where everything in it can be read."""
        if not copy.stat().st_size:
            return "the file is empty"
        probe = copy.with_name("probe.db")
        for ending in ("-wal", ""):
            with suppress(FileNotFoundError):
                shutil.copy(copy.with_name(copy.name + ending), probe.with_name(probe.name + ending))
        try:
            with closing(connect(probe)) as db:
                upgrade(db, self._migrations)
                (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
                if found != "ok":
                    return clean(str(found))[:200]
                for table, value in VALUES.items():
                    for row in db.execute(f"SELECT * FROM {table}"):  # noqa: S608 - own words
                        value(row)
        except sqlite3.DatabaseError as error:
            return clean(str(error))[:200]
        except UNREADABLE:
            return "a row in it is not what was written"
        return ""

    def _build(self, copy: Path, cause: str) -> None:
        """Write the new journal and the report, and make the new one count."""
        made = self._working / "fresh.db"
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(connect(made)) as db:
            db.execute("PRAGMA synchronous = FULL")
            upgrade(db, self._migrations)
            db.execute("BEGIN IMMEDIATE")
            saved = rescue(copy, db, self._migrations)
            db.execute("COMMIT")
        at = datetime.fromtimestamp(made.stat().st_mtime, UTC)
        told = Salvaged(
            at,
            self._aside(at),
            cause,
            packages=saved["package"],
            tokens=saved["token"],
            drafts=saved["draft"],
            receipts=saved["receipt"],
            unreadable=saved["unreadable"],
        )
        _write_report(self._report, told)
        made.rename(self._fresh)
        _sync(self.path.parent)


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file that stands at ``path``; None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_report(path: Path) -> Salvaged:
    told = json.loads(path.read_text(encoding="utf-8"))
    told["at"], told["folder"] = datetime.fromisoformat(told["at"]), Path(told["folder"])
    told["listed"] = frozenset((endpoint, agent) for endpoint, agent in told["listed"])
    return Salvaged(**told)


def _write_report(path: Path, told: Salvaged) -> None:
    values = {**asdict(told), "at": told.at.isoformat(), "folder": str(told.folder), "listed": sorted(told.listed)}
    beside = path.with_name(path.name + ".new")
    with open(beside, "w", encoding="utf-8", opener=_private) as handle:
        json.dump(values, handle)
        handle.flush()
        os.fsync(handle.fileno())
    beside.replace(path)
