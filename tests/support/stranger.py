"""A writer of ``profiles.json`` that takes no lock, as ``expbctl`` does: read, change, temporary file, rename."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def entry(**changes: Any) -> Entry:
    """A profile as ``expbctl`` writes one (contract, section 4)."""
    return {
        "scope": "account",
        "endpoint": "https://bench.example.test",
        "type": "user",
        "account_id": "acc-1",
        "token": "access-0",
        "refresh_token": "refresh-0",
        "expires_at": "2999-01-01T00:00:00Z",
        **changes,
    }


def write(path: Path, document: dict[str, Any], *, age: float = 0.0, until: float = math.inf) -> bool:
    """Replace the file in one step, without looking at what it has become since; ``age`` seconds ago, as it says.

    Not after ``until`` on the monotonic clock; False then.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temp = path.parent / f".profiles-{os.getpid()}{os.urandom(4).hex()}"
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(json.dumps(document, indent=2, ensure_ascii=False))
        handle.flush()
        os.fsync(handle.fileno())
    os.utime(temp, (time.time() - age,) * 2)
    if time.monotonic() > until:
        temp.unlink()
        return False
    temp.replace(path)
    return True


def rewrite(
    path: Path, change: Callable[[dict[str, Any]], None], *, hold: float = 0.0, within: float = math.inf
) -> bool:
    """Read, change, write; ``hold`` seconds pass in between, in which others may write unseen.

    Nothing is written, and False answered, where it took more than ``within`` seconds, as on a machine that is busy.
    """
    until = time.monotonic() + within
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    time.sleep(hold)
    return write(path, document, until=until)
