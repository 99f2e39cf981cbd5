"""A service as upstream may be: it changes the lease token with each renewal, and keeps no digests of outputs."""

from __future__ import annotations

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.loopback import Loopback, Reply, Request, problem

AGENT_ID, ACCOUNT_ID, PROJECT_ID = "agt-1", "acc-1", "prj-1"


class Upstream(Loopback):
    """One agent, one project, any number of packages with one task each."""

    def __init__(self, *, lease: float = 900.0, delay: float = 0.0) -> None:
        """``lease`` in seconds; ``delay``: the longest time that an answer takes, after the act."""
        super().__init__(self._answer)
        self.packages: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, str] = {}
        self.lease = lease
        self.delay = delay
        self.claim_body: dict[str, Any] | None = None
        """A body to answer claims with, in place of the usual."""
        self._random = random.Random(7)

    def new_package(self) -> str:
        """An assigned package; its token is in ``tokens``."""
        uid = f"wp-{len(self.packages) + 1}"
        now = datetime.now(UTC)
        self.packages[uid] = {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "work-packages",
            "metadata": {"uid": uid, "project": PROJECT_ID, "version": 1, "creationTimestamp": now.isoformat()},
            "spec": {"role": "ideator", "agentId": AGENT_ID},
            "status": {
                "phase": "active",
                "lease": self._lease(now),
                "tasks": [{"taskId": f"task-{uid}", "role": "ideator", "phase": "assigned", "input": {}}],
            },
        }
        self.tokens[uid] = uuid.uuid4().hex
        return uid

    def _lease(self, now: datetime) -> dict[str, Any]:
        return {
            "issuedAt": now.isoformat(),
            "expiresAt": (now + timedelta(seconds=self.lease)).isoformat(),
            "absoluteExpiresAt": (now + timedelta(hours=4)).isoformat(),
            "leaseSeconds": self.lease,
            "renewals": 0,
        }

    async def _answer(self, request: Request) -> Reply:
        reply = self._act(request)
        if self.delay:
            await asyncio.sleep(self._random.random() * self.delay)
        return reply

    def _act(self, request: Request) -> Reply:
        parts = request.path.strip("/").split("/")
        if request.path == "/v1/principal":
            who = {"type": "agent", "account_id": ACCOUNT_ID, "agent_id": AGENT_ID, "credential_id": "cred-1"}
            return Reply(200, {**who, "role_grants": {PROJECT_ID: ["ideator"]}})
        if parts[-1] == "work-packages" and request.method == "POST":
            if self.claim_body is not None:
                return Reply(201, self.claim_body)
            uid = self.new_package()
            return Reply(201, {"resource": self.packages[uid], "lease_token": self.tokens[uid]})
        if parts[-1] == "work-packages":
            return Reply(200, {"items": list(self.packages.values())})
        package = self.packages.get(parts[2]) if len(parts) > 2 and parts[1] == "work-packages" else None
        if package is None:
            return problem(404, "not-found")
        if request.method == "GET":
            return Reply(200, package)
        if request.headers.get("x-lease-token") != self.tokens[package["metadata"]["uid"]]:
            return problem(409, "lease-conflict")
        return self._change(package, parts[-1], request)

    def _change(self, package: dict[str, Any], act: str, request: Request) -> Reply:
        uid = package["metadata"]["uid"]
        if package["status"]["phase"] != "active":
            return problem(409, "task-closed" if act == "submissions" else "lease-conflict")
        package["metadata"]["version"] += 1
        if act == "renewals":
            renewals = package["status"]["lease"]["renewals"] + 1
            package["status"]["lease"] = self._lease(datetime.now(UTC)) | {"renewals": renewals}
            self.tokens[uid] = uuid.uuid4().hex
            return Reply(200, {"resource": package, "leaseToken": self.tokens[uid]})
        if act == "submissions":
            package["status"]["phase"] = "completed"
            package["status"]["tasks"][0]["phase"] = "submitted"
            return Reply(
                201, {"resource": {"kind": "hypotheses", "metadata": {"uid": f"hyp-{uid}"}}, "package": package}
            )
        package["status"]["phase"] = "released"
        return Reply(200, package)
