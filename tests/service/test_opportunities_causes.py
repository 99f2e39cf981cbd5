"""Emptiness explained: each of the six causes set alone on the server is shown, and no other (hazards 20)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.work import WorkApi
from expb_tui.core.opportunities import Answer, explain
from expb_tui.core.profiles.store import Profile
from expb_tui.core.secret import SecretStr
from tests.support.desk import Home, at_home
from tests.support.loopback import FaultyWay, problem
from tests.support.server import LocalServer


class Owner:
    """The project's owner, changing one thing."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.tokens = server.sign_in()
        self.http = server.client(self.tokens["access_token"])

    def _list(self, collection: str) -> list[dict[str, Any]]:
        answer = self.http.get(f"/v1/projects/{self.server.project_id}/{collection}")
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def change(self, collection: str, item: dict[str, Any], body: dict[str, Any]) -> None:
        path = f"/v1/{collection}/{item['metadata']['uid']}"
        etag = self.http.get(path).headers["etag"]
        answer = self.http.patch(path, json=body, headers={"If-Match": etag})
        assert answer.status_code == 200, answer.text

    def suspend(self) -> None:
        project = self.http.get(f"/v1/projects/{self.server.project_id}").json()
        self.change("projects", project, {"operation": "suspend"})

    def pause_objectives(self) -> None:
        for item in self._list("objectives"):
            if item["status"]["phase"] == "active":
                self.change("objectives", item, {"operation": "pause"})

    def disable(self, role: str = "ideator") -> None:
        (item,) = [one for one in self._list("research-roles") if one["spec"]["role"] == role]
        self.change("research-roles", item, {"spec": {"enabled": False}})

    def hold(self) -> None:
        body = {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "holds",
            "metadata": {},
            "spec": {"targetKind": "project", "targetId": self.server.project_id, "reason": "Release week"},
        }
        answer = self.http.post(
            f"/v1/projects/{self.server.project_id}/holds", json=body, headers={"Idempotency-Key": "hold-1"}
        )
        assert answer.status_code == 201, answer.text

    def limit(self) -> None:
        (item,) = [one for one in self._list("limits") if one["metadata"]["name"] == "agent-active-packages"]
        self.change("limits", item, {"spec": {"value": 0}})

    def close_gate(self) -> None:
        (item,) = self._list("review-policies")
        self.change("review-policies", item, {"spec": {"hypothesisReview": False}})


CAUSES: dict[str, tuple[Callable[[Owner], None], str]] = {
    "project-inactive": (Owner.suspend, "ideator"),
    "objective-inactive": (Owner.pause_objectives, "ideator"),
    "role-disabled": (Owner.disable, "ideator"),
    "hold": (Owner.hold, "ideator"),
    "limit": (Owner.limit, "ideator"),
    "review-gate": (Owner.close_gate, "hypothesis-reviewer"),
}


def owner_profile(home: Home, owner: Owner) -> None:
    home.store.put(
        Profile(
            "owner",
            "user",
            endpoint=owner.server.address,
            account_id=owner.tokens["account_id"],
            token=SecretStr(owner.tokens["access_token"]),
        )
    )


@pytest.mark.parametrize("cause", list(CAUSES))
async def test_a_cause_alone_is_shown_alone(tmp_path: Path, server: LocalServer, cause: str) -> None:
    owner = Owner(server)
    change, role = CAUSES[cause]
    async with at_home(tmp_path, server) as home:
        session = home.session()
        before = await explain(session, server.project_id, role)
        assert {one.answer for one in before} == {Answer.OK}
        change(owner)
        found = await explain(session, server.project_id, role)
        assert [one.name for one in found if one.answer is Answer.BLOCKING] == [cause]
        assert len(found) == 6
        blocking = next(one for one in found if one.name == cause)
        assert blocking.detail
        assert blocking.next_step
        page = await WorkApi().opportunities(session, project_id=server.project_id, role=role, every=True)
        assert page.items[0].blocked_by == (cause,)

        owner_profile(home, owner)
        watched = await explain(session, server.project_id, role, watcher=home.session("owner"))
        assert [one.name for one in watched if one.answer is Answer.BLOCKING] == [cause]
        detail = next(one.detail for one in watched if one.name == cause)
        words = {
            "project-inactive": "suspended",
            "objective-inactive": "is paused",
            "role-disabled": "by the project",
            "hold": "Release week",
            "limit": "of 0",
            "review-gate": "is off",
        }
        assert words[cause] in detail


@pytest.mark.parametrize("cause", ["project-inactive", "objective-inactive", "role-disabled", "hold", "limit"])
async def test_where_the_service_says_nothing_the_records_do(tmp_path: Path, server: LocalServer, cause: str) -> None:
    """A service that knows no ``?all=true``: what the credentials can read decides, and what they cannot is said."""
    owner = Owner(server)
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        way.fault = lambda request: problem(400, "invalid-query") if "all=true" in request.target else "pass"
        CAUSES[cause][0](owner)
        session = home.session()
        alone = {one.name: one.answer for one in await explain(session, server.project_id, "ideator")}
        assert alone["limit"] is Answer.HIDDEN
        assert alone["hold"] is Answer.HIDDEN
        owner_profile(home, owner)
        found = await explain(session, server.project_id, "ideator", watcher=home.session("owner"))
        assert [one.name for one in found if one.answer is Answer.BLOCKING] == [cause]


async def test_a_role_that_is_not_granted_is_said_first(tmp_path: Path, server: LocalServer) -> None:
    owner = Owner(server)
    (mine,) = [one for one in owner._list("agent-authorizations") if one["spec"]["agentId"] == server.agent_id]
    owner.change("agent-authorizations", mine, {"spec": {"roles": ["experimenter"]}})
    async with at_home(tmp_path, server) as home:
        found = await explain(home.session(), server.project_id, "ideator")
        assert (found[0].name, found[0].answer) == ("not-authorized", Answer.BLOCKING)
        assert "administrator" in found[0].next_step
        assert len(found) == 7
