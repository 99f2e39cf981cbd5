"""Lines that a person types, without a thread that could take a line from the editor."""

from __future__ import annotations

import asyncio
import os
from codecs import getincrementaldecoder
from collections.abc import Callable

from expb_tui.core.text import typed

_BLOCK = 65_536


class Ear:
    """Calls ``heard`` with each typed line, ``ended`` at the end of the input, ``gone`` where the terminal is gone."""

    def __init__(
        self,
        descriptor: int,
        encoding: str,
        *,
        heard: Callable[[str], object],
        ended: Callable[[], object],
        gone: Callable[[], object],
    ) -> None:
        self._descriptor = descriptor
        self._decode = getincrementaldecoder(encoding)("replace").decode
        self._heard = heard
        self._ended = ended
        self._gone = gone
        self._rest = ""
        self._watched = False
        self._open = False

    def open(self) -> None:
        """Listen, inside the event loop."""
        self._open = True
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._read)
            self._watched = True
        except (PermissionError, ValueError):
            loop.call_soon(self._read)  # a file is always ready, and cannot be watched

    def close(self) -> None:
        """Listen no more; what is typed meanwhile waits in the terminal."""
        self._open = False
        if self._watched:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._watched = False

    def _read(self) -> None:
        if not self._open:
            return
        try:
            data = os.read(self._descriptor, _BLOCK)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            self._gone()
            return
        *lines, self._rest = (self._rest + self._decode(data, final=not data)).split("\n")
        for line in lines:
            self._heard(typed(line))
        if not data:
            self.close()
            if self._rest:
                self._heard(typed(self._rest))
            self._ended()
        elif not self._watched and self._open:
            asyncio.get_running_loop().call_soon(self._read)
