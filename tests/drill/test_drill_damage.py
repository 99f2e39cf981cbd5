"""The journal is damaged under its users: nothing is hidden, what can be read is saved, all go on (hazards 5)."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from expb_tui.core.errors import FileProblem
from expb_tui.core.leases.journal import Journal
from expb_tui.core.locks import file_lock
from tests.support.drill import Drill, claim, kept, save_draft
from tests.support.keeper import keeper, until
from tests.support.recorded import ROOT, Place, Ran
from tests.unit.test_leases_salvage import at_offset, filled


def list_(place: Place, **options: object) -> Ran:
    return place.run("agent", "work", "list", "-o", "json", **options)  # type: ignore[arg-type]  # as given


def test_what_no_journal_knows_any_more_is_listed_from_the_service(drill: Drill) -> None:
    place = drill.place()
    uid = claim(place).json()["resource"]["metadata"]["uid"]
    size = place.journal.stat().st_size
    at_offset(0, b"\xa5" * size)(place.journal)
    first = list_(place)
    (shown,) = first.json()
    assert (shown["package_id"], shown["state"]) == (uid, "token lost")
    assert "The journal was damaged" in first.err
    assert "token lost" in first.err
    table = place.run("agent", "work", "show", uid)
    assert "token lost" in table.out, table.err
    second = list_(place)
    assert second.err.count("The journal was damaged") == 1  # for a day: somebody else may have set it aside
    assert [one["state"] for one in second.json()] == ["token lost"]
    assert not [point for point in second.points if "send" in point]


def test_a_kill_at_any_point_of_the_salvage_loses_nothing(drill: Drill) -> None:
    like = drill.place()
    package = claim(like).json()["resource"]
    uid, task = package["metadata"]["uid"], package["status"]["tasks"][0]["taskId"]
    save_draft(like, uid, task, {"typed": "x"})
    at_offset(0, b"\0" * 100)(like.journal)
    damaged = like.journal.read_bytes()
    recorded = list_(drill.place(like)).points
    assert {
        "before rename journal.db",
        "after rename journal.db.fresh",
        "before commit draft+package+sqlite_sequence",
    } <= set(recorded)
    # What follows is the listing at the service: requests are drilled elsewhere.
    for point in recorded[: next(i for i, point in enumerate(recorded) if "send" in point)]:
        place = drill.place(like)
        assert list_(place, kill_at=point).killed, point
        (shown,) = list_(place).json()
        assert (shown["package_id"], shown["state"]) == (uid, "active"), point
        assert [draft.values for draft in kept(place)[1]] == [{"typed": "x"}], point
        aside = sorted(place.journal.parent.glob("broken-*/journal.db"))
        assert [one.read_bytes() for one in aside] == [damaged], point
        assert not list(place.journal.parent.glob("salvage.tmp*")), point
        assert not list(place.journal.parent.glob("*.fresh")), point


WRITER = """
import asyncio, sys
from pathlib import Path
from expb_tui.core.leases.journal import Journal
from tests.support.desk import package_row

async def main():
    journal = Journal(Path(sys.argv[1]))
    for number in range(10_000):
        await journal.save_draft(f"wp-{sys.argv[2]}", f"typed-{number}", {"n": number}, None)
        await journal.merge(package_row(f"wp-{sys.argv[2]}-{number}"))
        print(number, journal.version(), flush=True)

asyncio.run(main())
"""


def test_processes_whose_journal_is_set_aside_under_their_hands_go_on_in_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asyncio.run(filled(path))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    told = [0, 0, 0]
    try:
        for round_ in range(3):
            for number, writer in enumerate(writers):
                assert writer.stdout is not None
                until = told[number] + 15
                while told[number] < until:
                    told[number] = int(writer.stdout.readline().split()[0])
            # First a page that they never read, so that they notice nothing by themselves; then one that they do.
            stop_without_log(path, writers)
            before = path.stat().st_ino
            at_offset((first_page(path, "intent") - 1) * 4096 if round_ < 2 else 0, b"\0" * 16)(path)
            asyncio.run(look(path))
            for writer in writers:
                writer.send_signal(signal.SIGCONT)
            assert path.stat().st_ino != before, round_
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        last = [writer.communicate()[0].split("\n") for writer in writers]
    said = [int(lines[-2].split()[0]) if len(lines) > 1 else told[number] for number, lines in enumerate(last)]
    packages, drafts = asyncio.run(look(path))
    for number in range(3):
        for each in range(said[number] + 1):
            assert f"wp-{number}-{each}" in packages
            assert (f"wp-{number}", f"typed-{each}") in drafts


def test_a_keeper_goes_on_in_the_new_journal(drill: Drill) -> None:
    place = drill.place(EXPB_TUI_MACHINE_ID="host-one")
    uid = claim(place).json()["resource"]["metadata"]["uid"]
    with keeper(place.environ) as keeping:
        until(lambda: keeping.state.keeps, lambda keeps: keeps == 1, keeping.describe)
        for round_ in range(2):
            stop_without_log(place.journal, [keeping.process])
            at_offset(0, b"\0" * 16)(place.journal)
            assert "was damaged" in list_(place).err
            keeping.send(signal.SIGCONT)
            with contextlib.closing(sqlite3.connect(place.journal, timeout=10.0)) as db, db:
                db.execute("UPDATE package SET sent_ticks = sent_ticks - 650")  # it is due
            more = partial(operator.lt, round_)
            until(lambda: drill.renewals()[uid], more, keeping.describe)
            until(lambda: journaled(place), more, keeping.describe)
    assert drill.truthful(place) == {uid: "active"}


def test_a_living_keeper_brings_back_what_it_still_knows(drill: Drill) -> None:
    place = drill.place(EXPB_TUI_MACHINE_ID="host-one")
    uid = claim(place).json()["resource"]["metadata"]["uid"]
    with keeper(place.environ) as keeping:
        until(lambda: keeping.state.keeps, lambda keeps: keeps == 1, keeping.describe)
        stop_without_log(place.journal, [keeping.process])
        at_offset(0, b"\xa5" * place.journal.stat().st_size)(place.journal)
        assert [one["state"] for one in list_(place).json()] == ["token lost"]
        keeping.send(signal.SIGCONT)
        until(lambda: drill.listed(place), lambda shown: shown == {uid: "active"}, keeping.describe)
        task = place.run("agent", "work", "show", uid)
        assert "Objective" in task.out, task.err
    assert drill.truthful(place) == {uid: "active"}


def journaled(place: Place) -> int:
    """How many renewals the journal knows of."""
    with contextlib.closing(sqlite3.connect(place.journal, timeout=10.0)) as db:
        return int(db.execute("SELECT renewals FROM package").fetchone()[0])


def stop_without_log(path: Path, writers: Sequence[subprocess.Popen[Any]]) -> None:
    """Stop everybody at a moment when all of the journal is in the one file, and nobody is just opening it."""
    for _ in range(100):
        for writer in writers:
            writer.send_signal(signal.SIGSTOP)
        with contextlib.closing(sqlite3.connect(path, timeout=0.05)) as db:
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        with contextlib.suppress(FileProblem), file_lock(path.parent / "locks" / "journal.lock", timeout=0.0):
            if not busy:
                return
        for writer in writers:
            writer.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError("somebody always held the log")


def first_page(path: Path, table: str) -> int:
    """Where a table begins."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0])


async def look(path: Path) -> tuple[set[str], set[tuple[str, str]]]:
    journal = Journal(path)
    try:
        await journal.open_intents()
        packages = {row.uid for row in await journal.packages()}
        drafts = {(draft.package_id, draft.task_id) for draft in await journal.drafts()}
        assert await journal._door.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
        return packages, drafts
    finally:
        await journal.aclose()
