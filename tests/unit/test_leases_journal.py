"""The journal on disk: private, durable, shared by processes, and never silently wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from expb_tui.core.errors import FileProblem
from expb_tui.core.leases.filesystem import file_system_of, refuse_network
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import Receipt
from expb_tui.core.leases.owner import Owner, this_process
from expb_tui.core.leases.schema import MIGRATIONS, Intent
from expb_tui.core.secret import SecretStr
from tests.support.desk import package_row, pin, times
from tests.support.require import missing

ROOT = Path(__file__).parents[2]


def intent(**changes: object) -> Intent:
    values: dict[str, object] = {
        "kind": "claim",
        "key": "key-1",
        "route": "/v1/projects/prj-1/work-packages",
        "body": 1,
        "body_sha256": "0" * 64,
        "pin": pin(),
        "owner": this_process(),
        "created_wall": datetime.now(UTC),
        "created_ticks": 1.0,
        "created_boot": "boot",
        "project_id": "prj-1",
        "role": "ideator",
        **changes,
    }
    return Intent(**values)  # type: ignore[arg-type]  # as above


def receipt() -> Receipt:
    return Receipt("wp-1", "task-1", "ideator", "checkout", "completed", datetime.now(UTC), "hypotheses", "hyp-1", "ab")


async def test_files_are_private_and_writes_are_durable(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal.db"
    journal = Journal(path)
    await journal.merge(package_row())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for part in ("journal.db", "journal.db-wal", "journal.db-shm"):
        assert stat.S_IMODE((path.parent / part).stat().st_mode) == 0o600, part
    names = ("journal_mode", "synchronous", "secure_delete")
    settings = await journal._door.read(lambda db: [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names])
    assert settings == ["wal", 2, 1]
    await journal.aclose()
    await journal.aclose()


async def test_a_wider_mode_is_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch(0o644)
    path.chmod(0o644)
    journal = Journal(path)
    await journal.packages()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await journal.aclose()


async def test_the_token_of_an_ended_package_is_gone_from_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    token = "a-lease-token-that-must-not-stay-on-the-disk"
    await journal.merge(package_row(token=SecretStr(token)))
    assert [kept.get_secret_value() for kept in await journal.tokens()] == [token]
    await journal.merge(package_row(token=None, version=2, phase="completed"))
    assert await journal.tokens() == []
    await journal.aclose()
    for file in tmp_path.rglob("*.*"):
        assert token.encode() not in file.read_bytes(), file


async def test_a_newer_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    journal = Journal(path)
    with pytest.raises(FileProblem) as caught:
        await journal.packages()
    assert caught.value.code == "newer-journal"
    assert "EXPB_TUI_STATE_DIR" in caught.value.next_step
    await journal.aclose()
    assert path.read_bytes() == before


MOUNTS = """\
22 1 0:20 / / rw - ext4 /dev/vda rw
30 22 0:31 / /home rw - nfs4 server:/home rw
31 30 0:32 / /home/me/local rw - xfs /dev/vdb rw
32 22 0:33 / /mnt/with\\040space rw - fuse.sshfs me@host: rw
33 22 0:34 / /over rw - ext4 /dev/vdc rw
34 33 0:35 / /over rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "refused"),
    [
        ("/var/lib", "ext4", False),
        ("/home/me/.local/state", "nfs4", True),
        ("/home/me/local/state", "xfs", False),
        ("/homes", "ext4", False),
        ("/mnt/with space/x", "fuse.sshfs", True),
        ("/over/x", "cifs", True),
    ],
)
def test_a_network_file_system_is_refused_with_the_setting_that_moves_it(path: str, kind: str, refused: bool) -> None:
    assert file_system_of(Path(path), mountinfo=MOUNTS) == kind
    if not refused:
        refuse_network(Path(path), mountinfo=MOUNTS)
        return
    with pytest.raises(FileProblem) as caught:
        refuse_network(Path(path), mountinfo=MOUNTS)
    assert caught.value.code == "network-file-system"
    assert "EXPB_TUI_STATE_DIR" in caught.value.next_step


async def test_a_journal_there_is_not_even_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expb_tui.core.leases.filesystem.file_system_of", lambda path, mountinfo=None: "nfs4")
    journal = Journal(tmp_path / "journal.db")
    with pytest.raises(FileProblem, match="network file system"):
        await journal.packages()
    assert list(tmp_path.iterdir()) == []
    await journal.aclose()


async def test_an_answer_without_a_version_is_not_older(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    await journal.merge(package_row(version=3))
    kept = await journal.merge(package_row(version=0, token=SecretStr("rotated"), renewals=7))
    assert (kept.version, kept.token, kept.renewals) == (3, SecretStr("rotated"), 7)
    await journal.aclose()


async def test_a_lower_version_is_ignored_and_a_token_never_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    first = await journal.merge(package_row(version=3, renewals=2))
    late = await journal.merge(package_row(version=2, renewals=1, token=SecretStr("older"), times=times(5)))
    assert late == first
    read = await journal.merge(package_row(version=4, renewals=3, token=None, project_name=""))
    assert (read.version, read.renewals, read.token, read.project_name) == (4, 3, first.token, "checkout")
    rotated = await journal.merge(package_row(version=5, token=SecretStr("newer")))
    assert rotated.token == SecretStr("newer")
    await journal.aclose()


async def test_a_short_answer_takes_no_task_away(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    first = await journal.merge(package_row())
    bare = {"status": {"tasks": [{"taskId": "task-1", "phase": "submitted"}, {"taskId": "task-2"}]}}
    kept = await journal.merge(package_row(version=2, document=bare))
    assert kept.document is not None
    assert kept.document["status"]["tasks"] == [
        {"taskId": "task-1", "phase": "submitted", "input": {"instructions": ["Go."]}},
        {"taskId": "task-2"},
    ]
    empty = await journal.merge(package_row(version=3, document={"status": {"phase": "completed", "tasks": []}}))
    assert empty.document is not None
    assert [task["taskId"] for task in empty.document["status"]["tasks"]] == ["task-1", "task-2"]
    assert first.document != kept.document
    await journal.aclose()


async def test_a_late_claim_answer_brings_the_token_that_was_missing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    await journal.merge(package_row(version=2, token=None))
    kept = await journal.merge(package_row(version=1, token=SecretStr("late")))
    assert (kept.version, kept.token) == (2, SecretStr("late"))
    await journal.aclose()


async def test_lost_is_marked_only_for_the_token_that_was_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    old = await journal.merge(package_row())
    await journal.merge(package_row(version=2, token=SecretStr("newer")))
    assert (await journal.lose(old.id, "lease-conflict", "it is gone", token=old.token)).lost_code == ""
    lost = await journal.lose(old.id, "lease-conflict", "it is gone", token=SecretStr("newer"))
    assert lost.lost_code == "lease-conflict"
    done = await journal.merge(package_row(version=3, token=None, phase="completed"))
    assert done.lost_code == ""
    await journal.aclose()


async def test_two_services_may_use_one_id(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    await journal.merge(package_row())
    await journal.merge(package_row(pin=pin(endpoint="https://other.example.test"), role="experimenter"))
    found = await journal.package("wp-1", "https://bench.example.test")
    assert found is not None
    assert found.role == "ideator"
    assert await journal.package("wp-1", "https://third.example.test") is None
    await journal.aclose()


async def test_success_is_one_transaction_with_the_end_of_its_intent(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    made = await journal.intend(intent(body={"secretless": True}))
    row = await journal.merge(package_row())
    await journal.save_draft("wp-1", "task-1", {"statement": "x"}, None)
    await journal.settle_submission(made, receipt(), package_row(version=2, phase="completed", token=None))
    overview = await journal.overview()
    assert overview.intents == []
    assert overview.drafted == frozenset()
    assert [kept.record_id for kept in overview.receipts] == ["hyp-1"]
    assert [kept.phase for kept in overview.packages] == ["completed"]
    again, _ = await journal.settle_submission(None, receipt(), row)
    assert len(await journal.receipts()) == 1
    assert again.record_id == "hyp-1"
    await journal.aclose()


async def test_the_change_counter_sees_every_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    mine, theirs = Journal(path), Journal(path)
    seen = [mine.version()]
    await mine.merge(package_row())
    seen.append(mine.version())
    await theirs.merge(package_row("wp-2"))
    seen.append(mine.version())
    assert len(set(seen)) == 3
    assert mine.version() == seen[-1]
    await mine.aclose()
    await theirs.aclose()
    assert mine.version() == seen[-1]


async def test_a_reader_waits_for_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expb_tui.core.leases.door.BUSY", 60.0)
    path = tmp_path / "journal.db"
    journal = Journal(path)
    await journal.merge(package_row())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(journal.merge(package_row("wp-2")))
    await asyncio.sleep(0)
    assert len(await journal.packages()) == 1
    assert not waiting.done()
    other.execute("ROLLBACK")
    other.close()
    await waiting
    assert len(await journal.packages()) == 2
    await journal.aclose()


async def test_a_held_write_lock_is_told_and_reading_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expb_tui.core.leases.door.BUSY", 0.2)
    path = tmp_path / "journal.db"
    journal = Journal(path)
    await journal.merge(package_row())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = asyncio.create_task(journal.merge(package_row("wp-2")))
    assert len(await journal.packages()) == 1
    with pytest.raises(FileProblem) as caught:
        await refused
    assert caught.value.code == "busy-journal"
    other.execute("ROLLBACK")
    other.close()
    await journal.merge(package_row("wp-2"))
    await journal.aclose()


async def test_a_process_can_stand_still_with_no_transaction_open(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(path)
    with journal.still():
        pass  # never opened: nothing to wait for
    await journal.merge(package_row())
    entered, leave = threading.Event(), threading.Event()

    def slow(db: sqlite3.Connection) -> None:
        entered.set()
        leave.wait(5)

    writing = asyncio.create_task(journal._door.write(slow))
    await asyncio.to_thread(entered.wait, 5)
    threading.Timer(0.1, leave.set).start()
    with journal.still():
        other = sqlite3.connect(path, isolation_level=None, timeout=0)
        other.execute("BEGIN IMMEDIATE")  # nobody holds the lock now
        other.execute("ROLLBACK")
        other.close()
        waiting = asyncio.create_task(journal.merge(package_row("wp-2")))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    await asyncio.gather(writing, waiting)
    await journal.aclose()
    with journal.still():
        pass


async def test_a_cancelled_caller_does_not_take_back_a_write(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    await journal.packages()
    saving = asyncio.create_task(journal.save_draft("wp-1", "task-1", {"statement": "typed"}, None))
    await asyncio.sleep(0)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    await journal.aclose()
    journal = Journal(tmp_path / "journal.db")
    kept = await journal.draft("wp-1", "task-1")
    assert kept is not None
    assert kept.values == {"statement": "typed"}
    await journal.aclose()


async def test_old_requests_and_ended_packages_are_forgotten_and_receipts_stay(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    long_ago = datetime(2025, 1, 1, tzinfo=UTC)
    await journal.merge(package_row("wp-old", phase="completed", token=None, answered_at=long_ago))
    await journal.merge(package_row("wp-drafted", phase="expired", token=None, answered_at=long_ago))
    await journal.merge(package_row("wp-held", answered_at=long_ago))
    await journal.merge(package_row("wp-run-out", answered_at=long_ago, times=times(expires_at=long_ago)))
    made = replace(receipt(), package_id="wp-old")
    await journal.settle_submission(None, made, package_row("wp-old", phase="completed", token=None))
    await journal._door.write(lambda db: db.execute("UPDATE package SET answered_at = '2025-01-01'").rowcount)
    await journal.save_draft("wp-drafted", "task-1", {}, "text: [")
    await journal.settle(await journal.intend(intent()), "empty")
    await journal._door.write(lambda db: db.execute("UPDATE intent SET settled_at = '2025-01-01'").rowcount)
    await journal.settle(await journal.intend(intent()), "empty")
    assert {row.uid for row in await journal.packages()} == {"wp-drafted", "wp-held"}
    assert await journal.receipts() == [made]
    assert (await journal.overview()).receipts == []
    assert await journal._door.read(lambda db: db.execute("SELECT count(*) FROM intent").fetchone()[0]) == 1
    draft = await journal.draft("wp-drafted", "task-1")
    assert draft is not None
    assert draft.text == "text: ["
    await journal.aclose()


async def test_only_one_takes_over_an_intent(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journals = [Journal(path) for _ in range(4)]
    dead = Owner(this_process().host, "earlier-boot", 1, "1")
    await journals[0].intend(intent(owner=dead))
    (found,) = await journals[0].open_intents()
    assert not found.owner.alive()
    takers = [Owner(this_process().host, "b", number, "1") for number in range(4)]
    taken = await asyncio.gather(
        *(journal.take_over(found, taker) for journal, taker in zip(journals, takers, strict=True))
    )
    assert sorted(taken) == [False, False, False, True]
    for journal in journals:
        await journal.aclose()


def test_the_living_are_told_from_the_dead() -> None:
    me = this_process()
    assert me.alive()
    assert not Owner(me.host, me.boot, me.pid, "1").alive(), "a later process with the same number"
    assert not Owner(me.host, "another-boot", me.pid, me.start).alive()
    assert Owner("another-host", "x", 1, "1").alive(), "of another host nothing is known"
    start = me.start.partition(":")[0]
    assert not Owner(me.host, me.boot, 2**22 - 1, start).alive()
    elsewhere = Owner(me.host, me.boot, 2**22 - 1, f"{start}:1")
    assert elsewhere.alive(), "of another namespace neither"
    assert (me.seen, elsewhere.seen) == (True, False)
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert not Owner(me.host, me.boot, child.pid, "").alive()


WRITER = """
import asyncio, sys
from pathlib import Path
from expb_tui.core.leases.journal import Journal
from tests.support.desk import package_row

async def main():
    journal = Journal(Path(sys.argv[1]))
    n = 0
    draft = await journal.draft("wp-1", "task-1")
    while True:
        n += 1
        values = {"statement": "x" * 2000, "n": n}
        draft = await journal.save_draft("wp-1", "task-1", values, None, based_on=draft)
        await journal.merge(package_row(f"wp-{sys.argv[2]}-{n}"))
        print(n, flush=True)

asyncio.run(main())
"""


async def test_a_kill_at_any_moment_keeps_what_was_said_to_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    for round_ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(round_)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert child.stdout is not None
        told = 0
        until = 3 + round_ * 7
        while told < until:
            told = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.communicate()[0].split()
        told = int(rest[-1]) if rest else told
        journal = Journal(path)
        draft = await journal.draft("wp-1", "task-1")
        assert draft is not None
        assert told <= draft.values["n"] <= told + 1
        mine = [row for row in await journal.packages() if row.uid.startswith(f"wp-{round_}-")]
        assert told <= len(mine) <= told + 1
        assert await journal._door.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
        await journal.aclose()


FULL = """
import asyncio, sys
from pathlib import Path
from expb_tui.core.errors import FileProblem
from expb_tui.core.leases import door
from expb_tui.core.leases.journal import Journal
from tests.support.desk import package_row
from tests.unit.test_leases_journal import intent
door.RESERVE = 256 << 10

async def main():
    folder = Path(sys.argv[1])
    journal = Journal(folder / "journal.db")
    await journal.reserve()
    made = await journal.intend(intent())
    with open(folder / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
    try:
        await journal.save_draft("wp-9", "t", {"x": "y" * 65536}, None)
    except FileProblem as problem:
        print(problem.code)
    document = {"status": {"tasks": []}, "big": "z" * 65536}
    row = await journal.settle(made, "done", package_row(document=document))
    print(row.token is not None, await journal.open_intents())
    await journal.aclose()

asyncio.run(main())
"""


def test_a_claim_is_saved_though_the_disk_has_become_full(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        missing("tmpfs", "a small file system cannot be mounted here")
    try:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert done.stdout.split("\n")[:2] == ["disk-full", "True []"], done.stderr


async def test_a_journal_of_the_first_format_goes_on_with_every_lease_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    row = package_row()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in MIGRATIONS[0]:
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        columns = row.columns()
        marks = ", ".join("?" * len(columns))
        db.execute(f"INSERT INTO package ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values()))
    journal = Journal(path)
    (kept,) = await journal.packages()
    assert kept == replace(row, id=kept.id)
    assert (kept.kept, kept.keeping_problem) == (True, "")
    await journal.aclose()


async def test_what_a_person_chose_and_a_keeper_said_outlives_answers(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    for uid in ("wp-1", "wp-2"):
        await journal.merge(package_row(uid))
    await journal.set_kept(["wp-1", "no such package"], False)
    await journal.set_keeping_problem(["wp-1"], "the keyring is locked")
    await journal.merge(package_row("wp-1", version=2))
    one, two = await journal.packages()
    assert (one.version, one.kept, one.keeping_problem) == (2, False, "the keyring is locked")
    assert (two.kept, two.keeping_problem) == (True, "")
    assert [pin.uid for pin in await journal.kept()] == ["wp-2"]
    await journal.aclose()


async def test_every_write_of_a_row_is_numbered_and_what_changes_nothing_writes_nothing(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.db")
    rows = [await journal.merge(package_row(f"wp-{number}")) for number in range(3)]
    seen = (await journal.changes(-1)).number

    async def changed() -> list[str]:
        nonlocal seen
        changes = await journal.changes(seen)
        seen = changes.number
        assert changes.rows == 3
        assert all(row.document is None for row in changes.packages)
        return sorted(row.uid for row in changes.packages)

    assert await changed() == []
    await journal.merge(package_row("wp-1", version=2))
    assert await changed() == ["wp-1"]
    await journal.set_kept(["wp-0", "wp-2"], False)
    assert await changed() == ["wp-0", "wp-2"]
    await journal.set_kept(["wp-0", "wp-2"], False)
    assert await changed() == []
    await journal.lose(rows[2].id, "lease-conflict", "gone", token=rows[2].token)
    await journal.repin(rows[1].id, pin(profile_name="other"))
    assert await changed() == ["wp-1", "wp-2"]
    await journal.aclose()


async def test_renewals_leave_the_tasks_alone_and_do_not_bring_back_what_was_forgotten(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.db")
    first = await journal.merge(package_row("wp-1"))
    told = package_row("wp-1", version=2, document=None, renewals=1, times=times(800.0))
    late = package_row("wp-1", version=1, document=None, renewals=9)
    kept, ignored, forgotten = await journal.merge_renewals([told, late, package_row("wp-gone", document=None)])
    assert kept is not None
    assert (kept.version, kept.renewals, kept.times, kept.id) == (2, 1, told.times, first.id)
    assert ignored is not None
    assert ignored.renewals == 1
    assert forgotten is None
    (now,) = await journal.packages()
    assert (now.document, now.renewals) == (first.document, 1)
    await journal.aclose()
