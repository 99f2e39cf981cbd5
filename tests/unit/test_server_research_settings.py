"""Inheritance of roles, policies and limits: system, account, project."""

from __future__ import annotations

import pytest

from expb_tui.server.research.settings import (
    LIMITS,
    ROLE_NUMBERS,
    ProjectRules,
    Specs,
    load_rules,
    loosened,
    resolve_limit,
    resolve_policy,
    resolve_role,
)
from tests.support.research import Lab, lab

__all__ = ["lab"]


def test_nothing_set_means_the_defaults_of_the_contract() -> None:
    resolved = resolve_role(())
    assert resolved.values == {
        "enabled": True,
        "instructions": [],
        "ordering": "oldest-first",
        "maxTasks": 1,
        "leaseSeconds": 900,
        "absoluteLeaseSeconds": 14_400,
        "concurrentExperiments": 1,
        "assignmentIntervalSeconds": 0,
    }
    assert set(resolved.sources.values()) == {"system"}
    assert resolve_policy(()).values == {"hypothesisReview": False, "resultReview": False}


@pytest.mark.parametrize("field", ROLE_NUMBERS)
def test_a_narrower_scope_only_tightens_a_number(field: str) -> None:
    rule = ROLE_NUMBERS[field]
    loose, tight = (5, 9) if rule.tighter is max else (9, 5)
    tighter: Specs = [("account", {field: loose}), ("project", {field: tight})]
    looser: Specs = [("account", {field: tight}), ("project", {field: loose})]
    assert (resolve_role(tighter).values[field], resolve_role(tighter).sources[field]) == (tight, "project")
    assert (resolve_role(looser).values[field], resolve_role(looser).sources[field]) == (tight, "account")
    assert list(loosened("research-roles", "ideator", looser[:1], {field: loose})) == [f"spec.{field}"]
    assert loosened("research-roles", "ideator", tighter[:1], {field: tight}) == {}


def test_without_a_wider_value_the_default_is_no_bound() -> None:
    assert resolve_role([("project", {"maxTasks": 16})]).values["maxTasks"] == 16
    assert loosened("research-roles", "ideator", [], {"maxTasks": 16}) == {}


def test_off_anywhere_is_off() -> None:
    specs: Specs = [("account", {"enabled": False}), ("project", {"enabled": True})]
    assert (resolve_role(specs).values["enabled"], resolve_role(specs).sources["enabled"]) == (False, "account")
    assert list(loosened("research-roles", "ideator", specs[:1], {"enabled": True})) == ["spec.enabled"]


def test_a_lease_is_never_longer_than_its_absolute_end() -> None:
    resolved = resolve_role([("project", {"absoluteLeaseSeconds": 60})])
    assert (resolved.values["leaseSeconds"], resolved.sources["leaseSeconds"]) == (60, "project")


def test_gates_and_words_come_from_the_narrowest_scope() -> None:
    specs: Specs = [("account", {"hypothesisReview": True, "resultReview": True}), ("project", {"resultReview": False})]
    resolved = resolve_policy(specs)
    assert resolved.values == {"hypothesisReview": True, "resultReview": False}
    assert resolved.sources == {"hypothesisReview": "account", "resultReview": "project"}
    words: Specs = [("system", {"instructions": ["a"]}), ("project", {"instructions": ["b"]})]
    assert resolve_role(words).values["instructions"] == ["b"]


@pytest.mark.parametrize("name", LIMITS)
def test_the_lowest_limit_counts(name: str) -> None:
    specs: Specs = [("account", {"value": 3}), ("project", {"value": 7})]
    assert (resolve_limit(name, specs).values["value"], resolve_limit(name, specs).sources["value"]) == (3, "account")
    assert resolve_limit(name, ()).values["value"] == LIMITS[name].default
    assert list(loosened("limits", name, specs[:1], {"value": 4})) == ["spec.value"]
    assert loosened("limits", name, specs[:1], {"value": 3}) == {}


def test_rules_are_loaded_for_one_project_from_all_its_scopes(lab: Lab) -> None:
    desk, other = lab.project("one"), lab.project("two")
    desk.role("ideator", maxTasks=4)
    other.role("ideator", maxTasks=2)
    desk.limit("open-hypotheses", 5)
    with lab.database.read() as conn:
        mine, theirs = (load_rules(conn, lab.account_id, project.id) for project in (desk, other))
        account = load_rules(conn, lab.account_id, None)
    assert isinstance(mine, ProjectRules)
    assert (mine.role("ideator").max_tasks, theirs.role("ideator").max_tasks) == (4, 2)
    assert (mine.limit("open-hypotheses"), theirs.limit("open-hypotheses")) == (5, 16)
    assert account.specs == {}
