"""From a command line to a keeper at work: imports, journal, lock, and taking over from an older one."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from expb_tui.core import faults
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.keeper.detach import keep_memory_private, survive_hang_up
from expb_tui.core.keeper.state import LOCK_NAME, look
from expb_tui.core.locks import KernelLock, take
from expb_tui.core.paths import private_dir

if TYPE_CHECKING:
    from expb_tui.core.keeper.process import End
    from expb_tui.core.keeper.tokens import LentToken
    from expb_tui.core.settings import Settings

_BRIEFLY = 0.5
"""Seconds for one try at the lock; whoever looks whether a keeper runs holds it for microseconds."""
_PATIENCE = 20.0
"""Seconds in which a predecessor must have handed over."""
_AGAIN = 0.3
_PACKAGES = ("expb_tui.core.api", "expb_tui.core.leases", "expb_tui.core.profiles", "expb_tui.core.keeper")
_APART = ("expb_tui.core.profiles.keyring_child",)
"""Runs in processes of its own."""
_LATER = (
    "anyio._backends._asyncio", "difflib", "email.utils", "encodings.ascii", "encodings.idna", "httpx",
    "httpcore._async.connection", "httpcore._backends.anyio", "ipaddress", "sqlite3", "ssl", "subprocess", "tomllib",
)  # fmt: skip
"""What others import with their first use: it may be gone, or be another version, once the program is upgraded."""


class AlreadyRuns(ExpbError):
    """Another keeper of this host is at work, and is no older than this program."""

    code = "keeper-runs"


def preload() -> None:
    """Import all that a keeper ever needs (hazards 7)."""
    from expb_tui.core.api.transport import preload as preload_transport

    preload_transport()
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            if module.name not in _APART:
                importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)


def run(folder: Path, settings: Settings, *, stay: bool, say: Callable[[str], None], ready: Callable[[], None]) -> End:
    """Keep leases until told to stop, idle or replaced; blocks. ``ready`` is called once it is at work.

    Raises ``AlreadyRuns``, and ``FileProblem`` where the journal cannot be used (a newer one, a network file system).
    """
    survive_hang_up()
    keep_memory_private()
    faults.tell_places(lambda place: say(f"internal error: {place}"))
    preload()
    return faults.run(_run(private_dir(folder), settings, stay, say, ready))


async def _run(
    folder: Path, settings: Settings, stay: bool, say: Callable[[str], None], ready: Callable[[], None]
) -> End:
    from expb_tui.core.keeper.process import Keeper
    from expb_tui.core.leases.journal import Journal

    journal = Journal(folder / "journal.db")
    try:
        await journal.newest()  # before anybody is asked to end for us; a counter would not be told while it is busy
    except FileProblem as problem:
        if problem.code != "busy-journal":  # renewal comes first (hazards 5)
            raise
    finally:
        await journal.aclose()
    lock, lent = await take_over(folder, stay=stay)
    try:
        keeper = Keeper(folder, settings, lock, stay=stay, lent=lent, say=say)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, keeper.stop)
        return await keeper.run(ready)
    finally:
        lock.release()


async def take_over(folder: Path, *, stay: bool) -> tuple[KernelLock, list[LentToken]]:
    """The keeper's lock, and the tokens that the one before had in its memory. Raises ``AlreadyRuns``."""
    from expb_tui import __version__
    from expb_tui.core.keeper.control import NoKeeper, ask
    from expb_tui.core.keeper.tokens import LentToken

    lent: list[LentToken] = []
    asked = False
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await asyncio.to_thread(take, folder / LOCK_NAME, timeout=_BRIEFLY), lent
        except FileProblem as problem:
            if problem.code != "locked" or time.monotonic() >= deadline:
                raise _occupied(folder, problem) from problem
        if asked:
            continue  # it is on its way out
        try:
            told = await ask(folder, "hand-over", {"version": __version__, "stay": stay})
        except NoKeeper:
            await asyncio.sleep(_AGAIN)  # it has only just started, or is ending
            continue
        if told.get("ok"):
            lent, asked = [LentToken.of(one) for one in told.get("lent", ())], True
        elif told.get("why") == "unsaved":
            await asyncio.sleep(_AGAIN)
        else:
            raise AlreadyRuns(
                "A keeper runs already",
                cause=f"it is process {told.get('pid')}, version {told.get('version')}",
                next_step="See what it does with: expb-tui keeper status",
            )


def _occupied(folder: Path, problem: FileProblem) -> ExpbError:
    if problem.code != "locked":
        return problem
    state = look(folder)
    return AlreadyRuns(
        "A keeper runs already, and does not hand over",
        cause=f"it is process {state.pid or 'unknown'}, and has answers in its memory or is stopped",
        next_step=f"Continue it with: kill -CONT {state.pid}; or end it with: kill -9 {state.pid}"
        if state.pid
        else "Try again",
        code="keeper-silent",
    )
