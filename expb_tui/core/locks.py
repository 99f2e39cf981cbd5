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


@contextmanager
def file_lock(path: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (created with mode 0600); blocks at most ``timeout`` seconds.

    Raises ``FileProblem`` (code ``locked``) naming the holder where the time runs out. Blocking: from async
    code call it in a thread.
    """
    private_dir(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
                raise FileProblem(
                    f"{path} is locked",
                    cause=f"{holder} has held it for {timeout:.0f} s",
                    next_step="Wait for that process, or end it, and try again",
                    code="locked",
                )
            time.sleep(_POLL)
        with suppress(OSError):  # a full disk must not keep anybody from the lock: the text is for people
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"pid {os.getpid()} on {os.uname().nodename}".encode(), 0)
        yield
    finally:
        os.close(descriptor)
