"""A process of ours: acts as a profile again and again until its time is over, and says what went wrong.

``python -m tests.support.session_worker PROFILES SECONDS``
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore


async def work(path: Path, seconds: float) -> int:
    """The number of answers."""
    store = ProfileStore(path)
    session = Session.open(store)
    until = time.monotonic() + seconds
    answers = 0
    try:
        while time.monotonic() < until:
            principal = await session.principal()
            assert principal.type == "user"
            answers += 1
            await asyncio.sleep(0.05)
    finally:
        await session.aclose()
    return answers


if __name__ == "__main__":
    print(asyncio.run(work(Path(sys.argv[1]), float(sys.argv[2]))))
