"""A throw-away PostgreSQL cluster per test session, and a fresh database per test.

``postgres_url`` is the fixture to ask for; the database in it has our schema and nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.require import missing

_START_SECONDS = 30.0
# Only function is tested on it; what is lost with the machine is lost.
_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "jit=off")
_TEMPLATE = "expb_template"


def postgres_binaries() -> Path | None:
    """The folder with ``initdb`` and ``postgres``, the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Cluster:
    """A running cluster that only this process's host can reach. ``settings`` are added to those of the tests."""

    def __init__(self, binaries: Path, settings: tuple[str, ...] = _SETTINGS) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="expb-pg-", dir="/tmp"))
        self._as_owner = ["setpriv", "--pdeathsig", "INT"]
        if os.geteuid() == 0:
            shutil.chown(self._root, "postgres", "postgres")
            self._as_owner += ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        data = self._root / "data"
        subprocess.run(
            [
                *self._as_owner,
                binaries / "initdb",
                "-D",
                data,
                "-U",
                "postgres",
                "--auth=trust",
                "--no-sync",
                "-E",
                "UTF8",
            ],
            check=True,
            capture_output=True,
            cwd=self._root,
        )
        self.port = _free_port()
        options = ["listen_addresses=127.0.0.1", f"port={self.port}", "unix_socket_directories=", *settings]
        with (self._root / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *self._as_owner,
                    binaries / "postgres",
                    "-D",
                    data,
                    *(word for text in options for word in ("-c", text)),
                ],
                stdout=log,
                stderr=log,
                cwd=self._root,
            )
        self._wait()

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str) -> None:
        """One statement outside a transaction, as the superuser."""
        import psycopg

        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres", autocommit=True) as conn:
            conn.execute(statement.encode())

    def stop(self) -> None:
        """End the cluster at once and remove its files."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=20)
        shutil.rmtree(self._root, ignore_errors=True)

    def _wait(self) -> None:
        import psycopg

        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log = (self._root / "log").read_text(errors="replace")
                    self.stop()
                    raise RuntimeError(f"PostgreSQL did not start: {log[-2000:]}") from None
                time.sleep(0.05)
            else:
                return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_cluster(settings: tuple[str, ...] = _SETTINGS) -> Iterator[Cluster | None]:
    """A cluster with a migrated template database, for benchmarks and the fixtures; None where PostgreSQL is missing.

    ``settings`` are server settings; those of a benchmark should not switch durability off.
    """
    binaries = postgres_binaries()
    if binaries is None:
        yield None
        return
    cluster = Cluster(binaries, settings)
    try:
        from expb_tui.server.store.database import Database
        from expb_tui.server.store.migrate import migrate

        cluster.run(f"CREATE DATABASE {_TEMPLATE}")
        database = Database(cluster.url(_TEMPLATE), workers=1)
        migrate(database)
        database.close()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def fresh_database(cluster: Cluster, template: str = _TEMPLATE) -> Iterator[str]:
    """The address of a copy of a database (by default one with our schema and nothing else), dropped at the end."""
    name = f"t_{uuid4().hex}"
    cluster.run(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield cluster.url(name)
    cluster.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """The session's cluster."""
    with running_cluster() as cluster:
        if cluster is None:
            missing("postgres", "initdb is not installed")
        yield cluster


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    """The address of a fresh, migrated, empty database."""
    with fresh_database(postgres_cluster) as url:
        yield url
