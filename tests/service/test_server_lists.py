"""Pages, cursors and selectors, on both databases (contract, section 1.8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from expb_tui.server.context import Unit
from expb_tui.server.identity.kinds import AGENT_IDENTITIES
from tests.support.api import Api, problem
from tests.support.server import LocalServer

NAMES = [f"agent-{number:02}" for number in range(12)]


@pytest.fixture
def listed(either_server: LocalServer) -> Iterator[tuple[Api, str]]:
    """An owner, and the list of an account with the demo's agents and twelve more, some made in the same instant."""
    server = either_server
    database = server.services.database
    with database.write() as conn:
        unit = Unit(conn, database)
        for number, name in enumerate(NAMES):
            if number % 3 == 0:
                unit.read_clock()
            labels = {"tier": "gold" if number % 2 else "iron", "rank": str(number)} if number < 10 else {}
            unit.insert(
                AGENT_IDENTITIES,
                account_id=server.account_id,
                name=name,
                labels=labels,
                phase="active" if number else "revoked",
            )
    with Api(server, server.sign_in()["access_token"]) as api:
        yield api, f"/v1/accounts/{server.account_id}/agent-identities"


def names(api: Api, path: str, **query: str | int) -> list[str]:
    return sorted(item["metadata"]["name"] for item in api.items(path, **query) if item["metadata"]["name"] in NAMES)


def test_pages_follow_one_another(listed: tuple[Api, str]) -> None:
    api, path = listed
    whole = api.items(path)
    keys = [(item["metadata"]["creationTimestamp"], item["metadata"]["uid"]) for item in whole]
    assert keys == sorted(keys, reverse=True)
    collected, query = [], {"limit": 5}
    while True:
        page = api.get(path, **query).json()
        assert page["limit"] == 5
        assert page["total"] == len(whole)
        collected += page["items"]
        if "next" not in page:
            break
        query = {"limit": 5, "cursor": page["next"]}
    assert collected == whole


def test_a_cursor_holds_while_others_are_added(listed: tuple[Api, str], either_server: LocalServer) -> None:
    api, path = listed
    first = api.get(path, limit=5).json()
    with either_server.services.database.write() as conn:
        Unit(conn, either_server.services.database).insert(
            AGENT_IDENTITIES, account_id=either_server.account_id, name="late"
        )
    rest = api.items(path, cursor=first["next"])
    seen = {item["metadata"]["name"] for item in [*first["items"], *rest]}
    assert set(NAMES) <= seen
    assert "late" not in seen


LIMITS = [(0, 100), (1, 1), (1024, 1024), (999_999, 1024)]


def test_limits_are_clamped(listed: tuple[Api, str]) -> None:
    api, path = listed
    for limit, answered in LIMITS:
        assert api.get(path, limit=limit).json()["limit"] == answered


REFUSED = [
    ({"limit": "ten"}, "invalid-query"),
    ({"limit": "-1"}, "invalid-query"),
    ({"limit": "1e3"}, "invalid-query"),
    ({"limit": "٣"}, "invalid-query"),
    ({"offset": "0"}, "offset-unsupported"),
    ({"page": "1"}, "offset-unsupported"),
    ({"pageSize": "0"}, "offset-unsupported"),
    ({"unknown": "x"}, "invalid-query"),
    ({"q": "x"}, "invalid-query"),
    ({"from": "yesterday"}, "invalid-query"),
    ({"from": "2026-10-06T00:00:00Z", "till": "2026-10-05T00:00:00Z"}, "invalid-time-range"),
    ({"cursor": "x"}, "invalid-cursor"),
    ({"cursor": "eyJvIjoiQUJDIiwiayI6WyIyMDI2Il19"}, "invalid-cursor"),
    ({"labels": "tier in gold"}, "invalid-query"),
    ({"labels": "tier>gold"}, "invalid-query"),
    ({"fields": "spec.nothing=x"}, "invalid-field-selector"),
    ({"fields": "metadata.name>a"}, "invalid-field-selector"),
    ({"fields": "metadata.version>x"}, "invalid-field-selector"),
    ({"name": "\0"}, "invalid-query"),
]


def test_what_a_list_refuses(listed: tuple[Api, str]) -> None:
    api, path = listed
    for query, code in REFUSED:
        problem(api.get(path, **query), 400, code)


def test_a_parameter_is_given_once(listed: tuple[Api, str]) -> None:
    api, path = listed
    assert list(problem(api.http.get(f"{path}?limit=1&limit=2"), 400, "invalid-query")) == ["limit"]
    problem(api.http.get(f"{path}?name=%FF"), 400, "invalid-query")


def test_a_cursor_belongs_to_its_list(listed: tuple[Api, str], either_server: LocalServer) -> None:
    api, path = listed
    cursor = api.get(path, limit=1).json()["next"]
    problem(api.get("/v1/sessions", cursor=cursor), 400, "invalid-cursor")
    problem(api.get(f"/v1/accounts/{either_server.account_id}/memberships", cursor=cursor), 400, "invalid-cursor")


SELECTED = [
    ({"labels": "tier=gold"}, [1, 3, 5, 7, 9]),
    ({"labels": "tier!=gold"}, [0, 2, 4, 6, 8, 10, 11]),
    ({"labels": "tier in (gold, iron),rank>6"}, [7, 8, 9]),
    ({"labels": "!tier"}, [10, 11]),
    ({"labels": "rank<2,tier notin (iron)"}, [1]),
    ({"labels": "status=revoked"}, []),
    ({"fields": "status.phase=revoked"}, [0]),
    ({"fields": "status.phase notin (active)"}, [0]),
    ({"fields": "metadata.name in (agent-03,agent-04)", "labels": "tier=gold"}, [3]),
    ({"fields": "metadata.version>0,metadata.version<2", "name": "GENT-1"}, [10, 11]),
    ({"fields": "metadata.version<999999999999999", "name": "agent-11"}, [11]),
    ({"name": "agent_0%"}, list(range(10))),
    ({"till": "2020-01-01T00:00:00Z"}, []),
    ({"from": "2020-01-01T01:00:00+01:00", "name": "agent-11"}, [11]),
]


def test_selection(listed: tuple[Api, str]) -> None:
    api, path = listed
    for query, numbers in SELECTED:
        assert names(api, path, **query) == [NAMES[number] for number in numbers], query


def test_searching_projects(either_server: LocalServer) -> None:
    with Api(either_server, either_server.sign_in()["access_token"]) as api:
        everything = api.items("/v1/projects")
        name = everything[0]["metadata"]["name"]
        assert [item["metadata"]["name"] for item in api.items("/v1/projects", q=name.upper())] == [name]
        assert api.items("/v1/projects", q="100%") == []
        assert len(everything) > 1
