"""Words for the ear: whole units, no signs, no tables, and nothing that needs to be seen beside something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expb_tui.core.leases.keeping import Keeping
from expb_tui.core.text import clean
from expb_tui.present.cells import Glyphs

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.model import HeldPackage

SILENT = Glyphs(*[""] * len(Glyphs._fields))
"""Signs say to the eye what the words beside them say already."""

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))

KEPT_BY = {
    Keeping.KEEPER: "renewed by the keeper",
    Keeping.COCKPIT: "renewed by this session",
    Keeping.NOBODY: "renewed by nobody",
    Keeping.OFF: "keeping is off",
    Keeping.NONE: "",
}


def count(number: int, noun: str) -> str:
    """``1 task``, ``3 tasks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spoken(seconds: float) -> str:
    """A duration in one whole unit, rounded down: ``12 minutes``, ``45 seconds``."""
    whole = max(0, int(seconds))
    length, noun = next(((length, noun) for length, noun in _UNITS if whole >= length), _UNITS[-1])
    return count(whole // length, noun)


def joined(parts: Sequence[str]) -> str:
    """``1``, ``1 and 2``, ``1, 2 and 3``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentence(*parts: str) -> str:
    """Non-empty parts as sentences, each with its full stop."""
    said = (part.strip() for part in parts)
    return " ".join(
        part[0].upper() + part[1:] + ("" if part.endswith((".", "!", "?", ":")) else ".") for part in said if part
    )


def about(held: HeldPackage) -> str:
    """``ideator in checkout-latency``."""
    return f"{clean(held.role)} in {clean(held.project_name or held.project_id)}"


def left(held: HeldPackage, clock: Clock) -> str:
    """``12 minutes left``, or the state where there is no time to tell."""
    if held.times is None or not held.renewable:
        return held.word
    return f"{spoken(held.remaining(clock))} left"


def line_of(number: int, held: HeldPackage, keeping: Keeping, clock: Clock) -> str:
    """One lease as a whole line."""
    parts = [left(held, clock)]
    if held.renewable and held.word != "active":
        parts.append(held.word)
    parts.append(KEPT_BY[keeping])
    if held.renewals:
        parts.append(f"renewed {count(held.renewals, 'time')}")
    parts.append(f"{held.done} of {count(len(held.tasks), 'task')} submitted")
    drafts = sum(task.has_draft for task in held.tasks)
    parts.append(count(drafts, "unsent draft") if drafts else "")
    return f"{number}. {about(held)}: " + ", ".join(part for part in parts if part) + f", package {clean(held.uid)}"
