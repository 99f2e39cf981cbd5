"""Who wrote the shared profile file last, and when a writer without a lock was last seen at it (hazards 9)."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

Identity = tuple[int, int, int, int]
"""Device, inode, modification time in nanoseconds and size of a file."""

_RECENT = 2.0
"""Seconds that an unlocked writer counts as being at work."""


class Writers:
    """The note of our last write, kept at ``path``. Its readers and writers hold the lock of the profile file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, identity: Identity, others_at: int) -> None:
        """Ours has written the file that is ``identity`` now; ``others_at`` is carried on."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="ascii") as handle:
                json.dump([identity, others_at], handle)

    def others_at(self, identity: Identity | None) -> int:
        """When an unlocked writer last wrote, the file that is ``identity`` included.

        In nanoseconds of the wall clock, as far as is known; 0 for never.
        """
        try:
            ours, others_at = json.loads(self._path.read_bytes())
            ours, others_at = tuple(ours), int(others_at)
        except (OSError, ValueError, TypeError):
            ours, others_at = None, 0
        return others_at if identity in (None, ours) else max(others_at, identity[2])

    def beside_others(self, identity: Identity | None) -> bool:
        """Whether an unlocked writer was at work a moment ago; the last to write may have been one of ours."""
        return time.time() - self.others_at(identity) / 1e9 <= _RECENT
