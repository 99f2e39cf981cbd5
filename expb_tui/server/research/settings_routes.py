"""Reading and changing roles, review policies and limits, of projects, accounts and the system, by who runs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import ColumnElement, func, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, etag
from expb_tui.server.identity.access import account_admin, require_member
from expb_tui.server.problems import invalid, not_found
from expb_tui.server.research.gates import open_gates
from expb_tui.server.research.kinds import LIMITS_KIND, POLICIES_KIND, ROLES_KIND, system_kind
from expb_tui.server.research.settings import (
    LIMITS,
    ROLE_NUMBERS,
    SCOPES,
    Ordering,
    ProjectRules,
    Specs,
    load_rules,
    loosened,
    resolve_limit,
    resolve_policy,
    resolve_role,
    scope_of,
)
from expb_tui.server.resources import Edit, Kind, Patch, RowOf, edit_body, envelope, metadata_changes, present
from expb_tui.server.routing import LIST_QUERY, Operations, Who
from expb_tui.server.store.research_tables import claim_windows, research_settings, work_packages
from expb_tui.server.store.schema import projects
from expb_tui.server.work.expiry import lock_project
from expb_tui.server.work.stocktaking import count_capacity, read_usage
from expb_tui.wire.base import Page, Text, WireModel
from expb_tui.wire.research import Limit, ResearchRole, ReviewPolicy

operations = Operations("settings")

_LONGEST_PERIOD = 3600


def _number(name: str) -> Any:
    """A nullable number within the bounds of its rule."""
    rule = ROLE_NUMBERS[name]
    return Field(default=None, strict=True, ge=rule.least, le=rule.most)


class RoleEdit(WireModel):
    """What a scope sets of a role; null inherits again. Seconds where the name says so."""

    enabled: Annotated[bool, Field(strict=True)] | None = None
    instructions: Annotated[list[Text], Field(max_length=32)] | None = None
    max_tasks: int | None = _number("maxTasks")
    lease_seconds: int | None = _number("leaseSeconds")
    absolute_lease_seconds: int | None = _number("absoluteLeaseSeconds")
    concurrent_experiments: int | None = _number("concurrentExperiments")
    assignment_interval_seconds: int | None = _number("assignmentIntervalSeconds")
    ordering: Ordering | None = None


class PolicyEdit(WireModel):
    """Which reviews a scope requires; null inherits again."""

    hypothesis_review: Annotated[bool, Field(strict=True)] | None = None
    result_review: Annotated[bool, Field(strict=True)] | None = None


class LimitEdit(WireModel):
    """``value`` null inherits again; ``reason`` is kept for the record and not shown."""

    value: Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)] | None = None
    period_seconds: Annotated[int, Field(strict=True, ge=1, le=_LONGEST_PERIOD)] | None = None
    reason: Text | None = None


def status_of(call: Call, row: RowOf, rules: ProjectRules) -> dict[str, Any]:
    """The part of ``status`` that depends on the wider scopes."""
    specs = _specs_up_to(row, rules)
    if row.kind == ROLES_KIND.name:
        resolved = resolve_role(specs)
        return {"effective": {"role": row.subject, **resolved.values}, "sources": resolved.sources}
    if row.kind == POLICIES_KIND.name:
        resolved = resolve_policy(specs)
        return {"effective": resolved.values, "sources": resolved.sources}
    resolved = resolve_limit(row.subject, specs)
    effective = resolved.values["value"]
    period = resolved.values["periodSeconds"]
    usage = None if row.project_id is None else _usage(call, row.subject, row.project_id, period)
    over = None if effective is None or usage is None else usage > effective
    return present(
        {
            "effective": effective,
            "usage": usage,
            "limitingSource": None if effective is None else resolved.sources["value"],
            "overLimit": over,
        }
    )


def _specs_up_to(row: RowOf, rules: ProjectRules, *, own: bool = True) -> Specs:
    """What the scopes from the system down to the row's own set; without its own where ``own`` is False."""
    depth = SCOPES.index(scope_of(row)) + (1 if own else 0)
    return [entry for entry in rules.specs.get((row.kind, row.subject), ()) if entry[0] in SCOPES[:depth]]


def _usage(call: Call, name: str, project_id: str, period: int | None) -> int:
    """How much of a limit is used: by the agent that uses most where the limit is for one agent."""
    if name == "total-capacity":
        return count_capacity(call.conn, project_id)
    if name == "agent-active-packages":
        package = work_packages.c
        held = (
            select(func.count().label("held"))
            .where(package.project_id == project_id, package.phase == "active", package.expires_at > call.now)
            .group_by(package.agent_id)
            .subquery()
        )
        return call.conn.execute(select(func.max(held.c.held))).scalar() or 0
    if period is not None:
        window, since = claim_windows.c, call.now - timedelta(seconds=period)
        most = select(func.max(window.claims)).where(window.project_id == project_id, window.opened_at > since)
        return call.conn.execute(most).scalar() or 0
    usage = read_usage(call.conn, project_id, "", call.now)
    return usage.experiments if name == "concurrent-experiments" else usage.open_hypotheses + usage.ideas


def _shown(call: Call, kind: Kind, row: RowOf, rules: ProjectRules) -> dict[str, Any]:
    body = envelope(kind, row)
    body["status"].update(status_of(call, row, rules))
    return body


def _page(call: Call, kind: Kind, account_id: str | None, project_id: str | None) -> Answer:
    table = research_settings.c
    rules = load_rules(call.conn, account_id, project_id)
    where = (_same(table.account_id, account_id), _same(table.project_id, project_id))
    return lists.page(call, kind, *where, show=lambda row: _shown(call, kind, row, rules))


def _same(column: ColumnElement[Any], value: str | None) -> ColumnElement[bool]:
    return column.is_(None) if value is None else column == value


def _of_system(call: Call, kind: Kind) -> RowOf:
    """The system's settings row, for system sessions; the operation lets in nobody else."""
    row = call.fetch(kind, call.path["uid"])
    call.act_as("system-administrator")
    return row


def _administered(call: Call, kind: Kind, *, lock: bool = False) -> RowOf:
    """The settings row, for the members of its project or the administrators of its account."""
    row = call.fetch(kind, call.path["uid"])
    if row.project_id is not None:
        require_member(call, row.project_id, lock=lock)
    elif row.account_id is not None:
        account_admin(call, row.account_id)
    else:
        raise not_found()
    return row


def _item(call: Call, kind: Kind, row: RowOf) -> Answer:
    body = _shown(call, kind, row, load_rules(call.conn, row.account_id, row.project_id))
    return Answer(body, headers={"ETag": etag(row.version)})


def _edit(call: Call, kind: Kind, row: RowOf, body: Edit[Any]) -> Answer:
    call.match(row)
    call.read_clock()
    given = body.spec.model_dump(mode="json", by_alias=True, include=body.spec.model_fields_set)
    reason = given.pop("reason", row.reason)
    if given.get("periodSeconds") is not None and LIMITS[row.subject].period is None:
        raise invalid({"spec.periodSeconds": "this limit is not a rate"})
    if "name" in body.metadata.model_fields_set and body.metadata.name != row.name:
        raise invalid({"metadata.name": "is given by the server"})
    spec = present({**row.spec, **given})
    rules = load_rules(call.conn, row.account_id, row.project_id)
    wrong = loosened(row.kind, row.subject, _specs_up_to(row, rules, own=False), present(given))
    if wrong:
        raise invalid(wrong, "A narrower scope may only tighten what a wider one sets.")
    changes = metadata_changes(row, body)
    row = call.update(kind, row, **changes, spec=spec, configured=bool(spec), reason=reason)
    if row.kind == POLICIES_KIND.name:
        _let_pass(call, row)
    return _item(call, kind, row)


def _let_pass(call: Call, row: RowOf) -> None:
    """Open the gates that a changed policy switched off, in the project or in every project that inherits it."""
    if row.project_id is not None:
        open_gates(call, row.account_id, row.project_id)
        return
    inside = select(projects.c.id, projects.c.account_id).order_by(projects.c.id)
    if row.account_id is not None:
        inside = inside.where(projects.c.account_id == row.account_id)
    for project_id, account_id in call.conn.execute(inside).all():
        lock_project(call, project_id)
        call.read_clock()
        open_gates(call, account_id, project_id)


_PARTS: tuple[tuple[Kind, str, str, type[WireModel], type[WireModel]], ...] = (
    (ROLES_KIND, "ResearchRole", "configuration of the research roles", RoleEdit, ResearchRole),
    (POLICIES_KIND, "ReviewPolicy", "review policy", PolicyEdit, ReviewPolicy),
    (LIMITS_KIND, "Limit", "limits", LimitEdit, Limit),
)


def _declare(kind: Kind, word: str, title: str, edit: type[WireModel], model: type[WireModel]) -> None:
    plural = "ReviewPolicies" if word == "ReviewPolicy" else f"{word}s"
    patch = Patch(edit_body(kind, edit))
    page = Page[model]  # type: ignore[valid-type]  # a model chosen at run time

    @operations.get(
        f"/v1/projects/{{project}}/{kind.name}",
        f"listProject{plural}",
        f"The {title} of a project",
        who=Who.EITHER,
        query=LIST_QUERY,
        answers={200: page},
    )
    def list_of_project(call: Call) -> Answer:
        project = require_member(call, call.path["project"])
        return _page(call, kind, project.account_id, project.id)

    @operations.get(
        f"/v1/accounts/{{account}}/{kind.name}",
        f"listAccount{plural}",
        f"The {title} of an account, which its projects inherit",
        who=Who.EITHER,
        query=LIST_QUERY,
        answers={200: page},
    )
    def list_of_account(call: Call) -> Answer:
        account_admin(call, call.path["account"])
        return _page(call, kind, call.path["account"], None)

    @operations.get(f"/v1/{kind.name}/{{uid}}", f"read{word}", f"One {word}", who=Who.EITHER, answers={200: model})
    def read(call: Call) -> Answer:
        return _item(call, kind, _administered(call, kind))

    @operations.patch(
        f"/v1/{kind.name}/{{uid}}",
        f"edit{word}",
        f"Change the {title}: null inherits, and only a tighter value is taken",
        who=Who.EITHER,
        body=patch,
        answers={200: model},
    )
    def change(call: Call, body: Edit[Any]) -> Answer:
        return _edit(call, kind, _administered(call, kind, lock=True), body)

    of_system = system_kind(kind)
    base = f"{of_system.base}/{kind.name}"

    @operations.get(
        base,
        f"listSystem{plural}",
        f"The {title} of the system, which every account inherits",
        who=Who.SYSTEM,
        query=LIST_QUERY,
        answers={200: page},
    )
    def list_of_system(call: Call) -> Answer:
        return _page(call, of_system, None, None)

    @operations.get(
        of_system.path("{uid}"), f"readSystem{word}", f"One {word} of the system", who=Who.SYSTEM, answers={200: model}
    )
    def read_of_system(call: Call) -> Answer:
        return _item(call, of_system, _of_system(call, of_system))

    @operations.patch(
        of_system.path("{uid}"),
        f"editSystem{word}",
        f"Change the {title} of the system: null leaves it to the defaults",
        who=Who.SYSTEM,
        body=patch,
        answers={200: model},
    )
    def change_of_system(call: Call, body: Edit[Any]) -> Answer:
        return _edit(call, of_system, _of_system(call, of_system), body)


for _part in _PARTS:
    _declare(*_part)
