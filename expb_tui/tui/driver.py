"""The terminal is always given back: on every signal that ends or stops us, and when it is gone (style, section 2).

Textual's own driver handles few of them, spins when the terminal vanishes while SIGHUP is ignored, blocks the event
loop while the terminal takes nothing, and takes the terminal twice after a SIGSTOP. This one does none of that.
"""

from __future__ import annotations

import os
import queue
import selectors
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from expb_tui.core.signals import EXIT_HANGUP
from expb_tui.core.text import in_ascii, spoken_encoding
from expb_tui.tui.pastes import Pastes, Piece

_POLL = 0.1
_NOTCHES = 3
_PASTE_PATIENCE = 2.0
"""Seconds without input after which a paste that never ended is taken as it is."""
_STALL = 1.0
"""Seconds that the event loop waits for a terminal that takes nothing, before frames are left out."""
_LAST_WORDS = 2.0
"""Seconds in which such a terminal must take something at the end, or it is given up."""
_BLOCK = 4096
_WIPE = "\x1b[0m\x1b[2J\x1b[H"
"""Where there is no alternate screen (GNU screen, unless told), the frame must not stay behind under the prompt."""


class Ends(Protocol):
    """What the driver asks of the application."""

    wants_mouse: bool
    ascii_only: bool
    frame_waits: bool
    """There is something to draw, as soon as the terminal has taken what it was given before."""

    @property
    def leaving(self) -> bool:
        """It has been told to end."""
        ...

    def end_now(self, code: int) -> None:
        """Leave with this exit code."""
        ...

    def act_app_suspend(self) -> Any:
        """Give the terminal back and stop the process."""
        ...

    def has_screen(self) -> None:
        """The terminal is ours from here on."""
        ...

    def draw_all(self) -> None:
        """Everything is to be drawn again."""
        ...

    def send_frame(self) -> None:
        """Draw what waits."""
        ...


class _Terminal:
    """What Textual's writer thread writes to. Once the terminal is gone it takes everything and says nothing.

    It writes to the descriptor itself: a thread that is stuck in a Python file would hold a lock that the interpreter
    needs to end.
    """

    def __init__(
        self, descriptor: int, *, ascii_only: bool, gone: Callable[[], None], idle: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._ascii_only = ascii_only
        self._gone = gone
        self._idle = idle
        self._waiting = bytearray()
        self._open = True
        self._written = 0
        self.sent = 0
        """Bytes that the terminal has taken."""
        self.taken = 0
        """How many writes the terminal has taken whole."""

    def write(self, text: str) -> int:
        self._written += 1
        self._waiting += (in_ascii(text) if self._ascii_only else text).encode("utf-8", "replace")
        if len(self._waiting) >= _BLOCK:
            self._send()
        return len(text)

    def flush(self) -> None:
        self._send()
        self.taken = self._written
        self._idle()

    def begin(self) -> int:
        """A new writer thread begins with nothing to be taken; returns ``taken``."""
        self.taken = self._written
        return self.taken

    def fileno(self) -> int:
        return self._descriptor

    def _send(self) -> None:
        data, self._waiting = memoryview(bytes(self._waiting)), bytearray()
        while data and self._open:
            try:
                count = os.write(self._descriptor, data)
                data = data[count:]
                self.sent += count
            except BlockingIOError:
                # Somebody else made the terminal non-blocking, as ssh and some editors do.
                with selectors.DefaultSelector() as ready, suppress(OSError):
                    ready.register(self._descriptor, selectors.EVENT_WRITE)
                    ready.select(_POLL)
            except OSError:
                self._open = False
                self._gone()


class CockpitDriver(LinuxDriver):
    """Textual's driver for Linux and macOS that ends with its terminal and stops only when the application agrees."""

    def __init__(
        self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse and app.wants_mouse, size=size)
        self._ours: Ends = app
        # Standard error, which Textual takes, may well be a file.
        self._file: Any = _Terminal(1, ascii_only=app.ascii_only, gone=self._terminal_gone, idle=self._caught_up)
        self._ended = False
        self._stalled = False
        self._handed = 0

    def start_application_mode(self) -> None:
        # What a stalled terminal never took before is not waited for.
        self._handed = self._file.begin()
        self._stalled = False
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual gives it no types
        self._ours.has_screen()

    def stop_application_mode(self) -> None:
        if self._writer_thread is None:
            return  # another program has the terminal, in the state in which it is to be left
        if self._stalled:
            # What restores the terminal comes before frames that it has not taken yet.
            with suppress(queue.Empty):
                while True:
                    self._writer_thread._queue.get_nowait()
        self.write(_WIPE)
        super().stop_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again, unless we were told to end while another program had it."""
        if not self._ours.leaving:
            super().resume_application_mode()

    # Writing

    def write(self, data: str) -> None:
        """Hand ``data`` to the writer thread; while the terminal takes nothing, frames are left out."""
        if self._writer_thread is None:
            return
        waiting = self._writer_thread._queue
        self._handed += 1
        try:
            waiting.put(data, timeout=None if self._ended else 0.001 if self._stalled else _STALL)
        except queue.Full:
            self._handed -= 1
            self._stalled = True

    @property
    def busy(self) -> bool:
        """Whether the terminal has still to take something that was written before."""
        return bool(self._handed != self._file.taken)

    def _caught_up(self) -> None:
        """Called from the writer thread: everything has been taken. What was left out is drawn again."""
        if self._stalled:
            self._stalled = False
            self._loop.call_soon_threadsafe(self._ours.draw_all)
        elif self._ours.frame_waits:
            self._loop.call_soon_threadsafe(self._ours.send_frame)

    def close(self) -> None:
        """End the writer thread; one that is stuck is left behind."""
        thread, self._writer_thread = self._writer_thread, None
        if thread is None:
            return
        with suppress(queue.Full):
            thread._queue.put(None, timeout=_LAST_WORDS)
        sent = -1
        while thread.is_alive() and sent != self._file.sent:
            sent = self._file.sent
            thread.join(_LAST_WORDS)
        if thread.is_alive():
            _write_to_nobody()

    # Ends and stops

    def _terminal_gone(self) -> None:
        """Called from the input or the writer thread."""
        if self._ended:
            return
        self._ended = True
        _write_to_nobody()
        self._loop.call_soon_threadsafe(self._ours.end_now, EXIT_HANGUP)

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ours.act_app_suspend)

    def _sigcont_application(self, *_: object) -> None:
        """Continued after a SIGSTOP that nobody announced: the shell may have changed the terminal meanwhile."""
        if self._auto_restart:
            self._loop.call_soon_threadsafe(self._take_again)

    def _take_again(self) -> None:
        if self._writer_thread is not None and not self._ended:
            self.suspend_application_mode()
            self.resume_application_mode()
            self._ours.draw_all()

    # Reading

    def run_input_thread(self) -> None:
        """Read keys until told to stop; the end of the input is the end of the terminal."""
        parser = XTermParser(self._debug)
        pastes = Pastes()
        decode = getincrementaldecoder(spoken_encoding(os.environ))("replace").decode

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


def _write_to_nobody() -> None:
    """What is still in Python's buffers must neither wait nor fail, nor turn the exit code into 120, at the end."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in (0, 1, 2):
        os.dup2(null, number)


def merged(messages: Iterable[Message]) -> Iterator[Message]:
    """Of many notches of the wheel in one read only a few: a slow link must not scroll on for seconds."""
    run, before = 0, None
    for message in messages:
        turned = type(message) if isinstance(message, events.MouseScrollUp | events.MouseScrollDown) else None
        run = run + 1 if turned is not None and turned is before else 1
        before = turned
        if turned is None or run <= _NOTCHES:
            yield message
