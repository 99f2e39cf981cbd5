"""Reading ``/v1/events`` in tests: a plain socket, frames as they come, and how long nothing came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from tests.support.server import LocalServer


@dataclass(frozen=True)
class Frame:
    """One event, or a comment (``event`` is empty)."""

    event: str
    data: Any = None
    id: str | None = None
    comment: str = ""


class EventReader:
    """One open stream. ``status`` and ``headers`` are those of the answer; ``ended`` once the server ended it."""

    def __init__(self, server: LocalServer, token: str, *, last_id: str | None = None, **query: str) -> None:
        self._address = server.running.address
        self._query = f"?{urlencode(query)}" if query else ""
        self._token = token
        self._last_id = last_id
        self._rest = b""
        self.ended = False
        self.status = 0
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> EventReader:
        self._reader, self._writer = await asyncio.open_connection(self._address.host, self._address.port)
        lines = [
            f"GET /v1/events{self._query} HTTP/1.1",
            f"Host: {self._address.host}:{self._address.port}",
            f"Authorization: Bearer {self._token}",
            "Accept: text/event-stream",
            *([f"Last-Event-ID: {self._last_id}"] if self._last_id is not None else []),
        ]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 10)).decode()
        first, *rest = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def frame(self, within: float = 15.0) -> Frame | None:
        """The next frame; None once the server ended the stream. Raises ``TimeoutError``."""
        async with asyncio.timeout(within):
            while b"\n\n" not in self._rest:
                if self.ended:
                    return None
                size = int((await self._reader.readuntil(b"\r\n")).strip() or b"0", 16)
                chunk = await self._reader.readexactly(size + 2)
                self.ended = not size
                self._rest += chunk[:-2]
        text, _, self._rest = self._rest.partition(b"\n\n")
        fields: dict[str, str] = {}
        for line in text.decode().split("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        if "event" not in fields:
            return Frame("", comment=fields.get("", ""))
        return Frame(fields["event"], json.loads(fields["data"]), fields.get("id"))

    async def next_event(self, within: float = 15.0) -> Frame | None:
        """The next frame that is not a comment."""
        async with asyncio.timeout(within):
            while (frame := await self.frame(within)) is not None and not frame.event:
                pass
        return frame

    async def until(self, last: Callable[[Frame], bool], within: float = 15.0) -> list[Frame]:
        """All events up to the first for which ``last`` holds, or until the server ended the stream.

        Raises ``TimeoutError``; a machine under load may take seconds for what usually takes milliseconds.
        """
        found: list[Frame] = []
        async with asyncio.timeout(within):
            while (frame := await self.next_event(within)) is not None:
                found.append(frame)
                if last(frame):
                    break
        return found

    async def is_quiet(self, seconds: float = 0.5) -> bool:
        """Whether no event comes for so long."""
        try:
            await self.next_event(seconds)
        except TimeoutError:
            return True
        return False


def is_end(frame: Frame) -> bool:
    return frame.event == "end"


def is_about(uid: str) -> Callable[[Frame], bool]:
    """Whether an event is about this record."""
    return lambda frame: frame.event == "invalidate" and frame.data["uid"] == uid
