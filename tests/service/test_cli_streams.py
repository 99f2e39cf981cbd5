"""Standard streams that are closed, full or left by their reader, and ctrl-c while an answer is awaited."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.commands import PROGRAM, Commands
from tests.support.raw_server import RawServer, Request, raw_server, response
from tests.support.server import LocalServer

AGENT = {"type": "agent", "account_id": "acc-1", "agent_id": "agt-1", "credential_id": "cred-1"}


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    """An operator without any profile yet."""
    return Commands(tmp_path, capsys, monkeypatch)


def known(request: Request) -> bytes:
    """What the service answers to whoever reads: the agent itself, else the project."""
    project = {"apiVersion": "i/v1", "kind": "projects", "metadata": {"uid": "prj-1"}, "spec": {}, "status": {}}
    return response("200 OK", json.dumps(AGENT if request.target == "/v1/principal" else project).encode())


def sign_in(commands: Commands, address: str, token: str) -> None:
    profile = {"type": "agent", "endpoint": address, "account_id": "acc-1", "agent_id": "agt-1", "token": token}
    document = {"default": "researcher", "profiles": {"researcher": {"scope": "account", **profile}}}
    path = commands.home / "profiles.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)


def shell(commands: Commands, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; expb-tui() {{ {PROGRAM} "$@"; }}; {script}'],
        env=commands.full_environ(),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("expb-tui profile list | true", 0, ""),
        ("expb-tui agent work submit --help | head -1", 0, ""),
        ("expb-tui profile list >/dev/full", 1, "Standard output cannot be written: No space left on device"),
        ("expb-tui profile list -o json >&-", 1, "Standard output cannot be written: it is closed"),
        ("expb-tui --help >&-", 1, "Standard output cannot be written: it is closed"),
        ("expb-tui profile show nobody 2>&-", 80, ""),
        ("expb-tui profile show nobody 2>/dev/full", 80, ""),
        ("expb-tui auth --agent-token <&-", 80, "Standard input is closed"),
        ("printf '\\xff\\n' | expb-tui auth --agent-token", 80, "is not a token"),
        ("expb-tui agent work request --file - <&-", 80, "Standard input is closed"),
        ("expb-tui agent work request --file - <&- >&- 2>&-", 80, ""),
    ],
)
def test_streams_that_take_or_give_nothing_are_told_in_words(
    script: str, code: int, words: str, commands: Commands
) -> None:
    done = shell(commands, script)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    for word in ("internal error", "Traceback", "Exception", "Broken"):
        assert word not in done.stderr


def test_what_was_done_stays_done_when_nobody_reads_it(commands: Commands, server: LocalServer) -> None:
    saved = commands("auth", "--agent-token", f"--api-server-address={server.address}", given=server.agent_token)
    assert saved.code == 0, saved.err
    claimed = shell(commands, f"expb-tui agent work request --role=ideator --project={server.project_id} | head -c0")
    assert claimed.returncode == 0, claimed.stderr
    again = f"expb-tui agent work request --role=experimenter --project={server.project_id} -o json >/dev/full"
    full = shell(commands, again)
    assert full.returncode == 1
    assert "stays so" in full.stderr
    held = commands("agent", "work", "list", "-o", "json").json()
    assert sorted(one["role"] for one in held) == ["experimenter", "ideator"]
    assert {one["state"] for one in held} == {"active"}


@pytest.mark.parametrize("arrives", [True, False])
def test_ctrl_c_waits_for_the_answer_and_says_what_is_known(commands: Commands, arrives: bool) -> None:
    sent, interrupted = threading.Event(), threading.Event()

    def handler(request: Request, connection: socket.socket) -> None:
        if request.method == "GET":
            connection.sendall(known(request))
            return
        sent.set()
        interrupted.wait(20)
        if arrives:
            connection.sendall(response("200 OK", b'{"resource": null}'))

    with raw_server(handler) as service:
        process = claiming(commands, service)
        assert sent.wait(20)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "ctrl-c again ends at once" in first
        if arrives:
            interrupted.set()
        else:
            process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        interrupted.set()
        assert process.wait(20) == 130
        assert ("agent work list" in rest) is arrives
        assert "interrupted" in rest
    told = commands("agent", "work", "list").err
    assert ("was cut off, and its outcome is not known" in told) is not arrives


def claiming(commands: Commands, service: RawServer) -> subprocess.Popen[str]:
    sign_in(commands, service.address, "planted")
    return subprocess.Popen(
        [PROGRAM, "agent", "work", "request", "--role=ideator", "--project=prj-1"],
        env=commands.full_environ(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_claim_is_taken_up_although_its_parent_has_not_noticed(commands: Commands) -> None:
    sent, killed = threading.Event(), threading.Event()

    def handler(request: Request, connection: socket.socket) -> None:
        if request.method == "GET":
            connection.sendall(known(request))
            return
        sent.set()
        killed.wait(20)
        connection.sendall(response("200 OK", b'{"resource": null}'))

    with raw_server(handler) as service:
        process = claiming(commands, service)
        try:
            assert sent.wait(20)
            process.kill()
            # Not waited for: the process is a zombie from here on.
            state = Path(f"/proc/{process.pid}/stat")
            while state.read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
            killed.set()
            done = commands("agent", "work", "list")
            assert done.code == 0, done.err
            assert done.err == ""
            keys = [one.headers["idempotency-key"] for one in service.requests if one.method == "POST"]
            assert len(keys) == 2
            assert len(set(keys)) == 1
        finally:
            process.wait()
