"""Copying to the operator's own clipboard, across SSH and tmux, without any X11 tool.

No terminal confirms a copy, so what is said is "sent to the terminal", and the caller keeps the text on the screen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Callable
from typing import Any

from textual.app import App

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean

LIMIT = 74_994
"""Bytes of text: terminals take OSC 52 sequences of at most 100,000 bytes, base64 and prefix included (as k9s does)."""
_TMUX_WAIT = 2.0
_SCREEN_CHUNK = 76


def osc52(text: str, *, screen: bool = False) -> str:
    """The escape sequence that hands ``text`` to the terminal's clipboard.

    ``screen``: wrapped into device control strings in short pieces, because GNU screen passes nothing else through.
    """
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\a"
    if not screen:
        return sequence
    return "".join(
        f"\x1bP{sequence[start : start + _SCREEN_CHUNK]}\x1b\\" for start in range(0, len(sequence), _SCREEN_CHUNK)
    )


async def _tmux_takes(text: str) -> bool:
    """Hand ``text`` to tmux, which sends it on to the terminal that is attached now; False where this tmux cannot."""
    try:
        process = await asyncio.create_subprocess_exec(
            "tmux",
            "load-buffer",
            "-w",
            "-",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_TMUX_WAIT):
            await process.communicate(text.encode())
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return False
    return process.returncode == 0


async def send(text: str, write: Callable[[str], object]) -> str:
    """Send ``text`` (cleaned) to the operator's clipboard, through tmux or with ``write`` to the terminal.

    Returns what happened in words. Raises ``ExpbError`` (code ``too-long``) beyond :data:`LIMIT`.
    """
    text = clean(text, multiline=True)
    size = len(text.encode())
    if size > LIMIT:
        raise ExpbError(
            "The text is not copied",
            cause=f"it has {size:,} bytes and terminals take {LIMIT:,}",
            next_step="Select a part of it on the screen, or open it in the pager",
            code="too-long",
        )
    if os.environ.get("TMUX") and await _tmux_takes(text):
        return "Sent to tmux and its terminal"
    write(osc52(text, screen=bool(os.environ.get("STY"))))
    return "Sent to the terminal"


async def copy(app: App[Any], text: str) -> str:
    """Copy from the cockpit; see :func:`send`."""
    driver = app._driver  # Textual's own copy_to_clipboard writes there too; it has no public name
    return await send(text, driver.write if driver is not None else lambda _: None)
