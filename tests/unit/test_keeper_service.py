"""The keeper as a systemd service, and how it is started beside a login: with programs that stand in for systemd's."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from expb_tui.core import logind
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.keeper import service, spawn
from expb_tui.core.keeper.control import Control, ask
from expb_tui.core.keeper.log import Log
from expb_tui.core.keeper.tokens import LentToken
from expb_tui.core.paths import pin_folders, state_root
from expb_tui.core.settings import Settings


def program(folder: Path, name: str, text: str) -> Path:
    """A shell script of that name in front of the PATH; it notes its arguments."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {folder}/{name}.calls\n{text}\n')
    path.chmod(0o755)
    return path


def calls(folder: Path, name: str) -> list[str]:
    noted = folder / f"{name}.calls"
    return noted.read_text().splitlines() if noted.exists() else []


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "root/run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(logind, "ROOT", tmp_path / "root")
    return folder


def test_the_unit_says_where_everything_is() -> None:
    text = service.unit_text(
        {"EXPB_TUI_STATE_DIR": '/data/50% "mine"\\x', "EXPBENCH_PROFILES": "", "EXPBENCH_AGENT_TOKEN": "planted"}
    )
    assert 'Environment="EXPB_TUI_STATE_DIR=/data/50%% \\"mine\\"\\\\x"\n' in text
    assert '"keeper" "--stay"\n' in text
    assert "Restart=on-failure" in text
    assert "planted" not in text
    assert "EXPBENCH_PROFILES" not in text
    with pytest.raises(UsageError):
        service.unit_text({"EXPB_TUI_STATE_DIR": "/data\nExecStartPre=/bin/rm"})


def test_install_enables_and_uninstall_removes(bin_: Path) -> None:
    program(bin_, "systemctl", "exit 0")
    path = service.install()
    assert path == service.unit_path()
    assert path.read_text() == service.unit_text()
    assert calls(bin_, "systemctl")[-2:] == ["--user daemon-reload", f"--user enable --now {service.UNIT}"]
    assert service.uninstall()
    assert not path.exists()
    assert f"--user disable --now {service.UNIT}" in calls(bin_, "systemctl")
    assert not service.uninstall()


def test_where_systemd_does_not_run_the_host_another_way_is_named(
    bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bin_, "systemctl", "exit 0")
    monkeypatch.setattr(logind, "ROOT", tmp_path)
    with pytest.raises(ExpbError) as caught:
        service.install()
    assert caught.value.code == "no-systemd"
    assert "@reboot" in caught.value.next_step
    assert not service.unit_path().exists()


def test_what_is_done_by_hand_names_the_file_and_the_lines(bin_: Path) -> None:
    (line,) = service.by_hand_lines()
    assert str(service.unit_path()) in line
    assert f"systemctl --user enable --now {service.UNIT}" in line


def test_without_a_reachable_systemd_nothing_is_written(bin_: Path) -> None:
    program(bin_, "systemctl", 'echo "Failed to connect to bus" >&2; exit 1')
    with pytest.raises(ExpbError) as caught:
        service.install()
    assert "Failed to connect to bus" in caught.value.cause
    assert not service.unit_path().exists()


def test_a_login_that_is_ended_whole_does_not_take_it_along(
    bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a user manager the start runs in a scope of it (KillUserProcesses); where that fails, plainly."""
    monkeypatch.setattr(spawn, "command", lambda *words: [str(bin_ / "expb-tui"), *words])
    program(bin_, "expb-tui", f"echo '{json.dumps({'kind': 'started'})}'")
    ensured = asyncio.run(spawn.ensure(Settings(), folder=tmp_path))
    assert (ensured.kind, ensured.problem) == ("started", None)

    (tmp_path / "run" / "systemd").mkdir(parents=True)
    (tmp_path / "run" / "systemd" / "private").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    program(bin_, "systemd-run", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    assert asyncio.run(spawn.ensure(Settings(), folder=tmp_path)).kind == "started"
    (line,) = calls(bin_, "systemd-run")
    assert line.startswith("--user --scope ")
    assert line.endswith("keeper --detach --output=json")

    program(bin_, "systemd-run", "exit 1")
    assert asyncio.run(spawn.ensure(Settings(), folder=tmp_path)).kind == "started"
    assert len(calls(bin_, "expb-tui")) == 3


def test_a_start_that_fails_is_a_notice(bin_: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "command", lambda *words: [str(bin_ / "expb-tui"), *words])
    failed = asyncio.run(spawn.ensure(Settings(), folder=tmp_path))
    assert failed.kind == "failed"
    assert failed.problem is not None
    assert failed.problem.next_step

    told = {
        "kind": "failed",
        "what": "The journal is newer",
        "cause": "it is",
        "next_step": "Upgrade",
        "code": "newer-journal",
    }
    program(bin_, "expb-tui", f"echo '{json.dumps(told)}'; exit 1")
    failed = asyncio.run(spawn.ensure(Settings(), folder=tmp_path))
    assert failed.problem is not None
    assert (failed.problem.what, failed.problem.code) == ("The journal is newer", "newer-journal")

    program(bin_, "expb-tui", "exit 3")
    assert asyncio.run(spawn.ensure(Settings(), folder=tmp_path)).kind == "failed"
    before = len(calls(bin_, "expb-tui"))
    assert asyncio.run(spawn.ensure(Settings(keeper="off"), folder=tmp_path)).kind == "off"
    assert len(calls(bin_, "expb-tui")) == before


async def test_a_socket_far_down(tmp_path: Path) -> None:
    """Longer than a socket's address may be."""
    folder = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 6)
    folder.mkdir(parents=True)

    async def answer(asked: dict[str, object]) -> dict[str, object]:
        return {"ok": True, "asked": asked["op"]}

    control = Control(folder, answer)
    await control.start()
    assert stat.S_IMODE((folder / "keeper.sock").stat().st_mode) == 0o600
    assert await ask(folder, "hello") == {"ok": True, "asked": "hello"}
    await control.aclose()
    assert not (folder / "keeper.sock").exists()


def test_the_log_is_bounded_private_and_of_one_line_each(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.say("one\ntwo \x1b[31m" + "x" * 5000)
    (line,) = log.path.read_text().splitlines()
    assert "\x1b" not in line
    assert len(line) < 600
    for _ in range(2000):
        log.say("y" * 500)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 300 << 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_what_is_no_token_is_not_lent() -> None:
    good = {"endpoint": "https://b.example", "account": "a", "agent": "g", "profile": "", "token": "t-1"}
    assert LentToken.of(good).plain() == good
    assert "t-1" not in repr(LentToken.of(good))
    for bad in ({"token": ""}, {"token": "a b"}, {"token": 3}, {"agent": ""}, {"endpoint": None}):
        with pytest.raises(UsageError) as caught:
            LentToken.of(good | bad)
        assert "a b" not in str(caught.value)


def test_memory_is_private() -> None:
    script = (
        "import ctypes, resource; from expb_tui.core.keeper.detach import keep_memory_private; keep_memory_private();"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0 (0, 0)\n"


def test_a_relative_state_folder_is_the_same_one_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPB_TUI_STATE_DIR", "state")
    assert state_root() == tmp_path / "state"
    environ = {"EXPB_TUI_STATE_DIR": "state", "EXPBENCH_PROFILES": "", "HOME": "h"}
    pin_folders(environ)
    assert environ == {"EXPB_TUI_STATE_DIR": str(tmp_path / "state"), "EXPBENCH_PROFILES": "", "HOME": "h"}
