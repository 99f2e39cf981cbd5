"""Signing in and out by commands: what a terminal shows, what a pipe gets, and how each end is told."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from expb_tui.server.config import Lifetimes
from tests.support.commands import PROGRAM, Commands, approving
from tests.support.server import LocalServer, ServerFactory
from tests.support.terminal import Terminal, terminal


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    return server_factory(lifetimes=Lifetimes(device_interval=1))


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


def sign_in(commands: Commands, server: LocalServer, profile: str = "owner") -> None:
    line = f"expb-tui auth login --profile {profile} --api-server-address={server.address}"
    with approving(server, line, commands.full_environ()):
        pass


def save_token(commands: Commands, server: LocalServer, profile: str = "researcher") -> None:
    done = commands(
        "auth",
        "--profile",
        profile,
        "--api-server-address",
        server.address,
        "--agent-token=-",
        given=server.agent_token,
    )
    assert done.code == 0, done.err


def code_of(server: LocalServer, shown: Terminal) -> str:
    text = shown.wait_for(" left; waiting", "ctrl-c cancels")
    found = re.search(re.escape(server.address) + r"/oauth/device\?user_code=(\S+)", text.replace("\n", ""))
    assert found, text
    return found[1]


def test_a_terminal_shows_link_code_and_qr(commands: Commands, server: LocalServer) -> None:
    with terminal(
        [PROGRAM, "auth", "--api-server-address", server.address],
        columns=100,
        lines=50,
        environ=commands.full_environ(),
    ) as shown:
        code = code_of(server, shown)
        address = f"{server.address}/oauth/device?user_code={code}"
        assert list(shown.codes()) == [address]
        # The link's text is its target.
        assert f"\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\".encode() in shown.output
        assert code in shown.text.split(address)[1], "the code stands below the address, as text that can be copied"
        assert "█" in shown.text.split(address)[1], "and in large type"
        assert "No browser is opened here" in shown.text
        server.approve(code)
        assert shown.wait_end() == 0
        assert "Profile default is saved" in shown.text
        assert re.search(r"^default +\* +user", shown.text, re.MULTILINE)


@pytest.mark.parametrize(("columns", "arguments"), [(30, []), (100, ["--no-qr"])])
def test_no_qr_where_it_does_not_fit_or_is_not_wanted(
    columns: int, arguments: list[str], commands: Commands, server: LocalServer
) -> None:
    command = [PROGRAM, "auth", "--api-server-address", server.address, *arguments]
    with terminal(command, columns=columns, lines=50, environ=commands.full_environ()) as shown:
        shown.wait_for(" left; waiting"[: columns - 4])
        assert b"48;2;255;255;255" not in shown.output


def test_ctrl_c_cancels_cleanly(commands: Commands, server: LocalServer) -> None:
    with terminal(
        [PROGRAM, "auth", "--api-server-address", server.address],
        columns=100,
        lines=50,
        environ=commands.full_environ(),
    ) as shown:
        code_of(server, shown)
        shown.send("\x03")
        assert shown.wait_end() == 130
        assert "expb-tui: interrupted" in shown.text
        assert "Traceback" not in shown.text
        assert shown.modes()["canonical"]
    assert not (commands.home / "profiles.json").exists()


def test_an_interrupt_ends_a_plain_login_too(commands: Commands, server: LocalServer) -> None:
    process = subprocess.Popen(
        [PROGRAM, "auth", "--api-server-address", server.address],
        env=commands.full_environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    while "The code can be used for" not in "".join(lines):
        lines.append(process.stderr.readline())
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert rest.splitlines()[-1] == "expb-tui: interrupted"
    assert "\x1b" not in "".join(lines) + rest


def test_a_pipe_gets_plain_lines_on_standard_error(commands: Commands, server: LocalServer) -> None:
    line = f"expb-tui auth -o json --profile=owner --api-server-address={server.address}"
    with approving(server, f"{line} > '{commands.home}/out'", commands.full_environ()) as lines:
        pass
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert lines[0] == f"Open {server.address}/oauth/device"
    assert re.fullmatch(r"and enter the code \S+", lines[1])
    assert re.fullmatch(r"The code can be used for (9|10)m", lines[3])
    (entry,) = json.loads((commands.home / "out").read_text())
    assert entry["name"] == "owner"
    assert entry["default"] is True
    assert not {"token", "refresh_token"} & set(entry["profile"])


def test_a_denied_request_is_told(commands: Commands, server: LocalServer) -> None:
    with terminal(
        [PROGRAM, "auth", "--api-server-address", server.address],
        columns=100,
        lines=50,
        environ=commands.full_environ(),
    ) as shown:
        server.deny(code_of(server, shown))
        assert shown.wait_end() == 1
        assert "expb-tui: error: The request was denied" in shown.text
    assert not (commands.home / "profiles.json").exists()


def test_status_and_logout(commands: Commands, server: LocalServer) -> None:
    sign_in(commands, server)
    status = commands("auth", "status")
    assert status.out.splitlines()[0].split() == [
        "PROFILE",
        "ENDPOINT",
        "TYPE",
        "ACCOUNT",
        "ROLE",
        "PROJECT",
        "EXPIRES",
    ]
    assert status.out.splitlines()[1].split()[:5] == ["owner", server.address, "user", server.account_id, "owner"]
    assert "kept in the 0600 file" in status.err
    wide = commands("auth", "status", "-o", "wide").out.splitlines()[0].split()
    assert wide == ["PROFILE", "ENDPOINT", "TYPE", "SCOPE", "USER", "AGENT", "ACCOUNT", "ROLE", "PROJECT", "EXPIRES"]
    data = commands("auth", "status", "-o", "json").json()
    assert list(data) == [
        "profile",
        "endpoint",
        "type",
        "scope",
        "user_id",
        "account_id",
        "account_role",
        "project",
        "expires_at",
    ]
    assert data["project"] == "-"
    token = commands.profiles()["profiles"]["owner"]["token"]

    left = commands("auth", "logout")
    assert left.code == 0, left.err
    assert "on this host and on the service" in left.err
    saved = commands.profiles()["profiles"]["owner"]
    assert "token" not in saved
    assert "refresh_token" not in saved
    assert saved["endpoint"] == server.address
    with server.client(token) as http:
        assert http.get("/v1/principal").status_code == 401
    after = commands("auth", "status")
    assert after.code == 1
    assert "auth login" in after.err
    assert "signed out" in commands("profile", "list").out


def test_a_revoked_credential_says_sign_in_again(commands: Commands, server: LocalServer) -> None:
    sign_in(commands, server)
    saved = commands.profiles()
    with server.client() as http:
        http.post("/oauth/revoke", data={"client_id": "expbctl", "token": saved["profiles"]["owner"]["refresh_token"]})
    done = commands("auth", "status")
    assert done.code == 1
    assert "ign in again" in done.err


def test_status_tells_the_expiry_of_the_token_that_it_has_refreshed(commands: Commands, server: LocalServer) -> None:
    sign_in(commands, server)
    path = commands.home / "profiles.json"
    document = commands.profiles()
    document["profiles"]["owner"]["expires_at"] = "2020-01-01T00:00:00Z"
    path.write_text(json.dumps(document))
    done = commands("auth", "status", "-o", "json")
    assert done.json()["expires_at"] == commands.profiles()["profiles"]["owner"]["expires_at"] > "2026"


def test_context(commands: Commands, server: LocalServer) -> None:
    sign_in(commands, server)
    assert commands("context").out.splitlines()[0].split() == ["PROFILE", "ENDPOINT", "ACCOUNT", "PROJECT"]
    assert commands("context", "use", "no-such-project").code == 1
    used = commands("context", "use", "checkout-latency", "-o", "json").json()
    assert used == {
        "profile": "owner",
        "endpoint": server.address,
        "account_id": server.account_id,
        "project_id": server.project_id,
        "project_name": "checkout-latency",
    }
    assert commands("context", "use", server.project_id).code == 0
    assert commands("auth", "status", "-o", "json").json()["project"] == "checkout-latency"
    assert "project_id" not in commands("context", "clear", "-o", "json").json()


def test_a_session_of_another_account_is_not_saved(commands: Commands, server: LocalServer) -> None:
    other = "00000000-0000-4000-8000-000000000000"
    line = f"expb-tui auth --account {other} --api-server-address={server.address}; test $? = 1"
    with approving(server, line, commands.full_environ()) as lines:
        pass
    assert "account" in "\n".join(lines[-2:])
    assert not (commands.home / "profiles.json").exists()


def test_an_agent_name_that_exists_keeps_the_user_profile(commands: Commands, server: LocalServer) -> None:
    line = f"expb-tui --profile=owner auth --agent-name=researcher --api-server-address={server.address}; test $? = 1"
    with approving(server, line, commands.full_environ()) as lines:
        pass
    assert "researcher" in "\n".join(lines)
    assert "error" in lines[-2] + lines[-1]
    assert list(commands.profiles()["profiles"]) == ["owner"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent-name=a", "--agent-token=t"], "do not go together"),
        (["--system", "--agent-name=a"], "a system session has none"),
        (["--system", "--agent-token=t"], "an agent has no system session"),
        (["--agent-profile=p"], "needs --agent-name or --agent-token"),
        (["--no-qr", "status"], "Write them after the command"),
        (["--agent-token="], "--agent-token is empty"),
        (["--agent-token=two words"], "is not a token"),
        (["--agent-token", "-"], "standard input is empty"),
    ],
)
def test_options_that_contradict_each_other(arguments: list[str], words: str, commands: Commands) -> None:
    done = commands("auth", *arguments)
    assert done.code == 80
    assert words in done.err
    assert "two words" not in done.err


def test_a_token_that_is_typed_is_not_shown(commands: Commands, server: LocalServer) -> None:
    command = [PROGRAM, "--profile=x", "auth", "--api-server-address", server.address, "--agent-token"]
    with terminal(command, environ=commands.full_environ()) as shown:
        shown.wait_for("Agent token (it is not shown):")
        shown.send(server.agent_token + "\r")
        assert shown.wait_end() == 0
        assert server.agent_token.encode() not in shown.output
        assert shown.modes()["echo"]
    assert commands.profiles()["profiles"]["x"]["agent_id"] == server.agent_id


def test_a_wrong_token_is_refused_and_not_stored(commands: Commands, server: LocalServer) -> None:
    done = commands(
        "--profile=x", "auth", "--agent-token", "--api-server-address", server.address, given="not-a-real-token\n"
    )
    assert done.code == 1
    assert "not-a-real-token" not in done.err
    assert not (commands.home / "profiles.json").exists()


def test_leases_that_would_be_stranded_are_named_first(commands: Commands, server: LocalServer) -> None:
    save_token(commands, server)
    package = commands(
        "agent", "work", "request", "--role", "ideator", "--project", server.project_id, "-o", "json"
    ).json()["resource"]["metadata"]["uid"]
    for command in (["auth", "logout"], ["profile", "remove", "researcher"]):
        refused = commands(*command)
        assert refused.code == 80
        assert package in refused.err
        assert "--yes" in refused.err
        assert commands.profiles()["profiles"]["researcher"]["token"]
    removed = commands("profile", "remove", "researcher", "--yes")
    assert removed.code == 0, removed.err
    assert commands.profiles()["profiles"] == {}
    (held,) = commands("agent", "work", "list", "-o", "json").json()
    assert held["state"] == "no credential"


def test_a_profile_is_not_given_to_another_agent_while_it_holds_leases(commands: Commands, server: LocalServer) -> None:
    save_token(commands, server)
    commands("agent", "work", "request", "--role", "ideator", "--project", server.project_id)
    token = server.sign_in()["access_token"]
    with server.client(token) as http:
        agent = http.post(
            f"/v1/accounts/{server.account_id}/agent-identities",
            json={
                "apiVersion": "identity.sre-norns.com/v1",
                "kind": "agent-identities",
                "metadata": {"name": "another"},
                "spec": {},
            },
            headers={"Idempotency-Key": "agent"},
        ).json()
        issued = http.post(
            f"/v1/agent-identities/{agent['metadata']['uid']}/tokens",
            json={
                "apiVersion": "identity.sre-norns.com/v1",
                "kind": "agent-identity-tokens",
                "metadata": {},
                "spec": {},
            },
            headers={"Idempotency-Key": "token"},
        ).json()
    done = commands("--profile=researcher", "auth", "--agent-token", given=issued["token"])
    assert done.code == 80
    assert "holds leases of another agent" in done.err
    assert commands.profiles()["profiles"]["researcher"]["agent_id"] == server.agent_id
    # The same agent's token may be saved again.
    save_token(commands, server)
