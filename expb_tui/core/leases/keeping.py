"""Who looks after a lease: the keeper, the cockpit while it is open, or nobody; one rule for every face.

The first frame of the cockpit needs this module, so it imports nothing that takes time.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from expb_tui.core.locks import is_held

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.keeper.state import KeeperState
    from expb_tui.core.leases.model import HeldPackage


class Keeping(StrEnum):
    """``off``: a person has said so. ``nobody``: it is to be kept, and nothing on this host does. ``-``: no renewal
    can be made, or none is needed any more."""

    KEEPER = "keeper"
    COCKPIT = "cockpit"
    NOBODY = "nobody"
    OFF = "off"
    NONE = "-"

    @property
    def renews(self) -> bool:
        """Renewals come without anybody asking."""
        return self in (Keeping.KEEPER, Keeping.COCKPIT)


def keeping_of(held: HeldPackage, *, keeper: bool, here: bool = False) -> Keeping:
    """``keeper``: this host's keeper keeps it (``KeeperState.keeps_it``). ``here``: the face that asks renews what no
    keeper does, while it is open."""
    if not held.renewable:
        # Nobody but the keeper has its token, in its memory: no face can act for the lease, and it is renewed.
        lent = keeper and held.state == "no credential" and not held.profile_name
        return Keeping.KEEPER if lent else Keeping.NONE
    if not held.kept:
        return Keeping.OFF
    return Keeping.KEEPER if keeper else Keeping.COCKPIT if here else Keeping.NOBODY


def why_no_keeper(held: HeldPackage, keeper: KeeperState, clock: Clock) -> str:
    """In a few words, why the keeper does not keep a lease that is to be kept; empty where it does."""
    if not keeper.running:
        return "no keeper runs"
    if keeper.keeps_it(held, clock):
        return ""
    if keeper.silent(clock):
        return "the keeper gives no sign of life"
    if keeper.opaque:
        return f"the keeper is not heard: {keeper.opaque}"
    if held.keeping_problem:
        return f"the keeper cannot: {held.keeping_problem}"
    problem = keeper.problem_of(held)
    if problem is not None:
        return f"the keeper cannot: {problem.what}" + (f", {problem.cause}" if problem.cause else "")
    if not held.profile_name:
        return "the keeper does not have its token"
    return "the keeper has not renewed it in time"


def face_path(folder: Path) -> Path:
    """The file of a state folder on which each open face that renews holds a shared lock."""
    return folder / "locks" / "faces.lock"


def face_renews(folder: Path) -> bool:
    """Whether some face of this user and host is open that renews what no keeper does."""
    return is_held(face_path(folder), shared=True)


def overdue(held: HeldPackage, clock: Clock) -> bool:
    """A renewal that should have extended the lease by now has not."""
    return _passed(held.times.until_overdue(clock) if held.times else None)


def last_lease(held: HeldPackage, clock: Clock) -> bool:
    """The absolute end is nearer than one lease: renewals extend it by less than usual, or not at all."""
    return _passed(held.times.until_last(clock) if held.times else None)


def _passed(left: float | None) -> bool:
    return left is not None and left < 0
