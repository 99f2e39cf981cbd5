"""The demo's walk stops, and says where, when the server does not confirm a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from expb_tui.cli.demo_server import World
from expb_tui.cli.demo_walk import walk
from expb_tui.cli.output import Output
from expb_tui.server.config import Lifetimes
from tests.support.commands import Commands
from tests.support.server import LocalServer, ServerFactory


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    return server_factory(lifetimes=Lifetimes(device_interval=1))


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


def world(server: LocalServer, folder: Path, *, password: str | None = None) -> World:
    demo = server.demo
    assert demo is not None
    return World(
        folder,
        server.address,
        demo.email,
        password or demo.password,
        demo.account_id,
        demo.project_id,
        demo.project_name,
        demo.agent_id,
        demo.agent_name,
        demo.agent_token,
    )


def test_a_refused_approval_ends_it(
    commands: Commands, server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not walk(world(server, tmp_path, password="wrong"), Output())
    *before, last = capsys.readouterr().out.splitlines()
    assert last.startswith("✗ the device login: The approval page answers 400")
    assert not any("approval " in line for line in before)


def test_no_work_ends_it(
    commands: Commands, server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.client(server.sign_in()["access_token"]) as http:
        hold = {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "holds",
            "metadata": {},
            "spec": {"targetKind": "project", "targetId": server.project_id, "reason": "frozen"},
        }
        done = http.post(f"/v1/projects/{server.project_id}/holds", json=hold, headers={"Idempotency-Key": "hold"})
        assert done.status_code == 201, done.text
    assert not walk(world(server, tmp_path), Output())
    *before, last = capsys.readouterr().out.splitlines()
    assert last.startswith("✗ the role ideator: No work for ideator")
    assert all(line.startswith("✓ ") for line in before)
