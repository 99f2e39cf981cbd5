"""Whose turn it is to use a package's lease token: one user at a time, across processes (hazards 3 and 8).

A kernel lock on one byte for each package, in one file that is never unlinked and stays empty. Such a lock belongs to
the open file, so that two users inside one process exclude each other too, and it ends with its process. Two system
calls a turn: a keeper takes some seventy a second, and holds two thousand while the journal cannot be written.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from expb_tui.core.errors import FileProblem
from expb_tui.core.paths import private_dir
from expb_tui.core.text import clean

_RANGES = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
"""Elsewhere a file for each package, until its turn ends."""
_TAKEN = (errno.EAGAIN, errno.EACCES)
_POLL = 0.02


class Turns:
    """The turns of one user: a desk's act, or a renewer with all its packages. Not for several threads."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the journal's."""
        self._folder = folder / "locks"
        self._file: int | None = None
        self._held: dict[int, int] = {}
        """By row id of the package: the descriptor of its own file, or -1."""

    def __contains__(self, row_id: int) -> bool:
        return row_id in self._held

    def take(self, row_id: int) -> bool:
        """Take the turn of a package; False where somebody has it, this user included. Never waits. ``OSError``."""
        if row_id in self._held:
            return False
        try:
            self._held[row_id] = self._lock_range(row_id) if _RANGES else self._lock_file(row_id)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            return False
        return True

    def give_back(self, row_id: int) -> None:
        """End a turn; nothing where it is not held."""
        held = self._held.pop(row_id, None)
        if held is None:
            return
        if held >= 0:
            os.close(held)
        elif self._file is not None:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _byte(fcntl.F_UNLCK, row_id))

    def close(self) -> None:
        """End every turn; it may be used again."""
        for row_id in list(self._held):
            self.give_back(row_id)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock_range(self, row_id: int) -> int:
        if self._file is None:
            self._file = self._open("packages")
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _byte(fcntl.F_WRLCK, row_id))
        return -1

    def _lock_file(self, row_id: int) -> int:
        descriptor = self._open(f"package-{row_id}")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _open(self, name: str) -> int:
        private_dir(self._folder)
        return os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@asynccontextmanager
async def package_turn(folder: Path, row_id: int, *, patience: float) -> AsyncIterator[None]:
    """Hold the turn of a package; waits for it at most ``patience`` seconds. Raises ``FileProblem`` (code ``locked``).

    Tried without blocking, so that a cancelled wait leaves nothing held. Where no turn can be taken at all, what a
    person or a renewal wants is done without one.
    """
    turns = Turns(folder)
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    try:
        while not _taken(turns, row_id):
            if loop.time() >= until:
                raise FileProblem(
                    "Nothing was sent for the package",
                    cause=f"another process has been renewing or submitting it for {patience:.0f} s",
                    next_step="Wait a moment and try again; if this stays, end the process that was stopped",
                    code="locked",
                )
            await asyncio.sleep(_POLL)
        yield
    finally:
        turns.close()


def _taken(turns: Turns, row_id: int) -> bool:
    try:
        return turns.take(row_id)
    except OSError:
        return True


def no_turns(error: OSError) -> FileProblem:
    """In words, why packages are renewed without their turn."""
    return FileProblem(
        "Leases are renewed without taking turns: two renewers may meet",
        cause=f"{clean(str(error.filename or 'the lock'))}: {error.strerror or error}",
        next_step="See that the folder of the journal can be written to; renewals go on meanwhile",
        code="no-turns",
    )


def _byte(kind: int, offset: int) -> bytes:
    """``struct flock`` for one byte (man 2 fcntl); its process id is 0 for locks of an open file."""
    return struct.pack("hhqqi", kind, os.SEEK_SET, offset, 1, 0)
