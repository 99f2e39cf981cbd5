"""Inside tmux and GNU screen: drawn, resized, detached, copied from, suspended and left as on a terminal of its own."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cockpit import PROGRAM, TerminalCockpit, environment, profiles_file
from tests.support.require import missing
from tests.support.terminal import PATIENCE, terminal

KINDS = ("tmux", "screen")


class Inside:
    """A shell in a multiplexer whose client is attached to our terminal."""

    def __init__(self, kind: str, folder: Path, environ: dict[str, str]) -> None:
        self.kind = kind
        self.folder = folder
        self.environ = environ
        shell = ["env", "PS1=shell> ", "bash", "--norc", "--noprofile"]
        if kind == "tmux":
            (folder / "conf").write_text(f'set -g default-command "{shlex.join(shell)}"\nset -s set-clipboard on\n')
            self._base = ["tmux", "-S", str(folder / "socket"), "-f", str(folder / "conf")]
            self.start, self.attach = [*self._base, "new-session", "-s", "t"], [*self._base, "attach", "-t", "t"]
        else:
            (folder / "sockets").mkdir(mode=0o700)
            (folder / "conf").write_text("startup_message off\n")
            environ["SCREENDIR"] = str(folder / "sockets")
            self._base = ["screen", "-c", str(folder / "conf")]
            self.start = [*self._base, "-U", "-S", "t", *shell]
            self.attach = [*self._base, "-U", "-r", "t"]

    def run(self, *arguments: str) -> str:
        """One command to the multiplexer."""
        base = self._base if self.kind == "tmux" else [*self._base, "-S", "t", "-X"]
        return subprocess.run([*base, *arguments], env=self.environ, capture_output=True, text=True, check=True).stdout

    def kill(self) -> None:
        subprocess.run(
            [*self._base, "kill-server"] if self.kind == "tmux" else [*self._base, "-S", "t", "-X", "quit"],
            env=self.environ, check=False, capture_output=True,
        )  # fmt: skip

    def pid(self) -> int:
        """The cockpit's."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for path in Path("/proc").glob("[0-9]*/environ"):
                try:
                    ours = f"HOME={self.folder}\0".encode() in path.read_bytes()
                    if ours and PROGRAM.encode() in (path.parent / "cmdline").read_bytes():
                        return int(path.parent.name)
                except OSError:
                    continue
            time.sleep(0.05)
        raise AssertionError("no cockpit runs")


@pytest.fixture(params=KINDS)
def inside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inside]:
    if shutil.which(request.param) is None:
        missing(request.param, "it is not installed")
    profiles_file(tmp_path)
    environ = environment(tmp_path, PS1="shell> ", SHELL="/bin/bash")
    environ.pop("COLORTERM")
    found = Inside(request.param, tmp_path, environ)
    yield found
    found.kill()


@contextmanager
def opened(inside: Inside, columns: int = 120, lines: int = 40) -> Iterator[TerminalCockpit]:
    with terminal(inside.start, columns=columns, lines=lines, environ=inside.environ) as shown:
        shown.wait_for("shell>")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("Commands", "Profiles", without="shell>")
        yield TerminalCockpit(shown)


def _gone(pid: int) -> bool:
    return (
        not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)


def test_it_is_drawn_resized_suspended_and_left(inside: Inside) -> None:
    with opened(inside) as cockpit:
        shown = cockpit.terminal
        shown.resize(80, 24)
        shown.wait_for("\u25b81 Profiles   2 Work   3 Leases", "Commands")
        shown.resize(160, 44)
        shown.wait_for("\u256d\u25b8 1 Profiles", "3 Leases", "2 Work", without="\u25b81 Profiles")
        cockpit.press("app.suspend")
        shown.wait_for("Stopped", "shell>", without="Profiles")
        shown.send("fg\n")
        shown.wait_for("\u256d\u25b8 1 Profiles", "Commands", without="Stopped")
        cockpit.press("app.quit")
        shown.wait_for("shell>", without="Profiles")
        shown.send("stty -a | tr '\\n' ' '; echo; printf 'a\\tb\\n'\n")
        text = shown.wait_for("a       b")
        assert " icanon" in text
        assert " echo " in text
        assert not shown.modes()["mouse"]
        assert not shown.modes()["cursor hidden"]


def test_a_detached_one_goes_on_and_is_drawn_whole_when_it_is_attached_again(inside: Inside) -> None:
    with opened(inside) as cockpit:
        shown = cockpit.terminal
        shown.send("\x02d" if inside.kind == "tmux" else "\x01d")
        assert shown.wait_end() == 0
        assert shown.restored(), shown.modes()
    assert not _gone(inside.pid())
    with terminal(inside.attach, columns=100, lines=30, environ=inside.environ) as again:
        again.wait_for("Profiles", "Commands")
        cockpit = TerminalCockpit(again)
        cockpit.press("pane.leases")
        again.wait_for("\u25b8 3 Leases")
        cockpit.press("app.quit")
        again.wait_for("shell>", without="Commands")


def test_a_killed_session_ends_the_cockpit(inside: Inside) -> None:
    with opened(inside):
        pid = inside.pid()
        inside.kill()
        _until(lambda: _gone(pid), "the cockpit's end")


def test_a_copy_reaches_the_terminal_outside(inside: Inside) -> None:
    profile = {"scope": "account", "endpoint": "http://127.0.0.1:9", "type": "user"}
    (inside.folder / "profiles.json").write_text(json.dumps({"default": "ada", "profiles": {"ada": profile}}))
    with opened(inside) as cockpit:
        shown = cockpit.terminal
        shown.wait_for("ada")
        before = len(shown.output)
        cockpit.press("app.copy")
        shown.wait_for("Copy", "Esc Close")
        shown.send("\r")
        shown.wait_for("Sent to")
        text = re.search(r"Sent to [a-z ]+: (\S+)", shown.text)
        assert text is not None
        if inside.kind == "tmux":
            assert "Sent to tmux and its terminal" in shown.text
            assert inside.run("show-buffer") == text[1]
        wanted = base64.b64encode(text[1].encode())
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(rb"\x1b\]52;[a-z]*;([A-Za-z0-9+/=]+)(\a|\x1b\\)", shown.output[before:])) is None:
            assert time.monotonic() < deadline, bytes(shown.output[before:])
            shown.pump()
        assert found[1] == wanted


def test_typing_in_a_form_field_survives_a_detach(inside: Inside) -> None:
    with opened(inside) as cockpit:
        shown = cockpit.terminal
        cockpit.press("app.palette")
        shown.wait_for("Esc Close")
        shown.send("themes-are")
        shown.wait_for("themes-are")
        shown.send("\x02d" if inside.kind == "tmux" else "\x01d")
        assert shown.wait_end() == 0
    with terminal(inside.attach, columns=120, lines=40, environ=inside.environ) as again:
        again.wait_for("themes-are")
