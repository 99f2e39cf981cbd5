"""The door to the journal's file: opening it safely, SQLite in threads, transactions, and errors in words."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from expb_tui.core.errors import FileProblem
from expb_tui.core.leases.filesystem import refuse_network
from expb_tui.core.leases.rescue import NEWER, UNREADABLE, connect, upgrade
from expb_tui.core.leases.salvage import Salvage, identity
from expb_tui.core.locks import file_lock
from expb_tui.core.paths import private_dir

T = TypeVar("T")

RESERVE = 8 << 20
"""Bytes set aside before a claim, and given up where the disk is full when its answer must be written."""
BUSY = 5.0
"""Seconds that a transaction waits for another process."""
_FILES = 4
"""So many files in a row one transaction tries, each set aside under its hands."""


class _Connected:
    """A connection, and the file that it has open: device and inode, for the file may be set aside meanwhile."""

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.file: tuple[int, int] | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection, self.file = None, None


class _Lane(_Connected):
    """One thread with one connection."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)


class _Watch(_Connected):
    """The connection that only counts changes; another file's count goes on from what was told last."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.base = 0, 0


class Door:
    """One SQLite file: 0600 in a 0700 folder, WAL, ``synchronous=FULL``, ``secure_delete``; opened with the first use.

    A file that is damaged is set aside and replaced by a new one with what can be saved (``salvage``), once a look at
    the whole of it confirms it; the transaction then runs there. So does one whose file was set aside by another
    process. Raises ``FileProblem`` with the codes ``network-file-system``, ``newer-journal``, ``broken-journal``,
    ``disk-full``, ``busy-journal`` or ``file``.
    """

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
        self.path = path
        self._migrations = migrations
        # Readers never wait for a writer (WAL), so that faces go on while another process holds the write lock.
        self._reading, self._writing = _Lane("journal-read"), _Lane("journal-write")
        self.salvage = Salvage(path, migrations)
        self._watch = _Watch()
        self._watch_lock = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Nothing more can be read or written."""
        return self._closed

    def version(self) -> int:
        """A number that changes with every commit of any process; microseconds, never waits for a writer."""
        with self._watch_lock:
            watch = self._watch
            if self._closed:
                return watch.seen
            try:
                if watch.connection is None or identity(self.path) != watch.file:
                    watch.close()
                    watch.connection, watch.file = self._open(timeout=0.0)
                    watch.connection.execute("PRAGMA query_only = ON")
                    watch.base = watch.seen + 1
                (number,) = watch.connection.execute("PRAGMA data_version").fetchone()
                watch.seen = watch.base + number
            except sqlite3.OperationalError:
                pass  # busy with recovery: the old number is told once more
            except (sqlite3.Error, OSError) as error:
                if is_damage(error):
                    watch.seen += 1  # whoever reads next meets it, and mends it
                    return watch.seen
                raise problem_of(self.path, error) from error
            return watch.seen

    async def aclose(self) -> None:
        """Close the file; safe to call twice."""
        with self._watch_lock:
            if self._closed:
                return
            self._closed = True
            self._watch.close()
        loop = asyncio.get_running_loop()
        for lane in (self._reading, self._writing):
            await loop.run_in_executor(lane.thread, self._shut, lane)
            lane.thread.shutdown(wait=False)

    def _shut(self, lane: _Lane) -> None:
        if lane.connection is not None:
            if lane is self._writing:
                with suppress(sqlite3.Error):  # a reader elsewhere keeps the log; the next opener truncates it
                    lane.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            lane.close()

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
            for _ in range(_FILES):
                try:
                    if lane.connection is None or identity(self.path) != lane.file:
                        lane.close()
                        lane.connection, lane.file = self._open(timeout=BUSY)
                    result = work(lane.connection)
                    if identity(self.path) == lane.file:
                        return result
                    # The file was set aside while this ran: what was written to it is not in the one that counts.
                except (sqlite3.Error, *UNREADABLE) as error:
                    if not self._mended(lane, error):
                        raise _told(self.path, error) from error
                except OSError as error:
                    raise problem_of(self.path, error) from error
            raise problem_of(self.path, sqlite3.DatabaseError("it is damaged again and again"))

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(lane.thread, translated))

    def _mended(self, lane: _Lane, error: Exception) -> bool:
        """Whether the file was damaged and another one stands in its place now."""
        if not is_damage(error):
            return False
        file = lane.file or identity(self.path)
        lane.close()
        try:
            return self.salvage.mend(file)
        except (sqlite3.Error, OSError) as problem:
            raise problem_of(self.path, problem) from error

    def _open(self, *, timeout: float) -> tuple[sqlite3.Connection, tuple[int, int] | None]:
        private_dir(self.path.parent)
        refuse_network(self.path.parent)
        if self.salvage.pending():
            self.salvage.finish()
        if identity(self.path) is None:
            self._create()
        # Until SQLite has found its log by name, nobody may set the file aside.
        with file_lock(self.salvage.lock, shared=True):
            try:
                db = self._connect(timeout)
            except sqlite3.OperationalError as error:
                # On a full disk SQLite cannot even read: its index of the log takes room too.
                if not (_is_full(error) and self._spend_reserve()):
                    raise
                db = self._connect(timeout)
            return db, identity(self.path)

    def _create(self) -> None:
        """A journal without rows, complete when it comes to stand there: an empty file is a damaged one."""
        made = self.path.with_name(self.path.name + ".new")
        with file_lock(self.salvage.lock, timeout=BUSY):
            if identity(self.path) is not None:
                return
            made.unlink(missing_ok=True)
            # Created here, so that it is never readable by others; SQLite gives its log and index the same mode.
            os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with closing(connect(made)) as db:
                upgrade(db, self._migrations)
            made.rename(self.path)

    def _connect(self, timeout: float) -> sqlite3.Connection:
        state = self.path.stat()
        if state.st_size == 0:
            raise sqlite3.DatabaseError("the file is empty")
        if state.st_mode & 0o077:
            self.path.chmod(0o600)
        db = sqlite3.connect(self.path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            db.row_factory = sqlite3.Row
            self._refuse_newer(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")
            upgrade(db, self._migrations)
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_newer(self, db: sqlite3.Connection) -> None:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        known = len(self._migrations)
        if known < found <= known + NEWER:
            raise FileProblem(
                f"{self.path} was written by a newer expb-tui",
                cause=f"its format is {found}, this program knows {known}",
                next_step="Use the newer program, or set EXPB_TUI_STATE_DIR to another folder",
                code="newer-journal",
            )

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


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: Exception) -> bool:
    """Whether a damaged file may be behind an error: SQLite says so, a table is missing, a value is not what we wrote.

    Only a look at the whole file tells; a fault of ours raises the same.
    """
    if isinstance(error, sqlite3.Error):
        return _code(error) in (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, UNREADABLE)


def _is_full(error: sqlite3.Error) -> bool:
    # A write that meets a full disk is SQLITE_FULL; some file systems say so only at the sync or as a short write.
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _told(path: Path, error: Exception) -> Exception:
    """SQLite's errors in words; a fault of ours as it is."""
    return problem_of(path, error) if isinstance(error, sqlite3.Error) else error


def problem_of(path: Path, error: sqlite3.Error | OSError) -> FileProblem:
    """The words for what SQLite or the system says about the journal's file."""
    code = _code(error)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or getattr(error, "errno", 0) in _FULL:
        return FileProblem(
            f"The journal {path} cannot be written",
            cause="the disk does not take it" if code == sqlite3.SQLITE_IOERR and _room(path) else _NO_SPACE,
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
    if isinstance(error, sqlite3.Error) and is_damage(error):
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


def _room(path: Path) -> bool:
    """Whether the disk has room for SQLite's own files."""
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return True
    return state.f_bavail * state.f_frsize >= _SQLITE_NEEDS


_FULL = frozenset({28, 122})
"""ENOSPC and EDQUOT."""
_NO_SPACE = "no space is left on the disk"
_SQLITE_NEEDS = 64 << 10
"""Bytes: the index of the log, and a page or two."""
