"""Leaving whoever started us: a session of its own, no terminal, no pipe that somebody waits for (hazards 7)."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from expb_tui.core.keeper.log import Log
from expb_tui.core.paths import pin_folders

_PATIENCE = 30.0
"""Seconds in which the child must have said how its start went."""
_PR_SET_DUMPABLE = 4

Tell = Callable[[dict[str, Any]], None]


def fork_away(log: Log) -> tuple[Tell | None, dict[str, Any]]:
    """Go on in a child that nobody waits for. Call it before threads and event loops exist.

    In the child: a function that tells the parent once how the start went. In the parent: None, and what the child
    told (empty where it ended without a word, or is silent).
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        os.close(writing)
        return None, _heard(reading)
    os.close(reading)
    os.setsid()
    pin_folders(os.environ)
    os.chdir("/")
    log.take_streams()

    def tell(word: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent may have gone: nobody has to be told
            os.write(writing, json.dumps(word).encode() + b"\n")
            os.close(writing)

    return tell, {}


def _heard(reading: int) -> dict[str, Any]:
    content = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], _PATIENCE)[0]:
            part = pipe.read(65_536)
            content += part or b""
            if not part or content.endswith(b"\n"):
                break
    try:
        told = json.loads(content)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def survive_hang_up() -> None:
    """Neither a vanished terminal nor a reader that has gone ends this process."""
    for name in ("SIGHUP", "SIGPIPE", "SIGTTOU", "SIGTTIN"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def keep_memory_private() -> None:
    """No core file and no look from other processes of this user: tokens are in this memory (man 2 prctl)."""
    import resource

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
