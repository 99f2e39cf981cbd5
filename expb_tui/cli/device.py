"""Showing a device login on standard error: link, code in large type, QR code, time left, and what the poll says.

On a terminal the last line is rewritten in place; elsewhere each change is one plain line.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from typing import TYPE_CHECKING

from expb_tui.cli import diagnostics
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present import large_type, qr
from expb_tui.present.times import countdown

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.profiles.login import DeviceCode, DeviceLogin, PollState

_DARK_ON_LIGHT = "\x1b[38;2;0;0;0;48;2;255;255;255m"
_PLAIN = "\x1b[0m"
_CLEAR_LINE = "\r\x1b[2K"
_MARGIN = "  "


def link(address: str) -> str:
    """An OSC 8 link whose text is its target. Anything but a clean http(s) address stays plain text."""
    text = clean(address)
    if text != address or not address.startswith(("https://", "http://")) or " " in address:
        return text
    return f"\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\"


def _blocks() -> bool:
    return diagnostics.unicode()


def code_lines(code: str, columns: int, *, blocks: bool) -> list[str]:
    """The code in large type where it fits, otherwise spaced out; below it always as text that can be copied."""
    large = large_type.large_lines(code) if blocks and large_type.large_width(code) + 4 <= columns else None
    spaced = " ".join(code)
    lines = [*large, ""] if large else []
    return [*lines, code if large or len(spaced) > columns - 4 else f"{spaced}      ({code})"]


def qr_lines(text: str, columns: int, lines: int) -> list[str]:
    """The QR code, dark on light whatever the terminal's colours; nothing where it does not fit whole."""
    matrix = qr.encode(text)
    zone = matrix.quiet_zone_for(columns - len(_MARGIN), lines - 1, halves=True)
    if zone is None:
        return []
    return [f"{_MARGIN}{_DARK_ON_LIGHT}{line}{_PLAIN}" for line in matrix.half_block_lines(zone)]


class View:
    """What a person sees of one login."""

    def __init__(self, device: DeviceCode, clock: Clock, *, show_qr: bool) -> None:
        self._device = device
        self._clock = clock
        self._terminal = diagnostics.terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._show_qr = show_qr
        self._said = ""
        self._state = "waiting for approval"

    def opening(self) -> None:
        """Address and code first, before anything that may take time."""
        device = self._device
        if not self._terminal:
            diagnostics.note(f"Open {device.uri}")
            diagnostics.note(f"and enter the code {device.user_code}")
            if device.complete_uri != device.uri:
                diagnostics.note(f"or open {device.complete_uri}")
            diagnostics.note(f"The code can be used for {self._left()}")
            return
        columns, lines = shutil.get_terminal_size()
        if self._show_qr and _blocks():
            for line in qr_lines(device.complete_uri, columns, lines):
                diagnostics.raw(line)
            diagnostics.raw("")
        diagnostics.note("Open this address in a browser on any device, and check that it shows the code:")
        diagnostics.raw(f"\n{_MARGIN}{link(device.complete_uri)}\n")
        for line in code_lines(clean(device.user_code), columns, blocks=_blocks()):
            diagnostics.raw(_MARGIN + line)
        diagnostics.raw("")

    def said(self, state: PollState) -> None:
        """What a poll said."""
        self._state = clean(state.text)
        if self._terminal:
            self.draw()
        elif self._state != self._said:
            self._said = self._state
            diagnostics.note(self._state)

    def approved(self) -> None:
        """The last word stays; on a terminal the line that said it has been wiped."""
        if self._terminal:
            diagnostics.note(self._state)

    def _left(self) -> str:
        return countdown(self._device.expires_ticks - self._clock.ticks()).text

    def draw(self) -> None:
        """Rewrite the last line, where there is a terminal."""
        if self._terminal:
            columns = shutil.get_terminal_size().columns
            text = f"{_MARGIN}{self._left()} left; {self._state}; ctrl-c cancels"
            diagnostics.rewrite(_CLEAR_LINE + text[: max(1, columns - 1)])

    async def open_browser(self) -> None:
        """Try to, and say what came of it."""
        from expb_tui.core.profiles.browser import open_browser

        words = await open_browser(self._device.complete_uri)
        self.close()
        diagnostics.note(words)
        self.draw()

    def close(self) -> None:
        """Wipe the last line, so that others can be written."""
        if self._terminal:
            diagnostics.rewrite(_CLEAR_LINE)

    async def tick(self) -> None:
        """Keep the time left current until cancelled."""
        while self._terminal:
            self.draw()
            left = self._device.expires_ticks - self._clock.ticks()
            await asyncio.sleep(min(countdown(left).next_change or 1.0, 15.0))


async def approve(login: DeviceLogin, clock: Clock, *, show_qr: bool, browser: bool) -> None:
    """Show the code and wait for the decision. Raises ``ExpbError`` where it was denied or came too late."""
    device = await login.start()
    view = View(device, clock, show_qr=show_qr)
    view.opening()
    beside = [asyncio.create_task(view.tick())]
    if browser:
        beside.append(asyncio.create_task(view.open_browser()))
    last: PollState | None = None
    try:
        async for state in login.poll():
            view.said(state)
            last = state
    except BaseException:
        login.cancel()
        raise
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        view.close()
    again = "Ask for a new code: expb-tui auth login"
    if last is None or last.kind != "approved":
        kind = last.kind if last else "expired"
        raise ExpbError(
            {"denied": "The request was denied", "expired": "The code has expired"}.get(kind, "The login has ended"),
            cause=clean(last.text) if last and kind not in ("denied", "expired") else "",
            next_step=again,
            code=f"login-{kind}",
        )
    view.approved()
