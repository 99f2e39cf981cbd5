"""Work on offer, kept fresh, and why there is none (hazards 15 and 20)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.wire.work import Opportunity


class FeedState(StrEnum):
    """``stale``: the last try failed or is overdue, older data is shown. ``error``: there is no data at all."""

    LOADING = "loading"
    FRESH = "fresh"
    STALE = "stale"
    ERROR = "error"


@dataclass(frozen=True)
class Snapshot:
    """What a pane shows. ``items`` have work or not (``available`` 0 with ``blocked_by``), in the server's order."""

    state: FeedState
    items: tuple[Opportunity, ...] = ()
    source: Literal["events", "polling"] = "polling"
    taken_at: datetime | None = None
    """Wall clock of the last good answer."""
    taken_ticks: float | None = None
    error: ExpbError | None = None
    failures: int = 0
    """Tries in a row that failed."""
    next_try_ticks: float | None = None
    serial: int = 0
    """Grows with every change."""

    def age(self, clock: Clock) -> float | None:
        """Seconds since the last good answer."""
        return None if self.taken_ticks is None else max(0.0, clock.ticks() - self.taken_ticks)

    @property
    def work(self) -> tuple[Opportunity, ...]:
        """Only items with work to claim."""
        return tuple(item for item in self.items if item.available > 0)


class Answer(StrEnum):
    """What is known of one cause."""

    OK = "ok"
    BLOCKING = "blocking"
    HIDDEN = "cannot be seen with this credential"


@dataclass(frozen=True)
class Cause:
    """One of the six causes of hazards 20: ``name`` is the contract's word, ``title`` and ``detail`` are for a person."""

    name: str
    title: str
    answer: Answer
    detail: str = ""
    next_step: str = ""


async def explain(session: Session, project_id: str, role: str, *, watcher: Session | None = None) -> list[Cause]:
    """All six causes for one project and role, in the order in which a person should look.

    ``watcher`` is a user session of the same endpoint and account, if there is one: it can see roles, policies, holds and limits.
    """
    raise NotImplementedError


class OpportunityFeed:
    """Keeps a snapshot of an agent's opportunities: by events through ``watcher`` where that works, else by polling."""

    def __init__(
        self,
        session: Session,
        *,
        watcher: Session | None = None,
        project_id: str | None = None,
        role: str | None = None,
        interval: float = 15.0,
        clock: Clock = SYSTEM_CLOCK,
        on_change: Callable[[Snapshot], None] | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def snapshot(self) -> Snapshot:
        """The latest state; a new object with every change."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Ask now (key ``r``); does not wait."""
        raise NotImplementedError

    async def run(self) -> None:
        """Keep on until cancelled."""
        raise NotImplementedError
