"""A raw HTTP/1.1 server on loopback whose every answer a test decides, and a faulty way to a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import httpx


@dataclass(frozen=True)
class Request:
    """A request as it came; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


@dataclass(frozen=True)
class Reply:
    """An answer; ``body`` is bytes as they are, or a JSON value. ``cut``: close after so many bytes of the body.

    ``arrives``: on a faulty way, the server gets the request all the same.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    arrives: bool = False


def problem(status: int, code: str, **headers: str) -> Reply:
    """A problem document."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(
        status,
        {"status": status, "code": code, "title": code, "requestId": "req-1"},
        {"content-type": "application/problem+json", **named},
    )


Handler = Callable[[Request], Awaitable[Reply | None]]
"""None closes the connection without an answer."""


class Loopback:
    """Serves ``handler`` inside the running loop and remembers what was asked."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def seen(self, method: str, ending: str) -> list[Request]:
        """Requests of a method whose path ends so."""
        return [one for one in self.requests if one.method == method and one.path.endswith(ending)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                reply = await self.handler(request)
                if reply is None:
                    break
                content = reply.body if isinstance(reply.body, bytes) else b""
                headers = dict(reply.headers)
                if not isinstance(reply.body, bytes) and reply.body is not None:
                    content = json.dumps(reply.body).encode()
                    headers.setdefault("content-type", "application/json")
                headers.setdefault("date", formatdate(usegmt=True))
                headers["content-length"] = str(len(content))
                head = [f"HTTP/1.1 {reply.status} x", *(f"{name}: {value}" for name, value in headers.items())]
                writer.write("\r\n".join([*head, "", ""]).encode())
                writer.write(content if reply.cut is None else content[: reply.cut])
                await writer.drain()
                if reply.cut is not None:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield self
        finally:
            self._server.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, content)


Fault = Callable[[Request], "str | Reply"]
"""What to do with a request: ``pass``, ``drop`` (it never arrives), ``lose`` (it arrives, its answer does not), ``cut``
(half of the answer arrives), ``hold`` and ``withhold`` (request, or answer, wait for ``open``), or a reply instead."""


class FaultyWay(Loopback):
    """Stands before a real server and loses what ``fault`` says."""

    def __init__(self, target: str) -> None:
        super().__init__(self._forward)
        self.target = target
        self.fault: Fault = lambda request: "pass"
        self.open = asyncio.Event()
        self._client = httpx.AsyncClient(trust_env=False)

    async def _forward(self, request: Request) -> Reply | None:
        verdict = self.fault(request)
        if isinstance(verdict, Reply) and not verdict.arrives:
            return verdict
        if verdict == "drop":
            return None
        if verdict == "hold":
            await self.open.wait()
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        if self._client.is_closed:
            return None
        answer = await self._client.request(
            request.method, self.target + request.target, headers=headers, content=request.content
        )
        if isinstance(verdict, Reply):
            return verdict
        if verdict == "lose":
            return None
        if verdict == "withhold":
            await self.open.wait()
        kept = {
            name: value for name, value in answer.headers.items() if name not in ("connection", "transfer-encoding")
        }
        return Reply(
            answer.status_code, answer.content, kept, cut=len(answer.content) // 2 if verdict == "cut" else None
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        async with super().running(), self._client:
            try:
                yield self
            finally:
                self.open.set()


def once(where: Callable[[Request], bool], verdict: str | Reply, *, times: int = 1) -> Fault:
    """The first ``times`` requests that fit get ``verdict``, all others pass."""
    left = times

    def fault(request: Request) -> str | Reply:
        nonlocal left
        if left and where(request):
            left -= 1
            return verdict
        return "pass"

    return fault


def posts(ending: str) -> Callable[[Request], bool]:
    """Fits POSTs whose path ends so."""
    return lambda request: request.method == "POST" and request.path.endswith(ending)
