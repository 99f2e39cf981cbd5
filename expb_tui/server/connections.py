"""Connections that end: a bound on how many there are, and on how long one may take to say what it wants."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any, cast
from uuid import uuid4

from pydantic_core import to_json
from uvicorn.protocols.http.h11_impl import H11Protocol

from expb_tui.server.problems import Problem
from expb_tui.wire.problem import MEDIA_TYPE

log = logging.getLogger("expb_tui.server")

ACCEPT_AT_ONCE = 32
"""Connections that asyncio takes from the kernel before it looks at any of them."""

_OWN_FILES = 64
_WISHED_FILES = 16_384
_LEAST = 16
_QUIET_SECONDS = 60.0


def connection_cap(workers: int) -> int:
    """How many connections fit under this process's limit of open files, which is raised as far as is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = _WISHED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WISHED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wished:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))
        soft = wished
    files = _WISHED_FILES if soft == resource.RLIM_INFINITY else min(soft, _WISHED_FILES)
    return max(_LEAST, files - _OWN_FILES - ACCEPT_AT_ONCE - 2 * workers)


def patient_protocol(most: int, head_seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol, but one connection too many is dropped, and so is one whose request head does not come."""

    class PatientProtocol(H11Protocol):
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self._due = self.loop.call_later(head_seconds, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._in_time()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self._in_time()
            elif self._due is None and self._idle():
                # Something came, but no request yet: the time for the next one runs from here.
                self._due = self.loop.call_later(head_seconds, self._give_up)

        def send_400_response(self, msg: str) -> None:
            """What is no HTTP gets a problem document like any other refusal, and the end of the connection."""
            request_id = str(uuid4())
            body = to_json(Problem(400, "invalid-request", "This is not an HTTP request.").document("", request_id))
            head = (
                f"HTTP/1.1 400 Bad Request\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
                f"X-Request-ID: {request_id}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

        def _idle(self) -> bool:
            cycle = cast("Any", self.cycle)
            return cycle is None or bool(cycle.response_complete)

        def _in_time(self) -> None:
            if self._due is not None:
                self._due.cancel()
                self._due = None

        def _give_up(self) -> None:
            self._due = None
            if self._idle():
                self.transport.abort()

    return PatientProtocol


class QuietAccepting:
    """The event loop's complaint that no more files can be opened, once a minute instead of at every try."""

    def __init__(self) -> None:
        self._said = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now - self._said >= _QUIET_SECONDS:
            self._said = now
            log.error("no more connections can be accepted: the limit of open files is reached")
