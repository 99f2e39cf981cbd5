"""The way into the cockpit on a real terminal: one truthful line at once, and the terminal given back always."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from expb_tui import __version__
from tests.support.terminal import Terminal, terminal

PROGRAM = str(Path(sys.executable).with_name("expb-tui"))
PROFILES = {
    "default": "researcher",
    "profiles": {
        "researcher": {"scope": "account", "endpoint": "http://127.0.0.1:9/lab", "type": "agent", "token": "planted"},
        "owner": {"scope": "account", "endpoint": "http://127.0.0.1:9", "type": "user"},
    },
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "profiles.json").write_text(json.dumps(PROFILES))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "EXPBENCH_PROFILES": str(tmp_path / "profiles.json"),
        "EXPB_TUI_KEYRING": "off",
        "EXPB_TUI_KEEPER": "off",
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def _textual(folder: Path, text: str) -> str:
    """A package of the name that the cockpit imports, which does something else."""
    (folder / "shadow" / "textual").mkdir(parents=True)
    (folder / "shadow" / "textual" / "__init__.py").write_text(text)
    return str(folder / "shadow")


def _back_to_normal(shown: Terminal) -> bool:
    modes = shown.modes()
    return modes["canonical"] is True and not modes["alternate screen"] and not modes["cursor hidden"]


def test_the_first_line_is_there_at_once_and_true(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "import time\ntime.sleep(60)\n")
    bare = min(_seconds([sys.executable, "-c", "pass"], environ) for _ in range(3))
    times = []
    for _ in range(3):
        started = time.monotonic()
        with terminal([PROGRAM, "--profile", "researcher"], environ=environ) as shown:
            shown.wait_for("opening")
            times.append(time.monotonic() - started)
            assert shown.text.strip() == f"expb-tui {__version__} · profile researcher @ 127.0.0.1:9/lab · opening…"
            assert shown.modes()["alternate screen"]
    # 100 ms where the bare interpreter takes 11 ms; a slow machine gets the same ratio.
    assert min(times) <= max(0.1, 9 * bare)


def _seconds(command: list[str], environ: dict[str, str]) -> float:
    started = time.monotonic()
    subprocess.run(command, env=environ, check=True)
    return time.monotonic() - started


@pytest.mark.parametrize(
    ("arguments", "changes", "words"),
    [
        (["--profile=owner"], {}, "profile owner @ 127.0.0.1:9 "),
        (["--profile", "nobody"], {}, "no profile named nobody"),
        ([], {"EXPBENCH_PROFILES": "/nowhere/profiles.json"}, "no profile ·"),
        ([], {"EXPBENCH_AGENT_TOKEN": "planted"}, "agent token from the environment"),
    ],
)
def test_the_first_line_says_what_is_so(
    arguments: list[str], changes: dict[str, str], words: str, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "import time\ntime.sleep(60)\n")
    with terminal([PROGRAM, *arguments], environ=environ | changes) as shown:
        shown.wait_for("opening")
        assert words in shown.text
        assert b"planted" not in shown.output


def test_a_broken_profile_file_is_said_and_left_alone(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "import time\ntime.sleep(60)\n")
    (tmp_path / "profiles.json").write_text("{ broken")
    with terminal([PROGRAM], environ=environ) as shown:
        shown.wait_for("the profile file cannot be read")
    assert (tmp_path / "profiles.json").read_text() == "{ broken"


def test_without_textual_the_terminal_is_given_back_with_one_error(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "raise ModuleNotFoundError('no', name='textual')\n")
    with terminal([PROGRAM], environ=environ) as shown:
        assert shown.wait_end() == 1
        assert _back_to_normal(shown)
        assert "expb-tui: error: The cockpit cannot be opened: textual cannot be imported" in shown.text


def test_a_wrong_option_is_told_on_the_normal_screen(environ: dict[str, str]) -> None:
    with terminal([PROGRAM, "--no-such-option"], environ=environ) as shown:
        assert shown.wait_end() == 80
        assert _back_to_normal(shown)
        assert shown.output.rfind(b"no-such-option") > shown.output.rfind(b"\x1b[?1049l")


def test_a_terminal_that_vanishes_while_opening_is_a_hang_up(environ: dict[str, str], tmp_path: Path) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "import time\ntime.sleep(60)\n")
    with terminal([PROGRAM], environ=environ) as shown:
        shown.wait_for("opening")
        os.close(shown._master)
        shown._master = os.open(os.devnull, os.O_RDONLY)
        assert shown.wait_end() == 128 + signal.SIGHUP


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_opening_gives_the_terminal_back(
    number: signal.Signals, environ: dict[str, str], tmp_path: Path
) -> None:
    environ["PYTHONPATH"] = _textual(tmp_path, "import time\ntime.sleep(60)\n")
    with terminal([PROGRAM], environ=environ) as shown:
        shown.wait_for("opening")
        os.kill(shown.pid, number)
        assert shown.wait_end() == 128 + number
        assert _back_to_normal(shown)


@pytest.mark.parametrize(
    "start",
    [
        lambda environ: subprocess.run(
            [PROGRAM], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
        ),
        lambda environ: subprocess.run(
            [PROGRAM, "demo"], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
        ),
        lambda environ: subprocess.run(["bash", "-c", f"{PROGRAM} <&-"], env=environ, capture_output=True, text=True),
    ],
    ids=["cockpit", "demo", "closed"],
)
def test_without_a_terminal_the_headless_commands_are_named(
    start: Callable[[dict[str, str]], subprocess.CompletedProcess[str]], environ: dict[str, str]
) -> None:
    done = start(environ)
    assert done.returncode == 1
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first == "expb-tui: error: The cockpit needs a terminal: standard input is not one"
    for word in ("auth", "profile", "agent", "demo --headless"):
        assert word in second


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_lines(environ: dict[str, str], term: str) -> None:
    with terminal([PROGRAM], environ=environ | {"TERM": term}) as shown:
        shown.wait_for("plain mode", "Type help for the commands.")
        shown.send("quit\n")
        assert shown.wait_end() == 0
        assert b"\x1b" not in shown.output
