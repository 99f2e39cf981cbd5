"""Time: instants are aware UTC, deadlines use a clock that goes on while the machine sleeps (hazards.md 1)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from typing import Protocol

MAX_SLEEP = 15.0
"""No wait for a deadline is longer, in seconds: after a suspend everything is recomputed within this time."""

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What the core asks for the time; tests bring their own."""

    def now(self) -> datetime:
        """The wall clock, aware and in UTC."""
        ...

    def ticks(self) -> float:
        """Seconds on a clock that never jumps and counts suspended time."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def ticks(self) -> float:
        if _BOOT_CLOCK is not None:
            return time.clock_gettime(_BOOT_CLOCK)
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()


@cache
def boot_id() -> str:
    """Changes with every boot, so that ticks of an earlier one are never compared; empty where unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return ""
