"""The journal: packages, tokens, intents, drafts and receipts of this host in one SQLite file (0600, WAL, synchronous=FULL)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Draft:
    """What a person typed for one task. ``text`` is a YAML draft that does not parse yet, kept word for word."""

    package_id: str
    task_id: str
    values: dict[str, Any]
    text: str | None
    updated_at: datetime


class Journal:
    """Opens on first use; every method that waits is async and runs SQLite in one thread.

    Raises ``FileProblem`` with the codes ``network-file-system``, ``newer-journal``, ``file``.
    """

    def __init__(self, path: Path | None = None) -> None:
        raise NotImplementedError

    def version(self) -> int:
        """A number that changes with every commit of any process; cheap (microseconds), never waits."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the file; safe to call twice."""
        raise NotImplementedError
