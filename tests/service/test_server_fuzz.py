"""The API against its own OpenAPI document, by schemathesis: as an owner, as an agent, in a system session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from expb_tui.server.config import RequestLimits
from expb_tui.server.context import Unit
from expb_tui.server.identity.kinds import ACCOUNT_MEMBERSHIPS, PROJECT_MEMBERSHIPS
from expb_tui.server.identity.people import create_user
from expb_tui.server.seed_story import OWNER_EMAIL
from tests.support.server import LocalServer, ServerFactory

IDENTITY = "identity.sre-norns.com/v1"
STREAM = "^/v1/events$"
AGENTS_PART = "^/v1/(principal|work-.*|projects/[^/]*/work-packages)$"
SYSTEM_PART = "^/v1/system/"
RESEARCH_PART = "^/v1/(projects/[^/]*/.*|objectives.*|holds.*|limits.*|re.*|hypothes.*|experiments.*|integrations.*)$"


def _post(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(path, json=body, headers={"Idempotency-Key": str(uuid4())})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _targets(http: httpx.Client, server: LocalServer) -> Mapping[str, str]:
    """A real record for each item path, none of which the run itself stands on."""
    account, project = server.account_id, server.project_id
    envelope = {"apiVersion": IDENTITY, "spec": {}}
    agent = _post(
        http,
        f"/v1/accounts/{account}/agent-identities",
        {**envelope, "kind": "agent-identities", "metadata": {"name": "fuzzed"}},
    )["metadata"]["uid"]
    token = _post(http, f"/v1/agent-identities/{agent}/tokens", {**envelope, "kind": "agent-identity-tokens"})
    grant = _post(
        http,
        f"/v1/projects/{project}/agent-authorizations",
        {**envelope, "kind": "agent-authorizations", "spec": {"agentId": agent, "roles": ["ideator"]}},
    )
    found = {
        "/v1/agent-identities/{uid}": agent,
        "/v1/agent-identity-tokens/{uid}": token["resource"]["metadata"]["uid"],
        "/v1/agent-authorizations/{uid}": grant["metadata"]["uid"],
    }
    found |= _second_member(server)
    spec = {"email": "guest@northlight.example", "role": "member"}
    invitation = _post(
        http, f"/v1/accounts/{account}/invitations", {**envelope, "kind": "account-invitations", "spec": spec}
    )
    found["/v1/account-invitations/{uid}"] = invitation["resource"]["metadata"]["uid"]
    method = http.get("/v1/profile/sign-in-methods").json()["items"][0]
    found["/v1/profile/sign-in-methods/{uid}"] = method["metadata"]["uid"]
    server.sign_in(account_id=server.account_id)
    own = http.get("/v1/principal").json()["credential_id"]
    sessions = [item["metadata"]["uid"] for item in http.get("/v1/sessions").json()["items"]]
    found["/v1/sessions/{uid}"] = next(uid for uid in sessions if uid != own)
    for kind in RESEARCH_KINDS:
        items = http.get(f"/v1/projects/{project}/{kind}").json()["items"]
        if items:
            found[f"/v1/{kind}/{{uid}}"] = items[0]["metadata"]["uid"]
    return found


def _system_targets(server: LocalServer, token: str) -> Mapping[str, str]:
    with server.client(token) as http:
        lists = {kind: http.get(f"/v1/system/{kind}").json()["items"] for kind in SYSTEM_KINDS}
    return {f"/v1/system/{kind}/{{uid}}": items[0]["metadata"]["uid"] for kind, items in lists.items()}


def _second_member(server: LocalServer) -> dict[str, str]:
    """Another person's memberships, so that the owner does not lose their own."""
    with server.services.database.write() as conn:
        unit = Unit(conn, server.services.database)
        user = create_user(unit, email="second@northlight.example", password_hash="!")
        account = unit.insert(ACCOUNT_MEMBERSHIPS, account_id=server.account_id, user_id=user.id, role="member")
        project = unit.insert(
            PROJECT_MEMBERSHIPS, account_id=server.account_id, project_id=server.project_id, user_id=user.id
        )
    return {"/v1/account-memberships/{uid}": account.id, "/v1/project-memberships/{uid}": project.id}


SYSTEM_KINDS = ("research-roles", "review-policies", "limits")
RESEARCH_KINDS = (
    "objectives",
    "hypotheses",
    "experiments",
    "results",
    "integrations",
    "hypothesis-reviews",
    "result-reviews",
    "research-roles",
    "review-policies",
    "limits",
    "holds",
    "work-packages",
)


def _configuration(server: LocalServer, token: str, system: str, targets: Mapping[str, str]) -> str:
    lines = [
        "continue-on-failure = true",
        "[parameters]",
        f'"path.account" = "{server.account_id}"',
        f'"path.project" = "{server.project_id}"',
        "[headers]",
        f'Authorization = "Bearer {token}"',
        "[phases.coverage]",
        'unexpected-methods = ["DELETE", "PUT"]',
        "[checks.negative_data_rejection]",
        # 412 is the answer to an If-Match of the wrong form (contract, section 1.5), 413 to too long a body.
        "expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429]",
        "[checks.missing_required_header]",
        "expected-statuses = [400, 401, 403, 406, 415, 422, 428]",
        "[checks.positive_data_acceptance]",
        "enabled = false",
    ]
    for path, uid in targets.items():
        lines += ["[[operations]]", f'include-path = "{path}"', f'parameters = {{ "path.uid" = "{uid}" }}']
    # There is no mail, and saying so is a 503 by contract.
    for path in ("/v1/account-invitations/{uid}/deliveries", "/v1/accounts/{account}/invitations"):
        lines += [
            "[[operations]]",
            f'include-path = "{path}"',
            "[operations.checks.not_a_server_error]",
            "enabled = false",
        ]
    # Lists and items of research records are one piece of code; one kind gets every case, the others some.
    alike = "/(hypotheses|experiments|results|integrations|hypothesis-reviews|result-reviews|holds|review-policies)"
    lines += ["[[operations]]", f'include-path-regex = "{alike}(/.uid.)?$"', 'include-method = "GET"']
    lines += ["[operations.phases.coverage]", "enabled = false"]
    lines += ["[[operations]]", 'include-path-regex = "^/v1/system/(research-roles|limits)"']
    lines += ["[operations.phases.coverage]", "enabled = false"]
    lines += ["[[operations]]", f'include-path-regex = "{SYSTEM_PART}"']
    lines += [f'headers = {{ Authorization = "Bearer {system}" }}']
    return "\n".join(lines)


def _start(
    server: LocalServer, folder: Path, token: str, system: str, targets: Mapping[str, str], *choice: str
) -> subprocess.Popen[str]:
    folder.mkdir()
    (folder / "schemathesis.toml").write_text(_configuration(server, token, system, targets))
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}/openapi.json", "--no-color"),
            *("--phases=coverage,fuzzing", "--max-examples=2", "--mode=all", "--seed=7", "--warnings=off"),
            *choice,
        ],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_server_keeps_to_its_document(
    server_factory: ServerFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_factory(limits=RequestLimits(oauth_per_minute=100_000), system_admins=(OWNER_EMAIL,))
    owner = server.sign_in(account_id=server.account_id)["access_token"]
    system = server.sign_in(account_id="system")["access_token"]
    with server.client(owner) as http:
        targets = {**_targets(http, server), **_system_targets(server, system)}
        agents_and_system = f"{AGENTS_PART}|{SYSTEM_PART}"
        elsewhere = f"{RESEARCH_PART}|{STREAM}|{SYSTEM_PART}"
        runs = [
            _start(server, tmp_path / "research", owner, system, targets, "--include-path-regex", RESEARCH_PART),
            _start(
                server,
                tmp_path / "agent",
                server.agent_token,
                system,
                targets,
                "--include-path-regex",
                agents_and_system,
            ),
            _start(server, tmp_path / "owner", owner, system, targets, "--exclude-path-regex", elsewhere),
        ]
        outputs = [run.communicate(timeout=120)[0] for run in runs]
        assert [run.returncode for run in runs] == [0, 0, 0], "\n".join(output[-8000:] for output in outputs)
        # Whatever was sent, the one who sent it is still who it was.
        assert http.get("/v1/principal").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"], caplog.text


def test_the_document_names_every_operation_once(server: LocalServer) -> None:
    with server.client() as http:
        document = http.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    assert document["openapi"] == "3.1.0"
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
