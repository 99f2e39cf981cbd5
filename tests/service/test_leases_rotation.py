"""A service that changes the lease token with each renewal: many users of a journal, no false *lost* (hazards 3)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.clock import SYSTEM_CLOCK
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases import renewer
from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import LeaseLost, LeaseState, SubmitOutcome
from expb_tui.core.leases.renewer import RenewalNote, Renewer
from expb_tui.core.leases.turns import package_turn
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, SETTINGS, MovingClock
from tests.support.loopback import FaultyWay, once, posts, problem
from tests.support.upstream import ACCOUNT_ID, AGENT_ID, PROJECT_ID, Upstream

BODY: dict[str, Any] = {
    "outcome": "completed",
    "output": {"hypothesis": {"objectiveId": "o", "statement": "s", "rationale": "r", "plan": "p"}},
}


@contextlib.asynccontextmanager
async def process(folder: Path, url: str, *, clock: Any = SYSTEM_CLOCK) -> AsyncIterator[tuple[Desk, Session]]:
    """What one process has: its own journal connection, locks and sessions, on shared files."""
    store = ProfileStore(folder / "profiles.json")
    if not store.read().by_name:
        identity = SecretStr("identity-token")
        store.put(Profile(AGENT, "agent", endpoint=url, account_id=ACCOUNT_ID, agent_id=AGENT_ID, token=identity))
    desk = Desk(Journal(folder / "state" / "journal.db"), store, patience=2.0, clock=clock)
    session = Session.open(store, profile=AGENT, settings=SETTINGS, clock=clock)
    try:
        yield desk, session
    finally:
        await desk.aclose()
        await session.aclose()
        await desk.journal.aclose()


async def test_races_of_processes_lose_nothing(tmp_path: Path) -> None:
    rounds = random.Random(11)
    async with (
        Upstream(delay=0.004).running() as upstream,
        process(tmp_path, upstream.url) as one,
        process(tmp_path, upstream.url) as two,
        process(tmp_path, upstream.url) as three,
    ):
        everybody = (one, two, three)
        done: list[SubmitOutcome] = []

        async def live(uid: str) -> None:
            async def renew(user: tuple[Desk, Session]) -> None:
                await asyncio.sleep(rounds.random() * 0.01)
                await user[0].renew(user[1], uid)

            async def submit(user: tuple[Desk, Session]) -> None:
                await asyncio.sleep(rounds.random() * 0.03)
                done.append(await user[0].submit(user[1], uid, {"taskId": f"task-{uid}", **BODY}))

            await asyncio.gather(*(renew(user) for user in everybody for _ in range(3)))
            await asyncio.gather(submit(two), *(renew(user) for user in (one, three)))

        for _ in range(6):
            claims = await asyncio.gather(*(one[0].request(one[1], PROJECT_ID, "ideator") for _ in range(4)))
            await asyncio.gather(*(live(claim.held.uid) for claim in claims if claim.held))
        assert [outcome.kind for outcome in done] == ["submitted"] * 24
        states = {held.state for held in await one[0].held(everything=True)}
        assert states == {LeaseState.COMPLETED}
        renewals = sum(package["status"]["lease"]["renewals"] for package in upstream.packages.values())
        assert renewals >= 24 * 9


async def test_a_token_taken_over_elsewhere_is_lost_and_said_so(tmp_path: Path) -> None:
    async with Upstream().running() as upstream, process(tmp_path, upstream.url) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None
        upstream.tokens[claim.held.uid] = "somebody-elses"
        for act in (desk.renew, desk.release):
            with pytest.raises(LeaseLost) as caught:
                await act(session, claim.held.uid)
            assert caught.value.code == "lease-conflict"
        held = await desk.get(claim.held.uid)
        assert (held.state, held.usable) == (LeaseState.LOST, False)
        assert "no longer accepts" in held.reason


async def test_a_conflict_of_an_ended_package_is_a_normal_end(tmp_path: Path) -> None:
    async with Upstream().running() as upstream, process(tmp_path, upstream.url) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None
        upstream.packages[claim.held.uid]["status"]["phase"] = "completed"
        upstream.packages[claim.held.uid]["metadata"]["version"] += 1
        assert (await desk.renew(session, claim.held.uid)).kind == "ended"
        assert (await desk.get(claim.held.uid)).state is LeaseState.COMPLETED


async def test_a_conflict_that_cannot_be_looked_into_loses_nothing(tmp_path: Path) -> None:
    async with (
        Upstream().running() as upstream,
        FaultyWay(upstream.url).running() as way,
        process(tmp_path, way.url) as (desk, session),
    ):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None
        upstream.tokens[claim.held.uid] = "somebody-elses"
        way.fault = lambda request: problem(500, "internal-error") if request.method == "GET" else "pass"
        with pytest.raises(ExpbError) as caught:
            await desk.renew(session, claim.held.uid)
        assert not isinstance(caught.value, LeaseLost)
        assert (await desk.get(claim.held.uid)).state is LeaseState.ACTIVE


async def test_without_digests_a_submission_is_ours_only_if_it_may_have_arrived(tmp_path: Path) -> None:
    async with (
        Upstream().running() as upstream,
        FaultyWay(upstream.url).running() as way,
        process(tmp_path, way.url) as (desk, session),
    ):
        ours, theirs = [await desk.request(session, PROJECT_ID, "ideator") for _ in range(2)]
        assert ours.held is not None
        assert theirs.held is not None
        way.fault = once(posts("submissions"), "lose")
        outcome = await desk.submit(session, ours.held.uid, {"taskId": f"task-{ours.held.uid}", **BODY})
        assert (outcome.kind, outcome.receipt.confirmed_by) == ("already", "reading")

        package = upstream.packages[theirs.held.uid]
        package["status"]["tasks"][0]["phase"], package["status"]["phase"] = "submitted", "completed"
        with pytest.raises(ExpbError) as caught:
            await desk.submit(session, theirs.held.uid, {"taskId": f"task-{theirs.held.uid}", **BODY})
        assert caught.value.code == "task-closed"
        assert len(await desk.receipts()) == 1


async def test_the_renewer_keeps_leases_of_seconds_and_one_process_renews_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.leases.renewer._STEP", 0.05)
    notes: list[RenewalNote] = []
    async with (
        Upstream(lease=2.0, delay=0.02).running() as upstream,
        process(tmp_path, upstream.url) as one,
        process(tmp_path, upstream.url) as two,
    ):
        claims = await asyncio.gather(*(one[0].request(one[1], PROJECT_ID, "ideator") for _ in range(6)))

        async def session_of(user: tuple[Desk, Session]) -> Session:
            return user[1]

        keepers = [
            asyncio.create_task(
                Renewer(user[0], lambda held, user=user: session_of(user), on_note=notes.append).run()  # type: ignore[misc]  # the default binds
            )
            for user in (one, two)
        ]
        await asyncio.sleep(3.0)
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        held = {one.uid: one for one in await one[0].held()}
        assert {claim.held.uid for claim in claims if claim.held} == set(held)
        assert all(package.usable for package in held.values()), {p.uid: p.state for p in held.values()}
        assert [note for note in notes if note.error is not None] == []
        await asyncio.gather(one[0].aclose(), two[0].aclose())
        # Every request was accepted: nobody renewed beside another, with a token that was being replaced.
        renewals = sum(package["status"]["lease"]["renewals"] for package in upstream.packages.values())
        assert renewals == len(upstream.seen("POST", "renewals"))
        assert all(2 <= package.renewals <= 9 for package in held.values())


async def test_after_a_suspend_a_due_lease_is_renewed_within_two_seconds(tmp_path: Path) -> None:
    clock = MovingClock()
    async with Upstream().running() as upstream, process(tmp_path, upstream.url, clock=clock) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None

        async def sessions(_: object) -> Session:
            return session

        keeper = asyncio.create_task(Renewer(desk, sessions, clock=clock).run())
        await asyncio.sleep(0.2)
        assert upstream.seen("POST", "renewals") == []
        clock.ahead = 610.0  # the machine slept; no timer ran
        async with asyncio.timeout(30):
            while not upstream.seen("POST", "renewals"):
                await asyncio.sleep(0.02)
        assert len(upstream.seen("POST", "renewals")) == 1
        assert renewer._STEP <= 1.0, "so long after waking at the latest it looks"
        keeper.cancel()


async def test_after_a_reboot_the_package_is_read_before_anything_else(tmp_path: Path) -> None:
    async with Upstream().running() as upstream, process(tmp_path, upstream.url) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None
        await desk.journal._door.write(
            lambda db: (
                db.execute("UPDATE package SET sent_boot = 'before', sent_wall = '2020-01-01T00:00:00+00:00'").rowcount
            )
        )
        assert (await desk.get(claim.held.uid)).state is LeaseState.EXPIRED, "by the wall clock, which proves nothing"

        async def sessions(_: object) -> Session:
            return session

        keeper = asyncio.create_task(Renewer(desk, sessions).run())
        async with asyncio.timeout(5):
            while (await desk.get(claim.held.uid)).state is not LeaseState.ACTIVE:
                await asyncio.sleep(0.02)
        keeper.cancel()
        assert len(upstream.seen("GET", claim.held.uid)) == 1
        assert upstream.seen("POST", "renewals") == []


async def test_a_lock_that_a_stopped_process_holds_is_passed_over_near_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.leases.renewer._STEP", 0.05)
    clock = MovingClock()
    notes: list[RenewalNote] = []
    async with Upstream().running() as upstream, process(tmp_path, upstream.url, clock=clock) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None

        async def sessions(_: object) -> Session:
            return session

        async with package_turn(desk.journal.folder, claim.held.row_id, patience=0.0):
            clock.ahead = 650.0
            keeper = asyncio.create_task(Renewer(desk, sessions, clock=clock, on_note=notes.append).run())
            await asyncio.sleep(0.3)
            assert upstream.seen("POST", "renewals") == []
            clock.ahead = 800.0
            async with asyncio.timeout(5):
                while not upstream.seen("POST", "renewals"):
                    await asyncio.sleep(0.02)
        keeper.cancel()
        assert [note.error for note in notes if note.error] == []


async def test_failures_are_tried_again_with_fresh_keys_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.leases.renewer._STEP", 0.05)
    clock = MovingClock()
    notes: list[RenewalNote] = []
    async with (
        Upstream().running() as upstream,
        FaultyWay(upstream.url).running() as way,
        process(tmp_path, way.url, clock=clock) as (desk, session),
    ):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None
        clock.ahead = 885.0  # near the end: a try a second

        async def sessions(_: object) -> Session:
            return session

        way.fault = once(posts("renewals"), "drop", times=2)
        keeper = asyncio.create_task(Renewer(desk, sessions, clock=clock, on_note=notes.append).run())
        async with asyncio.timeout(8):
            while not any(note.error is None for note in notes):
                await asyncio.sleep(0.05)
        keeper.cancel()
        keys = [request.key for request in way.seen("POST", "renewals")]
        assert len(keys) == len(set(keys)) == 3
        assert [bool(note.error) for note in notes] == [True, True, False]


async def test_a_journal_that_cannot_be_written_does_not_stop_renewals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.leases.door.BUSY", 0.1)
    monkeypatch.setattr("expb_tui.core.leases.renewer._STEP", 0.05)
    notes: list[RenewalNote] = []
    async with Upstream(lease=2.0).running() as upstream, process(tmp_path, upstream.url) as (desk, session):
        claim = await desk.request(session, PROJECT_ID, "ideator")
        assert claim.held is not None

        async def sessions(_: object) -> Session:
            return session

        stopped = sqlite3.connect(desk.journal.path, isolation_level=None)
        stopped.execute("BEGIN IMMEDIATE")
        keeper = asyncio.create_task(Renewer(desk, sessions, on_note=notes.append).run())
        await asyncio.sleep(3.5)
        assert len(upstream.seen("POST", "renewals")) >= 2
        assert {note.error.code for note in notes if note.error} == {"busy-journal"}
        stopped.execute("ROLLBACK")
        stopped.close()
        async with asyncio.timeout(10):
            while not (held := await desk.get(claim.held.uid)).usable:
                await asyncio.sleep(0.05)
            keeper.cancel()
            # A renewal may be under way at any moment of so short a lease; what it brought is journaled.
            while (await desk.journal.tokens())[0].get_secret_value() != upstream.tokens[held.uid]:
                await asyncio.sleep(0.05)
