"""Copying to the operator's own clipboard, across SSH, tmux and GNU screen, without any X11 tool.

No terminal confirms a copy, so what is said is "sent to the terminal", and the caller keeps the text on the screen.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Literal

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean

LIMIT = 74_994
"""Bytes of text: terminals take OSC 52 sequences of at most 100,000 bytes, base64 and prefix included (as k9s does)."""
_TMUX_WAIT = 2.0
_SCREEN_CHUNK = 76

Choice = Literal["auto", "tmux", "osc52"]
"""The setting ``clipboard``: ``tmux`` never writes to the terminal, ``osc52`` never asks tmux."""


class Route(StrEnum):
    """The way that a copy takes first."""

    TMUX = "tmux load-buffer -w"
    SCREEN = "OSC 52 through GNU screen"
    TERMINAL = "OSC 52"


def route(environ: Mapping[str, str] = os.environ, choice: Choice = "auto") -> Route:
    """The way from here to the operator's clipboard."""
    if choice == "tmux" or (choice == "auto" and environ.get("TMUX")):
        return Route.TMUX
    return Route.SCREEN if environ.get("STY") else Route.TERMINAL


def osc52(text: str, *, within: Literal["", "tmux", "screen"] = "") -> str:
    """The escape sequence that hands ``text`` to the terminal's clipboard.

    ``within`` wraps it into what that multiplexer passes through to its terminal; GNU screen takes short pieces only.
    """
    sequence = f"\x1b]52;c;{base64.b64encode(text.encode()).decode('ascii')}\a"
    if within == "tmux":
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if within == "screen":
        pieces = (sequence[start : start + _SCREEN_CHUNK] for start in range(0, len(sequence), _SCREEN_CHUNK))
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence


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


async def send(text: str, write: Callable[[str], object], choice: Choice = "auto") -> str:
    """Send ``text`` (cleaned) to the operator's clipboard, through tmux or with ``write`` to the terminal.

    Returns what happened in words. Raises ``ExpbError``: ``too-long`` beyond :data:`LIMIT`, ``no-tmux`` where only tmux
    may be used and does not take it.
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
    way = route(choice=choice)
    if way is Route.TMUX:
        if await _tmux_takes(text):
            return "Sent to tmux and its terminal"
        if choice == "tmux":
            raise ExpbError(
                "The text is not copied",
                cause="tmux does not take it (load-buffer -w needs tmux 3.2)",
                next_step='Select it on the screen, or set clipboard = "auto" in config.toml',
                code="no-tmux",
            )
        # An old tmux: what it understands itself (set-clipboard on), and what it passes through.
        write(osc52(text) + osc52(text, within="tmux"))
        return "Sent to the terminal"
    write(osc52(text, within="screen" if way is Route.SCREEN else ""))
    return "Sent to the terminal"
