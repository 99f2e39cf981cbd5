"""Repaints at a pace: ten times a second at most, and when a picture changes by itself.

Under a dialog the views go on, once a second: what a person looks at is the dialog, but what they come back to, and see
beside it meanwhile, must be true.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Protocol

PACE = 0.1
"""Least time between two repaints, in seconds."""
COVERED_PACE = 1.0
"""The same under a dialog."""
BEAT = 1.0
"""What changes by itself is drawn on the beat, in seconds: ten countdowns tick in one frame and not in ten."""


def on_beat(when: float) -> float:
    """The beat at which what changes at ``when`` is drawn: not before."""
    return math.ceil(when / BEAT) * BEAT


class View(Protocol):
    """A pane or line that shows something of the bridge's."""

    @property
    def topics(self) -> frozenset[str]:
        """What it shows."""
        ...

    def present(self) -> float | None:
        """Show the present state; returns the seconds until the picture changes by itself, None for never."""
        ...


class Pace:
    """``covered`` says whether a dialog stands over the views."""

    def __init__(self, covered: Callable[[], bool]) -> None:
        self._covered = covered
        self._views: list[View] = []
        self._dirty: set[str] = set()
        self._due: dict[int, float] = {}
        self._next: asyncio.TimerHandle | None = None
        self._last = 0.0

    def show_in(self, views: Iterable[View]) -> None:
        """These views are told of changes from now on, and of everything that they may have missed."""
        self._views = list(views)
        self._due.clear()
        self.mark(*(topic for view in self._views for topic in view.topics))

    def mark(self, *topics: str) -> None:
        """Something of these topics has changed."""
        self._dirty.update(topics)
        self._plan(0.0)

    def stop(self) -> None:
        """Repaint no more."""
        if self._next is not None:
            self._next.cancel()

    def _plan(self, delay: float) -> None:
        loop = asyncio.get_running_loop()
        when = max(loop.time() + delay, self._last + (COVERED_PACE if self._covered() else PACE))
        if self._next is not None:
            if self._next.when() <= when:
                return
            self._next.cancel()
        self._next = loop.call_at(when, self._repaint)

    def _repaint(self) -> None:
        """The views whose topics changed, or whose picture is due to change by itself."""
        self._next = None
        now = self._last = asyncio.get_running_loop().time()
        dirty, self._dirty = self._dirty, set()
        for place, view in enumerate(self._views):
            if view.topics & dirty or self._due.get(place, now + 1) <= now:
                change = view.present()
                self._due.pop(place, None)
                if change is not None:
                    self._due[place] = on_beat(now + change)
        if self._due:
            self._plan(min(self._due.values()) - now)
