"""The real local server for tests: uvicorn in a thread, a free loopback port, a database of its own, the demo inside.

``server`` is the fixture to ask for. ``server_factory(…)`` starts others: with other settings, on ``postgres_url``, or
without the demo. A template database is migrated and seeded once per session and copied, so a start takes a moment.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.postgres import Cluster, fresh_database

if TYPE_CHECKING:
    from expb_tui.server.config import ServerSettings
    from expb_tui.server.context import Services
    from expb_tui.server.run import RunningServer
    from expb_tui.server.seed import SeededDemo

PASSWORD = "correct horse battery staple"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
CLIENT_ID = "expbctl"
_START_SECONDS = 20.0
_OPEN = ("01", "08")
"""Established, and closed by the other side alone, in the kernel's numbers of TCP states."""


def settings_for(database: str, **changes: Any) -> ServerSettings:
    """Settings with cheap passwords and, on SQLite, without waiting for the disk."""
    from expb_tui.server.config import PasswordCost, ServerSettings

    cheap = PasswordCost(time=1, memory=64, lanes=1)
    return ServerSettings(**{"database": database, "synchronous": "OFF", "password_cost": cheap, **changes})


@dataclass
class LocalServer:
    """A running server. ``demo`` says what is in it (None without seeding); the shortcuts below come from it."""

    running: RunningServer
    demo: SeededDemo | None
    _thread: threading.Thread

    @property
    def address(self) -> str:
        """Where it listens, such as ``http://127.0.0.1:40001``: its issuer too, unless the settings name another."""
        return f"http://{self.running.address.host}:{self.running.address.port}"

    @property
    def services(self) -> Services:
        """Its inside, in this process: ``services.database`` for looking and for moving the clock."""
        return self.running.services

    @property
    def _seeded(self) -> SeededDemo:
        assert self.demo is not None, "this server has no demo in it"
        return self.demo

    @property
    def email(self) -> str:
        return self._seeded.email

    @property
    def password(self) -> str:
        return self._seeded.password

    @property
    def account_id(self) -> str:
        return self._seeded.account_id

    @property
    def project_id(self) -> str:
        return self._seeded.project_id

    @property
    def agent_id(self) -> str:
        return self._seeded.agent_id

    @property
    def agent_token(self) -> str:
        return self._seeded.agent_token

    def client(self, token: str | None = None) -> httpx.Client:
        """A plain HTTP client for it, with a bearer if one is given; close it."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # Plain http: reading the certificate store would cost more than most tests.
        return httpx.Client(base_url=self.address, headers=headers, timeout=20.0, verify=False, trust_env=False)

    def approve(
        self,
        user_code: str,
        *,
        email: str | None = None,
        password: str | None = None,
        decision: str = "approve",
        account_id: str | None = None,
    ) -> None:
        """Walk the approval page as a person without script would: open, sign in, decide."""
        email, password = email or self.email, password or self.password
        with self.client() as http:
            page = http.get("/oauth/device", params={"user_code": user_code})
            assert page.status_code == 200, page.text
            page = http.post("/oauth/device", data={"user_code": user_code, "email": email, "password": password})
            assert page.status_code == 200, page.text
            form = hidden_fields(page.text)
            if account_id is not None:
                form["authority_context"] = account_id
            page = http.post("/oauth/device", data={**form, "decision": decision})
            assert page.status_code == 200, page.text

    def deny(self, user_code: str) -> None:
        """As ``approve``, with the other button."""
        self.approve(user_code, decision="deny")

    def sign_in(
        self, *, email: str | None = None, password: str | None = None, account_id: str | None = None
    ) -> dict[str, Any]:
        """A session by the whole device flow: the token endpoint's answer."""
        with self.client() as http:
            started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}).json()
            self.approve(started["user_code"], email=email, password=password, account_id=account_id)
            form = {"client_id": CLIENT_ID, "grant_type": DEVICE_GRANT, "device_code": started["device_code"]}
            answer = http.post("/oauth/token", data=form)
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens

    def pass_time(self, seconds: float) -> None:
        """Move the server's clock forward; the ``Date`` header stays with the host's."""
        self.services.database.clock_offset += timedelta(seconds=seconds)

    def busy(self) -> bool:
        """Whether requests are on their way into it or being answered, those of processes now dead included."""
        # In this order: what has been read off a connection has its task before that connection is let go of.
        serving = self.running._server
        return connected(self.running.address.port) or (serving is not None and bool(serving.server_state.tasks))

    def stop(self) -> None:
        """End it and wait for that; a second time does nothing."""
        self.running.stop()
        self._thread.join(_START_SECONDS)
        assert not self._thread.is_alive(), "the server did not stop"


ServerFactory = Callable[..., LocalServer]
"""``factory(*, database=None, seed_demo=True, demo=None, **settings)``; servers are stopped when the test ends.

``demo`` says what a given database holds already; otherwise it is seeded, unless ``seed_demo`` is off.
"""


def connected(port: int) -> bool:
    """Whether the kernel has a connection at that port which its server has not let go of, accepted yet or not."""
    sockets = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
    return any(int(local.rpartition(":")[2], 16) == port and state in _OPEN for _, local, _, state, *_ in sockets)


def hidden_fields(page: str) -> dict[str, str]:
    """The hidden inputs of a page."""
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page))


def start_server(settings: ServerSettings, demo: SeededDemo | None) -> LocalServer:
    """Start a server in a thread and wait until it accepts."""
    from expb_tui.server.run import RunningServer

    running = RunningServer(settings)
    accepting = threading.Event()
    thread = threading.Thread(
        target=running.run, args=(lambda _address: accepting.set(),), name="local-server", daemon=True
    )
    thread.start()
    assert accepting.wait(_START_SECONDS), "the server did not start"
    return LocalServer(running, demo, thread)


def seed(settings: ServerSettings) -> SeededDemo:
    """Put the demo into a database that no server has open."""
    from expb_tui.server.run import RunningServer
    from expb_tui.server.seed import seed_demo

    running = RunningServer(settings)
    try:
        return seed_demo(running.services, password=PASSWORD)
    finally:
        running.close()


@dataclass(frozen=True)
class Template:
    """Database files to copy: an empty one, and one with the demo."""

    empty: Path
    seeded: Path
    demo: SeededDemo


@pytest.fixture(scope="session")
def server_template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    folder = tmp_path_factory.mktemp("server-template")
    empty, seeded = folder / "empty.sqlite", folder / "seeded.sqlite"
    from expb_tui.server.run import RunningServer

    RunningServer(settings_for(f"sqlite:///{empty}")).close()
    shutil.copy(empty, seeded)
    demo = seed(settings_for(f"sqlite:///{seeded}"))
    return Template(empty, seeded, demo)


@pytest.fixture
def server_factory(server_template: Template, tmp_path: Path) -> Iterator[ServerFactory]:
    started: list[LocalServer] = []

    def make(
        *, database: str | None = None, seed_demo: bool = True, demo: SeededDemo | None = None, **changes: Any
    ) -> LocalServer:
        if database is None:
            file = tmp_path / f"server-{len(started)}.sqlite"
            shutil.copy(server_template.seeded if seed_demo else server_template.empty, file)
            database = f"sqlite:///{file}"
            demo = server_template.demo if seed_demo else None
        elif seed_demo and demo is None:
            demo = seed(settings_for(database))
        server = start_server(settings_for(database, **changes), demo)
        started.append(server)
        return server

    yield make
    for server in started:
        server.stop()


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    """A fresh server with the demo in it."""
    return server_factory()


@pytest.fixture(scope="session")
def postgres_demo(postgres_cluster: Cluster) -> tuple[str, SeededDemo]:
    """A database of the session's cluster with the demo in it, to be copied."""
    name = "expb_demo"
    postgres_cluster.run(f"CREATE DATABASE {name}")
    return name, seed(settings_for(postgres_cluster.url(name), workers=1))


@pytest.fixture(params=["sqlite", "postgresql"])
def either_server(request: pytest.FixtureRequest, server_factory: ServerFactory) -> Iterator[LocalServer]:
    """A server with the demo on each database in turn."""
    if request.param == "sqlite":
        yield server_factory()
        return
    template, demo = request.getfixturevalue("postgres_demo")
    with fresh_database(request.getfixturevalue("postgres_cluster"), template) as url:
        server = server_factory(database=url, demo=demo)
        yield server
        server.stop()
