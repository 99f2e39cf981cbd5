"""Research records and settings over HTTP: who may see and change what (contract, sections 6.2.2 and 6.2.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from expb_tui.server.context import Unit
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.identity.people import create_user
from expb_tui.server.research.kinds import (
    EXPERIMENTS,
    HOLDS,
    HYPOTHESES,
    HYPOTHESIS_REVIEWS,
    INTEGRATIONS,
    OBJECTIVES,
    RESULT_REVIEWS,
    RESULTS,
    ROLES_KIND,
)
from expb_tui.server.work.packages import WORK_PACKAGES
from expb_tui.wire.base import RESEARCH_GROUP
from expb_tui.wire.research import Objective, ResearchRole
from tests.support import answers
from tests.support.api import Api, envelope, problem
from tests.support.server import LocalServer

SPEC: dict[str, Any] = {
    "description": "Lower checkout latency",
    "measure": {"name": "p95_ms", "unit": "ms", "direction": "minimize", "baseline": 455, "target": 380.0},
    "constraints": [{"name": "error_rate", "operator": "<=", "value": 0.01, "unit": "ratio"}],
}
COLLECTIONS = (
    "objectives",
    "hypotheses",
    "hypothesis-reviews",
    "experiments",
    "results",
    "result-reviews",
    "integrations",
)
SETTINGS = ("research-roles", "review-policies", "limits", "holds")


@pytest.fixture
def agent(server: LocalServer) -> Iterator[Api]:
    with Api(server, server.agent_token) as api:
        yield api


@pytest.fixture
def owner(server: LocalServer) -> Iterator[Api]:
    with Api(server, server.sign_in()["access_token"]) as api:
        yield api


def project(server: LocalServer, collection: str) -> str:
    return f"/v1/projects/{server.project_id}/{collection}"


def only(items: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """The item whose spec, or name, is like this."""
    found = [item for item in items if all({**item["metadata"], **item["spec"]}.get(k) == v for k, v in spec.items())]
    assert len(found) == 1, items
    return found[0]


def test_members_and_agents_read_the_records_of_their_projects(server: LocalServer, agent: Api, owner: Api) -> None:
    for collection in COLLECTIONS:
        items = owner.items(project(server, collection))
        assert items, collection
        assert agent.items(project(server, collection)) == items
        one = items[0]
        read = agent.get(f"/v1/{collection}/{one['metadata']['uid']}")
        assert read.json() == one
        assert read.headers["etag"] == f'"{one["metadata"]["version"]}"'
        problem(owner.get(f"/v1/{collection}/{uuid4()}"), 404, "not-found")
        problem(owner.get(f"/v1/projects/{uuid4()}/{collection}"), 404, "not-found")
    for collection in SETTINGS:
        problem(agent.get(project(server, collection)), 404, "not-found")


def test_the_demo_tells_a_story(server: LocalServer, owner: Api) -> None:
    phases = sorted(item["status"]["phase"] for item in owner.items(project(server, "hypotheses")))
    assert phases == [*["combined"] * 2, "in-experiment", *["proposed"] * 2, "ready", "rejected", *["tested"] * 3]
    combined = [item for item in owner.items(project(server, "hypotheses")) if item["spec"]["parentIds"]]
    assert len(combined) == 1
    assert len(combined[0]["spec"]["parentIds"]) == 2
    objective = only(owner.items(project(server, "objectives")), name="p95-latency")
    best = owner.get(f"/v1/results/{objective['status']['best']['resultId']}").json()
    assert objective["status"]["best"]["value"] == best["spec"]["measurement"]["value"] == 396.4
    reviews = owner.items(project(server, "result-reviews"), fields="spec.verdict=request-evidence")
    assert len(reviews) == 1
    assert len(owner.items(project(server, "experiments"), fields="status.phase=queued")) == 1


def test_an_objective_from_draft_to_closed(server: LocalServer, agent: Api, owner: Api) -> None:
    body = envelope("objectives", SPEC, group=RESEARCH_GROUP, name="second", labels={"team": "checkout"})
    made = owner.post(project(server, "objectives"), body)
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    objective = made.json()
    assert objective["spec"] == {**SPEC, "measure": {**SPEC["measure"], "baseline": 455.0}}
    assert objective["status"]["phase"] == "draft"
    assert objective["status"]["authority"] == "project-administrator"
    Objective.model_validate(objective)
    path = f"/v1/objectives/{objective['metadata']['uid']}"
    problem(agent.post(project(server, "objectives"), body), 404, "not-found")
    problem(agent.patch(path, {"operation": "activate"}), 404, "not-found")
    problem(owner.patch(path, {"operation": "pause"}), 409, "phase-conflict")
    problem(owner.patch(path, {"operation": "activate"}, version=None), 428, "precondition-required")
    assert owner.patch(path, {"operation": "activate"}).json()["status"]["phase"] == "active"
    problem(owner.patch(path, {"operation": "pause"}), 412, "precondition-failed")
    changed = owner.patch(path, {"spec": {"description": "Faster", "constraints": []}}, version=2).json()
    assert changed["spec"] == {**objective["spec"], "description": "Faster", "constraints": []}
    ideas = agent.items("/v1/work-opportunities", project_id=server.project_id, role="ideator")
    assert ideas[0]["available"] == 2
    for version, (verb, phase) in enumerate((("pause", "paused"), ("achieve", "achieved"), ("close", "closed")), 3):
        assert owner.patch(path, {"operation": verb}, version=version).json()["status"]["phase"] == phase
    problem(owner.patch(path, {"operation": "activate"}, version=6), 409, "phase-conflict")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"measure": {**SPEC["measure"], "direction": "sideways"}}, "spec.measure.direction"),
        ({"measure": {"name": "x", "unit": "ms"}}, "spec.measure.direction"),
        ({"measure": None}, "spec.measure"),
        ({"constraints": SPEC["constraints"] * 2}, "spec.constraints.1.name"),
        ({"constraints": [{**SPEC["constraints"][0], "value": "1"}]}, "spec.constraints.0.value"),
        ({"best": 5}, "spec.best"),
    ],
)
def test_a_bad_objective_is_refused_with_its_path(
    server: LocalServer, owner: Api, change: dict[str, Any], field: str
) -> None:
    body = envelope("objectives", {**SPEC, **change}, group=RESEARCH_GROUP)
    assert field in problem(owner.post(project(server, "objectives"), body), 422, "validation")
    first = owner.items(project(server, "objectives"))[0]["metadata"]
    patched = owner.patch(f"/v1/objectives/{first['uid']}", {"spec": change}, version=first["version"])
    assert field in problem(patched, 422, "validation")


def test_a_new_measure_judges_the_best_anew(server: LocalServer, owner: Api) -> None:
    objective = only(owner.items(project(server, "objectives")), name="p95-latency")
    path, version = f"/v1/objectives/{objective['metadata']['uid']}", objective["metadata"]["version"]
    measure = {**objective["spec"]["measure"], "name": "p99_ms"}
    changed = owner.patch(path, {"spec": {"measure": measure}}, version=version).json()
    assert "best" not in changed["status"]
    back = {"spec": {"measure": objective["spec"]["measure"]}}
    restored = owner.patch(path, back, version=changed["metadata"]["version"]).json()
    assert restored["status"]["best"] == objective["status"]["best"]


def test_a_role_is_configured_by_its_scopes(server: LocalServer, agent: Api, owner: Api) -> None:
    role = only(owner.items(project(server, "research-roles"), fields="spec.role=ideator"))
    ResearchRole.model_validate(role)
    effective = role["status"]["effective"]
    assert effective["role"] == "ideator"
    assert (effective["maxTasks"], role["status"]["sources"]["maxTasks"]) == (1, "system")
    assert role["status"]["sources"]["instructions"] == "project"
    path, version = f"/v1/research-roles/{role['metadata']['uid']}", role["metadata"]["version"]
    account = only(owner.items(f"/v1/accounts/{server.account_id}/research-roles"), role="ideator")
    assert "project" not in account["metadata"]
    tight = {"spec": {"maxTasks": 4, "leaseSeconds": 600}}
    assert owner.patch(f"/v1/research-roles/{account['metadata']['uid']}", tight).status_code == 200

    assert owner.get(path).json()["status"]["effective"]["leaseSeconds"] == 600
    loose = owner.patch(path, {"spec": {"leaseSeconds": 900}}, version=version)
    assert problem(loose, 422, "validation") == {"spec.leaseSeconds": "must be at most 600, which the account sets"}
    mine = owner.patch(path, {"spec": {"leaseSeconds": 30, "instructions": None}}, version=version).json()
    assert mine["status"]["effective"]["leaseSeconds"] == 30
    assert mine["status"]["effective"]["instructions"] == []
    assert mine["spec"] == {"role": "ideator", "leaseSeconds": 30}
    given = agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "ideator", "max_tasks": 99}).json()
    assert given["resource"]["status"]["lease"]["leaseSeconds"] == 30
    assert given["resource"]["spec"]["maxTasks"] == 4
    for wrong in ({"maxTasks": 17}, {"maxTasks": 0}, {"maxTasks": "2"}, {"role": "x"}, {"ordering": "random"}):
        refused = owner.patch(path, {"spec": wrong}, version=version + 1)
        assert problem(refused, 422, "validation").keys() == {f"spec.{next(iter(wrong))}"}
    problem(agent.patch(path, {"spec": {"maxTasks": 1}}), 404, "not-found")


def test_a_gate_switched_off_over_http_lets_the_queue_pass(server: LocalServer, agent: Api, owner: Api) -> None:
    policy = only(owner.items(project(server, "review-policies")))
    assert policy["status"]["effective"] == {"hypothesisReview": True, "resultReview": True}
    path, version = f"/v1/review-policies/{policy['metadata']['uid']}", policy["metadata"]["version"]
    queued = len(owner.items(project(server, "experiments"), fields="status.phase=queued"))
    off = owner.patch(path, {"spec": {"hypothesisReview": None}}, version=version).json()
    assert off["status"]["sources"] == {"hypothesisReview": "system", "resultReview": "project"}
    assert len(owner.items(project(server, "experiments"), fields="status.phase=queued")) == queued + 2
    shown = agent.items("/v1/work-opportunities", role="hypothesis-reviewer", all="true")
    assert only([{"metadata": {}, "spec": item} for item in shown], project_id=server.project_id)["spec"][
        "blocked_by"
    ] == ["review-gate"]

    account = only(owner.items(f"/v1/accounts/{server.account_id}/review-policies"))
    account_path = f"/v1/review-policies/{account['metadata']['uid']}"
    assert owner.patch(account_path, {"spec": {"hypothesisReview": True}}).status_code == 200
    assert owner.get(path).json()["status"]["effective"]["hypothesisReview"] is True
    idea = agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "ideator"}).json()
    task = idea["resource"]["status"]["tasks"][0]
    agent.post(
        f"/v1/work-packages/{idea['resource']['metadata']['uid']}/submissions",
        {"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])},
        **{"X-Lease-Token": idea["leaseToken"]},
    )
    assert len(owner.items(project(server, "hypotheses"), fields="status.phase=proposed")) == 1
    assert owner.patch(account_path, {"spec": {"hypothesisReview": False}}, version=2).status_code == 200
    assert owner.items(project(server, "hypotheses"), fields="status.phase=proposed") == []


def test_limits_show_their_use_and_keep_it(server: LocalServer, agent: Api, owner: Api) -> None:
    limits = {item["metadata"]["name"]: item for item in owner.items(project(server, "limits"))}
    assert set(limits) == {
        "agent-active-packages",
        "concurrent-experiments",
        "open-hypotheses",
        "requests-per-minute",
        "total-capacity",
    }
    assert all(item["apiVersion"] == "identity.sre-norns.com/v1" for item in limits.values())
    assert limits["open-hypotheses"]["status"]["usage"] == 4
    assert limits["requests-per-minute"]["spec"] == {"unit": "requests", "periodSeconds": 60}
    assert "effective" not in limits["total-capacity"]["status"]
    path = f"/v1/limits/{limits['open-hypotheses']['metadata']['uid']}"
    lowered = owner.patch(path, {"spec": {"value": 3, "reason": "too many ideas"}}).json()
    assert lowered["status"]["effective"] == 3
    assert lowered["status"]["overLimit"] is True
    assert lowered["status"]["limitingSource"] == "project"
    assert "reason" not in str(lowered)
    refused = agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "ideator"})
    assert problem(refused, 409, "limit-exceeded") == {"limit": "open-hypotheses"}
    assert problem(owner.patch(path, {"spec": {"periodSeconds": 5}}, version=2), 422, "validation")
    assert problem(owner.patch(path, {"spec": {"value": -1}}, version=2), 422, "validation")
    capacity = f"/v1/limits/{limits['total-capacity']['metadata']['uid']}"
    assert owner.patch(capacity, {"spec": {"value": 1}}).json()["status"]["usage"] > 30
    body = envelope("objectives", SPEC, group=RESEARCH_GROUP)
    assert problem(owner.post(project(server, "objectives"), body), 409, "limit-exceeded") == {
        "limit": "total-capacity"
    }


def test_a_hold_stops_assignment_until_it_is_released(server: LocalServer, agent: Api, owner: Api) -> None:
    ready = only(owner.items(project(server, "hypotheses"), fields="status.phase=ready"))
    running = agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "ideator"}).json()
    spec = {"targetKind": "hypotheses", "targetId": ready["metadata"]["uid"], "reason": "Ask legal first."}
    made = owner.make(project(server, "holds"), envelope("holds", spec, group=RESEARCH_GROUP))
    assert made["spec"] == {**spec, "targetKind": "hypothesis"}
    assert made["status"]["phase"] == "active"
    assert agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "experimenter"}).status_code == 200
    renewal = f"/v1/work-packages/{running['resource']['metadata']['uid']}/renewals"
    assert agent.post(renewal, {}, **{"X-Lease-Token": running["leaseToken"]}).status_code == 200
    path = f"/v1/holds/{made['metadata']['uid']}"
    problem(agent.get(path), 404, "not-found")
    assert owner.get(path).json() == made
    released = owner.patch(path, {"operation": "release"})
    assert released.json()["status"]["phase"] == "released"
    problem(owner.patch(path, {"operation": "release"}, version=2), 409, "phase-conflict")
    assert agent.post(f"/v1/projects/{server.project_id}/work-packages", {"role": "experimenter"}).status_code == 201
    for wrong, field in (({"targetId": str(uuid4())}, "spec.targetId"), ({"targetKind": "results"}, "spec.targetKind")):
        body = envelope("holds", {**spec, **wrong}, group=RESEARCH_GROUP)
        assert field in problem(owner.post(project(server, "holds"), body), 422, "validation")


def test_people_decide_about_an_integration(server: LocalServer, agent: Api, owner: Api) -> None:
    proposed = only(owner.items(project(server, "integrations")))
    path = f"/v1/integrations/{proposed['metadata']['uid']}"
    problem(agent.patch(path, {"operation": "apply"}), 404, "not-found")
    assert owner.patch(path, {"operation": "apply"}).json()["status"]["phase"] == "applied"
    problem(owner.patch(path, {"operation": "decline"}, version=2), 409, "phase-conflict")


def test_another_account_sees_nothing(server: LocalServer, owner: Api) -> None:
    services = server.services
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        stranger = create_user(unit, email="eve@example.test", password_hash=services.passwords.hash("pass phrase"))
        create_account(unit, stranger.id, name="Elsewhere")
    with Api(server, server.sign_in(email="eve@example.test", password="pass phrase")["access_token"]) as eve:
        for collection in (*COLLECTIONS, *SETTINGS, "work-packages"):
            problem(eve.get(project(server, collection)), 404, "not-found")
            for item in owner.items(project(server, collection), limit=1):
                path = f"/v1/{collection}/{item['metadata']['uid']}"
                problem(eve.get(path), 404, "not-found")
        problem(eve.get(f"/v1/accounts/{server.account_id}/limits"), 404, "not-found")


def test_every_selectable_path_selects_on_both_databases(either_server: LocalServer) -> None:
    kinds = (OBJECTIVES, HYPOTHESES, HYPOTHESIS_REVIEWS, EXPERIMENTS, RESULTS, RESULT_REVIEWS, INTEGRATIONS, HOLDS)
    with Api(either_server, either_server.sign_in()["access_token"]) as owner:
        for kind in (*kinds, WORK_PACKAGES, ROLES_KIND):
            for path in kind.selectable:
                known = owner.items(project(either_server, kind.name), fields=path, limit=1)
                named = owner.get(project(either_server, kind.name), fields=f"{path}=nothing-of-the-kind")
                assert named.status_code in (200, 400), (kind.name, path, named.text)
                assert known or kind.name == "holds" or path == "status.reviewId", (kind.name, path)
        accepted = owner.items(project(either_server, "result-reviews"), fields="spec.verdict=accept")
        assert len(accepted) == 3
        assert {item["spec"]["verdict"] for item in accepted} == {"accept"}
        unlike = owner.items(project(either_server, "results"), fields="spec.conclusion!=supported")
        assert {item["spec"]["conclusion"] for item in unlike} == {"refuted"}


def test_a_page_of_large_records_ends_early_and_goes_on(either_server: LocalServer) -> None:
    database = either_server.services.database
    with Api(either_server, either_server.sign_in()["access_token"]) as owner:
        objective = owner.items(project(either_server, "objectives"))[0]["metadata"]
        known = {item["metadata"]["uid"] for item in owner.items(project(either_server, "hypotheses"))}
        with database.write() as conn:
            unit = Unit(conn, database)
            for _ in range(20):
                row = unit.insert(
                    HYPOTHESES,
                    spec={"statement": "x" * 1_000_000},
                    account_id=either_server.account_id,
                    project_id=either_server.project_id,
                    objective_id=objective["uid"],
                )
                known.add(row.id)
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 1000}
        while True:
            answer = owner.get(project(either_server, "hypotheses"), **query)
            assert len(answer.content) < 12_000_000
            page = answer.json()
            assert page["total"] == len(known)
            seen += [item["metadata"]["uid"] for item in page["items"]]
            if "next" not in page:
                break
            query["cursor"] = page["next"]
    assert len(seen) == len(set(seen)) == len(known)
    assert set(seen) == known
