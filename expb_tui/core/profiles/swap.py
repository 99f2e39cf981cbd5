"""Putting a new file in place without destroying unseen what stands there; for writers only (ctypes is slow)."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def exchange(new: Path, current: Path) -> bool:
    """Swap the two names in one step, so that whatever ``current`` was is afterwards found under ``new``.

    Answers False where the system or the file system cannot swap; then ``new`` has replaced ``current`` (a plain
    rename). Raises ``OSError``, ``FileNotFoundError`` among them where ``current`` is gone.
    """
    if sys.platform == "linux":
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is not None:
            if rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(current), _RENAME_EXCHANGE) == 0:
                return True
            code = ctypes.get_errno()
            if code not in _UNSUPPORTED:
                raise OSError(code, os.strerror(code), str(current))
    new.replace(current)
    return False


def publish(new: Path, current: Path) -> bool:
    """Give ``new`` the name ``current``, which nothing has yet; answers False where something has it meanwhile."""
    try:
        os.link(new, current)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (*_UNSUPPORTED, errno.EMLINK):
            raise
        new.replace(current)  # no hard links on this file system
    return True


def sync_directory(path: Path) -> None:
    """Make renames inside ``path`` durable, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
