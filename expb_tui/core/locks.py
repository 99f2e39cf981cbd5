"""Kernel locks on files that are never unlinked; the text inside names the holder for people only (hazards.md 8)."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from expb_tui.core.errors import FileProblem
from expb_tui.core.paths import private_dir

_POLL = 0.02
_TEXT = 128
"""Bytes of the holder's name, always written whole: overwriting them works on a full disk, a first block may not."""


class KernelLock:
    """An exclusive lock that this process holds; it ends with ``release`` or with the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def in_place(self) -> bool:
        """Whether the file still stands at its path: somebody may have removed the whole folder."""
        try:
            here, there = os.fstat(self._descriptor), self.path.stat()
        except OSError:
            return False
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    def release(self) -> None:
        """Let others have it; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take(path: Path, *, timeout: float = 10.0, shared: bool = False) -> KernelLock:
    """Take an exclusive lock on ``path`` (created with mode 0600); blocks at most ``timeout`` seconds.

    A ``shared`` one keeps out only exclusive ones.

    Raises ``FileProblem`` (code ``locked``) naming the holder where the time runs out. Blocking: from async
    code call it in a thread.
    """
    private_dir(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait(path, descriptor, timeout, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        if shared:
            return KernelLock(path, descriptor)
        with suppress(OSError):  # a full disk must not keep anybody from the lock: the text is for people
            os.pwrite(descriptor, f"pid {os.getpid()} on {os.uname().nodename}".encode().ljust(_TEXT)[:_TEXT], 0)
    except BaseException:
        os.close(descriptor)
        raise
    return KernelLock(path, descriptor)


@contextmanager
def file_lock(path: Path, *, timeout: float = 10.0, shared: bool = False) -> Iterator[None]:
    """Hold ``take``'s lock for the length of a block."""
    lock = take(path, timeout=timeout, shared=shared)
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path, *, shared: bool = False) -> bool:
    """Whether some process holds the lock at this moment, or a ``shared`` one; microseconds.

    It is taken for an instant, so whoever takes it needs a ``timeout`` above 0.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_EX if shared else fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _wait(path: Path, descriptor: int, timeout: float, how: int) -> None:
    deadline = time.monotonic() + timeout
    while not _locked(descriptor, how):
        if time.monotonic() >= deadline:
            holder = os.pread(descriptor, _TEXT, 0).decode("utf-8", "replace").strip() or "another process"
            raise FileProblem(
                f"{path} is locked",
                cause=f"{holder} has held it for {timeout:.0f} s",
                next_step="Wait for that process, or end it, and try again",
                code="locked",
            )
        time.sleep(_POLL)
