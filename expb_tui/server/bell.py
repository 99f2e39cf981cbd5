"""Tells the event streams of this process that an account has news; other processes' news are found by polling."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Bell:
    """Rung by whoever committed, from any thread; a listener must be quick and must not raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[frozenset[str]], None]] = []

    def ring(self, accounts: frozenset[str]) -> None:
        """Say that these accounts have new events."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(accounts)

    def listen(self, listener: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Call ``listener`` at every ring; returns what ends that."""
        with self._lock:
            self._listeners.append(listener)

        def leave() -> None:
            with self._lock:
                self._listeners.remove(listener)

        return leave
