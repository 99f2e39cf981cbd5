"""Work on offer, kept fresh by events or by polling (hazards 15), and why there is none (hazards 20)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from expb_tui.core.api import events
from expb_tui.core.api.failures import ApiProblem, BadAnswer
from expb_tui.core.api.offers import OPPORTUNITIES, Offer, offer_pages
from expb_tui.core.causes import Answer, Cause
from expb_tui.core.clock import MAX_SLEEP, SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError

if TYPE_CHECKING:
    from expb_tui.core.api.work import WorkApi
    from expb_tui.core.profiles.session import Session

__all__ = ["Answer", "Cause", "FeedState", "OpportunityFeed", "Snapshot", "explain"]

_SAFETY_POLL = 60.0
"""Seconds between polls while events come: they say what changed, not that a lease ran out."""
_EVENT_GAP = 2.0
"""Seconds between two reads that events ask for, however many come."""
_LONGEST_PAUSE = 120.0
_STREAM_PAUSE, _LONGEST_STREAM_PAUSE = 5.0, 300.0
_UNANSWERED = 2.0
"""Seconds after which a question that is still open is said: a server that hangs must not pass for one that answers."""
_SPREAD = random.Random()  # noqa: S311 - spreads load, guards nothing


class FeedState(StrEnum):
    """``stale``: the last try failed, or is overdue, and older data is shown. ``error``: there is no data at all."""

    LOADING = "loading"
    FRESH = "fresh"
    STALE = "stale"
    ERROR = "error"


@dataclass(frozen=True)
class Snapshot:
    """What a pane shows. ``items`` have work or not (``available`` 0 with ``blocked_by``), in the server's order."""

    state: FeedState
    items: tuple[Offer, ...] = ()
    source: Literal["events", "polling"] = "polling"
    taken_at: datetime | None = None
    """Wall clock of the last good answer."""
    taken_ticks: float | None = None
    error: ExpbError | None = None
    failures: int = 0
    """Tries in a row that failed."""
    next_try_ticks: float | None = None
    waiting_since: float | None = None
    """Ticks when the question was sent that has not been answered for a while; None where none hangs."""
    serial: int = 0
    """Grows with every change."""

    def age(self, clock: Clock) -> float | None:
        """Seconds since the last good answer."""
        return None if self.taken_ticks is None else max(0.0, clock.ticks() - self.taken_ticks)

    @cached_property
    def work(self) -> tuple[Offer, ...]:
        """Only items with work to claim."""
        return tuple(item for item in self.items if item.available > 0)


async def explain(
    session: Session, project_id: str, role: str, *, watcher: Session | None = None, api: WorkApi | None = None
) -> list[Cause]:
    """All six causes for one project and role, in the order in which a person should look.

    What the service says of itself (``?all=true``) decides; reads fill in the details, and decide where it says
    nothing. ``watcher`` is a user session of the same endpoint and account, if there is one: it sees role settings,
    policies, holds and limits. A missing authorization, which is none of the six, comes first where it is the reason.
    Raises what a request raises.
    """
    from expb_tui.core import explaining  # the models of research records are not needed for the first screen

    return await explaining.explain(session, project_id, role, watcher=watcher, api=api)


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
        path: str = OPPORTUNITIES,
    ) -> None:
        """``interval``: seconds between polls, spread by a fifth. ``watcher``: a *user* session of the same account."""
        self._session = session
        self._watcher = watcher
        self._project_id = project_id
        self._role = role
        self._interval = interval
        self._clock = clock
        self._on_change = on_change
        self._path = path
        self._snapshot = Snapshot(FeedState.LOADING)
        self._wake = asyncio.Event()
        self._with_empty = True
        self._due = 0.0

    @property
    def snapshot(self) -> Snapshot:
        """The latest state; a new object with every change."""
        return self._snapshot

    def refresh(self) -> None:
        """Ask now (key ``r``); does not wait."""
        self._due = 0.0
        self._wake.set()

    async def run(self) -> None:
        """Keep on until cancelled."""
        stream = asyncio.create_task(self._follow()) if self._watcher is not None else None
        try:
            while True:
                self._wake.clear()
                self._notice_age()
                await self._poll()
                while self._clock.ticks() < self._due:
                    self._notice_age()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(min(MAX_SLEEP, self._due - self._clock.ticks())):
                            await self._wake.wait()
                    self._wake.clear()
        finally:
            if stream is not None:
                stream.cancel()
                with suppress(asyncio.CancelledError):
                    await stream

    async def _poll(self) -> None:
        sent = self._clock.ticks()
        late = asyncio.get_running_loop().call_later(_UNANSWERED, lambda: self._change(waiting_since=sent))
        try:
            items = await self._ask()
        except ExpbError as problem:
            failures = self._snapshot.failures + 1
            pause = min(self._interval * 2.0 ** (failures - 1), _LONGEST_PAUSE) * _SPREAD.uniform(0.8, 1.2)
            if isinstance(problem, ApiProblem) and problem.retry_after is not None:
                pause = max(pause, problem.retry_after)
            self._due = self._clock.ticks() + pause
            known = self._snapshot.taken_ticks is not None
            self._change(
                state=FeedState.STALE if known else FeedState.ERROR,
                error=problem,
                failures=failures,
                next_try_ticks=self._due,
                waiting_since=None,
            )
            return
        finally:
            late.cancel()
        self._due = self._clock.ticks() + self._pause(items)
        self._change(
            state=FeedState.FRESH,
            items=items,
            taken_at=self._clock.now(),
            taken_ticks=self._clock.ticks(),
            error=None,
            failures=0,
            next_try_ticks=self._due,
            waiting_since=None,
        )

    async def _ask(self) -> tuple[Offer, ...]:
        """What is on offer now, by the very objects of before as far as it is as before.

        So faces see at a glance what is new, and ten thousand do not become another ten thousand at each poll.
        """
        before = self._snapshot.items
        known = {(item.project_id, item.role): item for item in before}
        items: list[Offer] = []
        asked = offer_pages(
            self._session, self._path, project_id=self._project_id, role=self._role, every=self._with_empty
        )
        try:
            async for page in asked:
                for item in page.items:
                    old = known.get((item.project_id, item.role))
                    items.append(old if old is not None and old == item else item)
        except ApiProblem as problem:
            if problem.status != 400 or not self._with_empty:
                raise
            self._with_empty = False  # a service that does not list roles without work
            return await self._ask()
        same = len(items) == len(before) and all(item is old for item, old in zip(items, before, strict=True))
        return before if same else tuple(items)

    def _pause(self, items: tuple[Offer, ...]) -> float:
        usual = _SAFETY_POLL if self._snapshot.source == "events" else self._interval
        pause = usual * _SPREAD.uniform(0.8, 1.2)
        # Work that may be asked for sooner than that is shown as soon as it may.
        waits = [item.retry_after_seconds for item in items if 0 < item.retry_after_seconds < pause]
        return min(waits) + 0.5 if waits else pause

    def _notice_age(self) -> None:
        """After a suspend, or a poll that takes long, old data is not called fresh."""
        age = self._snapshot.age(self._clock)
        limit = 2 * max(self._interval, _SAFETY_POLL if self._snapshot.source == "events" else 0.0)
        if self._snapshot.state is FeedState.FRESH and age is not None and age > limit:
            self._change(state=FeedState.STALE)

    async def _follow(self) -> None:
        """Hold the event stream open; a service or credential without events leaves polling alone."""
        assert self._watcher is not None
        pause, last_id = _STREAM_PAUSE, ""
        while True:
            try:
                async with events.follow(self._watcher, project_id=self._project_id, last_id=last_id) as stream:
                    self._change(source="events")
                    self.refresh()
                    async for event in stream:
                        pause = _STREAM_PAUSE
                        last_id = "" if event.kind == "reset" else event.id or last_id
                        if event.kind == "end":
                            break
                        await self._ask_soon()
            except (ApiProblem, BadAnswer) as problem:
                if not isinstance(problem, ApiProblem) or problem.status in (401, 403, 404, 405, 406):
                    self._change(source="polling")
                    return
            except ExpbError:
                pass  # the poll says what is wrong with the connection
            if self._snapshot.source == "events":
                self._change(source="polling")
                # Asked soon: a stream that broke, or fell silent, may mean that nothing answers any more.
                self._due = min(self._due, self._clock.ticks() + _SPREAD.uniform(0.0, _EVENT_GAP))
                self._wake.set()
            await asyncio.sleep(pause * _SPREAD.uniform(0.8, 1.2))
            pause = min(pause * 2, _LONGEST_STREAM_PAUSE)

    async def _ask_soon(self) -> None:
        taken = self._snapshot.taken_ticks
        since = _EVENT_GAP if taken is None else self._clock.ticks() - taken
        self._due = min(self._due, self._clock.ticks() + max(0.0, _EVENT_GAP - since))
        self._wake.set()

    def _change(self, **parts: object) -> None:
        changed = replace(self._snapshot, **parts)  # type: ignore[arg-type]  # names of its own fields
        self._snapshot = replace(changed, serial=self._snapshot.serial + 1)
        if self._on_change is not None:
            self._on_change(self._snapshot)
