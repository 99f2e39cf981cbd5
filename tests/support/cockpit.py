"""The cockpit as tests use it: actions are pressed by their ids, in Textual's pilot and in a real terminal.

Both page objects take the keys from the registry, so that a remapped key breaks no test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from expb_tui.launch import Chosen, House, open_house
from expb_tui.tui.actions import Keymap
from expb_tui.tui.app import CockpitApp
from tests.support.operators import environment as environment
from tests.support.operators import profiles_file as profiles_file
from tests.support.terminal import Terminal, terminal

PROGRAM = str(Path(sys.executable).with_name("expb-tui"))
PATIENCE = 15.0
"""Seconds that a wait may take."""

_BYTES = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "space": " ",
    "comma": ",",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
}


def bytes_of(key: str) -> str:
    """What a terminal sends for a key of the registry."""
    if key.startswith("ctrl+"):
        return chr(ord(key[5:].upper()) - 64)
    return _BYTES.get(key, key)


class PilotCockpit:
    """The application in this process, without a terminal."""

    def __init__(self, app: CockpitApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *action_ids: str) -> None:
        """Press the shown key of each action."""
        for action_id in action_ids:
            await self.key(self.app.keymap.keys(action_id)[0])

    async def key(self, *keys: str) -> None:
        """Press keys by name."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Type text."""
        await self.key(*("space" if char == " " else char for char in text))

    @property
    def text(self) -> str:
        """The screen as lines."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def wait(self, true: Callable[[], bool], what: str = "") -> None:
        """Until something is so."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not true():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"waited for {what or true}; on the screen:\n{self.text}")
            await asyncio.sleep(0.02)
            await self.pilot.pause()

    async def wait_for(self, *words: str, without: str | None = None) -> str:
        """Until the screen shows all words, and not ``without``; returns it."""

        def shown() -> bool:
            text = self.text
            return all(word in text for word in words) and (without is None or without not in text)

        await self.wait(shown, f"{words}, without {without!r}")
        return self.text


@contextlib.asynccontextmanager
async def piloted(
    house: House, *, size: tuple[int, int] = (120, 40), settled: str | None = "online"
) -> AsyncIterator[PilotCockpit]:
    """A running cockpit; ``settled`` is waited for."""
    app = CockpitApp(house)
    async with app.run_test(size=size) as pilot:
        cockpit = PilotCockpit(app, pilot)
        if settled is not None:
            await cockpit.wait_for(settled)
        yield cockpit


def house_in(folder: Path, **chosen: Any) -> House:
    """A house whose files are all in ``folder``; set the environment with ``environment`` first."""
    return open_house(Chosen(**chosen))


class TerminalCockpit:
    """The installed program in a pseudo-terminal with a model of the screen."""

    def __init__(self, shown: Terminal, keymap: Keymap | None = None) -> None:
        self.terminal = shown
        self.keymap = keymap or Keymap()

    def press(self, *action_ids: str) -> None:
        """Send the shown key of each action, as fast as a terminal takes them."""
        for action_id in action_ids:
            self.terminal.send(bytes_of(self.keymap.keys(action_id)[0]))

    def wait_for(self, *words: str, without: str | None = None) -> str:
        """Until the screen shows all words, and not ``without``; returns it."""
        return self.terminal.wait_for(*words, without=without)

    def restored(self) -> bool:
        """Whether the terminal is as a shell wants it."""
        return self.terminal.restored()

    def kill(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.terminal.pid, number)


@contextlib.contextmanager
def in_terminal(
    environ: Mapping[str, str], *arguments: str, columns: int = 120, lines: int = 40, settled: str | None = "Commands"
) -> Iterator[TerminalCockpit]:
    """The installed program; ``settled`` is waited for."""
    with terminal([PROGRAM, *arguments], columns=columns, lines=lines, environ=environ) as shown:
        cockpit = TerminalCockpit(shown)
        if settled is not None:
            cockpit.wait_for(settled)
        yield cockpit
