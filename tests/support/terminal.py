"""A program in a real pseudo-terminal with a model of the screen; a wait that fails shows what was on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyte
from numpy.typing import NDArray

from tests.support import picture

PATIENCE = 20.0
"""Seconds that a wait may take."""


class Terminal:
    """One program on one terminal. Use :func:`terminal`, which ends it."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 120, lines: int = 40, environ: Mapping[str, str] | None = None
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.output = bytearray()
        """Everything that the program has written."""
        self._status: int | None = None
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as after a login; the tests themselves may run under nohup
            os.execvpe(command[0], list(command), dict(environ if environ is not None else os.environ))
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        self.screen.resize(lines, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGWINCH)

    def pump(self, seconds: float = 0.05) -> bool:
        """Take what comes within ``seconds``; False once the program has closed the terminal."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return False
            if not data:
                return False
            self.output += data
            # pyte takes private sequences that it does not know for text.
            self._stream.feed(data)
        return True

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    @property
    def text(self) -> str:
        """The screen as lines."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, *words: str, without: str | None = None, patience: float = PATIENCE) -> str:
        """The screen once it shows all ``words``, in any order, and not ``without``."""
        deadline = time.monotonic() + patience
        while True:
            text = self.text
            if all(word in text for word in words) and (without is None or without not in text):
                return text
            if time.monotonic() > deadline or not self.pump():
                raise AssertionError(f"waited for {words}, without {without!r}; on the screen:\n{self.text}")

    def wait_text(self, text: str, patience: float = PATIENCE) -> None:
        """Until the screen is ``text``, whole."""
        deadline = time.monotonic() + patience
        while self.text != text:
            if time.monotonic() > deadline or not self.pump():
                raise AssertionError(f"waited for another screen than\n{self.text}")

    def settle(self, quiet: float = 0.25, patience: float = PATIENCE) -> None:
        """Wait until nothing has come for ``quiet`` seconds."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            before = len(self.output)
            end = time.monotonic() + quiet
            while time.monotonic() < end:
                if not self.pump(end - time.monotonic()):
                    return
            if len(self.output) == before:
                return

    def codes(self) -> Sequence[str]:
        """The QR codes on the screen."""
        return picture.codes(self.image())

    def image(self) -> NDArray[np.uint8]:
        """The screen as a picture."""
        return picture.image(self.screen)

    def modes(self) -> dict[str, object]:
        """What a program should leave as it found it: line discipline and the terminal's own modes."""
        attributes = termios.tcgetattr(self._master)
        return {
            "canonical": bool(attributes[3] & termios.ICANON),
            "echo": bool(attributes[3] & termios.ECHO),
            "signals": bool(attributes[3] & termios.ISIG),
            "alternate screen": self._last(b"1049"),
            "cursor hidden": self._last(b"25", on=b"l", off=b"h"),
            "mouse": any(self._last(mode) for mode in (b"1000", b"1003", b"1006", b"1015", b"1016")),
            "paste": self._last(b"2004"),
            "focus reports": self._last(b"1004"),
            "size reports": self._last(b"2048"),
            "lines cut": self._last(b"7", on=b"l", off=b"h"),
            "kitty keys": len(re.findall(rb"\x1b\[>\d+u", self.output)) != self.output.count(b"\x1b[<u"),
        }

    def restored(self) -> bool:
        """Whether the terminal is as a shell wants it."""
        disciplined = ("canonical", "echo", "signals")
        return all(found is (name in disciplined) for name, found in self.modes().items())

    def _last(self, mode: bytes, on: bytes = b"h", off: bytes = b"l") -> bool:
        return self.output.rfind(b"\x1b[?" + mode + on) > self.output.rfind(b"\x1b[?" + mode + off)

    def wait_end(self, patience: float = PATIENCE) -> int:
        """The exit status (negative for a signal) once the program has ended."""
        deadline = time.monotonic() + patience
        while self._status is None:
            self.pump(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise AssertionError(f"the program has not ended; on the screen:\n{self.text}")
        while self.pump(0.02) and select.select([self._master], [], [], 0)[0]:
            pass
        return self._status

    def end(self) -> None:
        """Kill what is left and close the terminal."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        os.close(self._master)


@contextlib.contextmanager
def terminal(
    command: Sequence[str], *, columns: int = 120, lines: int = 40, environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run ``command`` in a terminal for the time of the block."""
    shown = Terminal(command, columns=columns, lines=lines, environ=environ)
    try:
        yield shown
    finally:
        shown.end()
