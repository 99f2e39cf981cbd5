"""A small file system of its own, to be filled up and freed again."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.require import missing

BLOCK = 4096


class Disk:
    """A file system of 16 MiB at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, *, reserve: bool = True) -> None:
        """Take all of it; with ``reserve`` what was set aside for the answers of claims too."""
        if reserve:
            for file in self.folder.rglob("*.reserve"):
                file.unlink()
        with open(self._filler, "ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * BLOCK)

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(parent: Path) -> Iterator[Disk]:
    """Mounted below ``parent`` for the block; tells ``missing`` where that is not allowed."""
    folder = parent / "disk"
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        missing("tmpfs", "a small file system cannot be mounted here")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
