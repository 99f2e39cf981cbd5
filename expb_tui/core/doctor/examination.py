"""All examinations at once, each given up after its time: the whole takes seconds, whatever hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

from expb_tui.core.doctor import endpoint, files, host, multiplexers, terminal
from expb_tui.core.doctor.model import Check, Circumstances, Finding, State
from expb_tui.core.errors import ExpbError

CHECKS = (
    Check("terminal.kind", terminal.terminal),
    Check("tmux.version", multiplexers.tmux),
    Check("screen.version", multiplexers.screen),
    Check("clipboard.route", terminal.clipboard),
    Check("programs.editor", host.programs),
    Check("settings.file", files.settings),
    Check("profiles.file", files.profiles),
    Check("keyring.use", host.keyring),
    Check("clock.suspend", host.clock),
    Check("keeper.process", host.keeper),
    Check("journal.file", files.journal),
    Check("endpoint.reachable", endpoint.endpoint, limit=9.0),
)


async def examine(here: Circumstances, checks: Sequence[Check] = CHECKS) -> AsyncIterator[list[Finding]]:
    """What each examination found, as they end; nothing is written and nothing on the server changed.

    Threads that would end with the process are used, because what hangs (a file system, a name server) cannot be
    interrupted; they are left behind.
    """
    loop = asyncio.get_running_loop()
    running = [asyncio.ensure_future(_bounded(loop, check, here)) for check in checks]
    try:
        for ended in asyncio.as_completed(running):
            yield await ended
    finally:
        for task in running:
            task.cancel()


async def _bounded(loop: asyncio.AbstractEventLoop, check: Check, here: Circumstances) -> list[Finding]:
    answer: asyncio.Future[list[Finding]] = loop.create_future()

    def told(findings: list[Finding]) -> None:
        if not answer.done():
            answer.set_result(findings)

    def run() -> None:
        findings = _examined(check, here)
        if not loop.is_closed():
            loop.call_soon_threadsafe(told, findings)

    threading.Thread(target=run, name=f"doctor-{check.name}", daemon=True).start()
    try:
        async with asyncio.timeout(check.limit):
            return await answer
    except TimeoutError:
        return [Finding(check.name, State.UNKNOWN, f"no answer within {check.limit:.0f} s; something here hangs")]


def _examined(check: Check, here: Circumstances) -> list[Finding]:
    try:
        return list(check.run(here))
    except ExpbError as problem:
        return [Finding.of(check.name, problem)]
    except Exception as error:  # a fault in one examination must not hide what the others found
        says = f"a fault of expb-tui stopped this examination: {type(error).__name__}"
        return [Finding(check.name, State.UNKNOWN, says, "Please report it with this line")]
