"""What the keeper says of itself: one small file, read by anybody at any moment, and the lock that tells the truth."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from expb_tui.core.clock import SYSTEM_CLOCK, boot_id
from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.keeper import state as saying
from expb_tui.core.keeper.state import LOCK_NAME, STATE_NAME, KeeperProblem, KeeperState, look, stamp
from expb_tui.core.keeper.troubles import Troubles
from expb_tui.core.keeper.versions import newer
from expb_tui.core.leases.journal import KeptPin
from expb_tui.core.leases.model import LeaseState
from expb_tui.core.leases.renewer import RenewalNote
from expb_tui.core.leases.schema import Pin
from expb_tui.core.locks import is_held, take
from expb_tui.present.keeper import status_lines
from tests.support.held import held
from tests.support.require import missing

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def problem(package: str = "", profile: str = "", **changes: object) -> KeeperProblem:
    made = KeeperProblem(package, profile, "/p.json" if profile else "", "what", "cause", "step", "code", AT, 1)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]  # any field


def running(**changes: object) -> KeeperState:
    made = KeeperState(running=True, pid=7, seen_boot=boot_id(), seen_ticks=SYSTEM_CLOCK.ticks())
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]  # any field


def test_what_is_written_is_read(tmp_path: Path) -> None:
    said = running(
        since=AT,
        version="1.2",
        keeps=3,
        next_renewal_at=AT,
        problems=(problem("wp-1"), problem(profile="p")),
        lent=("p",),
        lent_agents=(("https://b.example", "agt"),),
    )
    lock = take(tmp_path / LOCK_NAME)
    saying.write(tmp_path, said)
    assert look(tmp_path) == said
    before = stamp(tmp_path)
    assert stamp(tmp_path) == before
    lock.release()
    assert stamp(tmp_path) != before
    assert look(tmp_path) == dataclasses.replace(said, running=False)


def test_the_lock_alone_says_that_it_runs(tmp_path: Path) -> None:
    assert look(tmp_path) == KeeperState()
    saying.write(tmp_path, running(end="stopped"))
    assert not look(tmp_path).running
    lock = take(tmp_path / LOCK_NAME)
    assert look(tmp_path).running
    assert look(tmp_path).opaque == "it has only just started"
    assert not look(tmp_path).silent(SYSTEM_CLOCK)
    lock.release()


@pytest.mark.parametrize("content", [b"", b"\n", b"00000000 9999\n{}", b"zz 2\n{}", b"\xff" * 100, b"00000000 -1\n"])
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STATE_NAME).write_bytes(content)
    assert look(tmp_path) == KeeperState()
    lock = take(tmp_path / LOCK_NAME)
    assert "not readable" in look(tmp_path).opaque
    lock.release()


def test_half_a_write_is_not_believed(tmp_path: Path) -> None:
    saying.write(tmp_path, running(keeps=1))
    whole = (tmp_path / STATE_NAME).read_bytes()
    (tmp_path / STATE_NAME).write_bytes(whole[:60] + b"#" + whole[61:])
    assert look(tmp_path) == KeeperState()


def test_a_later_version_may_say_more(tmp_path: Path) -> None:
    import json
    import zlib

    saying.write(tmp_path, running(keeps=4, problems=(problem("wp-1"),)))
    body = (tmp_path / STATE_NAME).read_bytes().split(b"\n", 1)[1].strip()
    told = json.loads(body)
    told["mood"] = "good"
    told["problems"][0]["mood"] = "bad"
    body = json.dumps(told).encode()
    (tmp_path / STATE_NAME).write_bytes(b"%08x %d\n" % (zlib.crc32(body), len(body)) + body)
    assert look(tmp_path).keeps == 4
    assert look(tmp_path).problems[0].package_id == "wp-1"


def test_many_long_problems_fit(tmp_path: Path) -> None:
    long = {"what": "w" * 5000, "cause": "\u4e00" * 5000}
    many = tuple(problem(f"wp-{number}" + "\u00e9" * 300, **long) for number in range(2000))
    saying.write(tmp_path, running(problems=many))
    read = look(tmp_path)
    assert len(read.problems) + read.more_problems == 2000
    assert read.problems[0].package_id.startswith("wp-0")
    assert (tmp_path / STATE_NAME).stat().st_size == 32 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        missing("tmpfs", "a small file system cannot be mounted here")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_does_not_silence_it(small_disk: Path) -> None:
    lock = take(small_disk / LOCK_NAME)
    saying.write(small_disk, running(keeps=1))
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(b"x" * (1 << 20))
    saying.write(small_disk, running(keeps=2, journal_problem="no space"))
    assert (look(small_disk).keeps, look(small_disk).journal_problem) == (2, "no space")
    lock.release()


def test_who_keeps_a_lease() -> None:
    lease = held(uid="wp-1", profile_name="p", profile_file="/p.json")
    assert running().keeps_it(lease, SYSTEM_CLOCK)
    assert not KeeperState().keeps_it(lease, SYSTEM_CLOCK)
    assert not running(opaque="?").keeps_it(lease, SYSTEM_CLOCK)
    assert not running(seen_ticks=SYSTEM_CLOCK.ticks() - 50).keeps_it(lease, SYSTEM_CLOCK)
    assert not running(seen_boot="another").keeps_it(lease, SYSTEM_CLOCK)
    assert not running().keeps_it(dataclasses.replace(lease, kept=False), SYSTEM_CLOCK)
    assert not running().keeps_it(dataclasses.replace(lease, state=LeaseState.OVERDUE), SYSTEM_CLOCK)
    assert running(problems=(problem("wp-1"),)).keeps_it(lease, SYSTEM_CLOCK), "it goes on trying"
    refused = problem("wp-1", code=SignInNeeded.code)
    assert not running(problems=(refused,)).keeps_it(lease, SYSTEM_CLOCK), "trying leads nowhere"
    unread = problem(profile="p", cannot_read=True)
    assert running(problems=(unread,)).problem_of(lease) == unread
    assert not running(problems=(unread,)).keeps_it(lease, SYSTEM_CLOCK)
    assert running(problems=(dataclasses.replace(unread, profile="q"),)).keeps_it(lease, SYSTEM_CLOCK)
    bare = dataclasses.replace(lease, profile_name="", profile_file="")
    assert not running().keeps_it(bare, SYSTEM_CLOCK)
    assert running(problems=(problem(),)).problem_of(bare) is None
    assert running(lent_agents=((bare.endpoint, bare.agent_id),)).keeps_it(bare, SYSTEM_CLOCK)


def test_a_trouble_is_logged_once_and_over_when_anybody_has_renewed_the_lease() -> None:
    said: list[str] = []
    troubles = Troubles(said.append, SYSTEM_CLOCK)
    kept = KeptPin("wp-1", Pin("https://bench.example.test", "a", "g", "c", "p", "/p.json"), AT, "")
    troubles.credentials([kept], lambda _: None)
    for number in range(3):
        error = ExpbError(f"Refused with 503 busy: POST /renew (request r-{number})", code="busy")
        troubles.note(RenewalNote("wp-1", error))
    troubles.credentials([kept], lambda _: None)
    assert [one.tries for one in troubles.listed()] == [3]
    assert len(said) == 1
    troubles.credentials([dataclasses.replace(kept, expires_at=AT + timedelta(minutes=5))], lambda _: None)
    assert troubles.listed() == ()


@pytest.mark.parametrize(
    ("one", "other", "is_newer"),
    [
        ("0.1.1", "0.1.0", True),
        ("0.10", "0.9.9", True),
        ("1.0", "1.0.0", False),
        ("1.0", "1.0rc1", True),
        ("1.0rc1", "1.0b2", True),
        ("1.0.dev3", "1.0a1", False),
        ("0.1.0", "0.1.0", False),
        ("", "0.1.0", False),
        ("0.2.0", "", False),
        ("0.2.0; rm", "0.1.0", False),
    ],
)
def test_which_version_is_newer(one: str, other: str, is_newer: bool) -> None:
    assert newer(one, other) is is_newer


def test_a_look_at_the_lock_keeps_nobody_from_it(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    assert not is_held(path)
    lock = take(path)
    assert is_held(path)
    assert lock.in_place()
    path.rename(tmp_path / "elsewhere")
    assert not lock.in_place()
    (tmp_path / "elsewhere").rename(path)
    lock.release()
    lock.release()
    assert not is_held(path)


def test_status_in_words() -> None:
    def words(state: KeeperState, **options: bool) -> str:
        return "\n".join("".join(cell.text for cell in line) for line in status_lines(state, SYSTEM_CLOCK, **options))

    assert "none runs" in words(KeeperState())
    assert "keeper = off" in words(KeeperState(), off=True)
    assert "nothing to keep" in words(KeeperState(pid=3, end="idle"))
    told = words(
        running(
            version="1.2",
            keeps=2,
            lent=("night",),
            lent_agents=(("e", "a"), ("e", "b")),
            journal_problem="the disk is full",
            problems=(problem("wp-1", tries=3), problem(profile="p", cannot_read=True)),
            more_problems=4,
        )
    )
    for part in (
        "process 7, version 1.2",
        "2 leases",
        "night",
        "1 more token",
        "disk is full",
        "3 tries",
        "p: what",
        "4 more",
    ):
        assert part in told, part
    assert "kill -CONT 7" in words(running(seen_ticks=SYSTEM_CLOCK.ticks() - 50))
