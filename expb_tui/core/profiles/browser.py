"""Handing the approval page's address to the desktop's browser, where there is a desktop."""

from __future__ import annotations

import asyncio
import os
import sys

from expb_tui.core.profiles.login import browser_refusal
from expb_tui.core.secret import environ_for_helpers

_PATIENCE = 5.0
"""Seconds that the opener may take; it goes on alone after that."""


async def open_browser(address: str) -> str:
    """Say what happened, in words; nothing is opened where ``browser_refusal`` gives a reason."""
    if refusal := browser_refusal():
        return f"No browser is opened here: {refusal}"
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    try:
        process = await asyncio.create_subprocess_exec(
            opener,
            address,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=environ_for_helpers(os.environ),
        )
        async with asyncio.timeout(_PATIENCE):
            status = await process.wait()
    except TimeoutError:
        return "Handed to the browser"
    except OSError:
        return f"No browser is opened: {opener} is not installed here"
    return "Handed to the browser" if status == 0 else f"No browser is opened: {opener} could not do it"
