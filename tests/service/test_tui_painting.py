"""The painted screen in a real terminal: after any way to it, it looks as if it had been drawn at once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.cockpit import TerminalCockpit, environment, in_terminal
from tests.support.terminal import Terminal


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Forty profiles, all signed out."""
    common = {"scope": "account", "endpoint": "https://bench.example.test", "type": "user"}
    names = [
        f"profile-{number} \u65e5\u672c \u00e9" if number % 5 == 0 else f"profile-{number}" for number in range(40)
    ]
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"default": names[0], "profiles": dict.fromkeys(names, common)}))
    path.chmod(0o600)
    return environment(tmp_path)


def cells(shown: Terminal) -> list[list[tuple[object, ...]]]:
    """Text and colours of the panes, without what counts the time."""
    lines = []
    for y in range(1, shown.screen.lines - 2):
        row = [shown.screen.buffer[y][x] for x in range(shown.screen.columns)]
        text = "".join(cell.data for cell in row)
        if not re.search(r"\bago\b|\bnow\b|again in", text):
            lines.append([(cell.data, cell.bg) if cell.data == " " else tuple(cell[:4]) for cell in row])
    return lines


def drawn_anew(cockpit: TerminalCockpit) -> list[list[tuple[object, ...]]]:
    """The same screen after all of it was sent again."""
    before = len(cockpit.terminal.output)
    cockpit.press("app.reload")
    cockpit.terminal.wait_for("Asking again")
    cockpit.terminal.settle(0.5)
    assert len(cockpit.terminal.output) - before > 2_000, "it was not drawn anew"
    return cells(cockpit.terminal)


@pytest.mark.parametrize("look", [{}, {"COLORTERM": "", "TERM": "xterm"}, {"NO_COLOR": "1"}, {"LC_ALL": "C"}], ids=str)
def test_differences_add_up_to_the_screen(environ: dict[str, str], look: dict[str, str]) -> None:
    with in_terminal({**environ, **look}, settled="profile-1") as cockpit:
        shown = cockpit.terminal
        shown.settle()
        for action in ("list.down", "list.page_down", "list.range", "list.down", "list.up", "list.bottom", "pane.full"):
            cockpit.press(action)
            shown.settle(0.1)
        shown.settle(1.0)
        before = cells(shown)
        assert drawn_anew(cockpit) == before
        shown.send("/3")
        shown.settle(0.2)
        shown.send("\r")
        shown.resize(90, 26)
        shown.settle(0.3)
        shown.resize(110, 34)
        cockpit.press("app.help")
        shown.wait_for("Close")
        cockpit.press("list.page_down")
        shown.settle(0.2)
        shown.send("\x1b")
        shown.wait_for("profile-3", without="Close")
        shown.settle(0.5)
        shown.settle(1.0)
        before = cells(shown)
        assert drawn_anew(cockpit) == before
