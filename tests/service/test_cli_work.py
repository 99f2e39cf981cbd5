"""The work loop by commands alone: all five roles, tables and structured answers, adopted packages, refusals."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml

from expb_tui.core.leases.journal import Journal
from expb_tui.wire.work import ROLES, output_digest
from tests.support import answers
from tests.support.commands import PROGRAM, Commands
from tests.support.server import LocalServer
from tests.support.terminal import terminal


@pytest.fixture
def commands(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """An operator whose default profile is the seeded agent."""
    ours = Commands(tmp_path, capsys, monkeypatch)
    saved = ours(
        "--profile=researcher",
        "auth",
        "--agent-token",
        f"--api-server-address={server.address}",
        given=server.agent_token,
    )
    assert saved.code == 0, saved.err
    assert "warning" not in saved.err
    return ours


def claim(commands: Commands, server: LocalServer, role: str, **more: Any) -> dict[str, Any]:
    body = {"project_id": server.project_id, "role": role, "max_tasks": 1, **more}
    answer: dict[str, Any] = commands(
        "agent", "work", "request", "--file", "-", "-o", "json", given=json.dumps(body)
    ).json()
    return answer


def submission(answer: dict[str, Any], role: str) -> dict[str, Any]:
    (task,) = answer["resource"]["status"]["tasks"]
    return {"taskId": task["taskId"], "outcome": "completed", "output": answers.USUAL[role](task["input"])}


@pytest.mark.parametrize("role", ROLES)
def test_the_loop_in_every_role(role: str, commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, role)
    package = answer["resource"]["metadata"]["uid"]

    renewed = commands("agent", "work", "renew", package, "--format=json").json()
    assert renewed["resource"]["status"]["lease"]["renewals"] == 1

    sent = commands(
        "agent", "work", "submit", "-f", "-", "--output", "yaml", given=yaml.safe_dump(submission(answer, role))
    )
    assert sent.code == 0, sent.err
    result = yaml.safe_load(sent.out)
    assert result["package"]["status"]["phase"] == "completed"
    assert result["resource"]["metadata"]["uid"] in sent.err

    (held,) = commands("agent", "work", "list", "-o", "json").json()
    assert held["package_id"] == package
    assert held["state"] == "completed"
    assert answer["leaseToken"] not in json.dumps(held) + sent.out + sent.err


def test_request_by_options_prints_created_and_the_tables(commands: Commands, server: LocalServer) -> None:
    assert commands("context", "use", "checkout-latency").code == 0
    done = commands("agent", "work", "request", "--role", "experimenter")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "created"
    assert lines[1].split() == ["NAME", "KIND", "AGE"]
    assert lines[2].split()[1] == "work-packages"
    assert re.search(r"^LEFT +STATE +ROLE +TASKS", done.out, re.MULTILINE)
    journal = (commands.home / "state").rglob("*")
    assert any(path.is_file() for path in journal)


def test_table_output_never_holds_the_token(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "ideator")
    for command in (
        ["agent", "work", "show"],
        ["agent", "work", "show", "-o", "json"],
        ["agent", "work", "renew"],
        ["agent", "work", "renew", "-o", "yaml"],
        ["agent", "work", "list", "-o", "wide"],
        ["agent", "work", "list", "-o", "json"],
    ):
        done = commands(*command)
        assert done.code == 0, done.err
        assert answer["leaseToken"] not in done.out + done.err


def test_show_lays_the_open_task_out_for_reading(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "experimenter")
    (task,) = answer["resource"]["status"]["tasks"]
    done = commands("agent", "work", "show")
    assert done.code == 0, done.err
    assert task["taskId"] in done.out
    assert task["input"]["hypothesis"]["spec"]["statement"].split()[0] in done.out
    assert task["input"]["objective"]["spec"]["measure"]["name"] in done.out


def test_no_work_is_success(commands: Commands, server: LocalServer) -> None:
    first = claim(commands, server, "integrator")
    assert first["leaseToken"]
    while True:
        done = commands(
            "agent", "work", "request", "--role", "integrator", "--project", server.project_id, "-o", "json"
        )
        assert done.code == 0, done.err
        if not done.json().get("leaseToken"):
            break
    assert "No work for integrator now" in done.err
    table = commands("agent", "work", "request", "--role", "integrator", "--project", server.project_id)
    assert (table.code, table.out) == (0, "0 resources shown\n")


def test_a_failed_task_is_a_submission_too(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "ideator")
    (task,) = answer["resource"]["status"]["tasks"]
    body = {"taskId": task["taskId"], "outcome": "failed", "reason": "The load generator is down."}
    done = commands("agent", "work", "submit", "--file", "-", "-o", "json", given=json.dumps(body))
    assert done.json()["package"]["metadata"]["uid"] == answer["resource"]["metadata"]["uid"]
    assert "(failed)" in done.err


def test_a_saved_answer_is_adopted_and_used(
    commands: Commands, server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = claim(commands, server, "ideator")
    saved = tmp_path / "answer.json"
    saved.write_text(json.dumps(answer))
    package = answer["resource"]["metadata"]["uid"]

    # Another machine: the journal is empty, the file is all there is.
    monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(tmp_path / "other-state"))
    assert commands("agent", "work", "list", "-o", "json").json() == []
    adopted = commands("agent", "work", "adopt", str(saved))
    assert adopted.code == 0, adopted.err
    assert answer["leaseToken"] not in adopted.out + adopted.err
    assert [one["package_id"] for one in commands("agent", "work", "list", "-o", "json").json()] == [package]

    monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(tmp_path / "third-state"))
    renewed = commands("agent", "work", "renew", "--package", str(saved), "-o", "json")
    assert renewed.json()["resource"]["metadata"]["uid"] == package
    shown = commands("agent", "work", "show", "--package", "-", "-o", "json", given=saved.read_text())
    assert shown.json()["metadata"]["uid"] == package
    body = tmp_path / "body.yaml"
    body.write_text(yaml.safe_dump(submission(answer, "ideator")))
    sent = commands("agent", "work", "submit", "--package", str(saved), "--file", str(body), "-o", "json")
    assert sent.json()["package"]["status"]["phase"] == "completed"


def test_release_asks_and_gives_back(commands: Commands, server: LocalServer) -> None:
    package = claim(commands, server, "ideator")["resource"]["metadata"]["uid"]
    refused = commands("agent", "work", "release", package)
    assert refused.code == 80
    assert "there is no terminal to ask on" in refused.err
    assert "--yes" in refused.err
    assert commands("agent", "work", "list", "-o", "json").json()[0]["state"] == "active"
    done = commands("agent", "work", "release", package, "--yes", "-o", "json")
    assert done.json()["status"]["phase"] == "released"


def test_a_member_withdraws_a_package(commands: Commands, server: LocalServer) -> None:
    package = claim(commands, server, "ideator")["resource"]["metadata"]["uid"]
    alone = commands("agent", "work", "withdraw", package, "--yes")
    assert alone.code == 80
    assert "Only a member of the project" in alone.err
    tokens = server.sign_in()
    document = commands.profiles()
    document["profiles"]["owner"] = {
        "scope": "account",
        "endpoint": server.address,
        "type": "user",
        "account_id": server.account_id,
        "token": tokens["access_token"],
        "refresh_token": tokens["refresh_token"],
        "expires_at": "2999-01-01T00:00:00Z",
    }
    (commands.home / "profiles.json").write_text(json.dumps(document))
    refused = commands("agent", "work", "withdraw", package)
    assert refused.code == 80
    assert "--yes" in refused.err
    done = commands("agent", "work", "withdraw", package, "--yes", "-o", "json")
    assert done.json()["status"]["phase"] == "revoked"
    assert commands("agent", "work", "show", package, "-o", "json").json()["status"]["phase"] == "revoked"


def test_without_a_package_name_several_are_told_apart(commands: Commands, server: LocalServer) -> None:
    none = commands("agent", "work", "show")
    assert none.code == 80
    assert "none is held here" in none.err
    first, second = (
        claim(commands, server, role)["resource"]["metadata"]["uid"] for role in ("ideator", "experimenter")
    )
    many = commands("agent", "work", "show")
    assert many.code == 80
    assert first in many.err
    assert second in many.err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('{"role": "ideator", "max_task": 1}', "max_task: is not known here"),
        ('{"project_id": "p", "max_tasks": 1}', "role: is needed"),
        ('{"role": "ideator", "max_tasks": "1"}', "max_tasks"),
        ("[1]", "holds no object"),
        ("{", "standard input, line 1"),
        ("a: 1\na: 2", "standard input, line 2"),
        ("", "standard input"),
        ("x" * 1_048_577, "too large"),
    ],
)
def test_a_wrong_request_is_a_usage_error(given: str, words: str, commands: Commands) -> None:
    done = commands("agent", "work", "request", "--file", "-", given=given)
    assert done.code == 80
    assert done.out == ""
    assert words in done.err
    assert len(done.err.splitlines()) <= 2


def test_a_wrong_submission_is_not_sent_and_names_its_fields(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "experimenter")
    body = submission(answer, "experimenter")
    del body["output"]["result"]["summary"]
    done = commands("agent", "work", "submit", "--file", "-", given=json.dumps(body))
    assert done.code == 80
    assert "output.result.summary" in done.err
    assert done.out == ""
    assert commands("agent", "work", "list", "-o", "json").json()[0]["tasks"][0]["phase"] == "assigned"


def test_a_secret_in_a_submission_is_not_sent(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "ideator")
    body = submission(answer, "ideator")
    body["output"]["hypothesis"]["rationale"] = f"curl -H 'Bearer {server.agent_token}'"
    done = commands("agent", "work", "submit", "--file", "-", given=json.dumps(body))
    assert done.code == 80
    assert "output.hypothesis.rationale" in done.err
    assert server.agent_token not in done.err


def snake(value: Any) -> Any:
    """Every key in its snake_case spelling."""
    if isinstance(value, dict):
        return {
            re.sub("[A-Z]", lambda found: "_" + found[0].lower(), key): snake(inner) for key, inner in value.items()
        }
    return [snake(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("role", ROLES)
def test_a_submission_in_snake_case_is_sent_as_written(role: str, commands: Commands, server: LocalServer) -> None:
    body = snake(submission(claim(commands, server, role), role))
    assert "task_id" in body
    done = commands("agent", "work", "submit", "--file", "-", "-o", "json", given=json.dumps(body))
    (task,) = done.json()["package"]["status"]["tasks"]
    assert task["outputSha256"] == output_digest(body["output"])
    (held,) = commands("agent", "work", "list", "-o", "json").json()
    again = commands("agent", "work", "submit", held["package_id"], "--file", "-", given=json.dumps(body))
    assert again.code == 0
    assert "nothing was sent twice" in again.err


def test_a_submission_that_names_its_task_twice_or_not_is_not_sent(commands: Commands, server: LocalServer) -> None:
    body = submission(claim(commands, server, "ideator"), "ideator")
    for wrong in ({**body, "task_id": body["taskId"]}, {key: body[key] for key in ("outcome", "output")}):
        done = commands("agent", "work", "submit", "--file", "-", given=json.dumps(wrong))
        assert done.code == 80
        assert "task" in done.err


def test_an_expired_lease_is_a_failure(commands: Commands, server: LocalServer) -> None:
    answer = claim(commands, server, "ideator")
    server.pass_time(901)
    done = commands("agent", "work", "submit", "--file", "-", given=json.dumps(submission(answer, "ideator")))
    assert done.code == 1
    assert done.out == ""
    assert re.search("expired|ran out", done.err)
    assert commands("agent", "work", "list", "-o", "json").json()[0]["state"] == "expired"


def test_opportunities(commands: Commands, server: LocalServer) -> None:
    table = commands("agent", "opportunity", "list")
    assert table.code == 0, table.err
    assert table.out.splitlines()[0].split() == ["PROJECT", "ROLE", "WORK", "HELD", "STATE"]
    assert re.fullmatch(r"\d+ of \d+ resources shown", table.out.splitlines()[-1])
    items = commands("agent", "opportunity", "list", "-o", "json").json()
    assert {item["role"] for item in items} == set(ROLES)
    assert set(items[0]) >= {"project_id", "role", "available", "blocked_by"}
    only = commands("agent", "opportunity", "list", "--role=ideator", "--project", "checkout-latency", "-o=json").json()
    assert [(item["role"], item["project_id"]) for item in only] == [("ideator", server.project_id)]
    page = commands("agent", "opportunity", "list", "--limit", "2")
    assert "more: --cursor " in page.out
    assert "(or --all)" in page.out
    everything = commands("agent", "opportunity", "list", "--limit", "2", "--all", "-o", "json").json()
    assert everything == items


def test_emptiness_is_explained(commands: Commands, server: LocalServer) -> None:
    token = server.sign_in()["access_token"]
    with server.client(token) as http:
        hold = {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "holds",
            "metadata": {},
            "spec": {"targetKind": "project", "targetId": server.project_id, "reason": "frozen for the audit"},
        }
        done = http.post(f"/v1/projects/{server.project_id}/holds", json=hold, headers={"Idempotency-Key": "explain"})
        assert done.status_code == 201, done.text
    explained = commands(
        "agent", "opportunity", "list", "--explain", "--role", "ideator", "--project", server.project_id, "-o", "json"
    ).json()
    assert [one["role"] for one in explained] == ["ideator"]
    blocking = [cause["name"] for cause in explained[0]["causes"] if cause["answer"] == "blocking"]
    assert blocking == ["hold"]
    assert len(explained[0]["causes"]) == 6
    table = commands("agent", "opportunity", "list", "--explain", "--role", "ideator", "--project", server.project_id)
    assert table.code == 0, table.err
    assert table.out.splitlines()[0].split() == ["PROJECT", "ROLE", "CAUSE", "ANSWER", "DETAIL"]


def test_the_token_of_the_environment_acts_without_a_profile(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Commands(tmp_path, capsys, monkeypatch)
    monkeypatch.setenv("EXPBENCH_API_SERVER", server.address)
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN", server.agent_token)
    answer = claim(ours, server, "ideator")
    status = ours("auth", "status", "-o", "json").json()
    assert status["type"] == "agent"
    assert status["project"] == "-"
    assert "profile" not in status
    # No profile may come of it, and the token stays out of every file of ours.
    assert not (tmp_path / "profiles.json").exists()
    (held,) = ours("agent", "work", "list", "-o", "json").json()
    assert held["state"] == "active"
    monkeypatch.delenv("EXPBENCH_AGENT_TOKEN")
    token_file = tmp_path / "token"
    token_file.write_text(server.agent_token + "\n")
    monkeypatch.setenv("EXPBENCH_AGENT_TOKEN_FILE", str(token_file))
    sent = ours("agent", "work", "submit", "--file", "-", given=json.dumps(submission(answer, "ideator")))
    assert sent.code == 0, sent.err
    token_file.unlink()
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or server.agent_token.encode() not in path.read_bytes(), path


def test_an_unreachable_service_is_said_in_words(commands: Commands, server: LocalServer) -> None:
    server.stop()
    done = commands("agent", "opportunity", "list", "--timeout", "2s")
    assert done.code == 1
    first, second = done.err.splitlines()
    assert first.startswith("expb-tui: error: ")
    assert server.address in first
    assert second.startswith("  ")


def test_another_account_or_endpoint_is_refused(commands: Commands, server: LocalServer) -> None:
    wrong = commands("--account", "00000000-0000-4000-8000-000000000000", "auth", "status")
    assert wrong.code == 80
    assert server.account_id in wrong.err
    assert commands("auth", "status", "--account", server.account_id).code == 0
    elsewhere = commands("agent", "opportunity", "list", "--api-server-address", "http://127.0.0.1:9")
    assert elsewhere.code == 80


HOSTILE = "red \x1b[31m title \x1b]0;owned\x07 bidi \u202e c1 \x9b1m line \u2028 nel \x85 cr \r over"


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_text_from_outside_cannot_steer_a_terminal(
    form: str, commands: Commands, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.sign_in()["access_token"]
    objective = {
        "apiVersion": "exp-bench.sre-norns.com/v1",
        "kind": "objectives",
        "metadata": {"name": "hostile"},
        "spec": {
            "description": HOSTILE,
            "measure": {"name": HOSTILE, "unit": HOSTILE, "direction": "minimize"},
            "constraints": [{"name": HOSTILE, "operator": "<", "value": 1.0, "unit": HOSTILE}],
        },
    }
    with server.client(token) as http:
        made = http.post(
            f"/v1/projects/{server.project_id}/objectives", json=objective, headers={"Idempotency-Key": "hostile"}
        )
        assert made.status_code == 201, made.text
        path = f"/v1/objectives/{made.json()['metadata']['uid']}"
        http.patch(path, json={"operation": "activate"}, headers={"If-Match": made.headers["ETag"]})
    packages = [claim(commands, server, "ideator") for _ in range(2)]
    ours = next(
        answer["resource"]["metadata"]["uid"]
        for answer in packages
        if answer["resource"]["status"]["tasks"][0]["input"]["objective"]["metadata"]["name"] == "hostile"
    )
    command = [PROGRAM, "agent", "work", "show", ours, "-o", form]
    with terminal(command, columns=200, lines=60, environ=commands.full_environ() | {"NO_COLOR": "1"}) as shown:
        assert shown.wait_end() == 0
    text = shown.output.decode()
    assert "title" in text
    steering = {
        char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\r\n\t"
    }
    assert steering == set()
    assert "\r over" not in text
    if form in ("json", "yaml"):
        read = json.loads(text) if form == "json" else yaml.safe_load(text.replace("\r\n", "\n"))
        assert read["status"]["tasks"][0]["input"]["objective"]["spec"]["description"] == HOSTILE


def test_a_draft_of_a_task_that_comes_again_is_told(commands: Commands, server: LocalServer) -> None:
    def held() -> dict[str, Any]:
        package: dict[str, Any] = commands("agent", "work", "list", "-o", "json").json()[0]
        return package

    assert commands("context", "use", "checkout-latency").code == 0
    assert "draft" not in commands("agent", "work", "request", "--role", "ideator").err
    first = held()
    task_id = first["tasks"][0]["task_id"]
    asyncio.run(Journal().save_draft(first["package_id"], task_id, {"statement": "typed"}, None))
    assert commands("agent", "work", "release", first["package_id"], "--yes").code == 0
    again = commands("agent", "work", "request", "--role", "ideator")
    assert "A draft of its task is on this host, typed when it was held before" in again.err
    assert re.search(rf"open +ideator +older +- +{task_id}", again.out), again.out
    assert held()["tasks"][0]["draft_before"] is True
