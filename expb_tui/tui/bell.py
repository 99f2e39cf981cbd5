"""The bell where an editor or pager has the terminal: nothing may be drawn then, but what is lost must be heard."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil

from expb_tui.core.secret import environ_for_helpers

_TMUX_WORDS = "expb-tui: a lease is lost. Leave the editor to see which; its draft is kept"
"""Fixed: tmux would carry out ``#(...)`` in a text from outside."""
_TMUX_SHOWS = "8000"
"""Milliseconds."""
_running: set[asyncio.Task[None]] = set()


def ring() -> None:
    """One bell to the terminal, which no program draws; in tmux a line in its status bar too. Never waits."""
    with contextlib.suppress(OSError):
        descriptor = os.open("/dev/tty", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"\a")
        finally:
            os.close(descriptor)
    if os.environ.get("TMUX") and (tmux := shutil.which("tmux")):
        task = asyncio.get_running_loop().create_task(_tell_tmux(tmux))
        _running.add(task)
        task.add_done_callback(_running.discard)


async def _tell_tmux(tmux: str) -> None:
    quiet = asyncio.subprocess.DEVNULL
    with contextlib.suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            tmux,
            *("display-message", "-d", _TMUX_SHOWS, _TMUX_WORDS),
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            env=environ_for_helpers(os.environ),
        )
        async with asyncio.timeout(5.0):
            await process.wait()
