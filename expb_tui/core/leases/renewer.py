"""Keeps leases alive in the process that runs it: the cockpit, a waiting command, and later the keeper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.model import HeldPackage

if TYPE_CHECKING:
    from expb_tui.core.leases.desk import Desk
    from expb_tui.core.profiles.session import Session

SessionSource = Callable[[HeldPackage], Awaitable["Session"]]
"""Gives the session for a held package, usually ``lambda held: house.session(held.profile_name)``."""


@dataclass(frozen=True)
class RenewalNote:
    """Something that happened while keeping leases: a renewal, a failed try, a loss."""

    package_id: str
    error: ExpbError | None


class Renewer:
    """Renews every lease of this host at a third of its length left; one process at a time per package."""

    def __init__(
        self,
        desk: Desk,
        sessions: SessionSource,
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_note: Callable[[RenewalNote], None] | None = None,
    ) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Keep on until cancelled; a cancelled renewal in flight is still journaled."""
        raise NotImplementedError
