"""Roles, review policies and limits: what each scope sets, and what holds for a project (contract, section 6.2.8).

The scopes are system, account, project, from wide to narrow. Each row of ``research_settings`` holds only what its
scope sets; where nobody sets anything the built-in default counts, as the system's. One rule for each type of field:

- numbers: a narrower scope may only tighten what a wider one set (fewer tasks, shorter leases, longer intervals);
- ``enabled``: off anywhere is off;
- gates, instructions and ordering: the narrowest scope that says something decides.

Patches that would loosen are refused; a wider scope that tightens later wins all the same, because ``resolve_*``
applies the rule again at every reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import Connection, and_, bindparam, insert, or_, select

from expb_tui.server.context import Unit
from expb_tui.server.store.research_tables import research_settings
from expb_tui.wire.work import ROLES

Scope = Literal["system", "account", "project"]
SCOPES: tuple[Scope, ...] = ("system", "account", "project")
Specs = Sequence[tuple[Scope, Mapping[str, Any]]]
"""What the scopes set, from wide to narrow."""

Ordering = Literal["oldest-first", "newest-first"]
DEFAULT_ORDERING: Ordering = "oldest-first"


@dataclass(frozen=True, slots=True)
class NumberRule:
    """``default`` where no scope sets the field, its bounds, and which of two values is the tighter."""

    default: int
    least: int
    most: int
    tighter: Callable[[int, int], int] = min


ROLE_NUMBERS: Mapping[str, NumberRule] = {
    "maxTasks": NumberRule(1, 1, 16),
    "leaseSeconds": NumberRule(900, 1, 86_400),
    "absoluteLeaseSeconds": NumberRule(14_400, 1, 86_400),
    "concurrentExperiments": NumberRule(1, 1, 64),
    "assignmentIntervalSeconds": NumberRule(0, 0, 86_400, max),
}
"""Seconds where the name says so; ``concurrentExperiments`` counts what one agent holds in the project."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A limit that the server knows; ``default`` None is no limit. ``period`` in seconds, for rates."""

    default: int | None
    unit: str
    period: int | None = None


LIMITS: Mapping[str, LimitRule] = {
    "agent-active-packages": LimitRule(16, "packages"),  # that one agent holds in the project
    "concurrent-experiments": LimitRule(32, "experiments"),  # being run in the project, by all agents
    "open-hypotheses": LimitRule(16, "hypotheses"),  # not yet tested, rejected or combined, and ideas being worked out
    "requests-per-minute": LimitRule(None, "requests", 60),  # for work, by one agent
    "total-capacity": LimitRule(None, "records"),  # research records and packages of the project
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Effective values without nulls (a missing limit excepted), and the scope that each comes from."""

    values: dict[str, Any]
    sources: dict[str, Scope]


@dataclass(frozen=True, slots=True)
class RoleRules:
    """The effective configuration of one role in one project."""

    enabled: bool
    instructions: list[str]
    max_tasks: int
    lease_seconds: int
    absolute_lease_seconds: int
    concurrent_experiments: int
    assignment_interval_seconds: int
    ordering: str


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """All settings that bear on one project, as the scopes hold them."""

    specs: Mapping[tuple[str, str], Specs]

    def role(self, role: str) -> RoleRules:
        """The effective configuration of a role."""
        values = resolve_role(self.specs.get(("research-roles", role), ())).values
        return RoleRules(
            values["enabled"],
            values["instructions"],
            values["maxTasks"],
            values["leaseSeconds"],
            values["absoluteLeaseSeconds"],
            values["concurrentExperiments"],
            values["assignmentIntervalSeconds"],
            values["ordering"],
        )

    @property
    def hypothesis_review(self) -> bool:
        return bool(self._policy["hypothesisReview"])

    @property
    def result_review(self) -> bool:
        return bool(self._policy["resultReview"])

    @property
    def _policy(self) -> dict[str, Any]:
        return resolve_policy(self.specs.get(("review-policies", ""), ())).values

    def limit(self, name: str) -> int | None:
        """The effective value of a limit, None for none."""
        value: int | None = resolve_limit(name, self.specs.get(("limits", name), ())).values["value"]
        return value

    def period(self, name: str) -> int:
        """The period of a rate, in seconds."""
        return int(resolve_limit(name, self.specs.get(("limits", name), ())).values["periodSeconds"])


_TABLE = research_settings.c
_LOAD = select(_TABLE.kind, _TABLE.subject, _TABLE.account_id, _TABLE.project_id, _TABLE.spec).where(
    _TABLE.configured,
    or_(
        _TABLE.project_id == bindparam("of_project"),
        and_(_TABLE.account_id == bindparam("of_account"), _TABLE.project_id.is_(None)),
        _TABLE.account_id.is_(None),
    ),
)


def load_rules(conn: Connection, account_id: str | None, project_id: str | None) -> ProjectRules:
    """The settings that bear on a project; with None for it, on the account alone, and with None twice the system's."""
    specs: dict[tuple[str, str], list[tuple[Scope, Mapping[str, Any]]]] = {}
    for row in conn.execute(_LOAD, {"of_account": account_id, "of_project": project_id}):
        specs.setdefault((row.kind, row.subject), []).append((scope_of(row), row.spec))
    for found in specs.values():
        found.sort(key=lambda entry: SCOPES.index(entry[0]))
    return ProjectRules(specs)


def scope_of(row: Any) -> Scope:
    """The scope of a settings row."""
    if row.project_id is not None:
        return "project"
    return "system" if row.account_id is None else "account"


def resolve_role(specs: Specs) -> Resolved:
    """The effective fields of a role; ``leaseSeconds`` never exceeds ``absoluteLeaseSeconds``."""
    values: dict[str, Any] = {"enabled": True, "instructions": [], "ordering": DEFAULT_ORDERING}
    sources: dict[str, Scope] = dict.fromkeys(("enabled", "instructions", "ordering"), "system")
    for field, rule in ROLE_NUMBERS.items():
        values[field], sources[field] = _number(field, rule, specs)
    for scope, spec in specs:
        if spec.get("enabled") is not None and values["enabled"]:
            values["enabled"], sources["enabled"] = spec["enabled"], scope
        for field in ("instructions", "ordering"):
            if spec.get(field) is not None:
                values[field], sources[field] = spec[field], scope
    if values["leaseSeconds"] > values["absoluteLeaseSeconds"]:
        values["leaseSeconds"], sources["leaseSeconds"] = (
            values["absoluteLeaseSeconds"],
            sources["absoluteLeaseSeconds"],
        )
    return Resolved(values, sources)


def resolve_policy(specs: Specs) -> Resolved:
    """The effective gates."""
    values: dict[str, Any] = {"hypothesisReview": False, "resultReview": False}
    sources: dict[str, Scope] = dict.fromkeys(values, "system")
    for scope, spec in specs:
        for field in values:
            if spec.get(field) is not None:
                values[field], sources[field] = spec[field], scope
    return Resolved(values, sources)


def resolve_limit(name: str, specs: Specs) -> Resolved:
    """The effective ``value`` (None: no limit) and ``periodSeconds`` of a limit."""
    rule = LIMITS[name]
    value: int | None = None
    sources: dict[str, Scope] = {"value": "system", "periodSeconds": "system"}
    period = rule.period
    for scope, spec in specs:
        given = spec.get("value")
        if given is not None and (value is None or given < value):
            value, sources["value"] = given, scope
        if spec.get("periodSeconds") is not None:
            period, sources["periodSeconds"] = spec["periodSeconds"], scope
    return Resolved({"value": rule.default if value is None else value, "periodSeconds": period}, sources)


def loosened(kind: str, subject: str, wider: Specs, spec: Mapping[str, Any]) -> dict[str, str]:
    """What in ``spec`` a wider scope does not allow: field path to message, empty where all is well."""
    wrong: dict[str, str] = {}
    if kind == "research-roles":
        for field, rule in ROLE_NUMBERS.items():
            bound, source = _number(field, rule, wider)
            given = spec.get(field)
            is_set = any(scope_spec.get(field) is not None for _, scope_spec in wider)
            if given is not None and is_set and rule.tighter(given, bound) != given:
                word = "most" if rule.tighter is min else "least"
                wrong[f"spec.{field}"] = f"must be at {word} {bound}, which the {source} sets"
        if spec.get("enabled") and not resolve_role(wider).values["enabled"]:
            wrong["spec.enabled"] = f"the {resolve_role(wider).sources['enabled']} has switched this role off"
    elif kind == "limits":
        bounds = [(scope_spec["value"], scope) for scope, scope_spec in wider if scope_spec.get("value") is not None]
        given = spec.get("value")
        if given is not None and bounds and given > min(bounds)[0]:
            bound, source = min(bounds)
            wrong["spec.value"] = f"must be at most {bound}, which the {source} sets"
    return wrong


def open_account(unit: Unit, account_id: str) -> None:
    """The settings rows of a new account, all of them inheriting."""
    _open_scope(unit, account_id, None)


def open_project(unit: Unit, account_id: str, project_id: str) -> None:
    """The settings rows of a new project, all of them inheriting."""
    _open_scope(unit, account_id, project_id)


def _open_scope(unit: Unit, account_id: str, project_id: str | None) -> None:
    subjects: Iterable[tuple[str, str]] = (
        *(("research-roles", role) for role in ROLES),
        ("review-policies", ""),
        *(("limits", name) for name in LIMITS),
    )
    rows = []
    for kind, subject in subjects:
        uid = str(uuid4())
        name = subject or "review-policy"
        rows.append(
            {
                "id": uid,
                "name": name,
                "name_key": name,
                "labels": {},
                "version": 1,
                "created_at": unit.now,
                "updated_at": unit.now,
                "phase": "active",
                "authority": unit.actor.authority,
                "modified_by_type": unit.actor.type,
                "modified_by": unit.actor.id,
                "account_id": account_id,
                "project_id": project_id,
                "kind": kind,
                "subject": subject,
                "spec": {},
                "configured": False,
            }
        )
    unit.conn.execute(insert(research_settings), rows)


def _number(field: str, rule: NumberRule, specs: Specs) -> tuple[int, Scope]:
    value: int | None = None
    source: Scope = "system"
    for scope, spec in specs:
        given = spec.get(field)
        if given is None:
            continue
        tightened = given if value is None else rule.tighter(value, given)
        if tightened != value:
            value, source = tightened, scope
    return (rule.default if value is None else value), source
