"""The cockpit gives its terminal back, whatever ends or stops it (style, section 2; issue threads 5 and 6)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.support.cockpit import PROGRAM, TerminalCockpit, environment, in_terminal, profiles_file
from tests.support.terminal import terminal


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    profiles_file(tmp_path)
    return environment(tmp_path)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_the_terminal_restored(
    environ: dict[str, str], number: signal.Signals, code: int
) -> None:
    with in_terminal(environ) as cockpit:
        assert not cockpit.restored()
        cockpit.kill(number)
        assert cockpit.terminal.wait_end() == code
        assert cockpit.restored()


def test_leaving_by_key_restores_the_terminal(environ: dict[str, str]) -> None:
    with in_terminal(environ) as cockpit:
        cockpit.press("app.quit")
        assert cockpit.terminal.wait_end() == 0
        assert cockpit.restored()


def test_a_vanished_terminal_ends_it_without_spinning_though_sighup_is_ignored(environ: dict[str, str]) -> None:
    command = ["/bin/sh", "-c", 'trap "" HUP; exec "$0"', PROGRAM]
    with terminal(command, environ=environ) as shown:
        shown.wait_for("Commands")
        before = _cpu_seconds(shown.pid)
        os.close(shown._master)
        started = time.monotonic()
        status = None
        with contextlib.suppress(ChildProcessError):
            while status is None and time.monotonic() - started < 10:
                pid, found, usage = os.wait4(shown.pid, os.WNOHANG)
                if pid:
                    status, used = found, usage.ru_utime + usage.ru_stime - before
                time.sleep(0.02)
        assert status is not None, "still running ten seconds after its terminal went"
        shown._status = status
        shown._master = os.open(os.devnull, os.O_RDONLY)
        assert os.waitstatus_to_exitcode(status) == 129
        assert used < 1.0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_suspending_gives_the_terminal_to_the_shell_and_fg_brings_the_screen_back(environ: dict[str, str]) -> None:
    with terminal(["bash", "--norc", "--noprofile", "-i"], environ={**environ, "PS1": "shell> "}) as shown:
        shown.wait_for("shell>")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("Commands", "Profiles")
        cockpit = TerminalCockpit(shown)
        cockpit.press("app.suspend")
        shown.wait_for("Stopped")
        shown.settle()
        modes = shown.modes()
        assert not modes["alternate screen"]
        assert not modes["cursor hidden"]
        assert not modes["mouse"]
        shown.send("echo alive\n")
        shown.wait_for("alive")
        shown.send("fg\n")
        shown.wait_for("Commands", "Profiles", without="alive")
        assert shown.modes()["alternate screen"]
        cockpit.press("pane.leases")
        shown.wait_for("\u25b8 3 Leases")
        cockpit.press("app.quit")
        shown.wait_for("shell>")


def test_keys_that_come_in_one_read_stay_in_their_order(environ: dict[str, str], tmp_path: Path) -> None:
    names = ("alpha", "beta", "gamma", "delta")
    entries = {name: {"scope": "account", "endpoint": "http://127.0.0.1:9", "type": "user"} for name in names}
    (tmp_path / "profiles.json").write_text(json.dumps({"default": "alpha", "profiles": entries}))
    with in_terminal(environ) as cockpit:
        cockpit.terminal.send("31/ta\rj")
        cockpit.wait_for("/ta  2 of 4", "\u203a   delta")
        cockpit.terminal.send("3:all roles\r")
        cockpit.wait_for("Roles without work are shown too", "\u25b8 2 Work", without="all roles")
        cockpit.terminal.send("1q3q")
        cockpit.wait_for("\u25b8 3 Leases", "Leave expb-tui?")


def test_the_pane_that_was_asked_for_last_is_the_one_that_keys_act_on(environ: dict[str, str], tmp_path: Path) -> None:
    entry = {"scope": "account", "endpoint": "http://127.0.0.1:9", "type": "user"}
    (tmp_path / "profiles.json").write_text(json.dumps({"default": "ada", "profiles": {"ada": entry}}))
    with in_terminal(environ) as cockpit:
        cockpit.terminal.send("2341")
        cockpit.wait_for("\u25b8 1 Profiles")
        cockpit.terminal.settle()
        cockpit.press("app.copy")
        cockpit.wait_for("Copy", "http://127.0.0.1:9", "Esc Close")


@pytest.mark.parametrize(
    ("changes", "mouse"), [({}, True), ({"SSH_CONNECTION": "a b c d"}, False), ({"EXPB_TUI_MOUSE": "off"}, False)]
)
def test_the_mouse_is_on_locally_and_off_over_ssh(
    environ: dict[str, str], changes: dict[str, str], mouse: bool
) -> None:
    with in_terminal({**environ, **changes}) as cockpit:
        assert cockpit.terminal.modes()["mouse"] is mouse


def _colours(output: bytes) -> set[bytes]:
    """Parameters of SGR sequences that set a colour."""
    found = set()
    for parameters in re.findall(rb"\x1b\[([0-9;]*)m", output):
        found |= {part for part in parameters.split(b";") if re.fullmatch(rb"[349][0-8]|10[0-7]", part)}
    return found


def test_no_color_sends_no_colour_and_the_sixteen_stay_the_terminals_own(environ: dict[str, str]) -> None:
    with in_terminal({**environ, "NO_COLOR": "1"}) as cockpit:
        cockpit.press("app.help")
        cockpit.wait_for("Esc Close")
        assert not _colours(bytes(cockpit.terminal.output))
    with in_terminal({**environ, "TERM": "xterm", "COLORTERM": ""}) as cockpit:
        assert b"38" not in _colours(bytes(cockpit.terminal.output))
        assert b"36" in _colours(bytes(cockpit.terminal.output))


def test_a_fault_ends_it_in_one_line_with_a_report_and_no_values(environ: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import asyncio\nfrom expb_tui.launch import open_house\nfrom expb_tui.tui.app import CockpitApp\n"
        "class Broken(CockpitApp):\n"
        "    def act_app_reload(self):\n"
        "        planted = 'secret-value'\n"
        "        raise KeyError(planted)\n"
        "app = Broken(open_house())\napp.run()\nraise SystemExit(app.return_code)\n"
    )
    with terminal([sys.executable, "-c", script], environ=environ) as shown:
        cockpit = TerminalCockpit(shown)
        cockpit.wait_for("Commands")
        cockpit.press("app.reload")
        assert shown.wait_end() == 1
        assert cockpit.restored()
        assert "a fault ended the cockpit: KeyError; the report is in" in shown.text.replace("\n", " ")
        assert "Traceback" not in shown.text
        assert b"secret-value" not in shown.output
    report = next(tmp_path.rglob("fault.txt")).read_text()
    assert "act_app_reload" in report
    assert "secret-value" not in report.replace("planted = 'secret-value'", "")
