"""System sessions: who may open one, what its tokens reach, and the settings that everything inherits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from alembic import command
from sqlalchemy import insert, select, update

from expb_tui.server.config import Lifetimes, ServerError
from expb_tui.server.context import Unit
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.run import RunningServer
from expb_tui.server.seed_story import OWNER_EMAIL
from expb_tui.server.store.database import Database
from expb_tui.server.store.migrate import configuration, migrate
from expb_tui.server.store.schema import account_memberships, credentials, sessions, system_entitlements, users
from tests.support.api import Api, problem
from tests.support.commands import Commands, approving
from tests.support.postgres import fresh_database
from tests.support.server import CLIENT_ID, DEVICE_GRANT, LocalServer, ServerFactory, hidden_fields, settings_for

OWNER = OWNER_EMAIL
KINDS = ("research-roles", "review-policies", "limits")


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    """A server whose demo owner is entitled."""
    return server_factory(system_admins=(OWNER.upper(),))


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, server_factory: ServerFactory) -> Iterator[LocalServer]:
    if request.param == "sqlite":
        yield server_factory(system_admins=(OWNER,))
        return
    template, demo = request.getfixturevalue("postgres_demo")
    with fresh_database(request.getfixturevalue("postgres_cluster"), template) as url:
        server = server_factory(database=url, demo=demo, system_admins=(OWNER,))
        yield server
        server.stop()


def oauth(server: LocalServer, path: str, **fields: str) -> httpx.Response:
    with server.client() as http:
        return http.post(f"/oauth/{path}", data={"client_id": CLIENT_ID, **fields})


def start(server: LocalServer, preferred_context: str = "system") -> dict[str, Any]:
    answer = oauth(server, "device_authorization", preferred_context=preferred_context)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def page(server: LocalServer, started: dict[str, Any], expected: int = 200, /, **fields: str) -> str:
    credentials_ = {"email": server.email, "password": server.password}
    answer = oauth(server, "device", user_code=started["user_code"], **credentials_, **fields)
    assert answer.status_code == expected, answer.text
    return answer.text


def collect(server: LocalServer, started: dict[str, Any]) -> httpx.Response:
    server.pass_time(20)
    return oauth(server, "token", grant_type=DEVICE_GRANT, device_code=started["device_code"])


def sign_in(server: LocalServer) -> dict[str, Any]:
    started = start(server)
    server.approve(started["user_code"], account_id="system")
    answer = collect(server, started)
    assert answer.status_code == 200, answer.text
    tokens: dict[str, Any] = answer.json()
    return tokens


def refresh(server: LocalServer, token: str, **fields: str) -> httpx.Response:
    return oauth(server, "token", **{"grant_type": "refresh_token", "refresh_token": token, **fields})


def status_of(server: LocalServer, token: str) -> int:
    with server.client(token) as http:
        return http.get("/v1/principal").status_code


def as_system(server: LocalServer) -> Api:
    return Api(server, sign_in(server)["access_token"])


def found(api: Api, path: str, name: str) -> dict[str, Any]:
    [item] = [one for one in api.items(path) if one["metadata"]["name"] == name]
    return item


def test_the_page_offers_the_system_and_says_what_it_is(server: LocalServer) -> None:
    started = start(server)
    shown = page(server, started)
    # The one account is not taken of itself, for the person could mean either.
    assert "Account or system to sign in to" in shown
    assert '<option value="system">' in shown
    assert "owner of &#x2068;Northlight Lab&#x2069;" in shown
    assert "research roles, review policies and limits that all accounts" in " ".join(shown.split())
    assert "or the system first" in page(server, started, decision="approve")
    assert "not both" in page(server, started, 400, authority_context=server.account_id, scope="system")
    with server.client() as http:
        form = {**hidden_fields(shown), "scope": "system"}
        asked = http.post("/oauth/device", data=form).text
        assert "the system" in asked
        assert "A system session reaches every account." in asked
        done = http.post("/oauth/device", data={**hidden_fields(asked), "decision": "approve"}).text
    assert "is being signed in to <strong>the system</strong>" in done
    assert collect(server, started).json()["scope"] == "system"


@pytest.mark.parametrize("fields", [{"authority_context": "system"}, {"scope": "system"}, {"account_id": "system"}])
def test_a_program_may_say_it_in_any_of_the_ways(server: LocalServer, fields: dict[str, str]) -> None:
    started = start(server, "")
    assert "Approved" in page(server, started, 200, decision="approve", **fields)
    tokens = collect(server, started).json()
    assert (tokens["scope"], "account_id" in tokens) == ("system", False)


def test_one_account_is_taken_where_an_account_was_asked_for(server: LocalServer) -> None:
    started = start(server, "account")
    assert "Approved" in page(server, started, decision="approve")
    tokens = collect(server, started).json()
    assert (tokens["scope"], tokens["account_id"]) == ("account", server.account_id)
    with Api(server, tokens["access_token"]) as api:
        principal = api.get("/v1/principal").json()
        assert (principal["system_admin"], principal["system_entitled"]) == (False, True)
        assert api.get("/v1/system/limits").status_code == 403


def test_nobody_else_is_offered_it(server_factory: ServerFactory) -> None:
    server = server_factory()
    started = start(server)
    shown = page(server, started)
    assert 'value="system"' not in shown
    assert "which you may not open" in shown
    for fields in ({"authority_context": "system"}, {"scope": "system"}):
        assert "You may not open a system session" in page(server, started, 400, decision="approve", **fields)
    assert collect(server, started).json()["error"] == "authorization_pending"
    for token in (server.sign_in()["access_token"], server.agent_token):
        with Api(server, token) as api:
            assert api.get("/v1/principal").json()["system_entitled"] is False
            for kind in KINDS:
                problem(api.get(f"/v1/system/{kind}"), 403, "forbidden")


def test_an_entitled_user_needs_no_account(server: LocalServer) -> None:
    with server.services.database.write() as conn:
        conn.execute(update(account_memberships).values(phase="inactive"))
    assert '<option value="system">' in page(server, start(server))
    with as_system(server) as api:
        assert api.get("/v1/principal").status_code == 200


def test_tokens_of_the_system(either: LocalServer) -> None:
    server = either
    first = sign_in(server)
    assert (first["scope"], "account_id" in first) == ("system", False)
    with server.services.database.write() as conn:
        unit = Unit(conn, server.services.database)
        owner = conn.execute(users.select().where(users.c.email == server.email)).one()
        other = create_account(unit, owner.id, name="Second Lab").id
    for wrong in (
        {"grant_type": "account_switch", "account_id": other},
        {"account_id": server.account_id},
        {"scope": "account"},
    ):
        assert refresh(server, first["refresh_token"], **wrong).json()["error"] == "invalid_request"
    second = refresh(server, first["refresh_token"], scope="system").json()
    assert (second["scope"], "account_id" in second) == ("system", False)
    assert (status_of(server, first["access_token"]), status_of(server, second["access_token"])) == (401, 200)
    assert refresh(server, first["refresh_token"]).json()["error"] == "invalid_grant"
    assert status_of(server, second["access_token"]) == 401
    third = sign_in(server)
    assert oauth(server, "revoke", token=third["refresh_token"]).json() == {}
    assert status_of(server, third["access_token"]) == 401


def test_a_system_session_sees_itself_and_no_tenant(server: LocalServer) -> None:
    account_token = server.sign_in(account_id=server.account_id)["access_token"]
    with as_system(server) as api, Api(server, account_token) as owner:
        principal = api.get("/v1/principal").json()
        assert (principal["scope"], principal["system_admin"], principal["type"]) == ("system", True, "user")
        assert not {"account_id", "account_role", "project_ids"} & set(principal)
        [own] = api.items("/v1/sessions")
        assert own["metadata"]["uid"] == principal["credential_id"]
        assert (own["status"]["scope"], "account" in own["metadata"]) == ("system", False)
        others = [one["metadata"]["uid"] for one in owner.items("/v1/sessions")]
        [other] = [uid for uid in others if uid != principal["credential_id"]]
        problem(api.get(f"/v1/sessions/{other}"), 404, "not-found")
        problem(api.patch(f"/v1/sessions/{other}", {"operation": "revoke"}), 404, "not-found")
        role = owner.items(f"/v1/projects/{server.project_id}/research-roles")[0]["metadata"]["uid"]
        for path in (
            "accounts",
            f"accounts/{server.account_id}",
            f"accounts/{server.account_id}/limits",
            f"projects/{server.project_id}",
            f"projects/{server.project_id}/research-roles",
            f"research-roles/{role}",
            f"system/research-roles/{role}",
            f"agent-identities/{server.agent_id}",
            "projects",
            "profile",
            "work-opportunities",
        ):
            problem(api.get(f"/v1/{path}"), 404, "not-found")
        body = {"apiVersion": "identity.sre-norns.com/v1", "kind": "accounts", "metadata": {"name": "x"}, "spec": {}}
        problem(api.post("/v1/accounts", body), 404, "not-found")
        problem(api.patch(f"/v1/research-roles/{role}", {"spec": {"enabled": False}}), 404, "not-found")
        problem(api.get("/v1/events"), 403, "forbidden")
        uid = own["metadata"]["uid"]
        done = api.patch(f"/v1/sessions/{uid}", {"operation": "revoke"}, version=own["metadata"]["version"])
        assert done.json()["status"]["phase"] == "revoked"
        assert api.get("/v1/principal").status_code == 401


def test_what_the_system_sets_is_inherited(either: LocalServer) -> None:
    server = either
    account, project = f"/v1/accounts/{server.account_id}", f"/v1/projects/{server.project_id}"
    account_token = server.sign_in(account_id=server.account_id)["access_token"]
    with as_system(server) as api, Api(server, account_token) as owner:
        role = found(api, "/v1/system/research-roles", "experimenter")
        path = role["_links"]["self"]["ref"]
        assert path == f"/v1/system/research-roles/{role['metadata']['uid']}"
        assert {"account", "project"}.isdisjoint(role["metadata"])
        assert [len(api.items(f"/v1/system/{kind}")) for kind in KINDS] == [5, 1, 5]
        body = {"spec": {"maxTasks": 4, "leaseSeconds": 600, "ordering": "newest-first"}}
        problem(api.patch(path, body, version=None), 428, "precondition-required")
        problem(api.patch(path, body, version=9), 412, "precondition-failed")
        problem(api.patch(path, {"spec": {"maxTasks": 99}}), 422, "validation")
        changed = api.patch(path, body)
        assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
        assert changed.json()["spec"] == {"role": "experimenter", **body["spec"]}
        assert changed.json()["status"]["lastModifiedBy"]["type"] == "user"
        assert api.get(path).json() == changed.json()
        inherited = found(owner, f"{project}/research-roles", "experimenter")
        assert inherited["status"]["effective"]["maxTasks"] == 4
        assert {inherited["status"]["sources"][field] for field in body["spec"]} == {"system"}
        # A narrower scope tightens, and does not loosen.
        mine = found(owner, f"{account}/research-roles", "experimenter")["_links"]["self"]["ref"]
        wrong = problem(owner.patch(mine, {"spec": {"maxTasks": 5}}), 422, "validation")
        assert wrong == {"spec.maxTasks": "must be at most 4, which the system sets"}
        assert owner.patch(mine, {"spec": {"maxTasks": 2}}).status_code == 200
        inherited = found(owner, f"{project}/research-roles", "experimenter")["status"]
        assert (inherited["effective"]["maxTasks"], inherited["sources"]["maxTasks"]) == (2, "account")
        assert (inherited["effective"]["leaseSeconds"], inherited["sources"]["leaseSeconds"]) == (600, "system")
        # Null leaves it to the default again.
        assert api.patch(path, {"spec": {"leaseSeconds": None}}, version=2).json()["spec"].get("leaseSeconds") is None
        assert found(owner, f"{project}/research-roles", "experimenter")["status"]["effective"]["leaseSeconds"] == 900
        limit = found(api, "/v1/system/limits", "open-hypotheses")["_links"]["self"]["ref"]
        assert api.patch(limit, {"spec": {"value": 3, "reason": "a small machine"}}).json()["status"]["effective"] == 3
        status = found(owner, f"{project}/limits", "open-hypotheses")["status"]
        assert (status["effective"], status["limitingSource"]) == (3, "system")


def test_a_policy_of_the_system_opens_and_closes_gates(either: LocalServer) -> None:
    server = either
    project = f"/v1/projects/{server.project_id}"
    account_token = server.sign_in(account_id=server.account_id)["access_token"]
    with as_system(server) as api, Api(server, account_token) as owner:
        [policy] = api.items("/v1/system/review-policies")
        path = policy["_links"]["self"]["ref"]
        [own] = owner.items(f"{project}/review-policies")
        reset = {"spec": {"hypothesisReview": None, "resultReview": None}}
        owner.patch(own["_links"]["self"]["ref"], reset, version=own["metadata"]["version"])
        assert api.patch(path, {"spec": {"hypothesisReview": True}}).status_code == 200
        [seen] = owner.items(f"{project}/review-policies")
        assert seen["status"]["effective"]["hypothesisReview"] is True
        assert seen["status"]["sources"]["hypothesisReview"] == "system"
        waiting = owner.items(f"{project}/hypotheses")[0]["metadata"]["uid"]
        wait_at_gate(server, waiting)
        assert api.patch(path, {"spec": {"hypothesisReview": False}}, version=2).status_code == 200
        assert owner.get(f"/v1/hypotheses/{waiting}").json()["status"]["phase"] != "proposed"


def wait_at_gate(server: LocalServer, uid: str) -> None:
    from expb_tui.server.store.research_tables import hypotheses

    with server.services.database.write() as conn:
        conn.execute(update(hypotheses).where(hypotheses.c.id == uid).values(phase="proposed"))


def test_a_start_without_the_option_takes_it_away(server_factory: ServerFactory) -> None:
    first = server_factory(system_admins=(OWNER,))
    demo, tokens = first.demo, sign_in(first)
    database = first.services.settings.database
    approved = start(first)
    first.approve(approved["user_code"], account_id="system")
    first.stop()
    second = server_factory(database=database, demo=demo)
    assert status_of(second, tokens["access_token"]) == 401
    assert refresh(second, tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert collect(second, approved).json()["error"] == "access_denied"
    second.stop()
    # Granted again, what was revoked stays dead.
    third = server_factory(database=database, demo=demo, system_admins=(OWNER,))
    assert status_of(third, tokens["access_token"]) == 401
    assert refresh(third, tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert status_of(third, sign_in(third)["access_token"]) == 200


def test_a_grant_that_is_gone_counts_at_once(either: LocalServer) -> None:
    tokens = sign_in(either)
    with either.services.database.write() as conn:
        conn.execute(system_entitlements.delete())
    assert status_of(either, tokens["access_token"]) == 401
    assert refresh(either, tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_grant_for_nobody_is_no_start(tmp_path: Path) -> None:
    server = RunningServer(settings_for(f"sqlite:///{tmp_path / 'a.sqlite'}", system_admins=("nobody@x.example",)))
    with pytest.raises(ServerError) as caught:
        server.run(lambda _address: None)
    assert (caught.value.code, "nobody@x.example" in caught.value.what) == ("system-admin-unknown", True)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sessions_and_tokens_outlive_the_migration(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        _migrate(f"sqlite:///{tmp_path / 'a.sqlite'}")
        return
    cluster = request.getfixturevalue("postgres_cluster")
    cluster.run("CREATE DATABASE expb_system")
    try:
        _migrate(cluster.url("expb_system"))
    finally:
        cluster.run("DROP DATABASE expb_system WITH (FORCE)")


def _migrate(url: str) -> None:
    from expb_tui.server.store.schema import accounts

    database = Database(url, workers=2)
    try:
        with database.write() as conn:
            command.upgrade(configuration(conn), "0003_people")
            now = database.clock(conn)
            texts = dict.fromkeys(("name", "name_key", "phase", "authority"), "x")
            common = {**texts, "labels": {}, "version": 1, "modified_by_type": "service"}
            common |= {"created_at": now, "updated_at": now}
            user, account, session = "u" * 36, "a" * 36, "s" * 36
            person = {"id": user, "email": "x", "email_key": "x", "password_hash": "!"}
            conn.execute(insert(users), {**common, **person})
            conn.execute(insert(accounts), {**common, "id": account})
            said = dict.fromkeys(("scope", "client_id", "authentication_method", "origin", "ip_address"), "x")
            times = dict.fromkeys(("authenticated_at", "expires_at", "refresh_expires_at"), now)
            own = {"id": session, "account_id": account, "user_id": user, "user_agent": "x"}
            conn.execute(insert(sessions), {**common, **said, **times, **own})
            token = {"verifier": b"v" * 32, "purpose": "access", "account_id": account, "session_id": session}
            conn.execute(insert(credentials), {**token, "expires_at": now})
        migrate(database)
        with database.write() as conn:
            kept = conn.execute(select(credentials)).one()
            assert (kept.verifier, kept.session_id, kept.expires_at) == (b"v" * 32, session, now)
            assert conn.execute(select(sessions.c.id)).scalar_one() == session
            # The tokens still go with their session.
            conn.execute(sessions.delete())
            assert conn.execute(select(credentials)).all() == []
    finally:
        database.close()


def test_the_command_line_signs_in_to_the_system(
    server_factory: ServerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_factory(system_admins=(OWNER,), lifetimes=Lifetimes(device_interval=1))
    commands = Commands(tmp_path, capsys, monkeypatch)
    approve = server.approve
    monkeypatch.setattr(server, "approve", lambda code: approve(code, account_id="system"))
    line = f"expb-tui auth login --system --profile system --api-server-address={server.address}"
    with approving(server, line, commands.full_environ()):
        pass
    head, line = commands("auth", "status", "--profile", "system", "-o", "wide").out.splitlines()
    assert dict(zip(head.split(), line.split(), strict=False))["SCOPE"] == "system"
    told = commands("auth", "status", "--profile", "system", "-o", "json").json()
    assert told["scope"] == "system"
