"""HTTP/1.1 for requests in great number: a keeper sends some seventy renewals a second.

With a hundred connections httpx spends 5 ms of processor time on a request, most of it in its pool; this spends a tenth
of that. Only what a renewal needs: no proxy, no redirect, no compression, one answer at a time on a connection. Bytes
are parsed by h11, which is what httpx does with them too.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from expb_tui.core.api.breakage import CONNECT_TIMEOUT

_IDLE = 4.0
"""Seconds after which an unused connection is closed; servers do so after five, and that must not meet a request."""
_CHUNK = 65_536
_LARGE = 256 * 1024
"""Bytes of one answer; of those that are larger one is read at a time: hundreds of them would fill the memory."""
_LARGEST_HEAD = 100 * 1024
_REFUSED = f"[Errno {errno.ECONNREFUSED}]"


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


@dataclass(slots=True)
class _Channel:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: h11.Connection
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
        self._authority = parts.netloc.encode("idna").decode() if not parts.netloc.isascii() else parts.netloc
        self._idle: list[_Channel] = []
        self._weeding: asyncio.TimerHandle | None = None
        self._large = asyncio.Lock()

    async def exchange(
        self, method: str, target: str, headers: Sequence[tuple[str, str]], content: bytes, *, largest: int
    ) -> Head:
        """Send one request and take its answer, at most ``largest`` bytes of body.

        The caller bounds the time. Raises ``Interrupted`` or ``TooLarge``; a cancelled exchange closes its connection.
        """
        channel = self._take() or await self._connect()
        done = False
        try:
            async with AsyncExitStack() as alone:
                head = await self._on(channel, method, target, headers, content, largest, alone)
            done = channel.protocol.our_state is channel.protocol.their_state is h11.DONE
        finally:
            if done:
                self._put_back(channel)
            else:
                channel.close()
        return head

    async def aclose(self) -> None:
        """Close what is not in use; exchanges under way close their own."""
        idle, self._idle = self._idle, []
        if self._weeding is not None:
            self._weeding.cancel()
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
        channel.protocol.start_next_cycle()
        channel.idle_since = asyncio.get_running_loop().time()
        self._idle.append(channel)
        if self._weeding is None:
            self._weed()

    def _weed(self) -> None:
        """Close what has been idle for too long, now and as long as anything is idle: a burst may be the last one."""
        loop = asyncio.get_running_loop()
        # The last one put back is the first one taken, so that what is not needed grows old at the front.
        while self._idle and self._idle[0].idle_since <= loop.time() - _IDLE:
            self._idle.pop(0).close()
        due = self._idle[0].idle_since + _IDLE if self._idle else 0.0
        self._weeding = loop.call_at(due, self._weed) if self._idle else None

    async def _connect(self) -> _Channel:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._context, happy_eyeballs_delay=0.25
                )
        except OSError as error:
            if error.errno is None and _REFUSED in str(error):  # asyncio's words for a name of several addresses
                raise Interrupted(sent=False) from ConnectionRefusedError(errno.ECONNREFUSED, str(error))
            raise Interrupted(sent=False) from error
        return _Channel(reader, writer, h11.Connection(h11.CLIENT, max_incomplete_event_size=_LARGEST_HEAD))

    async def _on(
        self,
        channel: _Channel,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        content: bytes,
        largest: int,
        alone: AsyncExitStack,
    ) -> Head:
        send = channel.protocol.send
        every = [("host", self._authority), *headers, ("content-length", str(len(content)))]
        request = h11.Request(method=method, target=target, headers=every)
        answer: h11.Response | None = None
        parts: list[bytes] = []
        size = 0
        try:
            data = [send(request), send(h11.Data(data=content)), send(h11.EndOfMessage())]
            channel.writer.write(b"".join(filter(None, data)))
            while True:
                event = channel.protocol.next_event()
                if event is h11.NEED_DATA:
                    channel.protocol.receive_data(await channel.reader.read(_CHUNK))
                elif isinstance(event, h11.Response):
                    answer = event
                    if int(dict(event.headers).get(b"content-length", 0)) > largest:
                        raise TooLarge
                elif isinstance(event, h11.Data):
                    size += len(event.data)
                    if size > largest:
                        raise TooLarge
                    if size - len(event.data) <= _LARGE < size:
                        await alone.enter_async_context(self._large)
                    parts.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    break
        except (OSError, h11.ProtocolError) as error:
            raise Interrupted(sent=True, in_body=answer is not None) from error
        assert answer is not None
        named = {name.decode("ascii"): value.decode("latin-1") for name, value in answer.headers}
        return Head(answer.status_code, named, b"".join(parts))
