"""A loopback server that sends exactly the bytes it is told to, so that it can misbehave as real ones do."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Handler = Callable[["Request", socket.socket], None]


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    number: int
    """1 for the first request that the server has seen."""


@dataclass
class RawServer:
    """``requests`` is everything that arrived; ``handler`` answers each and may close the connection."""

    handler: Handler
    requests: list[Request] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    greeting: bytes = b""
    """Sent to each connection at once, as no HTTP server does."""
    port: int = 0
    connections: int = 0

    @property
    def address(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.sendall(self.greeting)
            buffer = b""
            while True:
                while b"\r\n\r\n" not in buffer:
                    chunk = connection.recv(65_536)
                    if not chunk:
                        return
                    buffer += chunk
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                length = int(headers.get("content-length", "0"))
                while len(buffer) < length:
                    buffer += connection.recv(65_536)
                body, buffer = buffer[:length], buffer[length:]
                method, target, _ = first.split(" ")
                request = Request(method, target, headers, body, len(self.requests) + 1)
                self.requests.append(request)
                self.handler(request, connection)


def response(status: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole HTTP answer; underscores in header names stand for hyphens."""
    told = {"content-type": "application/json", "content-length": str(len(body))}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def answering(*answers: bytes) -> Handler:
    """One answer after the other, the last one for ever."""

    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(answers[min(request.number, len(answers)) - 1])

    return handler


@contextmanager
def raw_server(handler: Handler, *, tls: ssl.SSLContext | None = None, greeting: bytes = b"") -> Iterator[RawServer]:
    """Serve on a free port for the length of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(handler, tls=tls, greeting=greeting, port=listener.getsockname()[1])
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
