"""Keeping from the command line: who keeps a lease, keep and unkeep, and a keeper that claims see to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.commands import Commands
from tests.support.keeper import no_keeper_left
from tests.support.server import LocalServer


@pytest.fixture
def commands(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    ours = Commands(tmp_path, capsys, monkeypatch)
    monkeypatch.setenv("EXPB_TUI_MACHINE_ID", "host-one")
    sign_in = ("--profile=researcher", "auth", "--agent-token", f"--api-server-address={server.address}")
    saved = ours(*sign_in, given=server.agent_token)
    assert saved.code == 0, saved.err
    return ours


def claim(commands: Commands, server: LocalServer, role: str) -> str:
    done = commands("--project", server.project_id, "agent", "work", "request", f"--role={role}", "-o", "json")
    assert done.code == 0, done.err
    uid: str = done.json()["resource"]["metadata"]["uid"]
    return uid


def kept(commands: Commands) -> dict[str, tuple[bool, str]]:
    return {
        one["package_id"]: (one["kept"], one["kept_by"])
        for one in commands("agent", "work", "list", "-o", "json").json()
    }


def test_keep_and_unkeep_change_what_is_listed_and_send_nothing(commands: Commands, server: LocalServer) -> None:
    first, second = claim(commands, server, "ideator"), claim(commands, server, "experimenter")
    assert kept(commands) == {first: (True, "nobody"), second: (True, "nobody")}
    table = commands("agent", "work", "unkeep", first)
    assert table.out.splitlines()[0].split()[:7] == ["LEFT", "STATE", "ROLE", "TASKS", "PROJECT", "KEPT", "BY"]
    assert " off " in table.out
    assert kept(commands) == {first: (False, "off"), second: (True, "nobody")}
    assert commands("agent", "work", "unkeep", "--all").code == 0
    assert set(kept(commands).values()) == {(False, "off")}
    again = commands("agent", "work", "keep", second)
    assert "no keeper is started here" in again.err
    assert kept(commands) == {first: (False, "off"), second: (True, "nobody")}
    wide = commands("agent", "work", "list", "-o", "wide").out
    assert "RENEWED" in wide.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a package"),
        (["nobody"], "not held on this host"),
        (["nobody", "--all"], "not both"),
    ],
)
def test_what_cannot_be_kept_is_said(commands: Commands, arguments: list[str], words: str) -> None:
    done = commands("agent", "work", "keep", *arguments)
    assert done.code != 0
    assert words in done.err


def test_a_claim_sees_to_a_keeper(commands: Commands, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPB_TUI_KEEPER", "auto")
    with no_keeper_left(dict(os.environ)):
        done = commands("--project", server.project_id, "agent", "work", "request", "--role=ideator")
        assert done.code == 0, done.err
        assert "A keeper has been started" in done.err
        assert "keeper" in done.out
        assert [by for _, by in kept(commands).values()] == ["keeper"]


def test_the_token_of_the_environment_is_lent_and_that_is_said_before(
    commands: Commands, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPB_TUI_KEEPER", "auto")
    monkeypatch.setenv("EXPBENCH_API_SERVER", server.address)
    (commands.home / "profiles.json").unlink()
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN", server.agent_token)
    with no_keeper_left(dict(os.environ)):
        done = commands("--project", server.project_id, "agent", "work", "request", "--role=ideator")
        assert done.code == 0, done.err
        assert "Renewal ends with the keeper that runs now" in done.err
        assert [by for _, by in kept(commands).values()] == ["keeper"]
