"""Accounts, people, agents, tokens, projects, authorizations: what each caller may see and do (contract, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from expb_tui.server.context import Unit
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.identity.kinds import ACCOUNT_MEMBERSHIPS, SIGN_IN_METHODS
from expb_tui.server.identity.people import create_user
from expb_tui.wire.identity import AgentAuthorization, AgentIdentity, Principal, Project
from tests.support.api import Api, envelope, problem
from tests.support.server import PASSWORD, LocalServer, ServerFactory


@dataclass
class World:
    """One server and its callers: the demo's owner and agent, a plain member, and the owner of another account."""

    server: LocalServer
    owner: Api
    agent: Api
    member: Api
    stranger: Api
    anonymous: Api
    member_id: str
    stranger_account: str


@pytest.fixture
def world(server: LocalServer) -> Iterator[World]:
    services = server.services
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        hashed = services.passwords.hash(PASSWORD)
        member = create_user(unit, email="member@northlight.example", password_hash=hashed, display_name="Mem Ber")
        unit.insert(ACCOUNT_MEMBERSHIPS, account_id=server.account_id, user_id=member.id, role="member")
        stranger = create_user(unit, email="stranger@else.example", password_hash=hashed)
        account = create_account(unit, stranger.id, name="Elsewhere")
    tokens = [
        server.sign_in()["access_token"],
        server.agent_token,
        server.sign_in(email="member@northlight.example", password=PASSWORD)["access_token"],
        server.sign_in(email="stranger@else.example", password=PASSWORD)["access_token"],
        None,
    ]
    apis = [Api(server, token) for token in tokens]
    owner, agent, plain, foreign, anonymous = apis
    yield World(server, owner, agent, plain, foreign, anonymous, member.id, account.id)
    for api in apis:
        api.http.close()


def problem_document(answer: httpx.Response) -> dict[str, Any]:
    """What a refusal says, without what differs from request to request."""
    return {key: value for key, value in answer.json().items() if key != "requestId"}


def new_agent(world: World, name: str = "second") -> dict[str, Any]:
    place = f"/v1/accounts/{world.server.account_id}/agent-identities"
    return world.owner.make(place, envelope("agent-identities", name=name))


def test_principals(world: World) -> None:
    owner = Principal.model_validate(world.owner.get("/v1/principal").json())
    assert (owner.type, owner.scope, owner.account_role, owner.system_admin) == ("user", "account", "owner", False)
    assert world.server.project_id in (owner.project_ids or [])
    agent = Principal.model_validate(world.agent.get("/v1/principal").json())
    assert (agent.type, agent.agent_id, agent.user_id) == ("agent", world.server.agent_id, None)
    assert agent.role_grants is not None
    assert "ideator" in agent.role_grants[world.server.project_id]
    problem(world.anonymous.get("/v1/principal"), 401, "unauthenticated")


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer  ", "Bearer\t", "Basic ", ""])
def test_the_scheme_is_exact(server: LocalServer, scheme: str) -> None:
    with server.client() as http:
        answer = http.get("/v1/principal", headers={"Authorization": scheme + server.agent_token})
        problem(answer, 401, "unauthenticated")


def test_an_agent_from_registration_to_revocation(world: World) -> None:
    place = f"/v1/accounts/{world.server.account_id}/agent-identities"
    body = envelope("agent-identities", {"description": "Nightly"}, name=" night-owl ", labels={"host": "lab-07"})
    answer = world.owner.post(place, body)
    assert answer.status_code == 201
    agent = AgentIdentity.model_validate(answer.json())
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["location"] == f"/v1/agent-identities/{agent.uid}"
    assert agent.metadata.name == "night-owl"
    assert agent.metadata.account == world.server.account_id
    assert agent.status.phase == "active"
    assert agent.status.authority == "account-administrator"
    assert agent.status.last_modified_by is not None
    assert agent.links is not None
    assert agent.links["self"].ref == f"/v1/agent-identities/{agent.uid}"
    problem(world.owner.post(place, envelope("agent-identities", name="Night-OWL")), 409, "already-exists")

    token = world.owner.make(f"/v1/agent-identities/{agent.uid}/tokens", envelope("agent-identity-tokens"))
    assert len(token["token"]) == 43
    record = token["resource"]
    with Api(world.server, token["token"]) as api:
        assert api.get("/v1/principal").json()["credential_id"] == record["metadata"]["uid"]
        assert api.get("/v1/principal").json()["role_grants"] == {}
        path = f"/v1/agent-identity-tokens/{record['metadata']['uid']}"
        assert "token" not in world.owner.get(path).json()
        assert token["token"] not in world.owner.get(f"/v1/agent-identities/{agent.uid}/tokens").text
        deactivate = world.owner.patch(f"/v1/agent-identities/{agent.uid}", {"operation": "deactivate"})
        assert deactivate.json()["status"]["phase"] == "inactive"
        problem(api.get("/v1/principal"), 401, "unauthenticated")
        inactive = world.owner.post(f"/v1/agent-identities/{agent.uid}/tokens", envelope("agent-identity-tokens"))
        problem(inactive, 409, "identity-inactive")
        assert (
            world.owner.patch(f"/v1/agent-identities/{agent.uid}", {"operation": "activate"}, version=2).headers["etag"]
            == '"3"'
        )
        assert api.get("/v1/principal").status_code == 200
        revoked = world.owner.patch(path, {"operation": "revoke"})
        assert revoked.json()["resource"]["status"]["phase"] == "revoked"
        problem(api.get("/v1/principal"), 401, "unauthenticated")


def test_a_revoked_agent_that_comes_back_needs_a_new_token(world: World) -> None:
    agent = f"/v1/agent-identities/{new_agent(world)['metadata']['uid']}"
    leaked = world.owner.make(f"{agent}/tokens", envelope("agent-identity-tokens"))
    with Api(world.server, leaked["token"]) as api:
        assert api.get("/v1/principal").status_code == 200
        for operation, version in (("revoke", 1), ("activate", 2)):
            assert world.owner.patch(agent, {"operation": operation}, version=version).status_code == 200
            problem(api.get("/v1/principal"), 401, "unauthenticated")
    assert [token["status"]["phase"] for token in world.owner.items(f"{agent}/tokens")] == ["revoked"]
    fresh = world.owner.make(f"{agent}/tokens", envelope("agent-identity-tokens"))
    with Api(world.server, fresh["token"]) as api:
        assert api.get("/v1/principal").status_code == 200


def test_a_token_with_an_end(world: World) -> None:
    place = f"/v1/agent-identities/{world.server.agent_id}/tokens"
    past = envelope("agent-identity-tokens", {"expiresAt": "2020-01-31T00:00:00Z"})
    assert list(problem(world.owner.post(place, past), 422, "validation")) == ["spec.expiresAt"]
    foreign = envelope("agent-identity-tokens", {"agentId": world.server.agent_id})
    assert list(problem(world.owner.post(place, foreign), 422, "validation")) == ["spec.agentId"]
    soon = (datetime.now(UTC)).replace(microsecond=0).timestamp() + 3600
    ends = datetime.fromtimestamp(soon, UTC).isoformat()
    token = world.owner.make(place, envelope("agent-identity-tokens", {"expiresAt": ends}))
    with Api(world.server, token["token"]) as api:
        assert api.get("/v1/principal").status_code == 200
        world.server.pass_time(3601)
        problem(api.get("/v1/principal"), 401, "unauthenticated")


def test_last_seen_moves_without_a_new_version(world: World) -> None:
    path = f"/v1/agent-identities/{world.server.agent_id}"
    before = world.owner.get(path)
    # Whatever is asked and answered, it is a sign of life.
    requests: list[tuple[Callable[[], httpx.Response], int]] = [
        (lambda: world.agent.get("/v1/principal"), 200),
        (lambda: world.agent.get("/v1/profile"), 403),
        (lambda: world.agent.get(f"/v1/projects/{'0' * 8}-0000-0000-0000-{'0' * 12}"), 404),
        (lambda: world.agent.post("/v1/work-packages", {}), 422),
        (lambda: world.agent.patch(path, {}, version=None), 428),
        (lambda: world.agent.patch(path, {}), 403),
    ]
    for request, status in requests:
        world.server.pass_time(5)
        assert request().status_code == status
        after = world.owner.get(path)
        assert after.json()["status"]["lastSeenAt"] > before.json()["status"].get("lastSeenAt", "")
        assert after.headers["etag"] == before.headers["etag"]
        before = after


def test_authorizations(world: World) -> None:
    agent = new_agent(world)["metadata"]["uid"]
    place = f"/v1/projects/{world.server.project_id}/agent-authorizations"

    def grant(roles: list[str], agent_id: str = agent) -> Any:
        return world.owner.post(place, envelope("agent-authorizations", {"agentId": agent_id, "roles": roles}))

    for roles in ([], ["dreamer"], ["ideator", ""]):
        [path] = problem(grant(roles), 422, "validation")
        assert path.startswith("spec.roles")
    problem(grant(["ideator"], "0" * 36), 404, "not-found")
    answer = grant(["results_reviewer", "ideator", "result-reviewer"])
    made = AgentAuthorization.model_validate(answer.json())
    assert made.spec.roles == ["ideator", "results-reviewer"]
    assert made.metadata.name == made.uid
    assert made.status.active_packages == 0
    assert made.status.authority == "project-administrator"
    problem(grant(["ideator"]), 409, "already-exists")
    path = f"/v1/agent-authorizations/{made.uid}"
    edited = world.owner.patch(path, {"spec": {"roles": ["experimenter"]}})
    assert edited.json()["spec"]["roles"] == ["experimenter"]
    assert list(problem(world.owner.patch(path, {"spec": {"roles": None}}, version=2), 422, "validation")) == [
        "spec.roles"
    ]
    assert list(problem(world.owner.patch(path, {"spec": {"roles": []}}, version=2), 422, "validation")) == [
        "spec.roles"
    ]
    rows = world.owner.items(f"/v1/agent-identities/{agent}/project-authorizations")
    assert [(row["project_id"], row["roles"], row["status"]) for row in rows] == [
        (world.server.project_id, ["experimenter"], "active")
    ]
    token = world.owner.make(f"/v1/agent-identities/{agent}/tokens", envelope("agent-identity-tokens"))["token"]
    with Api(world.server, token) as api:
        assert [item["metadata"]["uid"] for item in api.items("/v1/projects")] == [world.server.project_id]
        assert world.owner.patch(path, {"operation": "revoke"}, version=2).json()["status"]["phase"] == "revoked"
        assert api.items("/v1/projects") == []
        assert api.get("/v1/principal").json()["role_grants"] == {}
    # One for a project and agent, revoked ones included.
    problem(grant(["ideator"]), 409, "already-exists")
    inactive = new_agent(world, "third")["metadata"]["uid"]
    world.owner.patch(f"/v1/agent-identities/{inactive}", {"operation": "revoke"})
    problem(grant(["ideator"], inactive), 409, "identity-inactive")


def test_a_project_from_its_creation(world: World) -> None:
    place = f"/v1/accounts/{world.server.account_id}/projects"
    target = {"description": "d", "target": "https://git.example.test/x"}
    project = Project.model_validate(
        world.owner.make(place, envelope("projects", target, name="Fresh", labels={"team": "core"}))
    )
    path = f"/v1/projects/{project.uid}"
    problem(world.owner.post(place, envelope("projects", name="fresh ")), 409, "already-exists")
    # An account role alone gives no project content; membership does.
    problem(world.member.get(path), 404, "not-found")
    place = f"{path}/memberships"
    unknown = envelope("project-memberships", {"userId": "0" * 36})
    assert list(problem(world.owner.post(place, unknown), 422, "validation")) == ["spec.userId"]
    candidates = world.owner.items(f"{path}/member-candidates", q="mem")
    assert [row["user_id"] for row in candidates] == [world.member_id]
    membership = world.owner.make(place, envelope("project-memberships", {"userId": world.member_id}))
    assert membership["status"]["displayName"] == "Mem Ber"
    problem(
        world.owner.post(place, envelope("project-memberships", {"userId": world.member_id})), 409, "already-exists"
    )
    assert world.owner.items(f"{path}/member-candidates") == []
    # A member is an administrator of the project.
    answer = world.member.patch(
        path, {"metadata": {"labels": {"team": None, "tier": "gold"}}, "spec": {"target": None}}
    )
    assert answer.json()["metadata"]["labels"] == {"tier": "gold"}
    assert "target" not in answer.json()["spec"]
    assert answer.json()["spec"]["description"] == "d"
    assert "labels" not in world.member.patch(path, {"metadata": {"labels": None}}, version=2).json()["metadata"]
    many = {f"label-{number}": "on" for number in range(64)}
    full = world.member.patch(path, {"metadata": {"labels": many}}, version=3)
    assert full.status_code == 200
    more = world.member.patch(path, {"metadata": {"labels": {"one-more": "on"}}}, version=4)
    assert list(problem(more, 422, "validation")) == ["metadata.labels"]
    assert world.member.patch(path, {"metadata": {"labels": None}}, version=4).status_code == 200
    for operation, phase, version in (
        ("suspend", "suspended", 5),
        ("deactivate", "inactive", 6),
        ("activate", "active", 7),
    ):
        answer = world.member.patch(path, {"operation": operation}, version=version)
        assert answer.json()["status"]["phase"] == phase
    problem(world.member.patch(path, {"operation": "revoke"}, version=8), 422, "validation")
    row = f"/v1/project-memberships/{membership['metadata']['uid']}"
    assert world.owner.patch(row, {"operation": "revoke"}).status_code == 200
    problem(world.member.get(path), 404, "not-found")
    agents = world.owner.items(f"{path}/agent-candidates")
    assert world.server.agent_id in [row["agent_id"] for row in agents]


def test_foreign_things_are_not_there(world: World) -> None:
    account, project, agent = world.server.account_id, world.server.project_id, world.server.agent_id
    token = world.owner.items(f"/v1/agent-identities/{agent}/tokens")[0]["metadata"]["uid"]
    grant = world.owner.items(f"/v1/projects/{project}/agent-authorizations")[0]["metadata"]["uid"]
    membership = world.owner.items(f"/v1/accounts/{account}/memberships")[0]["metadata"]["uid"]
    member = world.owner.items(f"/v1/projects/{project}/memberships")[0]["metadata"]["uid"]
    session = world.owner.items("/v1/sessions")[0]["metadata"]["uid"]
    items = [
        f"/v1/accounts/{account}",
        f"/v1/agent-identities/{agent}",
        f"/v1/agent-identity-tokens/{token}",
        f"/v1/agent-authorizations/{grant}",
        f"/v1/account-memberships/{membership}",
        f"/v1/project-memberships/{member}",
        f"/v1/projects/{project}",
        f"/v1/sessions/{session}",
    ]
    for path in items:
        problem(world.stranger.get(path), 404, "not-found")
        body = {"operation": "revoke"} if "session" in path or "token" in path else {"metadata": {"labels": None}}
        problem(world.stranger.patch(path, body), 404, "not-found")
    for path in (
        f"/v1/accounts/{account}/agent-identities",
        f"/v1/accounts/{account}/memberships",
        f"/v1/accounts/{account}/projects",
        f"/v1/agent-identities/{agent}/tokens",
        f"/v1/projects/{project}/agent-authorizations",
        f"/v1/projects/{project}/memberships",
        f"/v1/projects/{project}/member-candidates",
        f"/v1/projects/{project}/agent-candidates",
    ):
        problem(world.stranger.get(path), 404, "not-found")
    for path, body in (
        (f"/v1/accounts/{account}/agent-identities", envelope("agent-identities", name="mole")),
        (f"/v1/agent-identities/{agent}/tokens", envelope("agent-identity-tokens")),
        (f"/v1/accounts/{account}/projects", envelope("projects", name="mole")),
        (
            f"/v1/projects/{project}/agent-authorizations",
            envelope("agent-authorizations", {"agentId": agent, "roles": ["ideator"]}),
        ),
    ):
        problem(world.stranger.post(path, body), 404, "not-found")
    # Even with a project of one's own, another account's agent cannot be let in.
    own = world.stranger.make(f"/v1/accounts/{world.stranger_account}/projects", envelope("projects", name="own"))
    path = f"/v1/projects/{own['metadata']['uid']}/agent-authorizations"
    body = envelope("agent-authorizations", {"agentId": agent, "roles": ["ideator"]})
    problem(world.stranger.post(path, body), 404, "not-found")


def test_roles_in_one_account(world: World) -> None:
    account, agent = world.server.account_id, world.server.agent_id
    for path in ("agent-identities", "memberships", "projects"):
        problem(world.member.get(f"/v1/accounts/{account}/{path}"), 403, "forbidden")
        problem(world.agent.get(f"/v1/accounts/{account}/{path}"), 403, "forbidden")
    body = envelope("agent-identities", name="nope")
    problem(world.member.post(f"/v1/accounts/{account}/agent-identities", body), 403, "forbidden")
    problem(world.agent.post(f"/v1/accounts/{account}/agent-identities", body), 403, "forbidden")
    problem(world.member.post(f"/v1/accounts/{account}/projects", envelope("projects", name="nope")), 404, "not-found")
    problem(world.member.get(f"/v1/agent-identities/{agent}"), 403, "forbidden")
    assert world.member.get(f"/v1/accounts/{account}").status_code == 200
    problem(world.member.patch(f"/v1/accounts/{account}", {"metadata": {"name": "mine"}}), 403, "forbidden")
    # An agent sees itself and the projects that it works in, and nothing that is a user's.
    assert world.agent.get(f"/v1/agent-identities/{agent}").status_code == 200
    assert world.agent.get(f"/v1/projects/{world.server.project_id}").status_code == 200
    problem(world.agent.get(f"/v1/projects/{world.server.project_id}/memberships"), 404, "not-found")
    for path in ("/v1/profile", "/v1/sessions", "/v1/profile/accounts"):
        problem(world.agent.get(path), 403, "forbidden")
    # It reads its own authorization, and cannot widen or lift it.
    grants = world.owner.items(f"/v1/projects/{world.server.project_id}/agent-authorizations")
    own = next(grant["metadata"]["uid"] for grant in grants if grant["spec"]["agentId"] == agent)
    assert world.agent.get(f"/v1/agent-authorizations/{own}").status_code == 200
    for body in ({"spec": {"roles": ["integrator"]}}, {"operation": "activate"}, {"metadata": {"name": "mine"}}):
        problem(world.agent.patch(f"/v1/agent-authorizations/{own}", body), 404, "not-found")
    problem(world.agent.patch(f"/v1/agent-identities/{agent}", {"operation": "activate"}), 403, "forbidden")
    problem(
        world.agent.post(f"/v1/agent-identities/{agent}/tokens", envelope("agent-identity-tokens")), 403, "forbidden"
    )


def test_memberships_keep_an_owner(world: World) -> None:
    account = world.server.account_id
    rows = {
        row["spec"]["role"]: row["metadata"]["uid"] for row in world.owner.items(f"/v1/accounts/{account}/memberships")
    }
    own, plain = f"/v1/account-memberships/{rows['owner']}", f"/v1/account-memberships/{rows['member']}"
    for body in ({"spec": {"role": "admin"}}, {"operation": "deactivate"}, {"operation": "revoke"}):
        problem(world.owner.patch(own, body), 409, "last-owner")
    assert world.owner.patch(plain, {"spec": {"role": "admin"}}).json()["spec"]["role"] == "admin"
    assert world.member.get(f"/v1/accounts/{account}/agent-identities").status_code == 200
    # Only an owner makes or unmakes owners.
    problem(world.member.patch(plain, {"spec": {"role": "owner"}}, version=2), 403, "forbidden")
    problem(world.member.patch(own, {"operation": "deactivate"}), 403, "forbidden")
    assert world.owner.patch(plain, {"spec": {"role": "owner"}}, version=2).status_code == 200
    assert world.member.patch(own, {"operation": "deactivate"}).json()["status"]["phase"] == "inactive"
    problem(world.owner.get("/v1/principal"), 401, "unauthenticated")
    # Nobody is put into an account by somebody who never shared one with them; nor is it told who exists.
    memberships = f"/v1/accounts/{world.stranger_account}/memberships"
    refusals = [
        problem_document(
            world.stranger.post(memberships, envelope("account-memberships", {"userId": uid, "role": "admin"}))
        )
        for uid in ("0" * 36, world.member_id)
    ]
    assert refusals[0] == refusals[1]
    assert refusals[0]["code"] == "invalid-reference"
    twice = envelope("account-memberships", {"userId": world.member_id, "role": "member"})
    problem(world.member.post(f"/v1/accounts/{account}/memberships", twice), 409, "already-exists")


def test_accounts(world: World, server_factory: ServerFactory) -> None:
    answer = world.member.post("/v1/accounts", envelope("accounts", {"description": "mine"}, name="Mine"))
    assert answer.status_code == 201
    uid = answer.json()["resource"]["metadata"]["uid"]
    assert answer.headers["location"] == f"/v1/accounts/{uid}"
    problem(world.owner.post("/v1/accounts", envelope("accounts", name=" MINE")), 409, "account-name-in-use")
    assert [row["name"] for row in world.member.items("/v1/profile/accounts")] == ["Mine", "Northlight Lab"]
    # The session stays with its account.
    problem(world.member.get(f"/v1/accounts/{uid}"), 404, "not-found")
    own = f"/v1/accounts/{world.server.account_id}"
    problem(world.owner.patch(own, {"metadata": {"name": "mine"}}), 409, "account-name-in-use")
    renamed = world.owner.patch(own, {"metadata": {"name": "Northlight"}, "spec": {"description": "x"}})
    assert renamed.json()["resource"]["metadata"]["name"] == "Northlight"
    assert [row["metadata"]["uid"] for row in world.owner.items("/v1/accounts")] == [world.server.account_id]
    closed = server_factory(account_provisioning="system-admin-only")
    with Api(closed, closed.sign_in()["access_token"]) as api:
        problem(api.post("/v1/accounts", envelope("accounts", name="Mine")), 403, "forbidden")


def test_profile_and_sessions(world: World) -> None:
    profile = world.member.get("/v1/profile")
    assert profile.json()["spec"] == {"displayName": "Mem Ber"}
    assert profile.json()["metadata"]["uid"] == world.member_id
    edited = world.member.patch("/v1/profile", {"spec": {"displayName": None}})
    assert (edited.json()["spec"], edited.headers["etag"]) == ({}, '"2"')
    for name in ("", "ä" * 101):
        problem(world.member.patch("/v1/profile", {"spec": {"displayName": name}}, version=2), 422, "validation")
    other = world.server.sign_in(email="member@northlight.example", password=PASSWORD)["access_token"]
    own = world.member.get("/v1/principal").json()["credential_id"]
    sessions = [row["metadata"]["uid"] for row in world.member.items("/v1/sessions")]
    assert len(sessions) == 2
    [second] = [uid for uid in sessions if uid != own]
    with Api(world.server, other) as api:
        assert api.get("/v1/principal").status_code == 200
        answer = world.member.patch(f"/v1/sessions/{second}", {"operation": "revoke"})
        assert answer.json()["status"]["phase"] == "revoked"
        problem(api.get("/v1/principal"), 401, "unauthenticated")
    assert len(world.member.items("/v1/sessions", fields="status.phase=active")) == 1


def test_invitations(world: World) -> None:
    place = f"/v1/accounts/{world.server.account_id}/invitations"
    spec = {"email": "Stranger@else.example", "role": "admin"}
    answer = world.owner.post(place, envelope("account-invitations", spec))
    assert answer.status_code == 201
    invitation, token = answer.json()["resource"], answer.json()["token"]
    path = f"/v1/account-invitations/{invitation['metadata']['uid']}"
    assert answer.headers["location"] == path
    assert invitation["status"]["phase"] == "pending"
    assert token not in world.owner.get(path).text + world.owner.get(place).text
    for api, status in ((world.member, 403), (world.agent, 403), (world.stranger, 404)):
        assert api.get(place).status_code == status
        assert api.get(path).status_code == status
    member = envelope("account-invitations", {"email": "member@northlight.example", "role": "member"})
    problem(world.owner.post(place, member), 409, "already-exists")
    mailed = envelope("account-invitations", {**spec, "delivery": "email"})
    problem(world.owner.post(place, mailed), 503, "mail-unavailable")
    problem(world.owner.post(f"{path}/deliveries", None), 503, "mail-unavailable")
    for bad in ("nobody", "a b@c.example", "a@", 5):
        wrong = envelope("account-invitations", {**spec, "email": bad})
        assert list(problem(world.owner.post(place, wrong), 422, "validation")) == ["spec.email"]

    def accept(api: Api, secret: str) -> httpx.Response:
        return api.post(f"{path}/acceptance", None, **{"X-Invitation-Token": secret})

    problem(accept(world.stranger, "wrong"), 404, "not-found")
    problem(accept(world.member, token), 404, "not-found")
    problem(accept(world.agent, token), 403, "forbidden")
    answer = accept(world.stranger, token)
    assert answer.status_code == 200
    membership = answer.json()
    assert (membership["kind"], membership["spec"]["role"]) == ("account-memberships", "admin")
    problem(accept(world.stranger, token), 409, "invitation-closed")
    accepted = world.owner.get(path).json()["status"]
    assert (accepted["phase"], accepted["membershipId"]) == ("accepted", membership["metadata"]["uid"])
    problem(world.owner.patch(path, {"operation": "revoke"}, version=2), 409, "invitation-closed")
    assert len(world.stranger.items("/v1/profile/accounts")) == 2

    spec = {"email": "third@else.example", "role": "member"}
    second = world.owner.post(place, envelope("account-invitations", spec)).json()["resource"]["metadata"]["uid"]
    revoked = world.owner.patch(f"/v1/account-invitations/{second}", {"operation": "revoke"})
    assert revoked.json()["resource"]["status"]["phase"] == "revoked"


def test_an_invitation_expires(world: World) -> None:
    place = f"/v1/accounts/{world.server.account_id}/invitations"
    body = envelope("account-invitations", {"email": "stranger@else.example", "role": "member"})
    answer = world.owner.post(place, body).json()
    world.server.pass_time(7 * 24 * 3600)
    path = f"/v1/account-invitations/{answer['resource']['metadata']['uid']}/acceptance"
    fresh = world.server.sign_in(email="stranger@else.example", password=PASSWORD)["access_token"]
    with Api(world.server, fresh) as api:
        late = api.post(path, None, **{"X-Invitation-Token": answer["token"]})
        problem(late, 409, "invitation-closed")


def test_ways_to_sign_in(world: World) -> None:
    [method] = world.member.items("/v1/profile/sign-in-methods")
    assert (method["status"]["method"], method["status"]["phase"]) == ("password", "active")
    assert method["status"]["lastUsedAt"]
    path = f"/v1/profile/sign-in-methods/{method['metadata']['uid']}"
    assert method["_links"]["self"]["ref"] == path
    assert world.member.get(path).json() == method
    problem(world.stranger.get(path), 404, "not-found")
    problem(world.member.patch(path, {"operation": "revoke"}), 409, "last-sign-in-method")
    services = world.server.services
    with services.database.write() as conn:
        Unit(conn, services.database).insert(SIGN_IN_METHODS, user_id=world.member_id, method="passkey")
    assert world.member.patch(path, {"operation": "revoke"}).json()["status"]["phase"] == "revoked"
    with world.server.client() as http:
        code = http.post("/oauth/device_authorization", data={"client_id": "expbctl"}).json()["user_code"]
        form = {"user_code": code, "email": "member@northlight.example", "password": PASSWORD}
        assert http.post("/oauth/device", data=form).status_code == 400
