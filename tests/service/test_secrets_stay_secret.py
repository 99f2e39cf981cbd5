"""Credentials stand in the profile file, the journal and the request that needs them, and nowhere else (house rule 6).

Every secret is one that the service really handed out, learnt by a window in front of it; the whole life of a session
and of two packages is gone through by commands, with every kind of failure, and then everything is searched: what was
said, every file, the service's own, the arguments of every process, and what the helpers were given.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import answers
from tests.support.cockpit import environment, house_in, piloted, profiles_file
from tests.support.raw_server import Request, response
from tests.support.secrets import LEASE, Known, Operator, Watch, Window, echo, operator
from tests.support.server import LocalServer

KEY = "sk-planted-0123456789abcdefghijklmnopqrstuv"
BROWSER = """#!/bin/sh
env -u ANTHROPIC_API_KEY env >"$TMPDIR/what-the-browser-was-given"
echo "$@" >>"$TMPDIR/what-the-browser-was-given"
"""


def at(method: str, ending: str, fault: Any) -> Any:
    """``fault`` for the requests that fit; all others reach the service."""
    return lambda request: (
        fault(request) if (request.method, request.target.endswith(ending)) == (method, True) else None
    )


def page(request: Request) -> bytes:
    """A web page that shows what it was sent, as the debug pages of frameworks do."""
    return response("200 OK", f"<html>{request.headers}</html>".encode(), content_type="text/html")


def cut(request: Request) -> bytes:
    return response("200 OK", f'{{"leaseToken": "{request.headers["authorization"]}", "res'.encode())


def elsewhere(request: Request) -> bytes:
    return response("307 x", location=f"https://evil.example.test/{request.headers['authorization']}")


def claim(one: Operator, role: str) -> dict[str, Any]:
    asked = json.dumps({"project_id": one.facts["project_id"], "role": role, "max_tasks": 1})
    told = one.run("agent", "work", "request", "-f", "-", "-o", "json", given=asked, may_print=[LEASE])
    answer: dict[str, Any] = json.loads(told)
    assert answer[LEASE] in one.known.values[LEASE]
    return answer


def profiles_and_logins(one: Operator) -> None:
    where = f"--api-server-address={one.address}"
    agent = one.facts["agent_token"]
    one.sign_in("--profile=owner", "auth", "--agent-name=walker", "--agent-profile=walker", where)
    one.run("auth", "--profile=researcher", "--agent-token", where, given=agent, says="researcher")
    one.run("profile", "use", "researcher")
    for form in ("wide", "json"):
        one.run("profile", "list", "-o", form)
    one.run("profile", "show", "owner", "-o", "json")
    one.run("auth", "status", "--profile=walker", "-o", "json")
    one.run("auth", "--profile=broken", "--agent-token", where, given=f"{agent} {agent}", code=80)
    one.run("auth", "status", "--token", "", code=80)


def expire(one: Operator) -> None:
    """The owner's access token is over, so that the next command refreshes it."""
    path = one.folder / "home/.config/exp-bench/profiles.json"
    document = json.loads(path.read_text())
    document["profiles"]["owner"]["expires_at"] = "2020-01-01T00:00:00Z"
    path.write_text(json.dumps(document))


def refreshes(one: Operator) -> None:
    expire(one)
    refused = at("POST", "/oauth/token", echo("400 Bad Request", "invalid_request"))
    one.run("auth", "status", "--profile=owner", code=1, fault=refused, says="(hidden)")
    one.run("auth", "status", "--profile=owner", says="owner")
    assert len(one.known.values["refresh_token"]) == 2


def failures(one: Operator) -> None:
    status = ("auth", "status")
    one.run(*status, code=1, fault=echo("401 Unauthorized", "unauthenticated"))
    one.run(*status, code=1, fault=echo("403 Forbidden", "forbidden"), says="(hidden)")
    one.run(*status, code=1, fault=echo("500 Internal Server Error", "internal-error", retry_after="60"))
    one.run(*status, code=1, fault=page, says="it is a web page")
    one.run(*status, code=1, fault=cut, says="it ends in the middle")
    one.run(*status, code=1, fault=elsewhere, says="was redirected")
    bare = {"EXPBENCH_AGENT_TOKEN": one.facts["agent_token"]}
    one.run(
        "agent", "opportunity", "list", "--api-server-address=http://127.0.0.1:9", code=1, says="reached", environ=bare
    )
    one.run("agent", "opportunity", "list", f"--api-server-address={one.address}", environ=bare)


def work(one: Operator) -> None:
    first, second = claim(one, "ideator"), claim(one, "experimenter")
    package = first["resource"]["metadata"]["uid"]
    (task,) = first["resource"]["status"]["tasks"]
    body = {"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])}
    submit = ("agent", "work", "submit", package, "-f", "-")
    one.run("agent", "work", "list", "-o", "json")
    one.run("agent", "work", "show", package, "-o", "yaml")
    one.run("agent", "work", "renew", package, "-o", "json")
    for ending, status, code in (
        ("/renewals", "409 Conflict", "idempotency-conflict"),
        ("/renewals", "500 Internal Server Error", "internal-error"),
        ("/submissions", "422 Unprocessable", "validation"),
        ("/submissions", "409 Conflict", "task-closed"),
    ):
        fault = at("POST", ending, echo(status, code, retry_after="60"))
        act = ("agent", "work", "renew", package) if ending == "/renewals" else submit
        one.run(*act, given=json.dumps(body), code=1, fault=fault)
    one.run("agent", "work", "show", package, code=1, fault=at("GET", package, cut))
    for secret in (one.facts["agent_token"], first[LEASE], KEY):
        body["output"]["hypothesis"]["rationale"] = f"It works with {secret}."
        one.run(*submit, given=json.dumps(body), code=80, says="output.hypothesis.rationale")
    body["output"] = answers.idea(task["input"])
    one.search_files("home", "tmp", private=["home/.config/exp-bench", "home/.local/state/expb-tui"])
    one.run(*submit, given=json.dumps(body), says="is submitted")
    other = second["resource"]["metadata"]["uid"]
    one.run("agent", "work", "release", other, "--yes", code=1, fault=at("PATCH", other, echo("403 x", "forbidden")))
    one.run("agent", "work", "release", other, "--yes", "-o", "json")


def endings(one: Operator) -> None:
    refused = at("POST", "/oauth/revoke", echo("500 Internal Server Error", "server_error"))
    one.run("auth", "logout", "--profile=owner", code=1, fault=refused)
    for name in ("walker", "researcher"):
        one.run("profile", "remove", name)


def test_no_secret_leaves_its_place(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/xdg-open").write_text(BROWSER)
    (tmp_path / "bin/xdg-open").chmod(0o700)
    desktop = {"DISPLAY": ":0", "ANTHROPIC_API_KEY": KEY, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    with operator(tmp_path, **desktop) as one, Watch("keyring_child") as watch:
        # What the operator has set reaches the helpers too; a token for expb-tui itself must not.
        one.environ["EXPBENCH_AGENT_TOKEN"] = token = "planted-in-the-environment-0123456789abcdefg"
        one.known.add("environment's token", token)
        profiles_and_logins(one)
        del one.environ["EXPBENCH_AGENT_TOKEN"]
        one.known.add("environment's key", KEY)
        refreshes(one)
        failures(one)
        work(one)
        # From here on nothing is signed in and nothing is held: no place may know a token of the service any more.
        endings(one)
        one.search_files("home", "tmp", "service", but=["environment's key"])
    one.search_files("service")
    for arguments in watch.arguments:
        one.leaks += [f"{kind} in the arguments of {arguments[:80]!r}" for kind in one.known.found_in(arguments)]
    assert watch.environments.keys() == {b"keyring_child"}
    assert "user_code=" in (tmp_path / "tmp/what-the-browser-was-given").read_text()
    for helper, found in watch.environments.items():
        for environ in found:
            leaks = one.known.found_in(environ, but=["environment's key"])
            one.leaks += [f"{kind} in the environment of {helper!r}" for kind in leaks]
    assert one.leaks == []
    expected = {"owner's password", "agent's token", "access_token", "refresh_token", "device_code", LEASE, "token"}
    assert one.known.values.keys() >= expected


def test_a_leak_would_be_found(tmp_path: Path) -> None:
    """The search itself: a secret that stands where it must not is named."""
    known = Known({"token": {KEY}})
    kept = tmp_path / "home/profiles.json"
    kept.parent.mkdir()
    kept.write_text(f"the {KEY}")
    kept.chmod(0o600)
    one = Operator(tmp_path, known, Window(known), "", {}, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    one.search_files("home", private=["home"])
    assert one.leaks == []
    one.search_files("home")
    kept.chmod(0o640)
    one.search_files("home", private=["home"])
    one.run("profile", "show", KEY, code=80)
    assert one.leaks == [*["token in home/profiles.json"] * 2, f"token in what was said by: profile show {KEY}"]
    with Watch("sleep") as watch:
        subprocess.run(["bash", "-c", f"SECRET={KEY} sleep 0.2; : {KEY}"], check=True)
    assert any(known.found_in(arguments) for arguments in watch.arguments)
    assert any(known.found_in(environ) for environ in watch.environments[b"sleep"])


async def test_no_picture_of_the_cockpit_shows_one(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Screenshots and notices, with every pane and dialog opened once; the session's tokens are in the file."""
    path = profiles_file(tmp_path, server, signed_in=True)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    known = Known({"agent's token": {server.agent_token}})
    saved = json.loads(path.read_text())["profiles"]["owner"]
    known.add("access_token", saved["token"])
    known.add("refresh_token", saved["refresh_token"])
    leaks: list[str] = []
    opened = ("app.help", "app.notices", "app.doctor", "app.palette", "app.menu", "app.copy", "profile.details")
    async with piloted(house_in(tmp_path)) as cockpit:
        for action in ("pane.work", "pane.leases", "pane.package", "pane.profiles", *opened):
            await cockpit.press(action)
            picture = cockpit.app.export_screenshot()
            assert "<svg" in picture
            leaks += [f"{kind} in a picture after {action}" for kind in known.found_in(picture + cockpit.text)]
            if action in opened:
                assert len(cockpit.app.screen_stack) == 2, action
                await cockpit.key("escape")
        told = "\n".join(map(str, cockpit.app.notices.newest_first()))
        leaks += [f"{kind} in a notice" for kind in known.found_in(told)]
    assert leaks == []
