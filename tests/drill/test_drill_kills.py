"""kill -9 at every point of a claim, a renewal, a submission and a release; then a restart that must be truthful."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import answers
from tests.support.drill import Drill, claim, kept, save_draft
from tests.support.recorded import Place, Ran, not_visited

CLAIM = "POST /v1/projects/*/work-packages"
RENEW = "POST /v1/work-packages/*/renewals"
SUBMIT = "POST /v1/work-packages/*/submissions"
RELEASE = "PATCH /v1/work-packages/*"


def visit(
    drill: Drill, before: Callable[[], Place], act: Callable[..., Ran], check: Callable[[Place, str], None]
) -> list[str]:
    """Record an unfaulted run of ``act``, then kill a run at each of its points; returns the points."""
    first = act(before())
    assert first.code == 0, first.err
    drill.clear()
    visited = []
    for point in first.points:
        place = before()
        killed = act(place, kill_at=point)
        assert killed.killed, f"not reached any more: {point}\n{killed.err}"
        visited.append(point)
        drill.settle()
        check(place, point)
        drill.clear()
    assert not_visited(first.points, visited) == []
    return first.points


def test_a_claim(drill: Drill) -> None:
    def check(place: Place, point: str) -> None:
        before = len(drill.active())
        shown = drill.truthful(place)
        assert len(drill.active()) <= 1, point
        assert before <= len(shown) <= 1, point

    points = visit(drill, drill.place, claim, check)
    assert needed("commit intent", f"send {CLAIM}", f"receive {CLAIM}", "commit intent+package") <= set(points)


def test_a_renewal(drill: Drill) -> None:
    def before() -> Place:
        place = drill.place()
        claim(place).json()
        return place

    def renew(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "renew", "-o", "json", **options)

    def check(place: Place, point: str) -> None:
        (state,) = drill.truthful(place).values()
        assert state == "active", point

    points = visit(drill, before, renew, check)
    assert needed(f"send {RENEW}", f"receive {RENEW}", "commit package") <= set(points)


def test_a_submission(drill: Drill) -> None:
    sent: dict[Path, tuple[str, str, int]] = {}

    def before() -> Place:
        place = drill.place()
        package = claim(place).json()["resource"]
        uid, task = package["metadata"]["uid"], package["status"]["tasks"][0]
        body = {"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])}
        sent[place.folder] = uid, json.dumps(body), drill.results()
        save_draft(place, uid, task["taskId"], {"typed": "x"})
        return place

    def submit(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "submit", "--file", "-", "-o", "json", given=sent[place.folder][1], **options)

    def check(place: Place, point: str) -> None:
        uid, body, results = sent[place.folder]
        drill.truthful(place)
        receipts, drafts = kept(place)
        assert drill.results() == results + len(receipts), point
        assert len(drafts) + len(receipts) == 1, point
        again = place.run("agent", "work", "submit", uid, "--file", "-", given=body)
        assert again.code == 0, (point, again.err)
        assert drill.results() == results + 1, point
        assert kept(place)[1] == []

    points = visit(drill, before, submit, check)
    assert needed("commit intent", f"send {SUBMIT}", f"receive {SUBMIT}") <= set(points)
    assert needed("commit draft+intent+package+receipt") <= set(points)


def test_a_release(drill: Drill) -> None:
    def before() -> Place:
        place = drill.place()
        claim(place).json()
        return place

    def release(place: Place, **options: Any) -> Ran:
        return place.run("agent", "work", "release", "--yes", "-o", "json", **options)

    def check(place: Place, point: str) -> None:
        was_active = bool(drill.active())
        (state,) = drill.truthful(place).values()
        assert state == ("active" if was_active else "released"), point
        if was_active:
            assert release(place).code == 0
        assert drill.active() == set()

    points = visit(drill, before, release, check)
    assert needed("commit intent", f"send {RELEASE}", f"receive {RELEASE}", "commit package") <= set(points)


def test_a_renewal_of_the_keeper(drill: Drill) -> None:
    place = drill.place(EXPB_TUI_MACHINE_ID="host-one")
    claim(place).json()
    with contextlib.closing(sqlite3.connect(place.journal)) as db, db:
        db.execute("UPDATE package SET sent_ticks = sent_ticks - 650")  # it is due
    same = {"EXPB_TUI_MACHINE_ID": "host-one", "EXPBENCH_PROFILES": str(place.folder / "profiles.json")}
    points = drill.place(place, **same).run("keeper", kill_at="after commit package").points
    assert needed(f"send {RENEW}", f"receive {RENEW}", "commit package") <= set(points)
    for point in points:
        before = drill.renewals()
        again = drill.place(place, **same)
        assert again.run("keeper", kill_at=point).killed, point
        drill.settle()
        (state,) = drill.truthful(again).values()
        assert state in ("active", "renewal overdue"), point
        assert drill.renewals() != before


def needed(*names: str) -> set[str]:
    """Points that must be among the recorded ones, or the recorder is blind."""
    return {f"{side} {name}" for name in names for side in ("before", "after")}
