"""The door to the journal's file: opening it safely, SQLite in threads, transactions, and errors in words."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.filesystem import refuse_network
from expb_tui.core.paths import private_dir

T = TypeVar("T")

RESERVE = 8 << 20
"""Bytes set aside before a claim, and given up where the disk is full when its answer must be written."""
BUSY = 5.0
"""Seconds that a transaction waits for another process."""


class _Lane:
    """One thread with one connection."""

    def __init__(self, name: str) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self.connection: sqlite3.Connection | None = None


class Door:
    """One SQLite file: 0600 in a 0700 folder, WAL, ``synchronous=FULL``, ``secure_delete``; opened with the first use.

    Raises ``FileProblem`` with the codes ``network-file-system``, ``newer-journal``, ``broken-journal``, ``disk-full``,
    ``busy-journal`` or ``file``.
    """

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
        self.path = path
        self._migrations = migrations
        # Readers never wait for a writer (WAL), so that faces go on while another process holds the write lock.
        self._reading, self._writing = _Lane("journal-read"), _Lane("journal-write")
        self._watch: sqlite3.Connection | None = None
        self._watch_lock = threading.Lock()
        self._seen = 0
        self._closed = False

    def version(self) -> int:
        """A number that changes with every commit of any process; microseconds, never waits for a writer."""
        with self._watch_lock:
            if self._closed:
                return self._seen
            try:
                if self._watch is None:
                    self._watch = self._open(timeout=0.0)
                    self._watch.execute("PRAGMA query_only = ON")
                (self._seen,) = self._watch.execute("PRAGMA data_version").fetchone()
            except sqlite3.OperationalError:
                pass  # busy with recovery: the old number is told once more
            except (sqlite3.Error, OSError) as error:
                raise _problem(self.path, error) from error
            return self._seen

    async def aclose(self) -> None:
        """Close the file; safe to call twice."""
        with self._watch_lock:
            if self._closed:
                return
            self._closed = True
            if self._watch is not None:
                self._watch.close()
                self._watch = None

        loop = asyncio.get_running_loop()
        for lane in (self._reading, self._writing):
            await loop.run_in_executor(lane.thread, self._shut, lane)
            lane.thread.shutdown(wait=False)

    def _shut(self, lane: _Lane) -> None:
        if lane.connection is not None:
            if lane is self._writing:
                with suppress(sqlite3.Error):  # a reader elsewhere keeps the log; the next opener truncates it
                    lane.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            lane.connection.close()
            lane.connection = None

    @contextmanager
    def still(self, patience: float = BUSY) -> Iterator[None]:
        """Inside the block no transaction of this process is open; waits at most ``patience`` seconds for one.

        Blocking, for the moment before the process is stopped (ctrl+z): a stopped writer would hold up all others.
        """
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go.wait()

        if not self._closed and self._writing.connection is not None:
            self._writing.thread.submit(hold)
            held.wait(patience)
        try:
            yield
        finally:
            go.set()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Ask; what was written before is seen."""
        return await self._call(self._reading, work)

    async def write(self, work: Callable[[sqlite3.Connection], T], *, critical: bool = False) -> T:
        """One transaction; a ``critical`` one may spend the reserve."""

        def transaction(db: sqlite3.Connection) -> T:
            try:
                return _transact(db, work)
            except sqlite3.OperationalError as error:
                if not (critical and _is_full(error)) or not self._spend_reserve():
                    raise
            return _transact(db, work)

        return await self._call(self._writing, transaction)

    async def _call(self, lane: _Lane, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run in a lane's thread; a cancelled caller does not take back what was asked for."""

        def translated() -> T:
            try:
                if lane.connection is None:
                    lane.connection = self._open(timeout=BUSY)
                return work(lane.connection)
            except (sqlite3.Error, OSError) as error:
                raise _problem(self.path, error) from error

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(lane.thread, translated))

    def _open(self, *, timeout: float) -> sqlite3.Connection:
        private_dir(self.path.parent)
        refuse_network(self.path.parent)
        # Created here, so that it is never readable by others; SQLite gives its log and index the same mode. A file
        # that exists is not opened: closing it again would drop the locks of this process's other connections.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)
        db = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            db.row_factory = sqlite3.Row
            self._refuse_newer(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_newer(self, db: sqlite3.Connection) -> None:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found > len(self._migrations):
            raise FileProblem(
                f"{self.path} was written by a newer expb-tui",
                cause=f"its format is {found}, this program knows {len(self._migrations)}",
                next_step="Use the newer program, or set EXPB_TUI_STATE_DIR to another folder",
                code="newer-journal",
            )

    def _migrate(self, db: sqlite3.Connection) -> None:
        known = len(self._migrations)
        if db.execute("PRAGMA user_version").fetchone()[0] == known:
            return

        def upgrade(db: sqlite3.Connection) -> None:
            (start,) = db.execute("PRAGMA user_version").fetchone()
            for statements in self._migrations[start:]:
                for statement in statements:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {known}")

        _transact(db, upgrade)

    @property
    def _reserve_path(self) -> Path:
        return self.path.with_suffix(".reserve")

    async def reserve(self) -> None:
        """Set space aside, so that what must be written later can be written even if the disk fills up meanwhile."""
        await self._call(self._writing, lambda _: self._set_aside())

    def _set_aside(self) -> None:
        descriptor = os.open(self._reserve_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVE)
            elif os.fstat(descriptor).st_size < RESERVE:
                for offset in range(0, RESERVE, 1 << 20):
                    os.pwrite(descriptor, b"\1" * (1 << 20), offset)
        finally:
            os.close(descriptor)

    def _spend_reserve(self) -> bool:
        """Give the space back to the file system; False where there was none."""
        try:
            had = self._reserve_path.stat().st_size
            os.truncate(self._reserve_path, 0)
        except OSError:
            return False
        return had > 0


def _transact(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    db.execute("BEGIN IMMEDIATE")
    try:
        result = work(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return result


def _is_full(error: sqlite3.Error) -> bool:
    # A write that meets a full disk is SQLITE_FULL; some file systems say so only at the sync or as a short write.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _problem(path: Path, error: sqlite3.Error | OSError) -> ExpbError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or getattr(error, "errno", 0) in _FULL:
        return FileProblem(
            f"The journal {path} cannot be written",
            cause="no space is left on the disk" if code != sqlite3.SQLITE_IOERR else "the disk does not take it",
            next_step="Free some space, or set EXPB_TUI_STATE_DIR to a folder on another disk",
            code="disk-full",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return FileProblem(
            f"The journal {path} is busy",
            cause=f"another process has held it for {BUSY:.0f} s",
            next_step="Continue or end that process and try again",
            code="busy-journal",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return FileProblem(
            f"The journal {path} is broken",
            cause=str(error),
            next_step="Move it away with its -wal and -shm files; packages can be listed on the service meanwhile",
            code="broken-journal",
        )
    return FileProblem(
        f"The journal {path} cannot be used",
        cause=getattr(error, "strerror", None) or str(error),
        next_step="Check the folder's owner and mode, or set EXPB_TUI_STATE_DIR to another folder",
    )


_FULL = frozenset({28, 122})
"""ENOSPC and EDQUOT."""
