"""A program in a pseudo-terminal that is only timed and counted: no model of the screen that would cost time too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

COLUMNS, LINES = 120, 40
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Timed:
    """One program; ``output`` is everything that it wrote. The terminal answers no query.

    ``link`` is how many bytes a second the terminal takes, None for as many as come.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, link: float | None = None) -> None:
        self.output = bytearray()
        self.link = link
        self.last = self.started = time.perf_counter()
        """When the last bytes came."""
        self._free = self.started
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], list(command), dict(environ))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def pump(self, seconds: float) -> bool:
        """Take what comes within ``seconds``; whether anything came."""
        if self.link is not None and (busy := self._free - time.perf_counter()) > 0:
            time.sleep(min(busy, seconds))
            if busy > seconds:
                return False
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            data = os.read(self._master, 65_536 if self.link is None else 512)
            self.output += data
            self.last = time.perf_counter()
            if self.link is not None:
                self._free = max(self._free, self.last) + len(data) / self.link
            return True
        return False

    def until(self, *words: bytes, limit: float = 60.0) -> float:
        """Milliseconds since the start until the output holds all ``words``."""
        deadline = time.perf_counter() + limit
        while not all(word in self.output for word in words):
            if time.perf_counter() > deadline:
                raise SystemExit(f"waited for {words}; got {bytes(self.output[-2000:])!r}")
            self.pump(0.02)
        return (time.perf_counter() - self.started) * 1000

    def quiet(self, seconds: float = 0.3, limit: float = 10.0) -> None:
        """Until nothing has come for ``seconds``, or ``limit`` is over."""
        deadline = time.perf_counter() + limit
        while time.perf_counter() < deadline and self.pump(seconds):
            pass

    def send(self, text: str) -> None:
        """Type."""
        os.write(self._master, text.encode())

    def key(self, text: str, quiet: float = 0.1) -> tuple[float, int]:
        """Send a key: milliseconds until the first answer, bytes of all of it."""
        before, sent = len(self.output), time.perf_counter()
        self.send(text)
        while not self.pump(0.5):
            if time.perf_counter() - sent > 5:
                raise SystemExit(f"no answer to {text!r}")
        passed = (time.perf_counter() - sent) * 1000
        self.quiet(quiet)
        return passed, len(self.output) - before

    def watch(self, seconds: float) -> tuple[float, float]:
        """Leave it alone: bytes a second, and the share of a core that it used, in percent."""
        self.pump(0)
        before, used, started = len(self.output), self.cpu_seconds(), time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds:
            self.pump(min(0.5, seconds - passed))
        passed = time.perf_counter() - started
        return (len(self.output) - before) / passed, (self.cpu_seconds() - used) / passed * 100

    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mib(self) -> float:
        """What is resident now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 2**20

    def end(self, key: str) -> float:
        """Leave by a key: milliseconds until the program has ended."""
        sent = time.perf_counter()
        self.send(key)
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            self.pump(0.01)
            if time.perf_counter() - sent > 10:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self._master)
        return (time.perf_counter() - sent) * 1000


def p95(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[int(len(values) * 0.95)]


def p50(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)
