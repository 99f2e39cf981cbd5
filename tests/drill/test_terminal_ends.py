"""However the cockpit ends, stops or is starved, its terminal is given back and nothing that was typed is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cockpit import PROGRAM, TerminalCockpit, environment, in_terminal, profiles_file
from tests.support.server import LocalServer
from tests.support.terminal import PATIENCE, Terminal, terminal


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    profiles_file(tmp_path)
    return environment(tmp_path)


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("stage", [b"\x1b[?1049h", b"\x1b[?1004h", b"Commands"], ids=["first line", "taken", "drawn"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_signal_at_any_stage_of_the_start_restores_it(
    environ: dict[str, str], number: signal.Signals, stage: bytes
) -> None:
    with terminal([PROGRAM], environ=environ) as shown:
        deadline = time.monotonic() + PATIENCE
        while stage not in shown.output:
            assert time.monotonic() < deadline
            assert shown.pump(0.005)
        os.kill(shown.pid, number)
        assert shown.wait_end() == 128 + number
        assert shown.restored(), shown.modes()


def test_a_stop_that_nobody_announced_takes_the_terminal_once_and_gives_it_back(environ: dict[str, str]) -> None:
    with in_terminal(environ) as cockpit:
        for _ in range(3):
            cockpit.kill(signal.SIGSTOP)
            os.waitpid(cockpit.terminal.pid, os.WUNTRACED)
            cockpit.kill(signal.SIGCONT)
            cockpit.terminal.settle()
        cockpit.press("pane.work", "app.palette")
        cockpit.wait_for("Esc Close")
        # Two threads that read the same keys would tear the word apart.
        for letter in "reload":
            cockpit.terminal.send(letter)
        cockpit.wait_for("reload", "Ask the server again")
        cockpit.terminal.send("\x1b")
        cockpit.press("app.quit")
        assert cockpit.terminal.wait_end() == 0
        assert cockpit.terminal.restored(), cockpit.terminal.modes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_stopped_ends_it_once_it_goes_on(environ: dict[str, str], number: signal.Signals) -> None:
    with terminal(["bash", "--norc", "--noprofile", "-i"], environ={**environ, "PS1": "shell> "}) as shown:
        shown.wait_for("shell>")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("Commands")
        TerminalCockpit(shown).press("app.suspend")
        shown.wait_for("Stopped")
        shown.send(f"kill -{number.name} %1\n")
        shown.send("fg\n")
        shown.settle(0.5)
        shown.send("echo code $?; echo a''live\n")
        shown.wait_for("alive")
        shown.settle()
        modes = shown.modes()
        assert not any(
            modes[name] for name in ("alternate screen", "cursor hidden", "mouse", "kitty keys", "lines cut")
        )


def test_standard_error_in_a_file_leaves_the_cockpit_on_the_terminal(environ: dict[str, str], tmp_path: Path) -> None:
    with terminal(["sh", "-c", f'exec "{PROGRAM}" 2>{tmp_path}/errors'], environ=environ) as shown:
        shown.wait_for("Commands", "Profiles")
        TerminalCockpit(shown).press("app.quit")
        assert shown.wait_end() == 0
        assert shown.restored()
    assert (tmp_path / "errors").read_text() == ""


# A terminal that takes nothing


def _fill(cockpit: TerminalCockpit) -> None:
    """Have it draw until the terminal, which is not read meanwhile, is full."""
    for _ in range(150):
        cockpit.press("app.help")
        cockpit.terminal.send("q")
        cockpit.press("pane.next")
        time.sleep(0.02)


def test_a_terminal_that_takes_nothing_holds_up_no_signal(environ: dict[str, str]) -> None:
    with in_terminal(environ, columns=200, lines=60) as cockpit:
        _fill(cockpit)
        cockpit.kill(signal.SIGTERM)
        _until(
            lambda: os.waitid(os.P_PID, cockpit.terminal.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None, "end"
        )
        assert cockpit.terminal.wait_end() == 143


def test_a_terminal_that_listens_again_shows_everything(environ: dict[str, str]) -> None:
    with in_terminal(environ, columns=200, lines=60, settled="No profile on this host") as cockpit:
        cockpit.terminal.settle()
        before = cockpit.terminal.text
        _fill(cockpit)
        cockpit.press("pane.profiles")
        cockpit.terminal.wait_text(before)  # the filling's keys may still be answered: what counts is where it ends


# While another program has the terminal


@pytest.fixture
def editing(tmp_path: Path, server: LocalServer) -> dict[str, str]:
    profiles_file(tmp_path, server)
    editor = tmp_path / "editor"
    editor.write_text(
        f"#!{sys.executable}\nimport os, pathlib, sys, time\n"
        "path = pathlib.Path(sys.argv[1])\npath.write_text(path.read_text() + '# half an idea\\n')\n"
        f"pathlib.Path({str(tmp_path / 'editor-pid')!r}).write_text(str(os.getpid()))\n"
        "print('in the editor', flush=True)\ntime.sleep(600)\n"
    )
    editor.chmod(0o755)
    return environment(tmp_path, EDITOR=str(editor))


def _in_editor(cockpit: TerminalCockpit) -> None:
    cockpit.press("work.claim")
    cockpit.wait_for("OBJECTIVES", "ideator")
    cockpit.press("claim.ask")
    cockpit.wait_for("Assigned: 1 task")
    cockpit.press("claim.open")
    cockpit.wait_for("Package of the")
    cockpit.press("package.edit")
    cockpit.wait_for("in the editor")


def _draft_is_left(folder: Path) -> None:
    (left,) = (folder / "state").rglob("*.yaml")
    assert "# half an idea" in left.read_text()


def test_sigterm_ends_the_editor_too_and_leaves_what_was_written(editing: dict[str, str], tmp_path: Path) -> None:
    with in_terminal(editing, settled="online") as cockpit:
        _in_editor(cockpit)
        cockpit.kill(signal.SIGINT)  # of the keyboard: the editor's own affair
        cockpit.terminal.settle()
        cockpit.kill(signal.SIGTERM)
        assert cockpit.terminal.wait_end() == 143
        assert cockpit.terminal.restored(), cockpit.terminal.modes()
    _draft_is_left(tmp_path)
    _until(lambda: not _alive(int((tmp_path / "editor-pid").read_text())), "the editor's end")


def test_a_terminal_that_vanishes_under_the_editor_ends_both(editing: dict[str, str], tmp_path: Path) -> None:
    with in_terminal(editing, settled="online") as cockpit:
        _in_editor(cockpit)
        shown: Terminal = cockpit.terminal
        os.close(shown._master)
        shown._master = os.open(os.devnull, os.O_RDONLY)
        found: list[int] = []

        def ended() -> bool:
            pid, status = os.waitpid(shown.pid, os.WNOHANG)
            if pid:
                found.append(os.waitstatus_to_exitcode(status))
            return bool(pid)

        _until(ended, "its end")
        shown._status = found[0]
        assert found == [129]
    _draft_is_left(tmp_path)
    _until(lambda: not _alive(int((tmp_path / "editor-pid").read_text())), "the editor's end")


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
