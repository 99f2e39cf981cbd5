"""Renewing for hours, by a clock that is moved by hand: what the journal, the clocks and other processes do to it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.clock import SYSTEM_CLOCK
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import HeldPackage, LeaseState
from expb_tui.core.leases.renewer import RenewalNote, Renewer
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, SETTINGS, MovingClock
from tests.support.disk import small_disk
from tests.support.loopback import Reply, Request
from tests.support.upstream import ACCOUNT_ID, AGENT_ID, PROJECT_ID, Upstream
from tests.support.virtual import PATIENCE, TimedUpstream, pass_time

LEASE = 60.0
TEN_LENGTHS = 10 * LEASE


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is moved by hand, so that there is no need to wait for it."""
    monkeypatch.setattr("expb_tui.core.leases.renewer._STEP", 0.02)
    monkeypatch.setattr("expb_tui.core.leases.renewer._SHORTEST_STEP", 0.01)
    monkeypatch.setattr("expb_tui.core.leases.saving._GATHER", 0.01)
    monkeypatch.setattr("expb_tui.core.leases.renewer._JOURNAL_WAIT", PATIENCE)


class Process:
    """What one process has: its own journal connection and sessions, on shared files."""

    def __init__(self, folder: Path, state: Path, url: str, clock: Any) -> None:
        self.store = ProfileStore(folder / "profiles.json")
        if not self.store.read().by_name:
            token = SecretStr("identity-token")
            profile = Profile(AGENT, "agent", endpoint=url, account_id=ACCOUNT_ID, agent_id=AGENT_ID, token=token)
            self.store.put(profile)
        self.desk = Desk(Journal(state / "journal.db"), self.store, patience=2.0, clock=clock)
        self.session = Session.open(self.store, profile=AGENT, settings=SETTINGS, clock=clock)
        self.clock = clock
        self.notes: list[RenewalNote] = []

    def renewer(self, **more: Any) -> Renewer:
        async def sessions(_: HeldPackage) -> Session:
            return self.session

        return Renewer(self.desk, sessions, clock=self.clock, on_note=self.notes.append, **more)

    async def claim(self, count: int = 1) -> list[HeldPackage]:
        outcomes = [await self.desk.request(self.session, PROJECT_ID, "ideator") for _ in range(count)]
        return [outcome.held for outcome in outcomes if outcome.held]

    def problems(self) -> set[str]:
        return {note.error.code for note in self.notes if note.error}


@contextlib.asynccontextmanager
async def process(
    folder: Path, url: str, *, state: Path | None = None, clock: Any = SYSTEM_CLOCK
) -> AsyncIterator[Process]:
    made = Process(folder, state or folder / "state", url, clock)
    try:
        yield made
    finally:
        await made.desk.aclose()
        await made.session.aclose()
        await made.desk.journal.aclose()


@contextlib.asynccontextmanager
async def running(*renewers: Renewer) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(renewer.run()) for renewer in renewers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def eventually(true: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def stopped_writer(journal: Path) -> Any:
    """Another process, stopped between BEGIN and COMMIT."""
    code = (
        "import os, signal, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN IMMEDIATE')\n"
        "print('begun', flush=True); os.kill(os.getpid(), signal.SIGSTOP); db.execute('COMMIT')"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(journal)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        child.send_signal(signal.SIGCONT)
        assert child.wait(PATIENCE) == 0


async def test_a_writer_that_is_stopped_in_its_transaction_loses_no_lease(tmp_path: Path) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim(3)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 3)
            with stopped_writer(one.desk.journal.path):
                await pass_time(clock, [renewer], TEN_LENGTHS, step=5.0)
                assert renewer.unsaved == 3
                assert renewer.journal_problem is not None
                assert one.problems() == {"busy-journal"}
                (problem,) = [note.error for note in one.notes if note.error]  # said once, not for each renewal
                assert "for 1 s" in problem.cause, "nobody waited for the lock's own patience"
                assert {held.state for held in await one.desk.held()} == {LeaseState.EXPIRED}, (
                    "as far as the journal knows"
                )
            await eventually(lambda: renewer.unsaved == 0)
            assert renewer.journal_problem is None
        assert upstream.lost == set()
        assert upstream.fewest_renewals() >= 14
        held = await one.desk.held()
        assert [package.state for package in held] == [LeaseState.ACTIVE] * 3
        assert {token.get_secret_value() for token in await one.desk.journal.tokens()} == set(upstream.tokens.values())


async def test_a_full_disk_loses_no_lease(tmp_path: Path) -> None:
    clock = MovingClock()
    with small_disk(tmp_path) as disk:
        async with (
            TimedUpstream(clock).running() as upstream,
            process(tmp_path, upstream.url, state=disk.folder / "state", clock=clock) as one,
        ):
            await one.claim(3)
            renewer = one.renewer()
            async with running(renewer):
                await eventually(lambda: renewer.keeps == 3)
                disk.fill()
                await pass_time(clock, [renewer], TEN_LENGTHS, step=5.0)
                assert one.problems() == {"disk-full"}
                assert renewer.unsaved == 3
                disk.free()
                await eventually(lambda: renewer.unsaved == 0)
            assert upstream.lost == set()
            held = await one.desk.held()
            assert [package.state for package in held] == [LeaseState.ACTIVE] * 3
            tokens = {token.get_secret_value() for token in await one.desk.journal.tokens()}
            assert tokens == set(upstream.tokens.values())


async def test_nobody_else_uses_a_token_whose_successor_is_not_journaled_yet(tmp_path: Path) -> None:
    clock = MovingClock()
    async with (
        TimedUpstream(clock).running() as upstream,
        process(tmp_path, upstream.url, clock=clock) as one,
        process(tmp_path, upstream.url, clock=clock) as two,
    ):
        (held,) = await one.claim()
        renewer, other = one.renewer(), two.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)
            with stopped_writer(one.desk.journal.path):
                await pass_time(clock, [renewer], 42.0)
                assert renewer.unsaved == 1
                async with running(other):
                    await eventually(lambda: other.keeps == 1)
                    await asyncio.sleep(0.3)  # by the journal it is due
            await eventually(lambda: renewer.unsaved == 0)
            async with running(other):
                await pass_time(clock, [renewer, other], 2 * LEASE)
        assert one.problems() == {"busy-journal"}
        assert two.problems() == set()
        assert upstream.lost == set()
        assert upstream.fewest_renewals() == len(upstream.seen("POST", "renewals")), "each request had the right token"
        assert (await two.desk.get(held.uid)).state is LeaseState.ACTIVE


class WrongClock(MovingClock):
    """A host whose wall clock is off; the one that counts on from the boot is right."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.off)


@pytest.mark.parametrize("off", [3600.0, -3600.0])
async def test_a_wall_clock_an_hour_off_changes_nothing(tmp_path: Path, off: float) -> None:
    true, wrong = MovingClock(), WrongClock(off)
    async with TimedUpstream(true).running() as upstream, process(tmp_path, upstream.url, clock=wrong) as one:
        await one.claim(2)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 2)
            assert 37.0 < (renewer.next_due() or 0.0) < 40.0
            for step in range(60):
                true.ahead += 2.0
                await pass_time(wrong, [renewer], 2.0)
                if step == 20:
                    wrong.off = -off  # and is set, in the middle
            assert {held.state for held in await one.desk.held()} == {LeaseState.ACTIVE}
        assert upstream.lost == set()
        assert 2 <= upstream.fewest_renewals() <= 4
        assert one.problems() == set()


@pytest.mark.parametrize("off", [3600.0, -3600.0])
async def test_after_a_reboot_on_a_wrong_clock_the_package_is_read_and_kept(tmp_path: Path, off: float) -> None:
    true, wrong = MovingClock(), WrongClock(off)
    async with TimedUpstream(true).running() as upstream, process(tmp_path, upstream.url, clock=wrong) as one:
        (held,) = await one.claim()

        def reboot(db: Any) -> int:
            return int(db.execute("UPDATE package SET sent_boot = 'before', sent_ticks = 5.0").rowcount)

        wrong.off = 0.0  # the clock was set right, or wrong, while the host was off
        assert await one.desk.journal._door.write(reboot) == 1
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: len(upstream.seen("GET", held.uid)) == 1)
            for _ in range(30):
                true.ahead += 2.0
                await pass_time(wrong, [renewer], 2.0)
        assert len(upstream.seen("GET", held.uid)) == 1
        assert upstream.lost == set()
        assert (await one.desk.get(held.uid)).state is LeaseState.ACTIVE
        assert upstream.fewest_renewals() >= 1


async def test_suspended_for_eight_of_fifteen_minutes(tmp_path: Path) -> None:
    clock = MovingClock()
    async with (
        TimedUpstream(clock, lease=900.0).running() as upstream,
        process(tmp_path, upstream.url, clock=clock) as one,
    ):
        await one.claim(3)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 3)
            await pass_time(clock, [renewer], 240.0, step=30.0)
            assert upstream.seen("POST", "renewals") == []
            clock.ahead += 480.0  # no timer ran meanwhile
            await eventually(lambda: upstream.fewest_renewals() == 1)
        assert upstream.lost == set()
        assert len(upstream.seen("POST", "renewals")) == 3


async def test_what_is_not_kept_is_renewed_by_nobody_and_by_a_person(tmp_path: Path) -> None:
    clock = MovingClock()
    async with (
        TimedUpstream(clock).running() as upstream,
        process(tmp_path, upstream.url, clock=clock) as one,
        process(tmp_path, upstream.url, clock=clock) as face,
    ):
        kept, left = await one.claim(2)
        await face.desk.set_kept([left.uid, "unknown"], False)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)
            await pass_time(clock, [renewer], 50.0)
            held = await face.desk.get(left.uid)
            assert (held.kept, held.state, held.renewals) == (False, LeaseState.ACTIVE, 0), (
                "not overdue: nobody means to"
            )
            assert (await face.desk.get(kept.uid)).renewals == 1
            await face.desk.renew(face.session, left.uid)
            assert (await face.desk.get(left.uid)).renewals == 1
            assert not (await face.desk.get(left.uid)).kept, "an answer does not change what a person chose"
            await face.desk.set_kept([left.uid], True)
            await eventually(lambda: renewer.keeps == 2)
            await pass_time(clock, [renewer], 2 * LEASE)
        assert upstream.lost == set()
        assert upstream.fewest_renewals() >= 3


async def test_each_renewer_takes_what_it_covers_and_the_rest_when_that_changes(tmp_path: Path) -> None:
    clock = MovingClock()
    keeper_lives = True
    async with (
        TimedUpstream(clock).running() as upstream,
        process(tmp_path, upstream.url, clock=clock) as keeper,
        process(tmp_path, upstream.url, clock=clock) as cockpit,
    ):
        await keeper.claim(2)
        keeping = keeper.renewer()
        standing_by = cockpit.renewer(covers=lambda held: not keeper_lives)
        async with running(standing_by):
            async with running(keeping):
                await eventually(lambda: keeping.keeps == 2)
                await pass_time(clock, [keeping], 2 * LEASE)
                assert cockpit.notes == []
                assert (standing_by.keeps, standing_by.next_due()) == (0, None)
            await keeper.desk.aclose()
            keeper_lives = False
            await eventually(lambda: standing_by.keeps == 2 or bool(cockpit.notes))
            await pass_time(clock, [standing_by], 2 * LEASE)
        assert upstream.lost == set()
        assert len([note for note in cockpit.notes if note.error is None]) >= 4


async def test_a_lease_whose_token_is_in_memory_only_is_kept_with_the_session_that_is_given_for_it(
    tmp_path: Path,
) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        bare = Session.open(one.store, endpoint=upstream.url, token=SecretStr("of-the-environment"), settings=SETTINGS)
        outcome = await one.desk.request(bare, PROJECT_ID, "ideator")
        assert outcome.held is not None
        assert (await one.desk.get(outcome.held.uid)).state is LeaseState.NO_CREDENTIAL
        asked: list[str] = []

        async def sessions(held: HeldPackage) -> Session:
            asked.append(held.profile_name)
            return bare

        renewer = Renewer(one.desk, sessions, clock=clock, speaks_for=lambda held: held.endpoint == upstream.url)
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)
            await pass_time(clock, [renewer], 2 * LEASE)
        await one.desk.aclose()
        await bare.aclose()
        assert upstream.lost == set()
        assert asked
        assert set(asked) == {""}


async def test_stop_starting_lets_what_is_under_way_end_and_begins_nothing(tmp_path: Path) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim(2)
        upstream.delay = 0.3
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 2)
            clock.ahead += 45.0
            await eventually(lambda: renewer.busy == 2)
            renewer.stop_starting()
            await eventually(lambda: renewer.busy == 0)
            clock.ahead += 45.0
            await asyncio.sleep(0.3)
        assert upstream.fewest_renewals() == 1
        assert len(upstream.seen("POST", "renewals")) == 2
        assert renewer.unsaved == 0
        tokens = {token.get_secret_value() for token in await one.desk.journal.tokens()}
        assert tokens == set(upstream.tokens.values())


async def test_a_thousand_races_for_a_token_that_changes_with_each_renewal(tmp_path: Path) -> None:
    packages, rounds = 100, 10
    async with (
        Upstream().running() as upstream,
        process(tmp_path, upstream.url) as one,
        process(tmp_path, upstream.url) as two,
    ):
        for _ in range(packages):
            upstream.new_package()
        for uid in upstream.packages:
            saved = {"resource": upstream.packages[uid], "lease_token": upstream.tokens[uid]}
            await one.desk.adopt(one.session, saved)
        ended = 0
        for _ in range(rounds):
            for begin in range(0, packages, 20):
                uids = list(upstream.packages)[begin : begin + 20]
                acts = [user.desk.renew(user.session, uid) for uid in uids for user in (one, two)]
                ended += len(await asyncio.gather(*acts))
        assert ended == 2 * packages * rounds
        renewals = [package["status"]["lease"]["renewals"] for package in upstream.packages.values()]
        assert renewals == [2 * rounds] * packages
        held = await two.desk.held()
        assert {package.state for package in held} == {LeaseState.ACTIVE}
        tokens = {token.get_secret_value() for token in await two.desk.journal.tokens()}
        assert tokens == set(upstream.tokens.values())


class OddUpstream(TimedUpstream):
    """Its first answers to renewals of each lease are odd in one of two ways, though it has renewed."""

    def __init__(self, clock: MovingClock, how: str) -> None:
        super().__init__(clock)
        self.how = how

    def _change(self, package: dict[str, Any], act: str, request: Request) -> Reply:
        reply = super()._change(package, act, request)
        if act != "renewals" or reply.status != 200 or package["status"]["lease"]["renewals"] > 2:
            return reply
        if self.how == "date ahead":
            reply.headers["date"] = format_datetime(self.clock.now() + timedelta(hours=1), usegmt=True)
            return reply
        body = copy.deepcopy(reply.body)
        body["resource"]["status"]["lease"]["expiresAt"] = (self.clock.now() - timedelta(hours=1)).isoformat()
        return Reply(200, body)


@pytest.mark.parametrize("how", ["date ahead", "end past"])
async def test_one_odd_answer_to_a_renewal_ends_no_keeping(tmp_path: Path, how: str) -> None:
    clock = MovingClock()
    async with OddUpstream(clock, how).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim(3)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 3)
            await pass_time(clock, [renewer], 5 * LEASE)
            assert renewer.keeps == 3
        assert upstream.lost == set()
        assert {held.state for held in await one.desk.held()} == {LeaseState.ACTIVE}
        assert one.problems() == set()


async def test_a_turn_that_cannot_be_taken_is_done_without_and_said(tmp_path: Path) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        (held,) = await one.claim()
        locks = one.desk.journal.folder / "locks"
        locks.mkdir(exist_ok=True)
        (locks / "packages.lock").mkdir()
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)
            await pass_time(clock, [renewer], 3 * LEASE)
            assert renewer.keeps == 1
            assert one.problems() == {"no-turns"}
            assert renewer.journal_problem is not None
            assert (await one.desk.renew(one.session, held.uid)).kind == "renewed"
            (locks / "packages.lock").rmdir()
            await pass_time(clock, [renewer], LEASE)
            assert renewer.journal_problem is None
        assert upstream.lost == set()


async def test_a_journal_that_does_not_answer_holds_up_no_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.leases.renewer._JOURNAL_WAIT", 0.05)
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim(2)
        renewer = one.renewer()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 2)
            go = threading.Event()
            held_up = asyncio.create_task(one.desk.journal._door.read(lambda _: go.wait(PATIENCE)))
            await pass_time(clock, [renewer], 3 * LEASE)
            go.set()
            assert await held_up
            await pass_time(clock, [renewer], LEASE)
        assert upstream.lost == set()
        assert {held.state for held in await one.desk.held()} == {LeaseState.ACTIVE}


async def test_one_that_is_ended_while_it_looks_begins_no_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim()
        renewer = one.renewer()
        looking = asyncio.Event()
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)

            async def slow(_: Any) -> None:
                if renewer.next_due() == 0:
                    looking.set()
                    await asyncio.sleep(PATIENCE)

            monkeypatch.setattr(renewer._schedule, "refresh", slow)
            clock.ahead += 45.0
            await asyncio.wait_for(looking.wait(), PATIENCE)
        await asyncio.sleep(0.1)
        assert renewer.busy == 0
        assert not upstream.seen("POST", "renewals")


async def test_a_fault_of_ours_in_one_look_does_not_end_the_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovingClock()
    async with TimedUpstream(clock).running() as upstream, process(tmp_path, upstream.url, clock=clock) as one:
        await one.claim()
        renewer = one.renewer()
        faults = iter([ZeroDivisionError()])
        refresh = renewer._schedule.refresh

        async def faulty(unsaved: Any) -> None:
            if (fault := next(faults, None)) is not None:
                raise fault
            await refresh(unsaved)

        monkeypatch.setattr(renewer._schedule, "refresh", faulty)
        async with running(renewer):
            await eventually(lambda: renewer.keeps == 1)
            await pass_time(clock, [renewer], 2 * LEASE)
        assert upstream.lost == set()
        (told,) = [note.error for note in one.notes if note.error]
        assert "ZeroDivisionError" in told.cause
