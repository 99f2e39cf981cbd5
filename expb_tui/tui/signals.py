"""The terminal is always given back: on SIGTERM, SIGHUP, ctrl+z, and when it is gone (style, section 2).

Textual's own driver handles none of the first two, spins when the terminal vanishes while SIGHUP is ignored, and blocks
when its writer can write no more. This one ends the application instead.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Protocol

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from expb_tui.tui.pastes import Pastes, Piece

EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_HANGUP = 128 + signal.SIGHUP
_POLL = 0.1
_NOTCHES = 3
_PASTE_PATIENCE = 2.0
"""Seconds without input after which a paste that never ended is taken as it is."""


class Ends(Protocol):
    """What the driver asks of the application."""

    def end_now(self, code: int) -> None:
        """Leave with this exit code."""
        ...

    def act_app_suspend(self) -> Any:
        """Give the terminal back and stop the process."""
        ...


class _Terminal:
    """What Textual's writer thread writes to. Once the terminal is gone it takes everything and says nothing."""

    def __init__(self, file: IO[str], gone: Callable[[], None]) -> None:
        self._file = file
        self._gone = gone
        self._open = True

    def write(self, text: str) -> int:
        if self._open:
            try:
                return self._file.write(text)
            except OSError:
                self._close()
        return len(text)

    def flush(self) -> None:
        if self._open:
            try:
                self._file.flush()
            except OSError:
                self._close()

    def fileno(self) -> int:
        return self._file.fileno()

    def _close(self) -> None:
        self._open = False
        self._gone()


class CockpitDriver(LinuxDriver):
    """Textual's driver for Linux and macOS that ends with its terminal and stops only when the application agrees."""

    def __init__(
        self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse and app.wants_mouse, size=size)
        self._file: Any = _Terminal(self._file, self._terminal_gone)
        self._ended = False

    def _terminal_gone(self) -> None:
        """Called from the input or the writer thread."""
        if self._ended:
            return
        self._ended = True
        # What is still in Python's buffers must not fail, or turn the exit code into 120, when the interpreter ends.
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in (0, 1, 2):
            os.dup2(null, number)
        app: Ends = self._app  # type: ignore[assignment]  # the driver's app is ours
        self._loop.call_soon_threadsafe(app.end_now, EXIT_HANGUP)

    def _sigtstp_application(self, *_: object) -> None:
        app: Ends = self._app  # type: ignore[assignment]  # the driver's app is ours
        self._loop.call_soon_threadsafe(app.act_app_suspend)

    def run_input_thread(self) -> None:
        """Read keys until told to stop; the end of the input is the end of the terminal."""
        parser = XTermParser(self._debug)
        pastes = Pastes()
        decode = getincrementaldecoder("utf-8")("replace").decode

        def take(pieces: list[Piece]) -> None:
            for kind, text in pieces:
                for message in [events.Paste(text)] if kind == "paste" else merged(parser.feed(text)):
                    self.process_message(message)

        quiet = 0
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_POLL):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self._terminal_gone()
                        return
                    take(pastes.split(decode(data)))
                    quiet = 0
                elif pastes.inside and (quiet := quiet + 1) * _POLL > _PASTE_PATIENCE:
                    take(pastes.give_up())
                for message in parser.tick():
                    self.process_message(message)


def merged(messages: Iterable[Message]) -> Iterator[Message]:
    """Of many notches of the wheel in one read only a few: a slow link must not scroll on for seconds."""
    run, before = 0, None
    for message in messages:
        turned = type(message) if isinstance(message, events.MouseScrollUp | events.MouseScrollDown) else None
        run = run + 1 if turned is not None and turned is before else 1
        before = turned
        if turned is None or run <= _NOTCHES:
            yield message


def install(app: Ends, loop: asyncio.AbstractEventLoop) -> None:
    """Turn SIGTERM and SIGHUP into an orderly end; an ignored SIGHUP (nohup) stays ignored."""
    loop.add_signal_handler(signal.SIGTERM, app.end_now, EXIT_TERMINATED)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, app.end_now, EXIT_HANGUP)


def remove(loop: asyncio.AbstractEventLoop) -> None:
    """Undo ``install``."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.remove_signal_handler(number)


def stop_process() -> None:
    """Stop this process group as the terminal driver would; returns when it is continued.

    Call it while the terminal is given back. In a group without a shell that could continue it the kernel ignores the
    signal, and this returns at once.
    """
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    try:
        os.kill(0, signal.SIGTSTP)
    finally:
        signal.signal(signal.SIGTSTP, before)
