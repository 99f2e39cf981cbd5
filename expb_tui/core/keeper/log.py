"""The log of a detached keeper: a 0600 file of bounded size, without secrets, that standard error goes to as well."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from expb_tui.core.text import clean

LOG_NAME = "keeper.log"
_LARGEST = 256 << 10
"""Bytes after which a new file is begun; the one before is kept."""
_LONGEST = 500
_CONTROL = re.compile(r"\s+")


class Log:
    """One line per event. Never raises: a full disk does not end the keeping."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_NAME
        self._descriptor = -1
        self._begin()

    def say(self, text: str) -> None:
        """Write a line with the time (UTC)."""
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {_CONTROL.sub(' ', clean(text))[:_LONGEST]}\n"
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size > _LARGEST:
                self.path.replace(self.path.with_suffix(".log.1"))
                self._begin()
            os.write(self._descriptor, line.encode("utf-8", "replace"))

    def take_streams(self) -> None:
        """Standard input is empty from now on; standard output and error come here."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        for stream in (1, 2):
            os.dup2(self._descriptor if self._descriptor >= 0 else nothing, stream)
        os.close(nothing)

    def _begin(self) -> None:
        old = self._descriptor
        with suppress(OSError):
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if old >= 0:
                os.close(old)
                self.take_streams()
