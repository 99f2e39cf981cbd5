"""Words for spans and instants, with the seconds until the words change."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from expb_tui.core.text import coarse

FINE_BELOW = 120
"""Seconds below which a countdown is told in seconds."""
_EDGE = 0.001
"""Added to a change, in seconds, so that whoever wakes up then is past it and not just before."""


class Words(NamedTuple):
    """``next_change`` in seconds; None for never."""

    text: str
    next_change: float | None


def _unit(seconds: int) -> int:
    return next((length for length in (86_400, 3_600, 60) if seconds >= length), 1)


def countdown(left: float) -> Words:
    """Time that is left: one coarse unit until two minutes are left, then seconds; ``0s`` once it is over."""
    if left <= 0:
        return Words("0s", None)
    whole = int(left)
    if whole < FINE_BELOW:
        return Words(f"{whole}s", left - whole + _EDGE)
    unit = _unit(whole)
    return Words(coarse(whole), left - whole // unit * unit + _EDGE)


def countdown_fine(left: float) -> Words:
    """Time that is left to the second: ``14m 32s``, ``1h 04m 32s``; from a day on to the hour (``2d 3h``)."""
    whole = int(left)
    if whole < FINE_BELOW:
        return countdown(left)
    if whole >= 86_400:
        return Words(f"{whole // 86_400}d {whole % 86_400 // 3_600}h", left - whole // 3_600 * 3_600 + _EDGE)
    hours, minutes, seconds = whole // 3_600, whole % 3_600 // 60, whole % 60
    text = f"{hours}h {minutes:02}m {seconds:02}s" if hours else f"{minutes}m {seconds:02}s"
    return Words(text, left - whole + _EDGE)


def age(passed: float) -> Words:
    """Time that has passed: ``5s`` to ``59s`` in steps of five seconds, then coarse; ``now`` below five."""
    whole = max(0, int(passed))
    unit = 5 if whole < 60 else _unit(whole)
    text = "now" if whole < 5 else f"{whole // 5 * 5}s" if whole < 60 else coarse(whole)
    return Words(text, whole // unit * unit + unit - max(0.0, passed) + _EDGE)


def expiry(at: datetime | None, now: datetime) -> Words:
    """EXPIRES of the contract, section 5: ``-``, ``expired`` or ``in 12m``."""
    if at is None:
        return Words("-", None)
    left = (at - now).total_seconds()
    if left <= 0:
        return Words("expired", None)
    unit = _unit(int(left))
    return Words(f"in {coarse(left)}", left - int(left) // unit * unit + _EDGE)


def since(at: datetime | None, now: datetime) -> str:
    """AGE of the contract, section 5; ``<unknown>`` without an instant."""
    return "<unknown>" if at is None else coarse(now - at)


def moment(at: datetime | None, now: datetime) -> str:
    """An instant on this host's clock face: ``13:00``, or ``Oct 5 13:00`` on another day; ``-`` without one."""
    if at is None:
        return "-"
    local, today = at.astimezone(), now.astimezone().date()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%b} {local.day} {local:%H:%M}"
