"""Who is doing something now: the process that an intent names, and whether it still lives (hazards 4)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from expb_tui.core.clock import boot_id
from expb_tui.core.paths import machine_id

_ENDED = ("Z", "X", "x")
"""States of a process that has ended: zombie, dead."""
_APART = ":"


@dataclass(frozen=True)
class Owner:
    """A process, told apart from a later one with the same number by boot and start time.

    ``start``: clock ticks since boot, and after a colon the namespace that ``pid`` is a number of, where known.
    """

    host: str
    boot: str
    pid: int
    start: str

    @property
    def seen(self) -> bool:
        """Whether its end could be noticed from here."""
        return self.host == machine_id() and self.start.partition(_APART)[2] in ("", _namespace())

    def alive(self) -> bool:
        """Whether it still runs; a process of another host or another pid namespace counts as alive.

        One that has ended and waits for its parent to notice does not.
        """
        if self.host != machine_id():
            return True
        if self.boot != boot_id():
            return False
        if not self.seen:
            return True
        start = self.start.partition(_APART)[0]
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        state, started = _stat(self.pid)
        return state not in _ENDED and (not start or started in ("", start))


def _stat(pid: int) -> tuple[str, str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The name in parentheses may hold anything; fields 3 and 22 are the 1st and 20th after it (man 5 proc).
            fields = handle.read().rpartition(")")[2].split()
            return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


@cache
def _namespace() -> str:
    """A number means another process in a container, or in the sandbox of an agent (man 7 pid_namespaces)."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


@cache
def _this(pid: int) -> Owner:
    return Owner(machine_id(), boot_id(), pid, _APART.join(filter(None, (_stat(pid)[1], _namespace()))))


def this_process() -> Owner:
    """The running process; a forked child is another."""
    return _this(os.getpid())
