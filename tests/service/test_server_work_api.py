"""The work API over HTTP on the demo: the answers of section 6.2 of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from expb_tui.wire.work import ROLES
from tests.support import answers
from tests.support.api import Api, envelope, problem
from tests.support.server import LocalServer


@pytest.fixture
def agent(server: LocalServer) -> Iterator[Api]:
    with Api(server, server.agent_token) as api:
        yield api


@pytest.fixture
def owner(server: LocalServer) -> Iterator[Api]:
    with Api(server, server.sign_in()["access_token"]) as api:
        yield api


def claim(api: Api, project_id: str, role: str, max_tasks: int = 1) -> dict[str, Any]:
    """A package with its token."""
    answer = api.post(f"/v1/projects/{project_id}/work-packages", {"role": role, "max_tasks": max_tasks})
    assert answer.status_code == 201, answer.text
    given: dict[str, Any] = answer.json()
    return given


def submit(api: Api, given: dict[str, Any], output: dict[str, Any], *, key: str | None = None) -> Any:
    task = given["resource"]["status"]["tasks"][0]
    path = f"/v1/work-packages/{given['resource']['metadata']['uid']}/submissions"
    body = {"taskId": task["taskId"], "outcome": "completed", "output": output}
    return api.post(path, body, key=key, **{"X-Lease-Token": given["leaseToken"]})


def test_an_assignment_answers_package_and_token_once(server: LocalServer, agent: Api) -> None:
    key, path = str(uuid4()), f"/v1/projects/{server.project_id}/work-packages"
    answer = agent.post(path, {"project_id": server.project_id, "role": "experimenter", "max_tasks": 1}, key=key)
    given = answer.json()
    package = given["resource"]
    uid = package["metadata"]["uid"]
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["location"] == f"/v1/work-packages/{uid}"
    assert answer.headers["etag"] == '"1"'
    assert len(given["leaseToken"]) == 43
    assert package["spec"] == {"role": "experimenter", "agentId": server.agent_id, "maxTasks": 1}
    assert package["status"]["phase"] == "active"
    assert package["status"]["authority"] == "research-agent"
    assert package["status"]["lastModifiedBy"] == {"type": "agent", "agentId": server.agent_id}
    assert package["status"]["lease"]["leaseSeconds"] == 900
    task = package["status"]["tasks"][0]
    assert (task["role"], task["phase"]) == ("experimenter", "assigned")
    assert set(task["input"]) == {"instructions", "objective", "hypothesis", "experiment", "evidenceRequests"}

    again = agent.post(path, {"max_tasks": 1, "role": "experimenter", "project_id": server.project_id}, key=key)
    assert again.status_code == 201
    assert again.json() == {"resource": package}, "a replay has no token"
    read = agent.get(f"/v1/work-packages/{uid}")
    assert read.json() == package
    assert given["leaseToken"] not in read.text
    assert agent.items(f"/v1/projects/{server.project_id}/work-packages", fields=f"spec.agentId={server.agent_id}") == [
        package
    ]


def test_the_empty_package_has_no_identity_and_no_token(server: LocalServer, agent: Api) -> None:
    claim(agent, server.project_id, "integrator")
    answer = agent.post("/v1/work-packages", {"projectId": server.project_id, "role": "integrator", "maxTasks": 3})
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "work-packages",
            "metadata": {"project": server.project_id},
            "spec": {"role": "integrator", "maxTasks": 1},
            "status": {"phase": "empty", "tasks": []},
        }
    }


def test_a_claim_is_refused_with_the_right_word(server: LocalServer, agent: Api, owner: Api) -> None:
    path = f"/v1/projects/{server.project_id}/work-packages"
    assert problem(agent.post(path, {"role": "chief"}), 422, "validation").keys() == {"role"}
    assert problem(agent.post(path, {"role": "ideator", "max_tasks": 0}), 422, "validation").keys() == {"max_tasks"}
    assert problem(agent.post(path, {"role": "ideator", "hurry": True}), 422, "validation").keys() == {"hurry"}
    both = agent.post(path, {"role": "ideator", "max_tasks": 1, "maxTasks": 1})
    assert problem(both, 422, "validation")
    problem(agent.post(path, {"project_id": str(uuid4()), "role": "ideator"}), 400, "scope-mismatch")
    problem(agent.post(f"/v1/projects/{uuid4()}/work-packages", {"role": "ideator"}), 404, "not-found")
    assert problem(agent.post("/v1/work-packages", {"role": "ideator"}), 422, "validation").keys() == {"project_id"}
    problem(owner.post(path, {"role": "ideator"}), 403, "forbidden")
    claim(agent, server.project_id, "experimenter")
    full = agent.post(path, {"role": "experimenter"})
    assert full.status_code in (200, 409)


def test_renewals_are_replayed_without_a_stored_body(server: LocalServer, agent: Api) -> None:
    given = claim(agent, server.project_id, "ideator")
    uid, token = given["resource"]["metadata"]["uid"], given["leaseToken"]
    path, key = f"/v1/work-packages/{uid}/renewals", str(uuid4())
    problem(agent.post(path, {}), 400, "lease-token-required")
    problem(agent.post(path, {}, **{"X-Lease-Token": "x" * 43}), 409, "lease-conflict")
    first = agent.post(path, {}, key=key, **{"X-Lease-Token": token})
    assert first.status_code == 200
    assert first.json()["resource"]["status"]["lease"]["renewals"] == 1
    assert "leaseToken" not in first.json()
    assert first.headers["etag"] == '"2"'
    assert agent.post(path, {}, key=key, **{"X-Lease-Token": token}).json() == first.json()
    assert agent.post(path, {}, **{"Lease-Token": token}).json()["resource"]["status"]["lease"]["renewals"] == 2


def test_release_needs_token_and_version_and_revoke_a_member(server: LocalServer, agent: Api, owner: Api) -> None:
    given = claim(agent, server.project_id, "ideator")
    path = f"/v1/work-packages/{given['resource']['metadata']['uid']}"
    lease = {"X-Lease-Token": given["leaseToken"]}
    body = {"operation": "release"}
    problem(agent.http.patch(path, json=body, headers=lease), 428, "precondition-required")
    problem(agent.patch(path, body), 400, "lease-token-required")
    problem(agent.http.patch(path, json=body, headers={**lease, "If-Match": '"7"'}), 412, "precondition-failed")
    problem(agent.patch(path, {"operation": "revoke"}), 403, "forbidden")
    problem(owner.patch(path, body), 403, "forbidden")
    released = agent.http.patch(path, json=body, headers={**lease, "If-Match": '"1"'})
    assert (released.status_code, released.json()["status"]["phase"]) == (200, "released")
    problem(agent.http.patch(path, json=body, headers={**lease, "If-Match": '"2"'}), 409, "lease-conflict")

    stuck = claim(agent, server.project_id, "ideator")
    path = f"/v1/work-packages/{stuck['resource']['metadata']['uid']}"
    revoked = owner.patch(path, {"operation": "revoke"})
    assert (revoked.status_code, revoked.json()["status"]["phase"]) == (200, "revoked")
    assert revoked.json()["status"]["lastModifiedBy"]["type"] == "user"
    refused = submit(agent, stuck, answers.idea(stuck["resource"]["status"]["tasks"][0]["input"]))
    problem(refused, 409, "lease-conflict")


def test_a_submission_is_confirmed_once_and_replayed(server: LocalServer, agent: Api) -> None:
    given = claim(agent, server.project_id, "hypothesis-reviewer")
    uid = given["resource"]["metadata"]["uid"]
    task = given["resource"]["status"]["tasks"][0]
    output, key = answers.hypothesis_review(task["input"]), str(uuid4())
    wrong = submit(agent, given, {"review": {**output["review"], "hypothesisId": str(uuid4())}})
    assert problem(wrong, 422, "validation").keys() == {"output.review.hypothesisId"}
    first = submit(agent, given, output, key=key)
    record, package = first.json()["resource"], first.json()["package"]
    assert first.status_code == 201
    assert first.headers["location"] == f"/v1/hypothesis-reviews/{record['metadata']['uid']}"
    assert (record["kind"], record["status"]["phase"]) == ("hypothesis-reviews", "recorded")
    assert (package["metadata"]["uid"], package["status"]["phase"]) == (uid, "completed")
    assert package["status"]["tasks"][0]["recordId"] == record["metadata"]["uid"]
    assert submit(agent, given, output, key=key).json() == first.json()
    problem(submit(agent, given, output), 409, "task-closed")
    other_task = {"taskId": str(uuid4()), "outcome": "failed", "reason": "lost"}
    path = f"/v1/work-packages/{uid}/submissions"
    problem(agent.post(path, other_task, **{"X-Lease-Token": given["leaseToken"]}), 404, "not-found")


def test_a_failed_outcome_has_no_record(server: LocalServer, agent: Api) -> None:
    given = claim(agent, server.project_id, "ideator")
    path = f"/v1/work-packages/{given['resource']['metadata']['uid']}/submissions"
    task_id = given["resource"]["status"]["tasks"][0]["taskId"]
    lease = {"X-Lease-Token": given["leaseToken"]}
    problem(agent.post(path, {"taskId": task_id, "outcome": "failed"}, **lease), 422, "validation")
    done = agent.post(path, {"task_id": task_id, "outcome": "failed", "reason": "The rig was down."}, **lease)
    assert done.status_code == 201
    assert set(done.json()) == {"package"}
    assert done.json()["package"]["status"]["tasks"][0]["outcome"] == "failed"


def test_opportunities_of_the_demo(server: LocalServer, agent: Api, owner: Api) -> None:
    items = agent.items("/v1/work-opportunities")
    assert [(item["project_name"], item["role"]) for item in items] == [
        *(("checkout-latency", role) for role in sorted(ROLES)),
        ("search-relevance", "experimenter"),
        ("search-relevance", "ideator"),
        ("search-relevance", "results-reviewer"),
    ]
    assert all(item["available"] > 0 for item in items)
    assert agent.items("/v1/work-opportunities", project_id=server.project_id, role="result_reviewer") == [
        item for item in items if item["project_id"] == server.project_id and item["role"] == "results-reviewer"
    ]
    assert agent.items("/v1/work-opportunities", project_id=str(uuid4())) == []
    problem(agent.get("/v1/work-opportunities", role="chief"), 400, "invalid-query")
    problem(owner.get("/v1/work-opportunities"), 403, "forbidden")
    pages = agent.get("/v1/work-opportunities", limit=3).json()
    assert pages["items"] == items[:3]
    assert agent.items("/v1/work-opportunities", limit=3, cursor=pages["next"]) == items[3:6]


def test_another_agents_packages_are_not_there(server: LocalServer, agent: Api, owner: Api) -> None:
    given = claim(agent, server.project_id, "ideator")
    path = f"/v1/work-packages/{given['resource']['metadata']['uid']}"
    agents = f"/v1/accounts/{server.account_id}/agent-identities"
    outsider = owner.make(agents, envelope("agent-identities", name="outsider"))["metadata"]["uid"]
    made = owner.make(f"/v1/agent-identities/{outsider}/tokens", envelope("agent-identity-tokens"))
    with Api(server, made["token"]) as thief:
        problem(thief.get(path), 404, "not-found")
        problem(thief.get(f"/v1/projects/{server.project_id}/work-packages"), 404, "not-found")
        lease = {"X-Lease-Token": given["leaseToken"]}
        problem(thief.post(f"{path}/renewals", {}, **lease), 404, "not-found")
        headers = {**lease, "If-Match": '"1"'}
        problem(thief.http.patch(path, json={"operation": "release"}, headers=headers), 404, "not-found")


def test_the_loop_on_both_databases(either_server: LocalServer) -> None:
    """Each role takes its work from the demo until an integration is proposed."""
    with Api(either_server, either_server.agent_token) as agent:
        for role in ROLES:
            given = claim(agent, either_server.project_id, role)
            renewed = agent.post(
                f"/v1/work-packages/{given['resource']['metadata']['uid']}/renewals",
                {},
                **{"X-Lease-Token": given["leaseToken"]},
            )
            assert renewed.status_code == 200
            done = submit(agent, given, answers.USUAL[role](given["resource"]["status"]["tasks"][0]["input"]))
            assert done.status_code == 201, done.text
        assert done.json()["resource"]["kind"] == "integrations"
        assert done.json()["resource"]["status"]["phase"] == "proposed"


def test_an_expired_lease_is_shown_and_swept(server: LocalServer, agent: Api) -> None:
    given = claim(agent, server.project_id, "experimenter")
    path = f"/v1/work-packages/{given['resource']['metadata']['uid']}"
    server.pass_time(901)
    shown = agent.get(path)
    assert (shown.json()["status"]["phase"], shown.headers["etag"]) == ("expired", '"2"')
    late = submit(agent, given, answers.report(given["resource"]["status"]["tasks"][0]["input"]))
    problem(late, 409, "lease-expired")
    again = claim(agent, server.project_id, "experimenter")
    assert again["resource"]["metadata"]["uid"] != given["resource"]["metadata"]["uid"]
