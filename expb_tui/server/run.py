"""Run the server: bind, migrate, accept, and stop cleanly on SIGTERM and SIGINT.

Several processes serve one PostgreSQL database by being started several times.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import uvicorn
from sqlalchemy.exc import DBAPIError
from starlette.applications import Starlette

from expb_tui.server.app import build_app
from expb_tui.server.config import ServerError, ServerSettings
from expb_tui.server.connections import ACCEPT_AT_ONCE, QuietAccepting, connection_cap, patient_protocol
from expb_tui.server.context import Services, Unit
from expb_tui.server.identity.entitlements import entitle
from expb_tui.server.oauth.sessions import end_system_sessions
from expb_tui.server.store.migrate import migrate

_BACKLOG = 2048
_GRACE = 5
"""Seconds that running requests get at the end."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens; ``url`` is its issuer."""

    host: str
    port: int
    url: str


class RunningServer:
    """A bound, migrated server: ``run`` serves until ``stop`` or a signal. ``services`` is open from the start."""

    def __init__(self, settings: ServerSettings) -> None:
        """Binds first, so that a taken port is told before the database is touched. Raises ``ServerError``."""
        settings.check()
        self._socket = _bind(settings)
        try:
            self.app: Starlette = build_app(settings)
        except BaseException:
            self._socket.close()
            raise
        self.services: Services = self.app.state.services
        self.address = _address(settings, self._socket)
        self.services.issuer = settings.issuer or self.address.url
        try:
            migrate(self.services.database)
        except DBAPIError as error:
            self.close()
            raise ServerError(
                "The database cannot be used",
                cause=" ".join(str(error.orig).split()),
                next_step="Check --database, and that the file or server behind it is sound",
                code="database-unusable",
            ) from error
        except BaseException:
            self.close()
            raise
        self._server: _Server | None = None

    def run(self, ready: Callable[[Address], None]) -> None:
        """Serve; ``ready`` is called once when requests are accepted. Blocks.

        System entitlements are settled first. Raises ``ServerError`` where one is for nobody.
        """
        settings = self.services.settings
        try:
            self._entitle(settings.system_admins)
        except BaseException:
            self.close()
            raise
        config = uvicorn.Config(
            self.app,
            http=patient_protocol(connection_cap(settings.workers), settings.limits.head_seconds),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # Ours is of the very answer, not of the last second or so.
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE,
            backlog=ACCEPT_AT_ONCE,
        )
        self._server = _Server(config, lambda: ready(self.address), self.services)
        self._server.run(sockets=[self._socket])

    def _entitle(self, emails: Sequence[str]) -> None:
        database = self.services.database
        with database.write() as conn:
            unit = Unit(conn, database)
            entitle(unit, emails)
            end_system_sessions(unit)

    def close(self) -> None:
        """Let go of socket and database, for a server that was never run."""
        self._socket.close()
        self.services.close()

    def stop(self) -> None:
        """Ask ``run`` to end; safe from any thread."""
        self.services.stopping = True
        if self._server is not None:
            self._server.leave()


def serve(settings: ServerSettings, *, ready: Callable[[Address], None]) -> None:
    """Bind, migrate, and serve until SIGTERM or SIGINT. Logs go to standard error. Raises ``ServerError``."""
    log_to_standard_error()
    RunningServer(settings).run(ready)


def log_to_standard_error() -> None:
    """Errors, without requests' queries, headers or bodies; what clients do wrong is not logged at all."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name in ("expb_tui.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.WARNING if name == "expb_tui.server" else logging.ERROR)


class _Server(uvicorn.Server):
    """uvicorn, but telling when it accepts, sleeping until it is to end, and not re-raising the signal."""

    def __init__(self, config: uvicorn.Config, accepting: Callable[[], None], services: Services) -> None:
        super().__init__(config)
        self._accepting = accepting
        self._services = services
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End soon; safe from any thread, and before the start."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
                self._loop.call_soon_threadsafe(self._leaving.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(QuietAccepting())
        await super().startup(sockets)
        for sock in sockets or ():
            # asyncio listened again with its own, short queue.
            sock.listen(_BACKLOG)
        if self.started and not self.should_exit:
            self._accepting()

    async def main_loop(self) -> None:
        if not self.should_exit:
            await self._leaving.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _leave(self, number: int, frame: object) -> None:
        # A second signal changes nothing: running requests have a few seconds at most anyway.
        self._services.stopping = True
        self.leave()


def _bind(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns off the delay of small packets only where the protocol is named.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ServerError(
            f"Cannot listen on {settings.host} port {settings.port}",
            cause=error.strerror or str(error),
            next_step="Choose another --port (0 takes a free one) or --host",
            code="address-unusable",
        ) from error
    return sock


def _address(settings: ServerSettings, sock: socket.socket) -> Address:
    port = sock.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return Address(settings.host, port, settings.issuer or f"http://{host}:{port}")
