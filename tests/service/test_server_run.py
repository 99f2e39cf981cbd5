"""Starting and stopping: ports, files, migrations, signals."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, select

from expb_tui.server.config import ServerError
from expb_tui.server.run import RunningServer
from expb_tui.server.store import research_tables, schema
from expb_tui.server.store.columns import metadata
from expb_tui.server.store.database import Database
from expb_tui.server.store.migrate import HEAD, configuration, current_revision, migrate
from tests.support.postgres import Cluster
from tests.support.server import LocalServer, ServerFactory, settings_for

TABLES = (schema, research_tables)
SERVE = """
import sys
from expb_tui.server.run import serve
from tests.support.server import settings_for
serve(settings_for(sys.argv[1]), ready=lambda address: print(address.url, flush=True))
print("ended", flush=True)
"""


@contextmanager
def processes(database: str, count: int = 1) -> Iterator[list[tuple[subprocess.Popen[str], str]]]:
    """Servers in processes of their own, all started before the first is waited for, with their addresses."""
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SERVE, database],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        for _ in range(count)
    ]
    try:
        yield [(server, _address(server)) for server in started]
    finally:
        for server in started:
            server.kill()
            server.communicate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    assert address, server.communicate()[1]
    return address


@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGINT, signal.SIGTERM]]
)
def test_signals_end_it_quietly(tmp_path: Path, signals: list[signal.Signals]) -> None:
    with processes(f"sqlite:///{tmp_path}/x.sqlite") as [(server, address)], httpx.Client(verify=False) as http:
        assert http.get(f"{address}/v1/service-configuration").status_code == 200
        for number in signals:
            server.send_signal(number)
            time.sleep(0.01)
        out, err = server.communicate(timeout=20)
    assert (server.returncode, out, err) == (0, "ended\n", "")


def test_a_killed_server_leaves_no_lock(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/x.sqlite"
    with processes(database) as [(server, _)]:
        with pytest.raises(ServerError) as caught:
            RunningServer(settings_for(database))
        assert caught.value.code == "database-in-use"
        assert f"pid {server.pid}" in caught.value.cause
        server.kill()
        server.wait()
        RunningServer(settings_for(database)).close()


def test_a_taken_port_is_told_before_the_database_is_touched(server: LocalServer, tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite"
    with pytest.raises(ServerError) as caught:
        RunningServer(settings_for(f"sqlite:///{file}", port=server.running.address.port))
    assert caught.value.code == "address-unusable"
    assert not file.exists()


def test_a_failed_start_gives_everything_back(tmp_path: Path) -> None:
    file = tmp_path / "broken.sqlite"
    file.write_bytes(b"this is not a database" * 100)
    for _ in range(2):
        with pytest.raises(ServerError) as caught:
            RunningServer(settings_for(f"sqlite:///{file}"))
        assert caught.value.code == "database-unusable"
    # And nothing is left beside a file that is not ours.
    assert [path.name for path in tmp_path.iterdir()] == ["broken.sqlite"]


def test_one_file_has_one_server_by_whatever_name(tmp_path: Path) -> None:
    file = tmp_path / "real.sqlite"
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "link.sqlite").symlink_to(file)
    first = RunningServer(settings_for(f"sqlite:///{file}"))
    (tmp_path / "inside").mkdir()
    for name in ("link.sqlite", "folder/real.sqlite", "inside/../real.sqlite", "./real.sqlite"):
        with pytest.raises(ServerError) as caught:
            RunningServer(settings_for(f"sqlite:///{tmp_path}/{name}"))
        assert caught.value.code == "database-in-use", name
    first.close()
    (tmp_path / "hard.sqlite").hardlink_to(file)
    with pytest.raises(ServerError) as caught:
        RunningServer(settings_for(f"sqlite:///{tmp_path}/hard.sqlite"))
    assert caught.value.code == "database-linked"


def test_the_files_are_the_owners(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = os.umask(0o022)
    try:
        server = RunningServer(settings_for(f"sqlite:///{tmp_path}/x.sqlite"))
    finally:
        os.umask(before)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) >= 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    server.close()
    assert "can be read by other users" not in caplog.text
    (tmp_path / "x.sqlite").chmod(0o644)
    RunningServer(settings_for(f"sqlite:///{tmp_path}/x.sqlite")).close()
    assert "can be read by other users" in caplog.text


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/x.sqlite"
    RunningServer(settings_for(database)).close()
    with sqlite3.connect(tmp_path / "x.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_future'")
    with pytest.raises(ServerError) as caught:
        RunningServer(settings_for(database))
    assert caught.value.code == "database-newer"
    assert "9999_future" in caught.value.cause


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with nothing in it."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/empty.sqlite")
        yield database
        database.close()
        return
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    cluster.run("CREATE DATABASE expb_empty")
    database = Database(cluster.url("expb_empty"), workers=4)
    yield database
    database.close()
    cluster.run("DROP DATABASE expb_empty WITH (FORCE)")


def test_migrations_make_what_the_code_describes(empty: Database) -> None:
    migrate(empty)
    migrate(empty)
    with empty.read() as conn:
        assert current_revision(conn) == HEAD
        assert ScriptDirectory.from_config(configuration(conn)).get_current_head() == HEAD
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_people_of_the_first_version_keep_their_password(empty: Database) -> None:
    with empty.write() as conn:
        command.upgrade(configuration(conn), "0002_research")
        row = dict.fromkeys(("name", "name_key", "phase", "authority", "email", "email_key", "password_hash"), "x")
        times = {"created_at": empty.clock(conn), "updated_at": empty.clock(conn)}
        values = {**row, **times, "id": "u" * 36, "labels": {}, "version": 1, "modified_by_type": "service"}
        conn.execute(insert(schema.users), values)
    migrate(empty)
    with empty.read() as conn:
        method = conn.execute(select(schema.sign_in_methods)).one()
    assert (method.user_id, method.method, method.phase) == ("u" * 36, "password", "active")


def test_a_migration_that_fails_leaves_nothing(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    create = op.create_table
    made: list[str] = []

    def fail_late(name: str, *columns: object, **options: object) -> object:
        made.append(name)
        if len(made) == 12:
            raise RuntimeError("power cut")
        return create(name, *columns, **options)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(op, "create_table", fail_late)
    with pytest.raises(RuntimeError):
        migrate(empty)
    monkeypatch.undo()
    with empty.read() as conn:
        assert current_revision(conn) is None
    migrate(empty)
    with empty.read() as conn:
        assert current_revision(conn) == HEAD


def test_several_servers_start_on_one_postgres(postgres_cluster: Cluster) -> None:
    postgres_cluster.run("CREATE DATABASE expb_shared")
    url = postgres_cluster.url("expb_shared")
    with processes(url, 2) as [(_, one), (_, two)], httpx.Client(verify=False) as http:
        # They migrated the empty database at the same time, and what one writes the other knows.
        form = {"client_id": "expbctl"}
        code = http.post(f"{one}/oauth/device_authorization", data=form).json()["device_code"]
        grant = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": code}
        assert http.post(f"{two}/oauth/token", data={**form, **grant}).json()["error"] == "authorization_pending"
        assert http.post(f"{one}/oauth/token", data={**form, **grant}).json()["error"] == "slow_down"
    postgres_cluster.run("DROP DATABASE expb_shared WITH (FORCE)")


def test_the_address_without_an_issuer_is_where_it_listens(server_factory: ServerFactory) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    sock.close()
    server = server_factory(port=port)
    assert server.running.address.url == f"http://127.0.0.1:{port}"
