"""Editor and pager: what they are given, what comes back, and that the terminal is whole on both sides."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from expb_tui.core import programs
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import typed
from tests.support.terminal import Terminal, terminal

MODELINES = [
    "# vim: set modeline :",
    "#  vi:noai:",
    "# /* vim600: foldmethod=marker */",
    "# ex: set sw=4:",
    '# -*- mode: emacs-lisp; eval: (shell-command "true") -*-',
    "# Local Variables:",
]


@pytest.mark.parametrize("line", MODELINES)
def test_no_setting_survives_in_a_comment(line: str) -> None:
    broken = programs.break_modelines(f"{line}\nkey: value\n", comments_only=True)
    assert line not in broken
    assert programs._MODELINE.search(broken) is None
    assert broken.endswith("key: value\n")


def _tabstop(path: Path) -> str:
    """What vim, with modelines on, takes for the width of a tab in this file."""
    told = path.with_suffix(".told")
    command = ["vim", "-es", "-N", "-u", "NONE", "-i", "NONE", "--cmd", "set modeline modelines=5"]
    subprocess.run(
        [*command, "-c", f"redir! > {told} | set ts? | redir END", "-c", "q!", str(path)], check=False, timeout=20
    )
    return told.read_text().strip()


def test_vim_obeys_nothing_in_a_draft(tmp_path: Path) -> None:
    if shutil.which("vim") is None:
        pytest.skip("vim: it is not installed")
    hostile = "# vim: set ts=33 :\n" + "# text\n" * 6 + "value: 'x vim: set ts=33 :'\n"
    (tmp_path / "raw").write_text(hostile)
    assert _tabstop(tmp_path / "raw") == "tabstop=33"
    (tmp_path / "draft").write_text(programs.for_editor(hostile))
    assert _tabstop(tmp_path / "draft") == "tabstop=8"
    (tmp_path / "page").write_text(programs.for_pager(hostile))
    assert _tabstop(tmp_path / "page") == "tabstop=8"


def test_what_the_operator_wrote_stays_word_for_word() -> None:
    text = "statement: vim: is an editor\nrationale: 'ex: ample'\n"
    assert programs.break_modelines(text, comments_only=True) == text


def test_the_first_editor_that_is_named_is_used() -> None:
    assert programs.editor_command("ls -l", {"VISUAL": "cat"}) == ["ls", "-l"]
    assert programs.editor_command(None, {"VISUAL": "cat", "EDITOR": "ls"}) == ["cat"]
    assert programs.editor_command(" ", {"EDITOR": "env A='b c' ls"}) == ["env", "A=b c", "ls"]
    assert programs.pager_command(None, {"PAGER": "cat"}) == ["cat"]


@pytest.mark.parametrize("value", ["no-such-editor-here", "vi 'unclosed"])
def test_a_wrong_editor_is_named_with_what_to_do(value: str) -> None:
    with pytest.raises(ExpbError, match="EDITOR") as caught:
        programs.editor_command(None, {"EDITOR": value})
    assert caught.value.code == "no-editor"


def test_children_get_no_credentials_and_a_tame_pager() -> None:
    given = programs.child_environment(
        {"LESSOPEN": "|evil %s", "LESSCLOSE": "x", "EXPBENCH_AGENT_TOKEN": "secret", "TERM": "xterm"}
    )
    assert given == {"TERM": "xterm", "LESSSECURE": "1"}


def test_the_file_is_private_and_goes_when_it_is_done_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(tmp_path))
    with programs.private_file("draft.yaml", "a: 1\n") as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.read_text() == "a: 1\n"
    assert not path.parent.exists()
    with pytest.raises(RuntimeError), programs.private_file("draft.yaml", "a: 1\n") as path:
        raise RuntimeError
    assert path.read_text() == "a: 1\n"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\x1b[31mb\x1b[0m", "ab"),
        ("a\x1b]52;c;Zm9v\x07b\x1b]0;title\x1b\\c", "abc"),
        ("a\x9b31mb\x90q\x9cc", "abc"),
        ("x[<35;21;10My", "xy"),
        ("a\u202eb\u200bc\x00d\x7f", "abcd"),
        ("é 字 [x] <y>", "é 字 [x] <y>"),
    ],
)
def test_pasted_control_sequences_are_left_out(text: str, plain: str) -> None:
    assert typed(text) == plain


def test_every_line_break_of_a_paste_is_a_line_feed() -> None:
    assert typed("a\r\nb\rc\u2028d\x85e\tf", multiline=True) == "a\nb\nc\nd\ne    f"
    assert typed("a\r\nb\tc") == "a b c"


# On a real terminal

APP = """
import asyncio, sys
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Static
from expb_tui.core.errors import ExpbError
from expb_tui.tui import editor

class Small(App[None]):
    BINDINGS = [Binding("e", "edit"), Binding("p", "page"), Binding("q", "quit")]
    ticks = 0
    def compose(self) -> ComposeResult:
        yield Static("ready", id="words")
        yield Static("ticks", id="ticks")
    def on_mount(self) -> None:
        self.set_interval(0.05, self.tick)
    def tick(self) -> None:
        self.ticks += 1
        self.query_one("#ticks", Static).update(f"drawn while away: {self.ticks}")
    async def action_edit(self) -> None:
        self.run_worker(self.edit())
    async def edit(self) -> None:
        before = self.ticks
        try:
            text = await editor.edit(self, "first: 1\\n", name="draft.yaml")
            words = "got " + repr(text)
        except ExpbError as error:
            words = "failed: " + error.code + " " + error.what.rpartition("/")[2]
            words += " kept" if "draft.yaml" in error.next_step else ""
        self.query_one("#words", Static).update(words + (" and went on" if self.ticks > before + 2 else " and stood"))
    async def action_page(self) -> None:
        self.run_worker(editor.page(self, "long text", name="the task"))

Small().run()
"""


def _script(path: Path, body: str) -> Path:
    path.write_text("#!/bin/sh\n" + textwrap.dedent(body))
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "small.py").write_text(APP)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TEXTUAL_ANIMATIONS": "none",
        "EDITOR": str(tmp_path / "editor"),
        "PAGER": str(tmp_path / "pager"),
        "EXPB_TUI_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


@pytest.fixture
def small(tmp_path: Path, environ: dict[str, str]) -> Iterator[Terminal]:
    with terminal([sys.executable, str(tmp_path / "small.py")], columns=80, lines=24, environ=environ) as shown:
        shown.wait_for("ready")
        yield shown


def test_an_edit_hands_the_terminal_over_and_takes_it_back(small: Terminal, tmp_path: Path) -> None:
    _script(
        tmp_path / "editor",
        """
        stty -a | grep -q ' icanon' && echo "cooked terminal"
        echo "editing $(head -1 "$1")"
        read answer
        echo "second: $answer" >> "$1"
        """,
    )
    small.send("e")
    small.wait_for("cooked terminal", "editing first: 1")
    assert small.modes()["alternate screen"] is False
    # While the editor has the terminal nothing may be drawn over it, and ctrl+c belongs to the editor.
    before = len(small.output)
    small.settle(0.4)
    assert len(small.output) == before
    small.send("typed here\r")
    small.wait_for("second: typed here\\n' and went on", "drawn while away")
    modes = small.modes()
    assert modes["alternate screen"] is True
    assert modes["canonical"] is False
    small.send("q")
    assert small.wait_end() == 0
    assert small.restored()
    assert not list((tmp_path / "state").rglob("draft.yaml"))


def test_an_editor_that_fails_loses_nothing(small: Terminal, tmp_path: Path) -> None:
    _script(tmp_path / "editor", 'echo "second: kept" >> "$1"; exit 3')
    small.send("e")
    small.wait_for("failed: editor-failed editor ended with status 3 kept")
    (left,) = (tmp_path / "state").rglob("draft.yaml")
    assert left.read_text() == "first: 1\n" + "#\n" * 6 + "second: kept\n"
    assert stat.S_IMODE(left.stat().st_mode) == 0o600


def test_ctrl_c_in_the_editor_does_not_end_the_cockpit(small: Terminal, tmp_path: Path) -> None:
    _script(tmp_path / "editor", "trap 'exit 3' INT; echo waiting; while :; do sleep 0.05; done")
    small.send("e")
    small.wait_for("waiting")
    small.send("\x03")
    small.wait_for("failed: editor-failed editor ended with status 3")
    small.send("q")
    assert small.wait_end() == 0


def test_a_stopped_editor_stops_the_cockpit_and_both_come_back(tmp_path: Path, environ: dict[str, str]) -> None:
    _script(tmp_path / "editor", 'echo waiting; kill -TSTP 0; echo "back: yes" >> "$1"')
    shell = {**environ, "PS1": "prompt: ", "HISTFILE": ""}
    with terminal(["bash", "--norc", "--noprofile", "-i"], columns=80, lines=24, environ=shell) as shown:
        shown.wait_for("prompt:")
        shown.send(f"{sys.executable} {tmp_path / 'small.py'}\r")
        shown.wait_for("ready")
        shown.send("e")
        shown.wait_for("waiting", "Stopped", "prompt:")
        before = len(shown.output)
        shown.settle(0.4)
        assert b"drawn while away" not in shown.output[before:]
        shown.send("fg\r")
        shown.wait_for("back: yes\\n'")
        shown.send("q")
        shown.wait_for("prompt:")


def test_the_pager_gets_the_text_without_filters(small: Terminal, tmp_path: Path) -> None:
    _script(tmp_path / "pager", 'cat "$1"; echo " secure=$LESSSECURE open=${LESSOPEN-unset}"; read answer')
    small.send("p")
    small.wait_for("long text", "secure=1 open=unset")
    small.send("\r")
    small.wait_for("ready")
