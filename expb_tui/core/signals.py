"""Signals of a process that has a terminal: which end it, how it stops, and how it waits for a program that has it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_HANGUP = 128 + signal.SIGHUP
FROM_THE_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
"""What ctrl+c and ctrl+\\ send to every program in the foreground where the terminal makes signals of keys."""
_ENDING = (signal.SIGTERM, signal.SIGHUP, *FROM_THE_KEYBOARD)


def install(loop: asyncio.AbstractEventLoop, end: Callable[[signal.Signals], object]) -> None:
    """Hand SIGTERM, SIGHUP, SIGINT and SIGQUIT to ``end`` in the loop; an ignored one (nohup) stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)


def remove(loop: asyncio.AbstractEventLoop) -> None:
    """Undo ``install``."""
    for number in _ENDING:
        loop.remove_signal_handler(number)


def end_at_the_latest(seconds: float, code: int) -> None:
    """Nobody sees this process any more: whatever holds up its orderly end, it is over after ``seconds``.

    What was journaled by then is as true as after a kill.
    """
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()


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


@contextmanager
def of_a_waiting_shell() -> Iterator[None]:
    """While another program has the terminal, ctrl+c must not end us, and ctrl+z must stop us without any drawing.

    A handler that does nothing is used instead of SIG_IGN, which the child would inherit. What ``install`` gave to the
    loop is still called: ``end`` has to look away from signals of the keyboard meanwhile.
    """

    def nothing(number: int, frame: FrameType | None) -> None:
        return None

    wanted: dict[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers] = {
        signal.SIGINT: nothing,
        signal.SIGQUIT: nothing,
        signal.SIGTSTP: signal.SIG_DFL,
        signal.SIGCONT: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
