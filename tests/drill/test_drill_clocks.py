"""A host whose wall clock is an hour off, either way, or jumps between two commands (hazards 1)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from tests.support import answers
from tests.support.drill import Drill, claim, kept
from tests.support.recorded import Place

HOUR = 3600.0
LEASE = 900.0


def left(place: Place, **options: float) -> float:
    """Seconds that the one lease still has, by ``work list``."""
    (one,) = place.run("agent", "work", "list", "-o", "json", **options).json()  # type: ignore[arg-type]  # a number
    assert one["state"] == "active"
    return float(one["remaining_seconds"])


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_the_whole_loop_on_a_wrong_clock(drill: Drill, shift: float) -> None:
    place = drill.place()
    package = claim(place, shift=shift).json()["resource"]
    uid, task = package["metadata"]["uid"], package["status"]["tasks"][0]
    assert LEASE - 60 < left(place, shift=shift) < LEASE
    with contextlib.closing(sqlite3.connect(place.journal)) as db:
        (claimed,) = db.execute("SELECT claimed_at FROM package").fetchone()
    assert abs((datetime.fromisoformat(claimed) - datetime.now(UTC)).total_seconds() - shift) < 60
    assert place.run("agent", "work", "renew", uid, shift=shift).code == 0
    body = json.dumps({"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])})
    assert place.run("agent", "work", "submit", uid, "--file", "-", given=body, shift=shift).code == 0
    (receipt,) = kept(place)[0]
    with drill.server.client(drill.server.agent_token) as http:
        assert abs((receipt.submitted_at.timestamp()) - _date(http.get("/v1/principal").headers["date"])) < 60
    again = claim(place, shift=shift).json()["resource"]["metadata"]["uid"]
    assert place.run("agent", "work", "release", again, "--yes", shift=shift).code == 0
    assert drill.active() == set()


@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_the_clock_jumps_between_two_commands(drill: Drill, shift: float) -> None:
    place = drill.place()
    claim(place).json()
    assert LEASE - 60 < left(place, shift=shift) < LEASE
    assert place.run("agent", "work", "renew", shift=shift).code == 0
    assert LEASE - 60 < left(place) < LEASE


@pytest.mark.parametrize("point", ["after send", "before receive", "after receive"])
@pytest.mark.parametrize("shift", [HOUR, -HOUR])
def test_what_a_killed_claim_left_is_found_on_another_clock(drill: Drill, shift: float, point: str) -> None:
    place = drill.place()
    assert claim(place, kill_at=f"{point} POST /v1/projects/*/work-packages").killed
    shown = drill.truthful(place, shift=shift)
    assert set(shown) == drill.active()


@pytest.mark.parametrize("shift", [0.0, HOUR, -HOUR])
def test_nothing_is_repeated_after_a_reboot(drill: Drill, shift: float) -> None:
    place = drill.place()
    assert claim(place, kill_at="before send POST /v1/projects/*/work-packages").killed
    with contextlib.closing(sqlite3.connect(place.journal)) as db, db:
        assert db.execute("UPDATE intent SET created_boot = 'before'").rowcount == 1
    assert drill.truthful(place, shift=shift) == {}
    assert drill.packages() == []


@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize(("then", "now"), [(HOUR, HOUR), (-HOUR, -HOUR), (0.0, HOUR), (0.0, -HOUR)])
def test_what_is_too_old_to_be_repeated_is_found_on_a_wrong_clock(
    drill: Drill, then: float, now: float, rebooted: bool
) -> None:
    place = drill.place()
    assert claim(place, kill_at="before receive POST /v1/projects/*/work-packages", shift=then).killed
    older = "created_ticks = created_ticks - 200, created_wall = ?" + (", created_boot = 'before'" if rebooted else "")
    wall = datetime.now(UTC) + timedelta(seconds=then - 200)
    with contextlib.closing(sqlite3.connect(place.journal)) as db, db:
        assert db.execute(f"UPDATE intent SET {older}", (wall.isoformat(),)).rowcount == 1
    (state,) = drill.truthful(place, shift=now).values()
    assert state == "token lost"


def _date(text: str) -> float:
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(text).timestamp()
