"""Local actions that one key takes back. What a server was asked to do is never among them: that cannot be taken back.

A step may hold a credential that has just been deleted, as ``SecretStr`` and in memory only: it is gone when the step
falls off the end, is taken back, or the cockpit ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

KEPT = 20


def _always() -> bool:
    return True


class Step(NamedTuple):
    """``done`` is what was done, in words; ``back`` takes it back and may raise ``ExpbError``.

    ``means``: taking it back still means something.
    """

    done: str
    back: Callable[[], Awaitable[None]]
    means: Callable[[], bool] = _always


class Undo:
    """The newest step is taken back first."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=KEPT)

    def push(self, done: str, back: Callable[[], Awaitable[None]], means: Callable[[], bool] = _always) -> None:
        """Something was done that ``back`` can take back."""
        self._steps.append(Step(done, back, means))

    def pop(self) -> Step | None:
        """The newest step that still means something, which is no longer kept; None where there is none."""
        return self._steps.pop() if self.newest is not None else None

    @property
    def newest(self) -> Step | None:
        """What would be taken back."""
        while self._steps and not self._steps[-1].means():
            self._steps.pop()
        return self._steps[-1] if self._steps else None
