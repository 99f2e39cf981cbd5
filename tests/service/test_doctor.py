"""``doctor`` against real services, terminals, tmux and screen; the lines that mend are carried out and looked at."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cockpit import environment, house_in, piloted, profiles_file
from tests.support.commands import PROGRAM, Commands
from tests.support.raw_server import Request, answering, raw_server, response
from tests.support.require import missing
from tests.support.server import LocalServer
from tests.support.terminal import PATIENCE, terminal

CONFIGURATION = json.dumps({"api_versions": ["v1"], "oauth_discovery": "x", "grants": []}).encode()
TOKEN = "planted-0123456789abcdefghijklmnopqrst"


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    return Commands(tmp_path, capsys, monkeypatch)


def found(commands: Commands, *arguments: str, code: int) -> dict[str, dict[str, str]]:
    """The findings by name; no credential may be among them."""
    done = commands("doctor", "-o", "json", *arguments)
    assert (done.code, done.err.count("Traceback")) == (code, 0), done.out + done.err
    assert TOKEN not in done.out + done.err
    return {finding["name"]: finding for finding in json.loads(done.out)}


def save(commands: Commands, address: str, **entry: Any) -> None:
    """One profile, the default, for a service at ``address``."""
    profile = {"scope": "account", "endpoint": address, "type": "agent", "account_id": "a", "token": TOKEN, **entry}
    path = commands.home / "profiles.json"
    path.write_text(json.dumps({"default": "one", "profiles": {"one": profile}}))
    path.chmod(0o600)


# The service


def test_a_service_that_works(server: LocalServer, commands: Commands) -> None:
    profiles_file(commands.home, server)
    told = found(commands, code=0)
    for name in ("endpoint.reachable", "endpoint.service", "endpoint.credential", "clock.skew", "profiles.mode"):
        assert told[name]["state"] == "ok", told[name]
    assert "researcher speaks for an agent" in told["endpoint.credential"]["says"]
    assert server.agent_token not in json.dumps(told)
    assert not (commands.home / "state").exists(), "looking begins no journal"
    text = commands("doctor").out
    assert "endpoint\n" in text
    assert text.splitlines()[-1].endswith("well")


def test_the_environment_s_token_is_examined_and_not_shown(
    server: LocalServer, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN", server.agent_token)
    told = found(commands, "--api-server-address", server.address, code=0)
    assert told["endpoint.credential"]["state"] == "ok"
    assert server.agent_token not in json.dumps(told)


def test_a_service_that_refuses_the_credential(server: LocalServer, commands: Commands) -> None:
    save(commands, server.address)
    told = found(commands, code=1)
    assert told["endpoint.service"]["state"] == "ok"
    assert told["endpoint.credential"]["state"] == "bad"
    assert "expb-tui --profile=one auth --agent-token" in told["endpoint.credential"]["mend"]


def test_a_token_that_is_due_is_left_alone_and_a_profile_that_is_signed_out_is_told(commands: Commands) -> None:
    with raw_server(answering(response("200 OK", CONFIGURATION))) as service:
        save(commands, service.address, type="user", refresh_token=TOKEN, expires_at="2020-01-01T00:00:00Z")
        assert "is due" in found(commands, code=0)["endpoint.credential"]["says"]
        save(commands, service.address, token="")
        assert found(commands, code=0)["endpoint.credential"]["state"] == "warn"
        asked = [(request.method, request.target, "authorization" in request.headers) for request in service.requests]
    assert asked == [("GET", "/v1/service-configuration", False)] * 2


@pytest.mark.parametrize(
    ("answer", "name", "says"),
    [
        (response("200 OK", b"<html>", content_type="text/html"), "endpoint.reachable", "web page"),
        (response("404 Not Found", b"{}"), "endpoint.service", "404"),
        (response("200 OK", b'{"api_versions": ["v2"]}'), "endpoint.service", "API v2"),
        (response("200 OK", b'{"api_versions": "\\u001b[31m"}'), "endpoint.service", "not as an Exp-Bench"),
        (response("302 x", location="https://elsewhere.example.test/"), "endpoint.reachable", "redirected"),
    ],
    ids=["page", "not-found", "newer", "odd", "redirect"],
)
def test_what_answers_in_place_of_the_service_is_bad(commands: Commands, answer: bytes, name: str, says: str) -> None:
    with raw_server(answering(answer)) as service:
        save(commands, service.address)
        told = found(commands, code=1)
    assert (told[name]["state"], says in told[name]["says"]) == ("bad", True), told[name]


def test_a_clock_that_is_an_hour_off_is_told_and_no_more(commands: Commands) -> None:
    def handler(request: Request, connection: Any) -> None:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600))
        body = CONFIGURATION if request.target.endswith("configuration") else b'{"type": "agent"}'
        connection.sendall(response("200 OK", body, date=date))

    with raw_server(handler) as service:
        save(commands, service.address)
        told = found(commands, code=0)
    assert told["clock.skew"]["state"] == "warn"
    assert "3,6" in told["clock.skew"]["says"]
    assert "behind the service" in told["clock.skew"]["says"]


def test_a_service_that_hangs_holds_up_nothing(commands: Commands) -> None:
    def hang(_: Request, connection: Any) -> None:
        connection.recv(1)

    with raw_server(hang) as service:
        save(commands, service.address)
        began = time.monotonic()
        told = found(commands, "--timeout", "500ms", code=1)
        assert time.monotonic() - began < 30
    assert "no complete answer" in told["endpoint.reachable"]["says"]
    assert told["profiles.mode"]["state"] == "ok"


def test_broken_settings_and_nothing_that_listens(commands: Commands) -> None:
    (commands.home / "config").mkdir()
    (commands.home / "config/config.toml").write_text("icons = 'ascii'\nthme = 'dark'\n")
    save(commands, "http://127.0.0.1:9")
    told = found(commands, code=1)
    assert "line 2" in told["settings.file"]["says"]
    assert "nothing listens" in told["endpoint.reachable"]["says"]


def test_commands_say_it_where_others_can_read_the_credentials(server: LocalServer, commands: Commands) -> None:
    path = profiles_file(commands.home, server)
    path.chmod(0o644)
    for command in (["profile", "list"], ["auth", "status"]):
        done = commands(*command)
        assert done.code == 0
        assert f"every user of this host can read {path}" in done.err
        assert f"chmod 600 {path}" in done.err
    commands("profile", "use", "owner")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "can read" not in commands("profile", "list").err


# Terminals


def lonely(folder: Path, **changes: str) -> dict[str, str]:
    """Nothing but the terminal to examine: a service that refuses connections, no profile."""
    return environment(folder, **{"EXPBENCH_API_SERVER": "http://127.0.0.1:9", **changes})


def test_the_terminal_is_asked_what_it_is(tmp_path: Path) -> None:
    with terminal([PROGRAM, "doctor"], environ=lonely(tmp_path), lines=60) as shown:
        deadline = time.monotonic() + PATIENCE
        while b"\x1b[c" not in shown.output and time.monotonic() < deadline:
            shown.pump()
        shown.send("\x1bP>|WezTerm 20240203\x1b\\\x1bP0+r4d73\x1b\\\x1b[?65;52c")
        assert shown.wait_end() == 1
        assert "WezTerm 20240203, TERM=xterm-256color" in shown.text
        assert "OSC 52 to WezTerm, which takes it" in shown.text
        assert (shown.modes()["canonical"], shown.modes()["echo"]) == (True, True)


def test_a_terminal_that_says_nothing_is_not_waited_for_long(tmp_path: Path) -> None:
    with terminal([PROGRAM, "doctor"], environ=lonely(tmp_path), lines=60) as shown:
        assert shown.wait_end() == 1
        assert "whether it is taken is not known" in shown.text
        assert "not encrypted" not in shown.text
        assert shown.modes()["echo"]
    with terminal([PROGRAM, "doctor"], environ=lonely(tmp_path, TERM="dumb", LC_ALL="C"), lines=60) as shown:
        assert shown.wait_end() == 1
        assert b"\x1b" not in shown.output
        assert shown.output.isascii()
        assert "TERM is dumb" in shown.text


@contextmanager
def in_tmux(folder: Path) -> Iterator[dict[str, str]]:
    """A tmux of its own, attached to a terminal; what programs in it find in their environment."""
    if shutil.which("tmux") is None:
        missing("tmux", "it is not installed")
    socket = folder / "tmux"
    environ = lonely(folder)
    command = ["tmux", "-S", str(socket), "-f", "/dev/null", "new-session", "cat"]
    with terminal(command, environ=environ) as shown:
        base = ["tmux", "-S", str(socket)]
        try:
            deadline = time.monotonic() + PATIENCE
            ask = [*base, "display-message", "-p", "#{client_termname}|#{pid}|#{pane_id}"]
            told = ""
            while not told.startswith("xterm") and time.monotonic() < deadline:
                shown.pump()
                told = subprocess.run(ask, capture_output=True, text=True, env=environ, timeout=PATIENCE).stdout
            _, pid, pane = told.strip().split("|")
            yield {**environ, "TMUX": f"{socket},{pid},0", "TMUX_PANE": pane, "TERM": "tmux-256color"}
        finally:
            subprocess.run([*base, "kill-server"], env=environ, timeout=PATIENCE, capture_output=True)


def examined(environ: dict[str, str]) -> dict[str, dict[str, str]]:
    done = subprocess.run([PROGRAM, "doctor", "-o", "json"], env=environ, capture_output=True, text=True, timeout=60)
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


def test_each_line_mends_tmux_now_and_for_good(tmp_path: Path) -> None:
    with in_tmux(tmp_path) as environ:
        for words in (
            "set -s escape-time 500",
            "set -s set-clipboard off",
            "set -g default-terminal screen",
            "set -s terminal-features x:RGB",
        ):
            subprocess.run(["tmux", *words.split()], env=environ, check=True, timeout=PATIENCE)
        told = examined(environ)
        names = ("tmux.escape-time", "tmux.set-clipboard", "tmux.default-terminal")
        assert {told[name]["state"] for name in names} == {"warn"}
        for name in names:
            subprocess.run(["sh", "-c", told[name]["mend"]], env=environ, check=True, timeout=PATIENCE)
        told = examined(environ)
        assert {told[name]["state"] for name in names} == {"ok"}
        assert told["tmux.version"]["state"] == "ok"
        assert "load-buffer -w" in told["clipboard.route"]["says"]
        kept = (tmp_path / ".tmux.conf").read_text().splitlines()
        assert kept == ["set -s escape-time 20", "set -s set-clipboard on", "set -g default-terminal tmux-256color"]
        subprocess.run(["tmux", "source", str(tmp_path / ".tmux.conf")], env=environ, check=True, timeout=PATIENCE)


def test_inside_screen(tmp_path: Path) -> None:
    if shutil.which("screen") is None:
        missing("screen", "it is not installed")
    (tmp_path / "screens").mkdir(mode=0o700)
    environ = lonely(tmp_path, SCREENDIR=str(tmp_path / "screens"))
    script = f"TERM=screen {PROGRAM} doctor; cat"
    command = ["screen", "-c", "/dev/null", "-m", "sh", "-c", script]
    with terminal(command, environ=environ, lines=60) as shown:
        try:
            text = shown.wait_for("OSC 52 in short pieces", "bad")
        finally:
            subprocess.run(["screen", "-X", "quit"], env=environ, capture_output=True, timeout=PATIENCE)
    assert "term screen-256color" in text
    assert "screen" in text


# The cockpit


async def test_in_the_cockpit_the_worst_is_under_the_cursor_and_its_line_can_be_copied(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = profiles_file(tmp_path, server)
    path.chmod(0o644)
    for name, value in environment(tmp_path, KITTY_WINDOW_ID="1").items():
        monkeypatch.setenv(name, value)
    for name in ("TMUX", "STY", "NO_COLOR", "SSH_TTY", "SSH_CONNECTION", "SSH_CLIENT"):
        monkeypatch.delenv(name, raising=False)
    async with piloted(house_in(tmp_path)) as cockpit:
        told = [notice.text for notice in cockpit.app.notices.newest_first()]
        assert any(text.startswith("Every user of this host can read") for text in told)
        await cockpit.press("app.doctor")
        await cockpit.wait_for("well", "120 x 40", "speaks for an agent", without="still examining")
        assert "mend  chmod 600" in cockpit.text
        await cockpit.press("doctor.copy")
        await cockpit.wait_for("Sent to the terminal")
        assert any(f"chmod 600 {path}" in notice.text for notice in cockpit.app.notices.newest_first())
        os.chmod(path, 0o600)
        await cockpit.press("doctor.again")
        await cockpit.wait_for("mode 0600: only you can read it", without="still examining")
        await cockpit.press("dialog.close")
        await cockpit.wait_for("online", without="Doctor ")
