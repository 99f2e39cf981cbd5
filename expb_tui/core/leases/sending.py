"""Sending a mutation until it is known what became of it (hazards 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from expb_tui.core.api.failures import ApiProblem, BadAnswer, RequestFailure, Unreachable
from expb_tui.core.clock import Clock

T = TypeVar("T")

_AGAIN = frozenset({429, 500, 502, 503, 504})
_SAME_KEY_ANSWERS = 2
"""The same refusal this often under one key may be a stored answer: look, then go on with a fresh key."""
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0


class StillUnknown(Exception):
    """The patience is at its end and nobody knows what became of the request; ``failure`` was the last answer."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.what)
        self.failure = failure


@dataclass
class Attempt(Generic[T]):
    """One logical operation.

    ``send(key)`` sends it. ``look()`` reads whether it has happened and gives its result, or None.
    ``fresh_key()`` journals a new key and gives it.
    """

    key: str
    send: Callable[[str], Awaitable[T]]
    look: Callable[[], Awaitable[T | None]]
    fresh_key: Callable[[], Awaitable[str]]
    patience: float
    """Seconds after which no further try is begun."""
    clock: Clock
    uncertain: bool = False
    """Some try may have been carried out without its answer arriving, and no look since then says that it was not."""

    async def run(self) -> T:
        """The result. Raises ``StillUnknown``, or the ``RequestFailure`` of an operation that did not happen.

        What a look fails with is never taken for an answer to the operation.
        """
        until = self.clock.ticks() + self.patience
        pause, same_key = _FIRST_PAUSE, 0
        while True:
            try:
                return await self.send(self.key)
            except ApiProblem as problem:
                running = problem.code == "idempotency-in-progress"
                if problem.status not in _AGAIN and not running:
                    return await self._last_look(problem)
                failure: RequestFailure = problem
                wait = problem.retry_after if problem.retry_after is not None else pause
                same_key += not running
                self.uncertain = self.uncertain or problem.outcome_unknown
            except BadAnswer as problem:
                # Something was answered, so it may have been carried out; only a cut answer can come whole next time.
                self.uncertain = True
                failure, wait = problem, pause
                if problem.code != "truncated":
                    return await self._last_look(problem)
            except Unreachable as problem:
                failure, wait = problem, pause
                self.uncertain = self.uncertain or problem.outcome_unknown
            if self.clock.ticks() + wait > until:
                return await self._last_look(failure)
            await asyncio.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if same_key >= _SAME_KEY_ANSWERS:
                try:
                    found = await self._looked()
                except RequestFailure:
                    continue  # it may have happened: neither a fresh key, nor an end
                if found is not None:
                    return found
                self.key, same_key = await self.fresh_key(), 0

    async def _looked(self) -> T | None:
        if not self.uncertain:
            return None
        found = await self.look()
        self.uncertain = False
        return found

    async def _last_look(self, failure: RequestFailure) -> T:
        try:
            found = await self._looked()
        except RequestFailure:
            raise StillUnknown(failure) from failure
        if found is not None:
            return found
        if failure.outcome_unknown and not isinstance(failure, ApiProblem):
            self.uncertain = True
            raise StillUnknown(failure) from failure
        raise failure  # not sent, refused, or answered by a server whose records say that nothing happened
