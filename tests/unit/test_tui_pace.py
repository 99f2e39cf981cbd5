"""Repaints at a pace: what changes by itself is drawn together, what is told is drawn soon."""

from __future__ import annotations

import asyncio

import pytest

from expb_tui.watch import pace
from expb_tui.watch.pace import Pace


class Counted:
    """A view that changes by itself after ``change`` seconds."""

    def __init__(self, name: str, change: float | None, log: list[str]) -> None:
        self.topics = frozenset({name})
        self._name = name
        self._change = change
        self._log = log
        self.drawn = asyncio.Event()

    def present(self) -> float | None:
        self._log.append(self._name)
        self.drawn.set()
        return self._change


def test_countdowns_tick_together_on_the_beat() -> None:
    assert {pace.on_beat(when) for when in (100.001, 100.25, 100.999, 101.0)} == {101.0}
    assert pace.on_beat(101.001) == 102.0


async def test_what_changes_by_itself_waits_for_the_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def at_once(when: float) -> float:
        asked.append(when)
        return when

    monkeypatch.setattr(pace, "on_beat", at_once)
    log: list[str] = []
    views = [Counted("one", 0.2, log), Counted("still", None, log)]
    paced = Pace(lambda: False)
    paced.show_in(views)
    while log.count("one") < 3:
        await asyncio.wait_for(views[0].drawn.wait(), 20)
        views[0].drawn.clear()
    paced.stop()
    assert log == ["one", "still", "one", "one"]
    assert len(asked) == 3


async def test_what_is_told_is_not_left_to_the_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "BEAT", 3600.0)
    log: list[str] = []
    views = [Counted("one", 0.1, log), Counted("two", 0.1, log)]
    paced = Pace(lambda: False)
    paced.show_in(views)
    await asyncio.wait_for(views[1].drawn.wait(), 20)
    views[1].drawn.clear()
    paced.mark("two")
    await asyncio.wait_for(views[1].drawn.wait(), 20)
    paced.stop()
    assert log == ["one", "two", "two"]
