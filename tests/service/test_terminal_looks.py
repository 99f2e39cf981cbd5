"""Every size, and terminals that can do less: sixteen colours, none, ASCII only; what was typed outlives it all."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tests.support.cockpit import PROGRAM, TerminalCockpit, environment, in_terminal, profiles_file
from tests.support.server import LocalServer
from tests.support.terminal import terminal

SIZES = [(80, 24), (300, 80), (100, 30), (81, 24), (79, 23), (200, 60), (40, 12), (20, 6), (2, 2), (120, 40)]


@pytest.fixture
def environ(tmp_path: Path, server: LocalServer) -> dict[str, str]:
    profiles_file(tmp_path, server)
    return environment(tmp_path)


def _claimed(cockpit: TerminalCockpit) -> None:
    cockpit.press("work.claim")
    cockpit.wait_for("OBJECTIVES", "ideator")
    cockpit.press("list.filter")
    cockpit.wait_for("/_")
    cockpit.terminal.send("ideator\r")
    cockpit.wait_for("/ideator", " of ")
    cockpit.press("claim.ask")
    cockpit.wait_for("Assigned: 1 task", "ideator")
    cockpit.press("claim.open")
    cockpit.wait_for("Package of the")


def _form(cockpit: TerminalCockpit, cursor: str = "\u203a") -> None:
    cockpit.press("package.open")
    cockpit.wait_for("Fill in")
    cockpit.press("task.fill")
    cockpit.wait_for(f"{cursor} Statement")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (300, 80)])
def test_after_any_storm_of_sizes_it_looks_as_if_it_had_begun_there(tmp_path: Path, columns: int, lines: int) -> None:
    profiles_file(tmp_path)
    environ = environment(tmp_path)
    with in_terminal(environ, columns=columns, lines=lines, settled="No profile on this host") as fresh:
        fresh.terminal.wait_for("no profile", without="opening")
        fresh.terminal.settle()
        wanted = fresh.terminal.text
    chance = random.Random(7)
    with in_terminal(environ, settled="No profile on this host") as cockpit:
        shown = cockpit.terminal
        storm = [*SIZES, *((chance.randint(2, 300), chance.randint(2, 80)) for _ in range(40))]
        for number, size in enumerate(storm):
            shown.resize(*size)
            shown.pump(chance.choice((0.0, 0.005, 0.03)))
            if chance.random() < 0.3:
                shown.send(chance.choice(("\t", "j", "+", "_")))
            if number == 20:
                cockpit.press("app.help")
        shown.resize(columns, lines)
        shown.wait_for("Esc Close")
        shown.send("q")
        shown.wait_for("Commands", without="Esc Close")
        shown.send("__")  # whatever mode the panes are in: back to the normal one
        cockpit.press("pane.profiles")
        shown.wait_for("No profile on this host", "\u25b8")
        shown.settle()
        assert shown.text == wanted
        cockpit.press("app.quit")
        assert shown.wait_end() == 0
        assert shown.restored()


def test_what_is_typed_survives_every_size_and_a_suspend(environ: dict[str, str]) -> None:
    with terminal(["bash", "--norc", "--noprofile", "-i"], environ={**environ, "PS1": "shell> "}) as shown:
        shown.wait_for("shell>")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("online")
        cockpit = TerminalCockpit(shown)
        _claimed(cockpit)
        _form(cockpit)
        for number, size in enumerate(SIZES):
            shown.send(f"part{number} ")
            shown.resize(*size)
            shown.pump(0.02)
        shown.wait_for(*(f"part{number}" for number in range(len(SIZES))))
        cockpit.press("app.suspend")
        shown.wait_for("Stopped")
        shown.resize(100, 30)
        shown.send("fg\n")
        shown.wait_for(f"part{len(SIZES) - 1}", without="Stopped")
        shown.send("after")
        shown.wait_for(f"part{len(SIZES) - 1}", "after")
        cockpit.press("app.quit")
        shown.wait_for("shell>", without="part0")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("online", "ideator")
        cockpit.press("pane.leases")
        shown.wait_for("\u25b8 3 Leases", "active")
        cockpit.press("lease.submit")
        shown.wait_for("Fill in")
        cockpit.press("task.fill")
        shown.wait_for(f"part{len(SIZES) - 1}", "after")


def _everywhere(cockpit: TerminalCockpit, cursor: str = "\u203a") -> bytes:
    """Through every screen that a person meets in a day; what was written, but for the QR code, which a phone reads."""

    def close() -> None:
        cockpit.terminal.send("\x1b")
        cockpit.wait_for("Commands", without="Esc Close")

    cockpit.press("app.help")
    cockpit.wait_for("Esc Close")
    close()
    for pane in ("pane.work", "pane.leases", "pane.package", "pane.profiles"):
        cockpit.press(pane)
    cockpit.press("app.palette")
    cockpit.wait_for("Esc Close")
    close()
    cockpit.press("app.notices")
    cockpit.wait_for("Esc Close")
    close()
    cockpit.press("app.copy")
    cockpit.wait_for("Esc Close", "Copy")
    close()
    cockpit.press("app.theme")
    cockpit.wait_for("Esc Close")
    close()
    cockpit.press("pane.profiles")
    cockpit.press("list.top", "profile.login")
    cockpit.wait_for("/oauth/device", "The code is good for")
    begun = len(cockpit.terminal.output)
    if not cockpit.terminal.codes():
        cockpit.press("login.swap")
        cockpit.terminal.settle()
    (code,) = cockpit.terminal.codes()
    assert "/oauth/device?user_code=" in code
    close()
    cockpit.terminal.settle()
    ended = len(cockpit.terminal.output)
    _claimed(cockpit)
    _form(cockpit, cursor)
    cockpit.terminal.send("A cache lowers p95.")
    cockpit.wait_for("A cache lowers p95.")
    cockpit.press("form.review")
    cockpit.terminal.settle()
    cockpit.press("app.quit")
    assert cockpit.terminal.wait_end() == 0
    assert cockpit.terminal.restored()
    return bytes(cockpit.terminal.output[:begun] + cockpit.terminal.output[ended:])


def test_a_terminal_of_ascii_without_colour_gets_nothing_else(environ: dict[str, str], tmp_path: Path) -> None:
    document = json.loads((tmp_path / "profiles.json").read_text())
    document["profiles"]["m\u00fcnchen-\u5b57"] = document["profiles"]["owner"]
    (tmp_path / "profiles.json").write_text(json.dumps(document))
    plain = {**environ, "LC_ALL": "C", "NO_COLOR": "1"}
    with in_terminal(plain, settled="online") as cockpit:
        cockpit.wait_for("munchen-??")
        without_code = _everywhere(cockpit, ">")
        output = bytes(cockpit.terminal.output)
        odd = re.search(rb"[\x80-\xff]", output)
        assert odd is None, output[max(0, odd.start() - 80) : odd.end() + 20]
        sgr = {part for found in re.findall(rb"\x1b\[([0-9;]*)m", without_code) for part in found.split(b";")}
        assert not {part for part in sgr if re.fullmatch(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]", part)}


def test_sixteen_colours_are_the_terminals_own_everywhere(environ: dict[str, str]) -> None:
    few = {**environ, "TERM": "xterm", "COLORTERM": ""}
    with in_terminal(few, settled="online") as cockpit:
        output = _everywhere(cockpit)
        extended = re.search(rb"\x1b\[(?:[0-9;]*;)?[34]8;[25];[0-9;]*m", output)
        assert extended is None, output[max(0, extended.start() - 80) : extended.end() + 20]
