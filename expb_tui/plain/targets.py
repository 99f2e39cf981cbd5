"""Which lease and task a typed word means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.watch.losses import ending

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage, HeldTask
    from expb_tui.plain.session import PlainSession

_LIST = "Type list for the leases"


def lease_of(session: PlainSession, word: str) -> HeldPackage:
    """The lease of a number or package id, or of the beginning of one. Raises ``UsageError``."""
    held = session.bridge.held or ()
    uid = session.numbers.uid(int(word)) if word.isdecimal() else None
    found = [one for one in held if one.uid == uid] or [one for one in held if one.uid == word]
    found = found or ([one for one in held if one.uid.startswith(word)] if len(word) >= 4 else [])
    if len(found) == 1:
        session.own.add(found[0].uid)
        return found[0]
    if found:
        raise UsageError(f"{word} begins {len(found)} package ids", next_step="Type more of it, or the lease's number")
    raise UsageError(f"There is no lease {word}", next_step=_LIST)


def refuse_lost(session: PlainSession, held: HeldPackage) -> None:
    """Raises ``ExpbError`` where nothing can be submitted for the package any more; its drafts stay."""
    now = next((one for one in session.bridge.held or () if one.uid == held.uid), held)
    over = ending(now)
    if over is not None:
        raise ExpbError(over.what, cause=over.why, next_step=over.next_step, code="lease-over")


def task_of(session: PlainSession, word: str) -> tuple[HeldPackage, HeldTask]:
    """``2`` is the first open task of lease 2, ``2.3`` its third. Raises ``ExpbError``, also where it is over."""
    name, dot, place = word.rpartition(".")
    held = lease_of(session, name if dot and place.isdecimal() else word)
    refuse_lost(session, held)
    if dot and place.isdecimal():
        if not 1 <= int(place) <= len(held.tasks):
            raise UsageError(f"Lease {name} has no task {place}", cause=f"it has {len(held.tasks)}", next_step=_LIST)
        task = held.tasks[int(place) - 1]
    else:
        open_ones = [one for one in held.tasks if one.open and not one.submitted]
        if not open_ones:
            raise UsageError(f"Lease {word} has no open task", next_step=f"Type show {word}")
        task = open_ones[0]
    if task.submitted or not task.open:
        raise UsageError(f"Task {word} takes no submission any more", next_step=f"Type show {name or word}")
    return held, task
