"""When which lease is due, by arithmetic alone: pauses between tries, crowds, and what the journal tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from expb_tui.core.api.failures import ApiProblem, Unreachable
from expb_tui.core.errors import SignInNeeded
from expb_tui.core.leases import renewer
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import LeaseState
from expb_tui.core.leases.schedule import Lease, Picks, Schedule
from expb_tui.core.leases.schema import PackageRow
from expb_tui.core.leases.statements import merge
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, package_row, pin, times

NOON = datetime.fromisoformat("2026-10-05T12:00:00+00:00")


class StillClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 10_000.0

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def ticks(self) -> float:
        return self.seconds


class Place:
    """A journal, a profile file and a schedule."""

    def __init__(self, folder: Path, *, covers: Picks | None = None) -> None:
        self.clock = StillClock()
        self.journal = Journal(folder / "journal.db")
        self.store = ProfileStore(folder / "profiles.json")
        endpoint, token = pin().endpoint, SecretStr("identity-token")
        self.store.put(Profile(AGENT, "agent", endpoint=endpoint, account_id="acc-1", agent_id="agt-1", token=token))
        self.schedule = Schedule(self.journal, self.store, self.clock, covers=covers, speaks_for=None, bare=None)

    def row(self, uid: str, left: float = 60.0, *, length: float = 60.0, version: int = 1) -> PackageRow:
        now, ticks = self.clock.now(), self.clock.ticks()
        lease = times(length=length, sent_wall=now, server_date=now, sent_ticks=ticks)
        lease = replace(lease, expires_at=now + timedelta(seconds=left + 1), absolute_expires_at=None)
        whose = pin(profile_file=str(self.store.path))
        return package_row(uid, pin=whose, times=lease, version=version)

    async def save(self, *rows: PackageRow) -> None:
        await self.journal._door.write(lambda db: [merge(db, row) for row in rows])

    async def lease(self, left: float, *, length: float) -> Lease:
        await self.save(self.row("wp-1", left, length=length))
        await self.schedule.refresh({})
        (lease,) = self.schedule
        return lease

    async def aclose(self) -> None:
        await self.journal.aclose()


@pytest.mark.parametrize(("length", "trying"), [(10.0, 0.2), (30.0, 1.0), (60.0, 1.0), (900.0, 20.0), (14_400.0, 20.0)])
async def test_six_failures_in_a_row_leave_time_for_a_seventh_try(tmp_path: Path, length: float, trying: float) -> None:
    place = Place(tmp_path)
    lease = await place.lease(length / 3, length=length)
    for _ in range(6):
        (due,) = place.schedule.take_due()
        assert due is lease
        place.clock.seconds += trying
        place.schedule.failed(lease)
        wait = place.schedule.next_due()
        assert wait is not None
        if lease.remaining(place.clock) <= 20.0:
            assert wait <= 1.0, "near the end a try a second"
        place.clock.seconds += max(wait, renewer._SHORTEST_STEP)
    assert lease.remaining(place.clock) > trying
    await place.aclose()


async def test_pauses_grow_while_there_is_time_and_a_service_that_asks_for_one_gets_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = await place.lease(300.0, length=900.0)
    waits = []
    for _ in range(6):
        place.schedule.take_due()
        place.schedule.failed(lease)
        waits.append(place.schedule.next_due() or 0.0)
        place.clock.seconds += waits[-1] + 0.01
    assert [wait for wait in waits if not 0.7 < wait < 18.1] == []
    assert waits[0] < waits[2] < waits[4]
    lease.tries = 5_000  # an outage of a day
    place.schedule.take_due()
    place.schedule.failed(lease)
    assert 0.7 < (place.schedule.next_due() or 0.0) < 18.1
    place.clock.seconds += 18.2
    asked = ApiProblem("POST /x", 429, "rate-limited", retry_after=60.0)
    place.schedule.take_due()
    place.schedule.failed(lease, asked)
    assert 59.0 < (place.schedule.next_due() or 0.0) <= 60.0
    place.clock.seconds += 60.1
    left = lease.remaining(place.clock)
    place.schedule.take_due()
    place.schedule.failed(lease, ApiProblem("POST /x", 503, "busy", retry_after=3600.0))
    assert (place.schedule.next_due() or 0.0) < left / 3 + 0.1, "a long one does not eat the time for further tries"
    place.clock.seconds += left / 3 + 0.1
    place.clock.seconds += lease.remaining(place.clock) - 30.0
    place.schedule.take_due()
    place.schedule.failed(lease, asked)
    assert (place.schedule.next_due() or 0.0) < 11.1, "not beyond the time for further tries"
    await place.aclose()


async def test_a_crowd_that_was_claimed_in_one_moment_is_not_due_in_one_moment(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.save(*(place.row(f"wp-{number}") for number in range(2000)))
    await place.schedule.refresh({})
    place.clock.seconds += 16.0
    await place.schedule.refresh({})
    waits = sorted(lease.due - place.clock.ticks() for lease in place.schedule if lease.due is not None)
    assert len(waits) == 2000
    assert waits[0] > 40.0 - 16.0 - 7.6
    assert waits[-1] <= 40.0 - 16.0
    for second in range(30):
        assert sum(second <= wait < second + 1 for wait in waits) < 300
    await place.aclose()


async def test_only_what_was_written_since_is_read_and_what_was_forgotten_is_gone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.save(*(place.row(f"wp-{number}") for number in range(5)))
    await place.schedule.refresh({})
    first = {lease.held.uid: lease.row for lease in place.schedule}
    assert all(row.document is None for row in first.values())
    await place.save(replace(place.row("wp-3", 55.0), version=2, document=None))
    changes = await place.journal.changes(place.schedule._number)
    assert [row.uid for row in changes.packages] == ["wp-3"]
    await place.schedule.refresh({})
    now = {lease.held.uid: lease.row for lease in place.schedule}
    assert [uid for uid in now if now[uid] is not first[uid]] == ["wp-3"]

    await place.save(replace(place.row("wp-2"), version=2, phase="completed", token=None))
    await place.journal.lose(first["wp-1"].id, "lease-conflict", "gone", token=first["wp-1"].token)
    await place.journal._door.write(lambda db: db.execute("DELETE FROM package WHERE uid = 'wp-0'").rowcount)
    await place.schedule.refresh({})
    assert {lease.held.uid for lease in place.schedule} == {"wp-3", "wp-4"}
    await place.aclose()


async def test_a_journal_that_was_moved_away_takes_no_lease_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    rows = [place.row(f"wp-{number}") for number in range(3)]
    await place.save(*rows)
    await place.schedule.refresh({})
    away = tmp_path / "away"
    away.mkdir()
    for file in tmp_path.glob("journal.db*"):
        file.rename(away / file.name)
    await place.schedule.refresh({})
    await place.schedule.refresh({})
    assert {lease.held.uid for lease in place.schedule} == {"wp-0", "wp-1", "wp-2"}
    kept = {row.uid: row.token for row in await place.journal.packages()}
    assert kept == {row.uid: row.token for row in rows}
    await place.aclose()


async def test_an_answer_that_is_not_journaled_counts_more_than_the_journal(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = await place.lease(15.0, length=60.0)
    assert place.schedule.next_due() == 0
    newer = replace(place.row("wp-1", version=2), id=lease.row.id)
    assert place.schedule.put(newer, newer) is lease
    assert 39.0 < (place.schedule.next_due() or 0.0) <= 40.0
    await place.journal.set_kept(["wp-1"], True)
    await place.save(place.row("wp-other"))
    await place.schedule.refresh({lease.row.id: newer})
    assert lease.row.version == 2
    await place.journal.set_kept(["wp-1"], False)
    await place.schedule.refresh({lease.row.id: newer})
    assert (lease.row.version, lease.due) == (2, None)
    await place.aclose()


async def test_a_profile_that_was_moved_takes_its_leases_out_and_brings_them_back(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = await place.lease(15.0, length=60.0)
    profile = place.store.read().by_name[AGENT]
    place.store.put(replace(profile, endpoint="https://elsewhere.example.test"))
    await place.schedule.refresh({})
    assert (lease.due, lease.held.state.value) == (None, "no credential")
    place.store.put(profile)
    await place.schedule.refresh({})
    assert place.schedule.next_due() == 0
    await place.aclose()


async def test_a_refused_credential_is_asked_with_again_seldom_or_when_the_profiles_change(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lease = await place.lease(250.0, length=900.0)
    place.schedule.take_due()
    place.schedule.failed(lease, SignInNeeded("The token cannot be used"))
    assert 11.9 < (place.schedule.next_due() or 0.0) < 18.1
    place.store.set_project(AGENT, "prj-2", "two")
    await place.schedule.refresh({})
    assert place.schedule.next_due() == 0.0
    await place.aclose()


async def test_after_a_reboot_a_lease_that_may_be_over_is_asked_for_less_and_less(tmp_path: Path) -> None:
    place = Place(tmp_path)
    row = place.row("wp-1", 60.0)
    assert row.times is not None
    old = replace(row.times, sent_boot="another", sent_wall=place.clock.now() - timedelta(hours=2))
    await place.save(replace(row, times=old))
    await place.schedule.refresh({})
    (lease,) = place.schedule
    assert lease.held.state is LeaseState.EXPIRED
    waits = []
    for _ in range(12):
        assert place.schedule.take_due() == [lease]
        place.schedule.failed(lease, Unreachable("no answer"))
        waits.append(place.schedule.next_due() or 0.0)
        place.clock.seconds += waits[-1] + 0.01
    assert waits[0] < 2
    assert 200 < waits[-1] < 400
    assert lease.given_up, "such a one keeps no keeper from ending"
    place.schedule.take_due()
    place.schedule.failed(lease, ApiProblem("GET /x", 404, "not-found"))
    assert place.schedule.next_due() is None
    await place.aclose()
