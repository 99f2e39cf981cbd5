"""The demo and the server as programs: they walk the loop, touch nothing of the operator's, leave nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from expb_tui.wire.work import ROLES
from tests.support import answers
from tests.support.commands import FOLDER, PROGRAM
from tests.support.terminal import terminal

TOKEN = "an-agent-token-of-the-operator"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An operator with a profile and a journal folder of their own, and an empty folder for temporary files."""
    home = tmp_path / "home"
    (home / ".config" / "exp-bench").mkdir(parents=True)
    entry = {"scope": "account", "endpoint": "https://real.example.test", "type": "agent", "token": TOKEN}
    (home / ".config" / "exp-bench" / "profiles.json").write_text(
        json.dumps({"default": "mine", "profiles": {"mine": entry}})
    )
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": f"{FOLDER}:{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(tmp_path / "tmp"),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "EXPBENCH_AGENT_TOKEN": TOKEN,
    }


@pytest.fixture
def untouched(environ: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """Afterwards the operator's files are as they were, and no temporary ones are left."""
    before = _files(Path(environ["HOME"]))
    yield
    assert _files(Path(environ["HOME"])) == before
    assert list((tmp_path / "tmp").iterdir()) == []


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _gone(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/v1/service-configuration", timeout=2)
    except OSError:  # refused, or cut off in the middle of its end
        return True
    return False


def _wait(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _address(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", text)
    assert found, text
    return found[0]


@pytest.mark.usefixtures("untouched")
def test_headless_walks_the_whole_loop(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [PROGRAM, "demo", "--headless"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("✓ ") for line in lines[:-1]), done.stdout
    assert lines[-1] == "Every step was confirmed by the server."
    for role in ROLES:
        assert f" {role}: package " in done.stdout
    assert re.search(r"submitted +\S+ as integrations \S+, proposed", done.stdout)
    assert "token" not in done.stdout
    assert _gone(_address(done.stdout))


def test_headless_fails_where_the_server_cannot_start(environ: dict[str, str], tmp_path: Path) -> None:
    package = tmp_path / "shadow" / "starlette"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('no', name='starlette')\n")
    done = subprocess.run(
        [PROGRAM, "demo", "--headless"],
        env=environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "The local server is not installed: the package starlette is missing" in done.stderr
    assert "pip install 'expb-tui[server]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_headless_ends_its_server_on_a_signal(number: signal.Signals, environ: dict[str, str]) -> None:
    process = subprocess.Popen([PROGRAM, "demo", "--headless"], env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = _address(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    process.stdout.close()
    assert _wait(lambda: _gone(address))


def test_the_server_ends_with_a_killed_demo(environ: dict[str, str]) -> None:
    process = subprocess.Popen([PROGRAM, "demo", "--headless"], env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = _address(process.stdout.readline())
    process.kill()
    process.wait(10)
    process.stdout.close()
    assert _wait(lambda: _gone(address))


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("end", ["key", "SIGTERM", "SIGHUP"])
def test_the_cockpit_opens_on_the_demo_and_takes_the_server_with_it(end: str, environ: dict[str, str]) -> None:
    with terminal([PROGRAM, "demo"], columns=200, lines=60, environ=environ) as shown:
        shown.wait_for("starting a local server")
        text = shown.wait_for("Profiles", "owner", "signed out", "researcher", "signed in")
        address = f"http://{_host(text)}"
        assert not _gone(address)
        shown.wait_for("ideator", "integrator")
        if end == "key":
            shown.send("\x11")
            assert shown.wait_end() == 0
        else:
            number = signal.Signals[end]
            os.kill(shown.pid, number)
            assert shown.wait_end() == 128 + number
        modes = shown.modes()
        assert modes["canonical"]
        assert not modes["alternate screen"]
    assert _wait(lambda: _gone(address))


def _host(text: str) -> str:
    found = re.search(r"127\.0\.0\.1:\d+", text)
    assert found, text
    return found[0]


def test_keep_keeps_the_data_and_wants_an_empty_folder(environ: dict[str, str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [PROGRAM, "demo", "--headless", "--keep", str(kept)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert str(kept) in done.stderr
    assert kept.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in kept.iterdir()} >= {"server.sqlite", "profiles.json", "state"}
    again = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert again.returncode == 80
    assert "is not an empty folder" in again.stderr


def test_serve_says_where_it_is_on_its_first_line(environ: dict[str, str], tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'db.sqlite'}"
    command = [PROGRAM, "serve", "--port=0", "--database", database, "--seed-demo", "-o", "json"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert set(facts) == {
        "address",
        "email",
        "password",
        "account_id",
        "project_id",
        "project_name",
        "agent_id",
        "agent_name",
        "agent_token",
    }
    request = urllib.request.Request(
        f"{facts['address']}/v1/principal", headers={"Authorization": f"Bearer {facts['agent_token']}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["agent_id"] == facts["agent_id"]

    second = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert second.stderr.startswith("expb-tui: error: ")
    assert second.stdout == ""

    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert (out, err) == ("", "")


def _reviews(http: httpx.Client) -> int:
    offers = http.get("/v1/work-opportunities", params={"role": "hypothesis-reviewer"}).json()["items"]
    return sum(offer["available"] for offer in offers)


def _propose(http: httpx.Client, project_id: str) -> None:
    """One proposal by the agent itself, into the queue of the reviewers."""
    key = {"Idempotency-Key": "one"}
    path = f"/v1/projects/{project_id}/work-packages"
    claim = http.post(path, json={"role": "ideator"}, headers=key).json()
    package, (task,) = claim["resource"]["metadata"]["uid"], claim["resource"]["status"]["tasks"]
    body = {"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])}
    lease = {"X-Lease-Token": claim["leaseToken"]}
    assert http.post(f"/v1/work-packages/{package}/submissions", json=body, headers=key | lease).status_code == 201


def test_the_switches_of_the_server_are_options(environ: dict[str, str], tmp_path: Path) -> None:
    command = [PROGRAM, "serve", "--port=0", "--database", f"sqlite:///{tmp_path / 'db.sqlite'}", "--seed-demo"]
    command += ["-o", "json", "--client-id", "one", "--client-id=two", "--no-self-review"]
    command += ["--account-provisioning=system-admin-only", "--oauth-requests-per-minute=10"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        with httpx.Client(base_url=facts["address"], trust_env=False) as http:
            configuration = http.get("/v1/service-configuration").json()
            assert configuration["account_provisioning"] == "system-admin-only"
            http.headers["authorization"] = f"Bearer {facts['agent_token']}"
            waiting = _reviews(http)
            _propose(http, facts["project_id"])
            assert _reviews(http) == waiting > 0
            asked = [
                http.post("/oauth/device_authorization", data={"client_id": client})
                for client in ("expbctl", "one", "two", *["one"] * 8)
            ]
        assert [answer.status_code for answer in asked] == [400, *[200] * 9, 429]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--database", "mysql://x"], "sqlite:///"),
        (["--host", "0.0.0.0"], "--insecure-http"),
        (["--port", "70000"], "70000"),
        (["--oauth-requests-per-minute", "9"], "10"),
        (["--account-provisioning", "nobody"], "system-admin-only"),
    ],
)
def test_serve_refuses_what_is_unsafe_or_impossible(arguments: list[str], words: str, environ: dict[str, str]) -> None:
    done = subprocess.run([PROGRAM, "serve", *arguments], env=environ, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 80)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
