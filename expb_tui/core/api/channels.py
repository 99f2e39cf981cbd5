"""HTTP/1.1 for requests in great number: a keeper sends some seventy renewals a second.

With a hundred connections httpx spends 5 ms of processor time on a request, most of it in its pool; this spends 0.2.
It knows only what a renewal needs (no proxy, no redirect, no compression, one answer at a time on a connection) and
believes only what is plain: an answer that could be read in two ways breaks the exchange off and ends the connection.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from expb_tui.core.api.breakage import CONNECT_TIMEOUT

_IDLE = 4.0
"""Seconds after which an unused connection is closed; servers do so after five, and that must not meet a request."""
_LARGEST_HEAD = 100 * 1024
_CHUNK = 65_536
_REFUSED = f"[Errno {errno.ECONNREFUSED}]"
_BODILESS = (204, 304)
_TRAILERS = 100
"""Lines that may stand between the last chunk and the end."""


class Head(NamedTuple):
    """What came of an answer, body included; header names in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes


class Interrupted(Exception):
    """The exchange broke off; its cause says why.

    ``sent``: the request may have arrived; ``in_body``: an answer had begun.
    """

    def __init__(self, *, sent: bool, in_body: bool = False) -> None:
        super().__init__()
        self.sent = sent
        self.in_body = in_body


class TooLarge(Exception):
    """The answer is larger than what was allowed."""


class NotHttp(Exception):
    """What came is no plain answer of HTTP/1.1."""


@dataclass(slots=True)
class _Channel:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    @property
    def usable(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing()

    def close(self) -> None:
        self.writer.transport.abort()  # at once: nothing is on its way that anybody waits for


class Channels:
    """Connections to one endpoint, as many as there are exchanges at one time; use it inside one event loop."""

    def __init__(self, endpoint: str, context: ssl.SSLContext | None) -> None:
        """``context``: how to check the server, None for plain http."""
        parts = urlsplit(endpoint)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if context else 80)
        self._context = context
        self._authority = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
        self._idle: list[_Channel] = []

    async def exchange(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], content: bytes, *, largest: int
    ) -> Head:
        """Send one request and take its answer, at most ``largest`` bytes of body.

        ``headers`` hold printable ASCII. The caller bounds the time. Raises ``Interrupted`` or ``TooLarge``; an
        exchange that is cancelled closes its connection.
        """
        lines = [f"{method} {target} HTTP/1.1", f"host: {self._authority}", f"content-length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        request = "\r\n".join([*lines, "", ""]).encode("ascii") + content
        channel = self._take() or await self._connect()
        again = False
        try:
            head, again = await self._on(channel, request, largest)
        finally:
            if again:
                self._put_back(channel)
            else:
                channel.close()
        return head

    async def aclose(self) -> None:
        """Close what is not in use; exchanges under way close their own."""
        idle, self._idle = self._idle, []
        for channel in idle:
            channel.close()
        await asyncio.sleep(0)  # a turn of the loop, in which their sockets are closed

    def _take(self) -> _Channel | None:
        while self._idle:
            channel = self._idle.pop()
            if channel.usable:
                return channel
            channel.close()
        return None

    def _put_back(self, channel: _Channel) -> None:
        now = asyncio.get_running_loop().time()
        channel.idle_since = now
        self._idle.append(channel)
        # The last one put back is the first one taken, so that what is not needed grows old at the front.
        while self._idle[0].idle_since < now - _IDLE:
            self._idle.pop(0).close()

    async def _connect(self) -> _Channel:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._context, happy_eyeballs_delay=0.25, limit=_LARGEST_HEAD
                )
        except OSError as error:
            if error.errno is None and _REFUSED in str(error):  # asyncio's words for a name of several addresses
                raise Interrupted(sent=False) from ConnectionRefusedError(errno.ECONNREFUSED, str(error))
            raise Interrupted(sent=False) from error
        return _Channel(reader, writer)

    @staticmethod
    async def _on(channel: _Channel, request: bytes, largest: int) -> tuple[Head, bool]:
        """The answer, and whether the connection is good for another one."""
        in_body = False
        try:
            channel.writer.write(request)
            status, headers, lasting = await _head(channel.reader)
            in_body = True
            content, whole = await _body(channel.reader, status, headers, largest)
        except EOFError:
            ended = ConnectionError("the connection ended before its answer did")
            raise Interrupted(sent=True, in_body=in_body) from ended
        except (OSError, asyncio.LimitOverrunError, NotHttp) as error:
            raise Interrupted(sent=True, in_body=in_body) from error
        return Head(status, headers, content), whole and lasting


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bool]:
    """Status, headers, and whether the server keeps the connection."""
    while True:
        first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit()) or rest[3:4].strip():
            raise NotHttp("it does not begin as an answer of HTTP/1.1 does")
        if status[0] != "1":
            break  # what comes before it only says that the answer will come
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.isascii() or not name.isprintable() or " " in name or not name:
            raise NotHttp("it holds a line that is no header")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    lasting = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
    return int(status), headers, lasting


async def _body(reader: asyncio.StreamReader, status: int, headers: dict[str, str], largest: int) -> tuple[bytes, bool]:
    """The body, and whether its end is not the connection's."""
    if status in _BODILESS:
        return b"", True
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise NotHttp("its body is coded in another way than in chunks")
        return await _chunks(reader, largest), True
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            raise NotHttp("the length of its body is no number")
        if len(length) > 12 or int(length) > largest:
            raise TooLarge
        return await reader.readexactly(int(length)), True
    parts, size = [], 0
    while part := await reader.read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise TooLarge
    return b"".join(parts), False


async def _chunks(reader: asyncio.StreamReader, largest: int) -> bytes:
    parts, left = [], largest
    while True:
        told = (await reader.readuntil(b"\r\n"))[:-2].partition(b";")[0].strip()
        try:
            size = int(told, 16) if told.isalnum() and len(told) <= 12 else -1
        except ValueError:
            size = -1
        if size < 0:
            raise NotHttp("the length of a chunk is no number")
        left -= size
        if left < 0:
            raise TooLarge
        if size == 0:
            break
        parts.append(await reader.readexactly(size))
        if await reader.readexactly(2) != b"\r\n":
            raise NotHttp("a chunk is longer than it says")
    for _ in range(_TRAILERS):
        if await reader.readuntil(b"\r\n") == b"\r\n":
            return b"".join(parts)
    raise NotHttp("its end does not come")
