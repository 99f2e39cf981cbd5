"""The keeper's control socket: one JSON line asked, one answered, by processes of the same user only.

Tokens that are lent to the keeper come this way and no other: neither arguments, environment nor a file ever hold them.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from expb_tui.core.errors import ExpbError
from expb_tui.core.keeper.state import look

SOCKET_NAME = "keeper.sock"
_MADE_NAME = "keeper.new"
_LONGEST = 100
"""Bytes of a path that fit into a socket's address everywhere (108 on Linux, 104 elsewhere)."""
_LIMIT = 1 << 20
"""Bytes of one line."""
_HEARING = 5.0
"""Seconds in which a connection must have asked its question."""
_PEER = struct.Struct("3i")

Answering = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class NoKeeper(ExpbError):
    """Nobody answers on the socket (``keeper-away``), or not in time (``keeper-silent``)."""

    code = "keeper-away"


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """A path to the socket that is short enough, whatever the folder's is."""
    plain = folder / SOCKET_NAME
    if len(os.fsencode(plain)) <= _LONGEST:
        yield str(plain)
        return
    with tempfile.TemporaryDirectory(prefix="expb-") as short:
        link = Path(short, "k")
        link.symlink_to(folder)
        yield str(link / SOCKET_NAME)


class Control:
    """The keeper's end. Only the holder of the keeper's lock opens it, so a socket that is there is a dead one's."""

    def __init__(self, folder: Path, answer: Answering) -> None:
        self._folder = folder
        self._answer = answer
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises ``OSError``."""
        made = self._folder / _MADE_NAME
        made.unlink(missing_ok=True)
        with _address(self._folder) as path:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listener.bind(str(Path(path).with_name(_MADE_NAME)))  # nobody else comes into the folder, it is 0700
                made.chmod(0o600)
                listener.listen()
                made.rename(self._folder / SOCKET_NAME)  # whoever finds it is heard
                self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=_LIMIT)
            except BaseException:
                listener.close()
                raise

    async def aclose(self) -> None:
        """Stop listening; the socket's file goes, too."""
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                (self._folder / SOCKET_NAME).unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A peer that goes away, says nothing or nonsense is no event.
            with suppress(OSError, ValueError, RecursionError, TimeoutError, asyncio.LimitOverrunError):
                if _same_user(writer.get_extra_info("socket")):
                    line = await asyncio.wait_for(reader.readline(), _HEARING)
                    asked = json.loads(line)
                    if isinstance(asked, dict):
                        told = await self._answer(asked)
                        writer.write(json.dumps(told).encode() + b"\n")
                        await writer.drain()
        finally:
            with suppress(OSError):
                writer.close()
                await writer.wait_closed()


async def ask(folder: Path, operation: str, details: Mapping[str, Any] | None = None, *, limit: float = 5.0) -> Any:
    """Ask the keeper of ``folder``; its answer, a dict. ``limit`` in seconds. Raises ``NoKeeper``."""
    asked = {"op": operation, **(details or {})}
    try:
        async with asyncio.timeout(limit):
            with _address(folder) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=_LIMIT)
            try:
                writer.write(json.dumps(asked).encode() + b"\n")
                await writer.drain()
                line = await reader.readline()
            finally:
                writer.close()
        told = json.loads(line)
    except TimeoutError:
        pid = look(folder).pid
        raise NoKeeper(
            "The keeper does not answer",
            cause=f"it said nothing for {limit:.0f} s",
            next_step=f"Continue it with: kill -CONT {pid}; or end it with: kill -9 {pid}" if pid else "Try again",
            code="keeper-silent",
        ) from None
    except (OSError, ValueError) as error:
        raise NoKeeper(
            "The keeper cannot be asked",
            cause=getattr(error, "strerror", None) or "it closed the connection",
            next_step="See whether one runs: expb-tui keeper status",
        ) from error
    return told if isinstance(told, dict) else {}


def _same_user(peer: Any) -> bool:
    """The kernel's word for who is at the other end; where it gives none, the folder's mode has decided."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return bool(uid == os.geteuid())
