"""Settings, profile file and journal: where they are, who may read them, whether they are whole."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.door import RESERVE
from expb_tui.core.leases.filesystem import file_system_of, refuse_network
from expb_tui.core.leases.rescue import NEWER
from expb_tui.core.leases.salvage import Salvage
from expb_tui.core.leases.schema import MIGRATIONS
from expb_tui.core.locks import file_lock
from expb_tui.core.paths import others_may

_INTEGRITY = 3.0
"""Seconds that the look at a large journal may take."""
_ROOM = 4 * RESERVE
"""Bytes that should be free: a claim sets the reserve aside before it asks."""


def settings(here: Circumstances) -> list[Finding]:
    """Whether ``config.toml`` and the environment's settings can be read."""
    problem = here.settings_problem
    if problem is not None:
        return [Finding.of("settings.file", problem)]
    changed = sorted(here.settings.sources) if here.settings is not None else []
    return [Finding("settings.file", State.OK, f"set: {', '.join(changed)}" if changed else "everything as built in")]


def profiles(here: Circumstances) -> list[Finding]:
    """The profile file, which holds credentials, and the folder that it is in."""
    store = here.store
    try:
        found = store.read()
    except ExpbError as problem:
        return [Finding.of("profiles.file", problem)]
    path = store.path
    if not path.exists():
        says = f"{store.named} does not exist yet"
        return [Finding("profiles.file", State.WARN, says, "expb-tui auth login")]
    count = len(found.by_name)
    says = f"{store.named}: {count} profile{'' if count == 1 else 's'}, the default is {found.default or 'none'}"
    return [Finding("profiles.file", State.OK, says), *_access(path), *_beside(store.side)]


def _access(path: Path) -> Iterator[Finding]:
    status = path.stat()
    name = shlex.quote(str(path))
    if status.st_uid != os.geteuid():
        says = f"it belongs to user {status.st_uid}, who can read and change your credentials"
        yield Finding("profiles.owner", State.BAD, says, f"sudo chown $(id -u) {name}; chmod 600 {name}")
    elif others := others_may(status.st_mode):
        says = f"mode {stat.S_IMODE(status.st_mode):04o}: {others} your credentials; our next write mends it"
        yield Finding("profiles.mode", State.WARN, says, f"chmod 600 {name}")
    else:
        yield Finding("profiles.mode", State.OK, f"mode {stat.S_IMODE(status.st_mode):04o}: only you can read it")
    folder = path.parent.stat()
    if folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX:
        says = f"others can replace the file: its folder has mode {stat.S_IMODE(folder.st_mode):04o}"
        yield Finding("profiles.folder", State.BAD, says, f"chmod go-w {shlex.quote(str(path.parent))}")


def _beside(side: Path) -> Iterator[Finding]:
    """What stands in our own folder holds credentials for a moment, too."""
    with suppress(FileNotFoundError):
        if side.stat().st_mode & 0o077:
            says = f"{side} can be read by others"
            yield Finding("profiles.side", State.WARN, says, f"chmod 700 {shlex.quote(str(side))}")


def journal(here: Circumstances) -> list[Finding]:
    """The file with the leases: nothing is created, changed or locked by looking."""
    path = here.journal
    folder = next(parent for parent in (path.parent, *path.parent.parents) if parent.exists())
    kind = file_system_of(path.parent) or "a file system that the system does not name"
    try:
        refuse_network(path.parent)
    except ExpbError as problem:
        return [Finding.of("journal.file-system", problem)]
    findings = [Finding("journal.file-system", State.OK, f"{path} on {kind}"), _room(folder), *_set_aside(path)]
    try:
        status = path.stat()
    except FileNotFoundError:
        return [*findings, Finding("journal.file", State.OK, "not begun yet: nothing was claimed on this host")]
    except OSError as error:
        says = f"{path} cannot be looked at: {error.strerror}"
        return [*findings, Finding("journal.file", State.BAD, says, "export EXPB_TUI_STATE_DIR=FOLDER-OF-YOUR-OWN")]
    return [*findings, _private(path, status), _whole(path)]


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    says = f"{free >> 20:,} MiB free"
    if free < _ROOM or not os.access(folder, os.W_OK):
        why = "a claim could not be saved" if free < _ROOM else f"{folder} cannot be written"
        mend = "Free some space, or: export EXPB_TUI_STATE_DIR=FOLDER-ON-ANOTHER-DISK"
        return Finding("journal.room", State.BAD, f"{says}; {why}", mend)
    return Finding("journal.room", State.OK, says)


def _private(path: Path, status: os.stat_result) -> Finding:
    name = shlex.quote(str(path))
    if status.st_uid != os.geteuid():
        says = f"the journal belongs to user {status.st_uid}, who can read its lease tokens"
        return Finding("journal.mode", State.BAD, says, f"sudo chown $(id -u) {name}*; chmod 600 {name}*")
    if others := others_may(status.st_mode):
        says = f"mode {stat.S_IMODE(status.st_mode):04o}: {others} the lease tokens"
        return Finding("journal.mode", State.WARN, says, f"chmod 600 {name}*")
    return Finding("journal.mode", State.OK, f"mode {stat.S_IMODE(status.st_mode):04o}: only you can read it")


def _set_aside(path: Path) -> list[Finding]:
    """The last journal that was damaged, as long as its files are still there."""
    told = Salvage(path, MIGRATIONS).last()
    if told is None or not told.folder.is_dir():
        return []
    mend = f"Once you miss nothing: rm -r {shlex.quote(str(told.folder))}"
    return [Finding("journal.set-aside", State.WARN, ". ".join(told.lines()), mend)]


def _whole(path: Path) -> Finding:
    name = "journal.integrity"
    deadline = time.monotonic() + _INTEGRITY
    try:
        # While the lock is held nobody sets the file aside. Opened for writing, because SQLite tidies up its log and
        # index then; opened for reading it would leave empty ones behind.
        with (
            file_lock(Salvage(path, MIGRATIONS).lock, timeout=1.0, shared=True),
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=1.0)) as db,
        ):
            db.execute("PRAGMA query_only = ON")
            db.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if len(MIGRATIONS) < found <= len(MIGRATIONS) + NEWER:
                says = f"written by a newer expb-tui (format {found}, this one knows {len(MIGRATIONS)})"
                mend = "Use the newer program, or: export EXPB_TUI_STATE_DIR=ANOTHER-FOLDER"
                return Finding(name, State.BAD, says, mend)
            told = [str(row[0]) for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.Error as error:
        return _unread(name, error)
    except FileProblem as problem:
        return Finding.of(name, problem, State.UNKNOWN)
    if told != ["ok"]:
        words = [line for row in told for line in row.splitlines() if not line.startswith("***")]
        return Finding(name, State.BAD, f"broken: {(words or told)[0]}", _BROKEN)
    return Finding(name, State.OK, "whole")


_BROKEN = "expb-tui agent work list  (sets it aside, saves what can be saved, asks the service for the rest)"


def _unread(name: str, error: sqlite3.Error) -> Finding:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        return Finding(name, State.UNKNOWN, f"it is too large to be looked at within {_INTEGRITY:.0f} s")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Finding(name, State.UNKNOWN, "another process holds it right now", "expb-tui doctor  (a moment later)")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Finding(name, State.BAD, f"broken: {error}", _BROKEN)
    return Finding(name, State.BAD, f"it cannot be read: {error}", "export EXPB_TUI_STATE_DIR=FOLDER-OF-YOUR-OWN")
