"""What the server takes for a body, and how it says no."""

from __future__ import annotations

import json
from typing import Any

import pytest

from expb_tui.server.bodies import read_body
from expb_tui.server.identity.agents import AgentSpec, CreateAgent, CreateToken, EditAgent
from expb_tui.server.problems import Problem
from expb_tui.server.resources import ACTIVATE, REVOKE, Command, Patch
from expb_tui.server.rfc3339 import parse_instant

IDENTITY = {"apiVersion": "identity.sre-norns.com/v1", "kind": "agent-identities"}
AGENT_PATCH = Patch(EditAgent, {**ACTIVATE, **REVOKE})


def agent(metadata: Any = None, spec: Any = None, **more: Any) -> bytes:
    body = {**IDENTITY, "metadata": {"name": "researcher"} if metadata is None else metadata, "spec": {}, **more}
    if spec is not None:
        body["spec"] = spec
    return json.dumps(body).encode()


def refused(model: Any, raw: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        read_body(model, raw)
    return caught.value


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"\xff", b'{"a": NaN}', b'{"a": Infinity}', b"{} {}", b'{"a": "\\ud800"}', b"[" * 5000, b"'x'"],
)
def test_what_is_not_json_is_400(raw: bytes) -> None:
    problem = refused(CreateAgent, raw)
    assert (problem.status, problem.code) == (400, "invalid-json")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"[]", "body"),
        (b"null", "body"),
        (agent(metadata={}), "metadata.name"),
        (agent(metadata={"name": " "}), "metadata.name"),
        (agent(metadata={"name": "ä" * 101}), "metadata.name"),
        (agent(metadata={"name": "line\nbreak"}), "metadata.name"),
        (agent(metadata={"name": "(renwo) \u202eevil"}), "metadata.name"),
        (agent(metadata={"name": "soft\u00adhyphen"}), "metadata.name"),
        (agent(metadata={"name": "tag\U000e0041"}), "metadata.name"),
        (agent(metadata={"name": "r", "uid": "x"}), "metadata.uid"),
        (agent(metadata={"name": "r", "version": 1}), "metadata.version"),
        (agent(metadata={"name": "r", "account": "x"}), "metadata.account"),
        (agent(metadata={"name": "r", "creationTimestamp": "2026-10-05T08:00:00Z"}), "metadata.creationTimestamp"),
        (agent(metadata={"name": "r", "labels": {"-bad": "ok"}}), "metadata.labels.-bad"),
        (agent(metadata={"name": "r", "labels": {"host": "bad value"}}), "metadata.labels.host"),
        (agent(metadata={"name": "r", "labels": {"host": "x" * 64}}), "metadata.labels.host"),
        (agent(metadata={"name": "r", "labels": {"host": 5}}), "metadata.labels.host"),
        (agent(spec={"description": 5}), "spec.description"),
        (agent(spec={"descripton": "x"}), "spec.descripton"),
        (agent(spec={"description": "a\0b"}), "spec.description"),
        (json.dumps({**IDENTITY, "metadata": {"name": "r"}, "spec": None}).encode(), "spec"),
        (json.dumps({**IDENTITY, "metadata": {"name": "r"}}).encode(), "spec"),
        (json.dumps({**IDENTITY, "kind": "projects", "metadata": {"name": "r"}, "spec": {}}).encode(), "kind"),
        (agent(status={"phase": "active"}), "status"),
        (agent(api_version="identity.sre-norns.com/v1"), "api_version"),
    ],
)
def test_the_field_that_is_wrong_is_named(raw: bytes, path: str) -> None:
    problem = refused(CreateAgent, raw)
    assert (problem.status, problem.code) == (422, "validation")
    assert list(problem.fields) == [path]


def test_either_spelling_of_a_key_is_taken() -> None:
    raw = json.dumps(
        {"api_version": IDENTITY["apiVersion"], "kind": IDENTITY["kind"], "metadata": {"name": " r "}, "spec": {}}
    )
    assert read_body(CreateAgent, raw.encode()).metadata.name == "r"


@pytest.mark.parametrize(
    ("labels", "good"),
    [
        ({"host": "lab-07"}, True),
        ({"example.com/host": ""}, True),
        ({"example.com/": "aa"}, False),
        ({"EXAMPLE.com/host": "aa"}, False),
        ({"h": "aa"}, False),  # the toolkit's pattern wants two characters
        ({"a/b/c": "aa"}, False),
        ({"ab": "aa\n"}, False),
    ],
)
def test_labels(labels: dict[str, str], good: bool) -> None:
    raw = agent(metadata={"name": "r", "labels": labels})
    if good:
        assert read_body(CreateAgent, raw).metadata.labels == labels
    else:
        refused(CreateAgent, raw)


@pytest.mark.parametrize(
    "text",
    [
        "2026-10-05",
        "2026-10-05T08:00:00",
        "1700000000",
        "2026-10-05T08:00Z",
        "2026-13-05T08:00:00Z",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_instants_are_rfc_3339(text: str) -> None:
    body = {"apiVersion": IDENTITY["apiVersion"], "kind": "agent-identity-tokens", "spec": {"expiresAt": text}}
    assert list(refused(CreateToken, json.dumps(body).encode()).fields) == ["spec.expiresAt"]
    assert refused(CreateToken, json.dumps({**body, "spec": {"expiresAt": 1700000000}}).encode()).status == 422


def test_instants_of_any_offset_become_utc_to_the_microsecond() -> None:
    expected = parse_instant("2026-10-05T06:00:00.123456Z")
    assert parse_instant("2026-10-05T08:00:00.123456789+02:00") == expected
    assert parse_instant("2026-10-05t06:00:00.123456z") == expected


def test_an_edit_tells_absent_from_null() -> None:
    edit = read_body(AGENT_PATCH, b'{"metadata": {"labels": {"host": null}}, "spec": {"description": null}}')
    assert edit.metadata.labels == {"host": None}
    assert edit.spec.model_fields_set == {"description"}
    assert read_body(AGENT_PATCH, b"{}").spec == AgentSpec()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"operation": "explode"}, "operation"),
        ({"operation": 5}, "operation"),
        ({"operation": "revoke", "spec": {}}, "spec"),
        ({"kind": "projects"}, "kind"),
        ({"apiVersion": None}, "apiVersion"),
        ({"spec": None}, "spec"),
        ({"metadata": {"name": None}}, "metadata.name"),
        ({"metadata": {"version": 3}}, "metadata.version"),
        ({"status": {"phase": "active"}}, "status"),
    ],
)
def test_a_patch_is_one_command_or_one_edit(body: dict[str, Any], path: str) -> None:
    problem = refused(AGENT_PATCH, json.dumps(body).encode())
    assert (problem.status, list(problem.fields)) == (422, [path])


def test_a_command_leads_to_its_phase() -> None:
    assert read_body(AGENT_PATCH, b'{"operation": "deactivate"}') == Command("deactivate", "inactive")
    assert list(refused(Patch(None, REVOKE), b"{}").fields) == ["operation"]
