"""Faults of ours outside any call: what Python itself would print holds their text, which may quote a credential.

With ``tell_places`` they are told by kind and place alone, whether a thread, a destructor or a task that nobody awaits
has failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from expb_tui.core.errors import place_of

if TYPE_CHECKING:
    import asyncio
    import threading

T = TypeVar("T")
Say = Callable[[str], object]


def _nobody(_: str) -> None:
    return None


_say: Say = _nobody


def tell_places(say: Say) -> Say:
    """From here on faults are told with ``say``, in one line without secrets; returns what was used before.

    It is called from any thread, and must not raise.
    """
    global _say
    before, _say = _say, say
    sys.unraisablehook = _unraisable
    return before


def note(error: BaseException) -> None:
    """Tell of one that was caught, because what it met must go on."""
    _say(place_of(error))


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run``, for every event loop of ours outside the cockpit."""
    import asyncio

    with asyncio.Runner() as runner:
        watch(runner.get_loop())
        return runner.run(main)


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """Tell of what fails in this loop, and in any thread."""
    import threading

    threading.excepthook = _in_thread
    loop.set_exception_handler(_in_loop)


def _in_loop(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is not None:
        _say(place_of(error))


def _unraisable(fault: sys.UnraisableHookArgs) -> None:
    if fault.exc_value is not None:
        _say(place_of(fault.exc_value))


def _in_thread(fault: threading.ExceptHookArgs) -> None:
    if fault.exc_value is not None and fault.exc_type is not SystemExit:
        _say(place_of(fault.exc_value))
