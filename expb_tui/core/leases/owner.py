"""Who is doing something now: the process that an intent names, and whether it still lives (hazards 4)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from expb_tui.core.clock import boot_id
from expb_tui.core.paths import machine_id


@dataclass(frozen=True)
class Owner:
    """A process, told apart from a later one with the same number by boot and start time."""

    host: str
    boot: str
    pid: int
    start: str

    def alive(self) -> bool:
        """Whether it still runs; a process of another host or another pid namespace counts as alive."""
        if self.host != machine_id():
            return True
        if self.boot != boot_id():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not self.start or process_start(self.pid) in ("", self.start)


def process_start(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The name in parentheses may hold anything; field 22 is the 20th after it (man 5 proc).
            return handle.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@cache
def _this(pid: int) -> Owner:
    return Owner(machine_id(), boot_id(), pid, process_start(pid))


def this_process() -> Owner:
    """The running process; a forked child is another."""
    return _this(os.getpid())
