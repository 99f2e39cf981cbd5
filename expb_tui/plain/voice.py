"""The one writer of the plain mode: cleaned lines, in ASCII where the locale wants it, and never a wait.

A person may hold the output with ctrl+s for as long as it takes to listen; leases are renewed meanwhile. So a thread
writes, and whoever speaks goes on.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from expb_tui.core.text import clean, in_ascii

_MOST = 2_000
"""Lines that wait for a terminal that takes nothing; further ones are counted, not kept."""
_BELL = "\a"
_LAST_WORDS = 2.0
"""Seconds that the terminal has at the end."""


class Voice:
    """``say`` from one thread only; ``close`` before the process ends."""

    def __init__(self, descriptor: int, *, ascii_only: bool, gone: Callable[[], object]) -> None:
        """``gone`` is called, in the writing thread, when nobody can hear us any more."""
        self._descriptor = descriptor
        self._ascii_only = ascii_only
        self._gone = gone
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST)
        self._skipped = 0
        self._held: list[str] | None = None
        self._thread = threading.Thread(target=self._write, name="plain-voice", daemon=True)
        self._thread.start()

    def say(self, *lines: str) -> None:
        """Each as one line; text from outside is cleaned here once more."""
        for line in lines:
            if self._held is not None:
                self._held.append(line)
                continue
            try:
                if self._skipped:
                    self._lines.put_nowait(f"{self._skipped} lines were skipped: the terminal took nothing.")
                    self._skipped = 0
                self._lines.put_nowait(line)
            except queue.Full:
                self._skipped += 1

    def ring(self) -> None:
        """The terminal's bell, where it can be heard."""
        with suppress(queue.Full):
            self._lines.put_nowait(_BELL)

    def hold(self) -> None:
        """Another program has the terminal: what is said waits for ``go_on``, and what was said is written first."""
        self._held = []
        self._lines.join()

    def go_on(self) -> None:
        """Say what waited."""
        waiting, self._held = self._held or [], None
        self.say(*waiting)

    def close(self) -> None:
        """Write what is left, unless the terminal takes nothing."""
        try:
            self._lines.put(None, timeout=_LAST_WORDS)
        except queue.Full:
            return
        self._thread.join(_LAST_WORDS)

    def _encoded(self, line: str) -> bytes:
        text = clean(line)
        return (in_ascii(text) if self._ascii_only else text).encode("utf-8", "replace") + b"\n"

    def _write(self) -> None:
        open_ = True
        while (line := self._lines.get()) is not None:
            data = memoryview(_BELL.encode() if line is _BELL else self._encoded(line))
            while data and open_:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:
                    threading.Event().wait(0.05)
                except OSError:
                    open_ = False
                    self._gone()
            self._lines.task_done()
