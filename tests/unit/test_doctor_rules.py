"""What the doctor makes of what it finds: files, host, and what terminals answer; looking changes nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from expb_tui.core import logind
from expb_tui.core.doctor import asking, examination, files, host, multiplexers, terminal, terminals
from expb_tui.core.doctor.model import AREAS, Answers, Check, Circumstances, Finding, Sight, State, healthy
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.keeper import state as keeper_state
from expb_tui.core.keeper.state import KeeperState
from expb_tui.core.leases.door import Door
from expb_tui.core.leases.schema import MIGRATIONS
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.settings import Settings
from expb_tui.present import doctor as present

ENTRY = {"scope": "account", "endpoint": "https://bench.example.test", "type": "agent", "token": "planted-token"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Circumstances:
    monkeypatch.setenv("EXPB_TUI_KEYRING", "off")
    path = tmp_path / "conf" / "profiles.json"
    path.parent.mkdir(mode=0o700)
    path.write_text(json.dumps({"default": "a", "profiles": {"a": ENTRY}}))
    path.chmod(0o600)
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    store, journal = ProfileStore(path), tmp_path / "state" / "journal.db"
    return Circumstances(environ, Sight(True, 120, 40), store, journal, Settings())


def but(here: Circumstances, *, environ: dict[str, str] | None = None, **changes: object) -> Circumstances:
    """The same with another environment, ``None`` values left out, and other fields."""
    return dataclasses.replace(here, environ={**here.environ, **(environ or {})}, **changes)  # type: ignore[arg-type]  # a test's own fields


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


# Files


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0o644, "every user of this host can read"),
        (0o640, "its group can read"),
        (0o662, "every user of this host can"),
    ],
)
def test_a_profile_file_that_others_can_read_is_mended_by_the_line(here: Circumstances, mode: int, says: str) -> None:
    here.store.path.chmod(mode)
    found = named(files.profiles(here))["profiles.mode"]
    assert (found.state, says in found.says) == (State.WARN, True)
    assert os.system(found.mend) == 0
    assert named(files.profiles(here))["profiles.mode"].state is State.OK


def test_our_next_write_mends_it_too(here: Circumstances) -> None:
    here.store.path.chmod(0o644)
    assert here.store.exposed() == "every user of this host can read"
    here.store.set_project("a", "p", "shop")
    assert here.store.exposed() == ""
    assert here.store.path.stat().st_mode & 0o777 == 0o600


def test_a_folder_in_which_others_can_replace_the_file_is_bad(here: Circumstances) -> None:
    here.store.path.parent.chmod(0o777)
    found = named(files.profiles(here))["profiles.folder"]
    assert found.state is State.BAD
    assert os.system(found.mend) == 0
    assert "profiles.folder" not in named(files.profiles(here))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir])
def test_what_is_no_file_is_refused_at_once_and_left_alone(here: Circumstances, make: Callable[[Path], None]) -> None:
    path = here.store.path
    path.unlink()
    make(path)
    store = ProfileStore(path)
    for attempt in (store.read, lambda: store.use("a"), lambda: store.put(store.select("a"))):
        with pytest.raises(ExpbError):
            attempt()
    assert named(files.profiles(dataclasses.replace(here, store=store)))["profiles.file"].state is State.BAD
    assert not path.is_file() or path.is_symlink()


def test_a_broken_profile_file_is_bad_and_an_absent_one_is_not(here: Circumstances) -> None:
    here.store.path.write_text("{")
    (found,) = files.profiles(here)
    assert (found.state, "line 1" in found.says) == (State.BAD, True)
    here.store.path.unlink()
    (found,) = files.profiles(here)
    assert (found.state, found.mend) == (State.WARN, "expb-tui auth login")


async def test_a_journal_is_looked_at_and_left_as_it_is(here: Circumstances) -> None:
    assert named(files.journal(here))["journal.file"].state is State.OK
    assert not here.journal.parent.exists()
    door = Door(here.journal, MIGRATIONS)
    await door.read(lambda db: None)
    before = here.journal.read_bytes()
    for _ in range(2):
        found = named(files.journal(here))
        assert {found[f"journal.{name}"].state for name in ("file-system", "room", "mode", "integrity")} == {State.OK}
    assert here.journal.read_bytes() == before
    await door.aclose()
    before, names = here.journal.read_bytes(), sorted(os.listdir(here.journal.parent))
    assert named(files.journal(here))["journal.integrity"].state is State.OK
    assert (here.journal.read_bytes(), sorted(os.listdir(here.journal.parent))) == (before, names)


async def test_a_damaged_journal_is_bad_and_a_newer_one_names_the_newer_program(here: Circumstances) -> None:
    door = Door(here.journal, MIGRATIONS)
    await door.read(lambda db: None)
    await door.aclose()
    with sqlite3.connect(here.journal) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    assert "newer expb-tui" in named(files.journal(here))["journal.integrity"].says
    with sqlite3.connect(here.journal) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.close()
    content = bytearray(here.journal.read_bytes())
    content[4096:] = bytes(255 - byte for byte in content[4096:])
    here.journal.write_bytes(content)
    here.journal.chmod(0o640)
    found = named(files.journal(here))
    assert found["journal.integrity"].state is State.BAD
    assert found["journal.mode"].state is State.WARN
    again = Door(here.journal, MIGRATIONS)
    await again.read(lambda db: db.execute("SELECT * FROM package").fetchall())
    await again.aclose()
    found = named(files.journal(here))
    assert found["journal.integrity"].state is State.OK
    assert found["journal.set-aside"].state is State.WARN
    assert os.system(found["journal.set-aside"].mend.partition(": ")[2]) == 0
    assert "journal.set-aside" not in named(files.journal(here))


def test_broken_settings_are_told_and_do_not_end_the_examination(here: Circumstances) -> None:
    broken = but(
        here, settings=None, settings_problem=UsageError("config.toml, line 3", cause="no", next_step="Mend it")
    )
    assert files.settings(broken)[0] == Finding("settings.file", State.BAD, "config.toml, line 3: no", "Mend it")
    for check in examination.CHECKS:
        if check.name != "endpoint.reachable":
            list(check.run(broken))


# Terminal


def test_what_a_terminal_says_of_itself_is_understood_and_cleaned() -> None:
    told = b"\x1bP>|XTerm(388)\x1b\\\x1bP1+r4d73=5c45\x1b\\\x1b[?64;1;2c"
    assert asking._understood(told) == Answers("XTerm(388)", takes_copies=True)
    assert asking._understood(b"\x1b[?62;22;52c") == Answers("", takes_copies=True)
    assert asking._understood(b"\x1bP>|a\x9b31mb\r\x1b\\\x1bP0+r\x1b\\\x1b[?6c") == Answers("a\ufffd31mb\u240d")
    assert asking._understood(b"\x1bP>|kitty(0.3)\x1b\\") is None  # it never ended: nothing is believed


@pytest.mark.parametrize(
    ("environ", "name", "state"),
    [
        ({"KITTY_WINDOW_ID": "1"}, "kitty", State.OK),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5"}, "iTerm2", State.UNKNOWN),
        ({"LC_TERMINAL": "iTerm2"}, "iTerm2", State.UNKNOWN),
        ({"VTE_VERSION": "7600"}, "VTE", State.WARN),
        ({"TERM_PROGRAM": "Apple_Terminal"}, "Terminal.app", State.WARN),
        ({"TERM_PROGRAM": "vscode"}, "VS Code", State.OK),
        ({"TERM": "foot"}, "foot", State.OK),
        ({}, "the terminal", State.UNKNOWN),
    ],
)
def test_the_clipboard_s_route_by_terminal(
    here: Circumstances, environ: dict[str, str], name: str, state: State
) -> None:
    (found,) = terminal.clipboard(but(here, environ=environ))
    assert (found.state, name in found.says) == (state, True), found


def test_a_terminal_that_says_it_takes_copies_is_believed_whatever_its_name(here: Circumstances) -> None:
    (found,) = terminal.clipboard(but(here, sight=Sight(True, 80, 24, Answers("VTE(7600)", takes_copies=True))))
    assert found.state is State.OK


@pytest.mark.parametrize(
    ("environ", "size", "name", "mend"),
    [
        ({"TERM": "dumb"}, (80, 24), "terminal.kind", "export TERM="),
        ({"TERM": "no-such-terminal"}, (80, 24), "terminal.kind", "export TERM="),
        ({"TERM": "no-such-terminal", "SSH_TTY": "/dev/pts/0"}, (80, 24), "terminal.kind", "infocmp -x no-such"),
        ({}, (0, 0), "terminal.size", "stty cols"),
        ({}, (79, 24), "terminal.size", "80 x 24"),
        ({"TERM": "xterm", "COLORTERM": ""}, (80, 24), "terminal.colours", "export COLORTERM="),
        ({"LC_ALL": "C"}, (80, 24), "terminal.characters", "export LC_ALL="),
    ],
)
def test_what_a_terminal_lacks_comes_with_its_line(
    here: Circumstances, environ: dict[str, str], size: tuple[int, int], name: str, mend: str
) -> None:
    found = named(terminal.terminal(but(here, environ=environ, sight=Sight(True, *size))))[name]
    assert (found.state, mend in found.mend) == (State.WARN, True), found


def test_a_good_terminal_has_nothing_to_mend_and_none_is_not_bad(here: Circumstances) -> None:
    assert {finding.state for finding in terminal.terminal(but(here, environ={"KITTY_WINDOW_ID": "1"}))} == {State.OK}
    away = terminal.terminal(but(here, sight=Sight(False)))
    assert named(away)["terminal.kind"].state is State.UNKNOWN
    assert healthy(away)


def test_versions_are_read_from_words() -> None:
    assert terminals.version("tmux 3.3a") == (3, 3)
    assert terminals.version("Screen version 4.09.00 (GNU) 30-Jan-22") == (4, 9, 0)
    assert terminals.version("next") == ()
    assert (3, 10) > multiplexers._HYPERLINKS > (3, 2)


def test_a_multiplexer_that_is_only_named_is_unknown_and_one_that_is_not_there_is_no_finding(
    here: Circumstances, tmp_path: Path
) -> None:
    assert multiplexers.tmux(here) == multiplexers.screen(here) == []
    gone = {"PATH": str(tmp_path)}
    assert multiplexers.tmux(but(here, environ={"TMUX": "/x,1,0", **gone}))[0].state is State.UNKNOWN
    assert multiplexers.screen(but(here, environ={"STY": "1.x", **gone}))[0].state is State.UNKNOWN


# Host


@pytest.mark.parametrize(
    ("lingers", "kills", "states"),
    [
        (True, False, (State.OK, State.OK)),
        (False, False, (State.OK, State.WARN)),
        (False, True, (State.WARN, State.WARN)),
        (True, True, (State.OK, State.OK)),
        (False, None, (State.UNKNOWN, State.WARN)),
    ],
)
def test_what_becomes_of_a_keeper_after_the_session(
    here: Circumstances,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lingers: bool,
    kills: bool | None,
    states: object,
) -> None:
    """Logind's files in a root of their own; no login manager runs in tests."""
    root = tmp_path / "root"
    for folder in ("run/systemd/system", "var/lib/systemd/linger", "etc/systemd/logind.conf.d", "no-programs"):
        (root / folder).mkdir(parents=True)
    if lingers:
        (root / "var/lib/systemd/linger" / logind.user_name()).touch()
    if kills is not None:
        (root / "etc/systemd/logind.conf").write_text("[Login]\n#KillUserProcesses=yes\n")
        (root / "etc/systemd/logind.conf.d/9.conf").write_text(
            f"[Login]\nKillUserProcesses = {'yes' if kills else 'no'}\n"
        )
    monkeypatch.setenv("PATH", str(root / "no-programs"))
    assert (logind.lingers(root=root), logind.kills_user_processes(root=root)) == (lingers, kills)
    monkeypatch.setattr(logind, "ROOT", root)
    found = named(host.keeper(here))
    assert (found["keeper.kill-user-processes"].state, found["keeper.lingering"].state) == states
    if not lingers:
        assert found["keeper.lingering"].mend == "loginctl enable-linger"


def test_a_keeper_that_was_stopped_is_no_good_state(here: Circumstances) -> None:
    here.journal.parent.mkdir(parents=True, exist_ok=True)
    keeper_state.write(here.journal.parent, KeeperState(end="idle"))
    assert named(host.keeper(here))["keeper.process"].state is State.OK
    keeper_state.write(here.journal.parent, KeeperState(end="stopped"))
    found = named(host.keeper(here))["keeper.process"]
    assert (found.state, found.mend) == (State.WARN, "expb-tui keeper --detach")


def test_an_editor_that_is_not_there_is_named_with_its_line(here: Circumstances) -> None:
    found = named(host.programs(but(here, environ={"VISUAL": "no-such-editor", "PAGER": "less -R"})))
    assert found["programs.editor"].state is State.WARN
    assert "no-such-editor" in found["programs.editor"].says
    assert found["programs.editor"].mend == "export VISUAL=vi"
    assert found["programs.pager"].says.startswith("less -R;")


# The whole


async def test_what_hangs_or_fails_hides_nothing_else(here: Circumstances) -> None:
    def hangs(_: Circumstances) -> list[Finding]:
        time.sleep(300)
        return []

    def fails(_: Circumstances) -> list[Finding]:
        raise RuntimeError("planted-token")

    def refuses(_: Circumstances) -> list[Finding]:
        raise UsageError("What", cause="why", next_step="Do it")

    checks = (
        Check("journal.file", hangs, limit=0.2),
        Check("keeper.process", fails),
        Check("keyring.use", refuses),
        Check("clock.suspend", host.clock),
    )
    async with asyncio.timeout(30):
        found = named([finding async for some in examination.examine(here, checks) for finding in some])
    assert found["journal.file"].state is State.UNKNOWN
    assert "RuntimeError" in found["keeper.process"].says
    assert "planted" not in str(found)
    assert found["keyring.use"] == Finding("keyring.use", State.BAD, "What: why", "Do it")
    assert found["clock.suspend"].state is State.OK


def test_every_examination_has_its_area() -> None:
    assert {check.name.partition(".")[0] for check in examination.CHECKS} <= set(AREAS)


def test_lines_never_break_what_is_to_be_copied_and_sentences_stay_in_the_window() -> None:
    mend = "chmod 600 " + "x" * 200
    findings = [
        Finding("endpoint.reachable", State.OK, "it answers " * 20),
        Finding("terminal.kind", State.WARN, "evil \x1b[31m \u202e text", mend),
        Finding("keeper.problem", State.BAD, "one"),
        Finding("keeper.problem", State.BAD, "two"),
    ]
    lines = ["".join(cell.text for cell in line) for line in present.lines(findings, width=60)]
    assert [line for line in lines if len(line) > 60] == [f"    \u203a {mend}"]
    assert lines[0] == "terminal"
    assert not any(char in "".join(lines) for char in "\x1b\u202e")
    table = present.rows(findings)
    assert len({row.key for row in table.rows}) == len(findings)
    assert table.footer == "2 bad, 1 to mend, 1 well"
    assert present.worst(findings) == "keeper.problem 0"
