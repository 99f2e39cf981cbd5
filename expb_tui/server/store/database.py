"""One door to SQLite and PostgreSQL: transactions, locks and the database clock.

Writers on SQLite take the write lock at once (BEGIN IMMEDIATE) and there is one of them; on PostgreSQL rows are locked
with ``Database.lock``. Lock order, always: project, agent, package (hazards 11), then ``Unit.read_clock()``.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, Engine, Select, Table, create_engine, event, func, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from expb_tui.server.bell import Bell
from expb_tui.server.config import ServerError
from expb_tui.server.events import flush_events

ResultT = TypeVar("ResultT")

log = logging.getLogger("expb_tui.server")

_CLOCK = select(func.clock_timestamp())
_SQLITE_BUSY_SECONDS = 5.0
_SQLITE_MAGIC = b"SQLite format 3\0"


def _write_json(value: Any) -> str:
    """Several times as fast as the standard library, and a claim writes a package's tasks."""
    return to_json(value).decode()


def lock_rows(query: Select[Any], of: Table | None = None) -> Select[Any]:
    """PostgreSQL's lock of the rows of a query: ``FOR NO KEY UPDATE``."""
    return query.with_for_update(key_share=True, of=of)


class Database:
    """Engines and worker threads of one server process. ``close`` gives back threads, connections and the file lock."""

    def __init__(self, url: str, *, workers: int = 8, synchronous: str = "FULL") -> None:
        """Opens nothing but the lock of a SQLite file; raises ``ServerError`` where another server has it."""
        try:
            self.url = make_url(url)
        except ArgumentError as error:
            raise ServerError("The database address is not usable", cause="it cannot be parsed") from error
        self.postgres = self.url.get_backend_name() == "postgresql"
        self.clock_offset = timedelta()
        """Added to the clock; tests let a week pass with it."""
        self._skew = timedelta()
        self.bell = Bell()
        self._file_lock: int | None = None
        if self.postgres:
            # Readers have threads and connections of their own: writers that wait for a lock must not hold them up.
            self._writer = _postgres_engine(self.url, workers)
            self._reader = _postgres_engine(self.url, workers)
            self._write_threads = ThreadPoolExecutor(workers, thread_name_prefix="expb-write")
            self._read_threads = ThreadPoolExecutor(workers, thread_name_prefix="expb-read")
        else:
            if not self.url.database or self.url.database == ":memory:":
                raise ServerError("The database must be a file", next_step="Give --database sqlite:///FILE")
            file = Path(self.url.database).resolve()
            self._file_lock = _lock_file(file)
            _make_private(file)
            self._writer = _sqlite_engine(str(file), 1, synchronous)
            self._reader = _sqlite_engine(str(file), workers, synchronous)
            self._write_threads = ThreadPoolExecutor(1, thread_name_prefix="expb-write")
            self._read_threads = ThreadPoolExecutor(workers, thread_name_prefix="expb-read")

    @contextmanager
    def write(self, request_id: str | None = None) -> Iterator[Connection]:
        """A transaction that may write: committed at the end, rolled back where an exception leaves it.

        What ``record_event`` noted is written last and announced after the commit, as the work of ``request_id``.
        """
        with self._begin(self._writer, "BEGIN IMMEDIATE") as conn:
            yield conn
            accounts = flush_events(conn, self.now(), request_id)
        if accounts:
            self.bell.ring(accounts)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads: one snapshot on SQLite."""
        with self._begin(self._reader, "BEGIN") as conn:
            yield conn

    @contextmanager
    def _begin(self, engine: Engine, begin: str) -> Iterator[Connection]:
        # Not by an engine's "begin" event: one listener there makes every statement of the engine slower.
        with engine.begin() as conn:
            if not self.postgres:
                conn.exec_driver_sql(begin)
            yield conn

    def clock(self, conn: Connection) -> datetime:
        """The database clock now, not at the start of the transaction (``clock_timestamp()`` on PostgreSQL)."""
        if not self.postgres:
            return datetime.now(UTC) + self.clock_offset
        asked = datetime.now(UTC)
        stamp: datetime = conn.execute(_CLOCK).scalar_one()
        return self.compare_clocks(stamp, asked)

    def compare_clocks(self, stamp: datetime, asked: datetime) -> datetime:
        """The clock by the database's answer to a question asked at this time of the host; keeps the difference."""
        answered = datetime.now(UTC)
        self._skew = stamp - (asked + (answered - asked) / 2)
        return stamp + self.clock_offset

    def now(self) -> datetime:
        """The database clock without asking for it: this host's, corrected by the difference that was last seen."""
        return datetime.now(UTC) + self._skew + self.clock_offset

    def lock(self, query: Select[Any], of: Table | None = None) -> Select[Any]:
        """The query with its rows locked until the transaction ends; SQLite's writer has everything locked already.

        Foreign keys to the row may be inserted meanwhile (``FOR NO KEY UPDATE``). ``of`` names the table of a join.
        """
        return lock_rows(query, of) if self.postgres else query

    def insert_or(self, table: Table) -> Any:
        """An INSERT of this dialect, which knows ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
        return postgres_insert(table) if self.postgres else sqlite_insert(table)

    async def run_write(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Call a blocking function that writes, in the thread that may."""
        return await asyncio.get_running_loop().run_in_executor(self._write_threads, function, *args)

    async def run_read(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Call a blocking function that only reads, in a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, function, *args)

    @property
    def engine(self) -> Engine:
        """The engine that writes: for migrations."""
        return self._writer

    def close(self) -> None:
        """Wait for running work, then let go of everything."""
        self._write_threads.shutdown(wait=True)
        self._read_threads.shutdown(wait=True)
        self._writer.dispose()
        self._reader.dispose()
        if self._file_lock is not None:
            os.close(self._file_lock)
            self._file_lock = None


def _postgres_engine(url: URL, size: int) -> Engine:
    # A server that is stopped in the middle of a transaction loses its locks, and nobody waits for one for long: the
    # answer is a 503 to try again.
    options = "-c timezone=UTC -c lock_timeout=2s -c idle_in_transaction_session_timeout=15s"
    return create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,
        json_serializer=_write_json,
        json_deserializer=from_json,
        connect_args={"options": options, "connect_timeout": 10},
    )


def _sqlite_engine(path: str, size: int, synchronous: str) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,
        json_serializer=_write_json,
        json_deserializer=from_json,
        connect_args={"timeout": _SQLITE_BUSY_SECONDS, "check_same_thread": False, "cached_statements": 512},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: object) -> None:
        # The driver's own idea of when to begin is older than savepoints and IMMEDIATE; we say it ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cache_size=-16000")

    return engine


def _refuse_other_files(path: Path) -> None:
    """Raises ``ServerError`` for a file that is no database of SQLite, before anything is left beside it."""
    if Path(f"{path}.lock").exists() or not path.exists():
        return
    with path.open("rb") as handle:
        start = handle.read(len(_SQLITE_MAGIC))
    if start and start != _SQLITE_MAGIC:
        raise ServerError(
            f"The file {path} is not a database",
            cause="it does not begin as one of SQLite does",
            next_step="Name another file with --database",
            code="database-unusable",
        )


def _make_private(path: Path) -> None:
    """Create the database for its owner only; SQLite gives its other files the same mode.

    Raises ``ServerError`` for a file with several names: each would have a lock of its own.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if status.st_nlink > 1:
        raise ServerError(
            f"The database {path} has several names",
            cause="hard links to one file cannot be told apart from several databases",
            next_step="Remove the other links, or copy the file",
            code="database-linked",
        )
    if status.st_mode & 0o077:
        log.warning("the database %s can be read by other users of this host (mode %03o)", path, status.st_mode & 0o777)


def _lock_file(path: Path) -> int:
    """A kernel lock beside the database (by its real path), never unlinked; it goes with the process."""
    try:
        _refuse_other_files(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ServerError(
            f"Cannot open the database {path}",
            cause=error.strerror or str(error),
            next_step="Name a file in a folder that you may write to",
            code="database-unusable",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
        os.close(descriptor)
        raise ServerError(
            f"The database {path} is in use",
            cause=f"a server ({holder}) already serves it, and SQLite allows one",
            next_step="Use that server, or give this one another --database; PostgreSQL takes several servers",
            code="database-in-use",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"pid {os.getpid()} on {os.uname().nodename}".encode(), 0)
    return descriptor
