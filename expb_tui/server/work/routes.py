"""The work API (contract, sections 6.2.2 to 6.2.6)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, created, etag, item, result
from expb_tui.server.identity.access import grants_of_agent, require_member
from expb_tui.server.problems import Problem, forbidden, invalid, not_found
from expb_tui.server.resources import Command, Patch, RowOf, envelope
from expb_tui.server.routing import CURSOR_QUERY, LIST_QUERY, Operations, Param, Who
from expb_tui.server.store.research_tables import work_packages
from expb_tui.server.store.schema import agent_authorizations, projects
from expb_tui.server.work import leases
from expb_tui.server.work.assignment import assign
from expb_tui.server.work.expiry import lock_agent
from expb_tui.server.work.opportunities import opportunities
from expb_tui.server.work.packages import WORK_PACKAGES, empty_package, package_envelope
from expb_tui.server.work.submissions import submit
from expb_tui.wire.base import Page, WireModel
from expb_tui.wire.work import (
    LEASE_HEADER,
    ROLES,
    Opportunity,
    Submission,
    SubmissionResult,
    WorkPackage,
    WorkPackageResult,
    WorkRequest,
    canonical_role,
)

operations = Operations("work")

LEASE = Param(LEASE_HEADER, description="The lease token of the package; `Lease-Token` is accepted too.")


class Renewal(WireModel):
    """Nothing is said in a renewal."""


@operations.get(
    "/v1/work-opportunities",
    "listWorkOpportunities",
    "Work that the calling agent may ask for; with all=true also why there is none",
    who=Who.AGENT,
    query=(
        *CURSOR_QUERY,
        Param("project_id", description="Only of this project."),
        Param("role", description="Only for this role."),
        Param("all", "boolean", "Also roles without work, with their causes in `blocked_by`."),
    ),
    answers={200: Page[Opportunity]},
)
def list_opportunities(call: Call) -> Answer:
    role = call.query.get("role")
    if role is not None and canonical_role(role) not in ROLES:
        raise Problem(400, "invalid-query", fields={"role": f"must be one of {', '.join(ROLES)}"}, shape=True)
    grants = grants_of_agent(call)
    if "project_id" in call.query:
        grants = grants.where(projects.c.id == call.query["project_id"].lower())
    items = opportunities(
        call.conn,
        call.conn.execute(grants).all(),
        call.me.agent_id or "",
        call.now,
        role=canonical_role(role) if role else None,
        all_roles=call.query.get("all", False),
        self_review=call.services.settings.allow_self_review,
    )
    return lists.page_of(call, items, _opportunity_key, "work-opportunities")


def _opportunity_key(entry: Any) -> tuple[str, ...]:
    return entry["project_name"].casefold(), entry["project_id"], entry["role"]


@operations.post(
    "/v1/projects/{project}/work-packages",
    "requestWorkPackage",
    "Request a work package; the empty package is a normal answer",
    who=Who.AGENT,
    body=WorkRequest,
    answers={201: WorkPackageResult, 200: WorkPackageResult},
)
def request_in_project(call: Call, body: WorkRequest) -> Answer:
    if body.project_id is not None and body.project_id.lower() != call.path["project"]:
        raise Problem(
            400,
            "scope-mismatch",
            "The body names another project than the address.",
            fields={"project_id": "must be the project of the address"},
        )
    return _request(call, call.path["project"], body)


@operations.post(
    "/v1/work-packages",
    "requestWorkPackageByBody",
    "Request a work package of the project that the body names",
    who=Who.AGENT,
    body=WorkRequest,
    answers={201: WorkPackageResult, 200: WorkPackageResult},
)
def request_by_body(call: Call, body: WorkRequest) -> Answer:
    if not body.project_id:
        raise invalid({"project_id": "is required"})
    return _request(call, body.project_id.lower(), body)


def _request(call: Call, project_id: str, body: WorkRequest) -> Answer:
    given = assign(
        call,
        account_id=call.me.account_id,
        project_id=project_id,
        agent_id=call.me.agent_id or "",
        role=body.role,
        max_tasks=body.max_tasks,
        self_review=call.services.settings.allow_self_review,
    )
    if given.package is None:
        empty = empty_package(project_id, canonical_role(body.role), given.max_tasks)
        return Answer(empty, headers={"Cache-Control": "no-store"})
    return created(WORK_PACKAGES, given.package, leaseToken=given.token)


@operations.get(
    "/v1/projects/{project}/work-packages",
    "listWorkPackages",
    "The packages of a project; an agent sees its own",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[WorkPackage]},
)
def list_packages(call: Call) -> Answer:
    where = [work_packages.c.project_id == call.path["project"]]
    if call.me.type == "user":
        require_member(call, call.path["project"])
    else:
        # A revoked authorization does not hide what the agent may still be working on.
        grant = agent_authorizations.c
        known = select(grant.id).where(grant.project_id == call.path["project"], grant.agent_id == call.me.agent_id)
        if call.one(known) is None:
            raise not_found()
        where.append(work_packages.c.agent_id == call.me.agent_id)
    return lists.page(call, WORK_PACKAGES, *where, show=lambda row: package_envelope(row, call.now))


@operations.get(
    "/v1/work-packages/{uid}",
    "readWorkPackage",
    "A package, never with its token",
    who=Who.EITHER,
    answers={200: WorkPackage},
)
def read_package(call: Call) -> Answer:
    return _shown(call, _visible_package(call))


def _visible_package(call: Call) -> RowOf:
    row = call.fetch(WORK_PACKAGES, call.path["uid"])
    if row.agent_id != call.me.agent_id:
        require_member(call, row.project_id)
    return row


def _shown(call: Call, row: RowOf) -> Answer:
    body = package_envelope(row, call.now)
    return Answer(body, headers={"ETag": etag(body["metadata"]["version"])})


def _replayed_renewal(call: Call, status: int) -> Answer:
    shown = _shown(call, _visible_package(call))
    return Answer({"resource": shown.body}, status, shown.headers)


@operations.post(
    "/v1/work-packages/{uid}/renewals",
    "renewWorkPackage",
    "Renew the lease of a package",
    who=Who.AGENT,
    body=Renewal,
    headers=(LEASE,),
    answers={200: WorkPackageResult},
    replay=_replayed_renewal,
)
def renew_package(call: Call, body: Renewal) -> Answer:
    token = leases.lease_token(call.headers)
    return result(WORK_PACKAGES, leases.renew(call, call.path["uid"], call.me.agent_id or "", token))


@operations.post(
    "/v1/work-packages/{uid}/submissions",
    "submitTask",
    "Submit the outcome of one task",
    who=Who.AGENT,
    body=Submission,
    headers=(LEASE,),
    answers={201: SubmissionResult},
)
def submit_task(call: Call, body: Submission) -> Answer:
    token = leases.lease_token(call.headers)
    outcome, package = submit(call, call.path["uid"], call.me.agent_id or "", token, body)
    shown = envelope(WORK_PACKAGES, package)
    if outcome is None:
        return Answer({"package": shown}, 201)
    headers = {"ETag": etag(outcome.record.version), "Location": outcome.kind.path(outcome.record.id)}
    return Answer({"resource": envelope(outcome.kind, outcome.record), "package": shown}, 201, headers)


@operations.patch(
    "/v1/work-packages/{uid}",
    "endWorkPackage",
    "Release a package (its agent, with the lease token) or revoke it (a project member)",
    who=Who.EITHER,
    body=Patch(None, {"release": "released", "revoke": "revoked"}),
    headers=(LEASE,),
    answers={200: WorkPackage},
)
def end_package(call: Call, body: Command) -> Answer:
    if body.verb == "release":
        return item(WORK_PACKAGES, _release(call))
    return item(WORK_PACKAGES, _revoke(call))


def _release(call: Call) -> RowOf:
    if call.me.type != "agent":
        raise forbidden("Only the agent releases its package; a member revokes it.")
    token = leases.lease_token(call.headers)
    row = leases.lock_package(call, call.path["uid"], call.me.agent_id)
    leases.check_token(row, token)
    leases.check_active(call, row)
    call.match(row)
    return leases.release(call, row)


def _revoke(call: Call) -> RowOf:
    if call.me.type == "agent":
        leases.lock_package(call, call.path["uid"], call.me.agent_id)
        raise forbidden("An agent releases its package; a project member revokes it.")
    found = call.fetch(WORK_PACKAGES, call.path["uid"])
    require_member(call, found.project_id, lock=True)
    lock_agent(call, found.agent_id)
    row = call.fetch(WORK_PACKAGES, found.id, lock=True)
    call.read_clock()
    leases.check_active(call, row)
    call.match(row)
    return leases.revoke(call, row)
