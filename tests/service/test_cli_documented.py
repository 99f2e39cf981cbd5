"""Every documented ``expbctl`` line, word for word, as ``expb-tui`` against the real server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from expb_tui.server.config import Lifetimes
from tests.support.commands import Commands, approving
from tests.support.server import LocalServer, ServerFactory

AUTH = "expbctl auth"
REGISTER = "expbctl --profile=owner auth --agent-name=researcher --agent-profile=researcher"
CUSTOM = """\
expbctl --api-server-address=https://exp-bench.example.org \\
  --profile=owner auth \\
  --agent-name=researcher --agent-profile=researcher"""
SAVE_TOKEN = 'expbctl --profile=researcher auth --agent-token="$EXPBENCH_AGENT_TOKEN"'
PROFILES = "expbctl profile list"
OPPORTUNITIES = "expbctl --profile=researcher agent opportunity list"
REQUEST = """\
printf '%s' '{"project_id":"PROJECT_ID","role":"ideator","max_tasks":1}' |
  expbctl --profile=researcher --format=json agent work request --file -"""
REQUEST_HELP = "expbctl agent work request --help"
LOOP = (
    "agent opportunity list",
    "agent work request",
    "agent work show",
    "agent work renew",
    "agent work submit",
)


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    """A server that is asked every second, on which nobody is called researcher yet."""
    started = server_factory(lifetimes=Lifetimes(device_interval=1))
    token = started.sign_in()["access_token"]
    with started.client(token) as http:
        path = f"/v1/agent-identities/{started.agent_id}"
        headers = {"If-Match": http.get(path).headers["ETag"]}
        assert http.patch(path, json={"metadata": {"name": "resident"}}, headers=headers).status_code == 200
    return started


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


def as_ours(line: str, server: LocalServer) -> str:
    """The line with our name, this server's address and this project's id, and nothing else changed."""
    ours = line.replace("expbctl", "expb-tui").replace("https://exp-bench.example.org", server.address)
    return ours.replace("PROJECT_ID", server.project_id)


def shell(line: str, commands: Commands, **environ: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        env=commands.full_environ() | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_auth_starts_device_authorization(server: LocalServer, commands: Commands) -> None:
    environ = commands.full_environ() | {"EXPBENCH_API_SERVER": server.address}
    with approving(server, as_ours(AUTH, server), environ) as said:
        pass
    assert said[0] == f"Open {server.address}/oauth/device"
    saved = commands.profiles()
    assert saved["default"] == "default"
    assert saved["profiles"]["default"]["type"] == "user"
    assert saved["profiles"]["default"]["endpoint"] == server.address


@pytest.mark.parametrize("line", [REGISTER, CUSTOM], ids=["public", "custom"])
def test_auth_registers_an_agent_as_a_second_profile(line: str, server: LocalServer, commands: Commands) -> None:
    environ = commands.full_environ()
    if line is REGISTER:
        environ["EXPBENCH_API_SERVER"] = server.address
    with approving(server, as_ours(line, server), environ):
        pass
    owner, researcher = (commands.profiles()["profiles"][name] for name in ("owner", "researcher"))
    assert (owner["type"], researcher["type"]) == ("user", "agent")
    assert owner["endpoint"] == researcher["endpoint"] == server.address
    assert owner["account_id"] == researcher["account_id"] == server.account_id
    assert owner["token"] != researcher["token"]
    # Registration grants no project: an empty list, which is normal.
    done = shell(as_ours(OPPORTUNITIES, server), commands)
    assert done.stdout == "0 of 0 resources shown\n"


def test_the_documented_runner(server: LocalServer, commands: Commands) -> None:
    saved = shell(
        as_ours(SAVE_TOKEN, server),
        commands,
        EXPBENCH_AGENT_TOKEN=server.agent_token,
        EXPBENCH_API_SERVER=server.address,
    )
    assert "other users of this host can read a token on the command line" in saved.stderr
    assert server.agent_token not in saved.stdout + saved.stderr

    listed = shell(as_ours(PROFILES, server), commands).stdout
    assert listed.splitlines()[0].split() == ["NAME", "DEFAULT", "TYPE", "SCOPE", "ENDPOINT", "PROJECT", "EXPIRES"]
    assert server.agent_token not in listed

    work = shell(as_ours(OPPORTUNITIES, server), commands).stdout
    assert "ideator" in work

    answer = json.loads(shell(as_ours(REQUEST, server), commands).stdout)
    assert answer["resource"]["kind"] == "work-packages"
    assert answer["resource"]["status"]["phase"] == "active"
    assert answer["leaseToken"]

    # The saved profile alone says where the service is.
    package = answer["resource"]["metadata"]["uid"]
    shown = shell(f"expb-tui --profile=researcher agent work show {package} -o json", commands)
    assert json.loads(shown.stdout)["metadata"]["uid"] == package
    assert answer["leaseToken"] not in shown.stdout


def test_help_names_every_role(server: LocalServer, commands: Commands) -> None:
    text = shell(as_ours(REQUEST_HELP, server), commands).stdout
    for role in ("ideator", "hypothesis-reviewer", "experimenter", "results-reviewer", "integrator"):
        assert f'{{"project_id": "PROJECT_ID", "role": "{role}", "max_tasks": 1}}' in text


@pytest.mark.parametrize("words", LOOP)
def test_the_documented_words_have_help(words: str, commands: Commands) -> None:
    done = commands(*words.split(), "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: expb-tui {words} ")
