"""What is told of leases between two looks at the journal, and of the keeper between two looks at it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from expb_tui.core.clock import boot_id
from expb_tui.core.errors import SignInNeeded
from expb_tui.core.keeper import state as keeper_state
from expb_tui.core.keeper.state import KeeperProblem, KeeperState
from expb_tui.core.leases.keeping import Keeping
from expb_tui.core.leases.model import HeldTask, LeaseState
from expb_tui.core.locks import take
from expb_tui.core.paths import private_dir, state_dir
from expb_tui.launch import Chosen, open_house
from expb_tui.present.cells import UNICODE, Tone
from expb_tui.watch.keeper import KeeperWatch
from expb_tui.watch.losses import Losses, ending
from expb_tui.watch.notices import Notice, Notices
from tests.support.held import NOW, FixedClock, held


@dataclass
class Told:
    """Everything that was told."""

    quiet: list[Notice] = field(default_factory=list)
    loud: list[Notice] = field(default_factory=list)

    def tell(self, notice: Notice) -> None:
        self.quiet.append(notice)

    def alarm(self, notice: Notice) -> None:
        self.loud.append(notice)


@pytest.mark.parametrize("had", [LeaseState.ACTIVE, LeaseState.OVERDUE, LeaseState.NO_CREDENTIAL])
@pytest.mark.parametrize("gone", [LeaseState.LOST, LeaseState.EXPIRED, LeaseState.REVOKED])
def test_a_loss_is_loud_once(had: LeaseState, gone: LeaseState) -> None:
    told = Told()
    losses = Losses(FixedClock(), told)
    before = held(state=had, tasks=(HeldTask("t", "ideator", "assigned", has_draft=True),))
    after = replace(before, state=gone, reason="somebody else holds it", next_step="request new work")
    losses.compare([before], [after])
    losses.compare([after], [replace(after, state=LeaseState.LOST)])
    losses.compare([before], [after])
    (notice,) = told.loud
    assert (notice.tone, notice.pane, notice.row) == (Tone.BAD, "leases", "wp-1")
    assert "1 draft of it is kept" in notice.text
    why = "no renewal was confirmed in time" if gone is LeaseState.EXPIRED else "somebody else holds it"
    assert (notice.cause, notice.next_step) == (why, "request new work")
    words = losses.words(UNICODE)
    assert words is not None
    assert words.text.endswith("1 lease lost")
    losses.seen("wp-1")
    assert losses.words(UNICODE) is None


@pytest.mark.parametrize(
    ("had", "now"),
    [
        (LeaseState.ACTIVE, LeaseState.RELEASED),
        (LeaseState.ACTIVE, LeaseState.COMPLETED),
        (LeaseState.TOKEN_LOST, LeaseState.REVOKED),
        (LeaseState.TOKEN_LOST, LeaseState.EXPIRED),
        (LeaseState.ACTIVE, LeaseState.OVERDUE),
    ],
)
def test_what_is_no_loss_is_quiet(had: LeaseState, now: LeaseState) -> None:
    told = Told()
    losses = Losses(FixedClock(), told)
    losses.compare([held(state=had)], [held(state=now)])
    assert told == Told()
    assert losses.words(UNICODE) is None


def test_a_lease_that_was_renewed_elsewhere_after_all_is_not_lost_any_more() -> None:
    told = Told()
    losses = Losses(FixedClock(), told)
    losses.compare([held()], [held(state=LeaseState.EXPIRED)])
    losses.compare([held(state=LeaseState.EXPIRED)], [held()])
    assert losses.words(UNICODE) is None
    losses.compare([held()], [held(state=LeaseState.LOST)])
    assert len(told.loud) == 2


def test_a_missing_credential_is_told_once_unless_it_was_agreed_to() -> None:
    told = Told()
    losses = Losses(FixedClock(), told)
    without = held(state=LeaseState.NO_CREDENTIAL, reason="the profile is gone", next_step="sign in again")
    losses.compare([held()], [without])
    losses.compare([held()], [without])
    (notice,) = told.quiet
    assert "has no credential" in notice.text
    assert notice.next_step == "sign in again"
    losses.agreed_to(["other"])
    losses.compare([held(uid="other")], [replace(without, uid="other")])
    assert len(told.quiet) == 1


def test_at_the_first_look_only_losses_with_a_draft_are_worth_a_word() -> None:
    told = Told()
    drafted = held(state=LeaseState.LOST, tasks=(HeldTask("t", "ideator", "assigned", has_draft=True),))
    Losses(FixedClock(), told).compare(None, [held(state=LeaseState.LOST, uid="other"), drafted])
    assert [notice.row for notice in told.quiet] == ["wp-1"]
    assert told.loud == []


@pytest.mark.parametrize(("state", "over"), [(state, state not in ("active",)) for state in LeaseState])
def test_what_stops_the_work(state: LeaseState, over: bool) -> None:
    can_come_back = state in (LeaseState.OVERDUE, LeaseState.TOKEN_LOST, LeaseState.NO_CREDENTIAL)
    assert (ending(held(state=state)) is not None) == (over and not can_come_back)


# The keeper


class Keeper:
    """What a keeper writes for faces; its lock, which says whether it runs, is held by the test."""

    def __init__(self, folder: Path, clock: FixedClock) -> None:
        self.folder = private_dir(folder)
        self.clock = clock
        self._lock = take(folder / keeper_state.LOCK_NAME)

    def say(self, **changes: object) -> None:
        said = KeeperState(pid=7, seen_ticks=self.clock.ticks(), seen_boot=boot_id(), version="1")
        keeper_state.write(self.folder, replace(said, **changes))  # type: ignore[arg-type]  # names of its fields

    def end(self) -> None:
        self._lock.release()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("EXPB_TUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("EXPB_TUI_KEEPER", "auto")
    return Keeper(state_dir(), FixedClock())


def watching(keeper: Keeper, told: Told, **chosen: bool) -> KeeperWatch:
    return KeeperWatch(open_house(Chosen(**chosen), clock=keeper.clock), told, lambda: None)  # type: ignore[arg-type]  # flags


def test_a_healthy_keeper_is_no_word_in_the_header(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told)
    keeper.say(keeps=1)
    watch.look([held()])
    assert watch.keeping(held()) is Keeping.KEEPER
    assert not watch.left_to_us(held())
    assert watch.trouble([held()], UNICODE) is None
    assert watch.words().text == "keeper on"
    assert told == Told()


def test_what_it_cannot_read_is_told_once_and_left_to_the_cockpit(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told)
    package = held()
    problem = KeeperProblem(
        "", package.profile_name, package.profile_file, "It cannot read", "locked", "unlock", "", NOW, 1, True
    )
    for tries in (1, 2):
        keeper.say(problems=(replace(problem, tries=tries),))
        watch.look([package])
    (notice,) = told.quiet
    assert (notice.text, notice.cause, notice.next_step) == ("It cannot read", "locked", "unlock")
    assert watch.keeping(package) is Keeping.COCKPIT
    assert watch.left_to_us(package)
    trouble = watch.trouble([package], UNICODE)
    assert trouble is not None
    assert trouble.text == "! keeper: 1 problem"
    assert "locked" in watch.why_not(package)


def test_what_the_service_refuses_goes_on_with_nobody(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told)
    package = held()
    refused = KeeperProblem(package.uid, "", "", "It is refused", "401", "sign in", SignInNeeded.code, NOW, 1)
    keeper.say(problems=(refused,))
    watch.look([package])
    assert watch.keeping(package) is Keeping.COCKPIT, "this cockpit has not tried yet"
    watch.tried(package, SignInNeeded("Signed out here too"))
    assert watch.keeping(package) is Keeping.NOBODY
    assert "It is refused" in watch.why_not(package)
    assert "Signed out here too" in watch.why_not(package)
    assert package.times is not None
    renewed = replace(package, times=replace(package.times, expires_at=NOW + timedelta(hours=1)))
    assert watch.keeping(renewed) is Keeping.COCKPIT, "somebody has renewed it since"
    watch.tried(package, None)
    assert watch.keeping(package) is Keeping.COCKPIT


def test_the_same_error_is_the_same_whatever_request_it_names() -> None:
    notices = Notices()
    for number in range(3):
        notices.add(Notice(NOW, Tone.BAD, f"It was refused (request r-{number})", f"401 (request r-{number})"))
    (notice,) = notices.newest_first()
    assert notice.times == 3
    assert "r-2" in notice.text
    assert notices.unread == 1


def test_a_lease_that_reached_its_absolute_end_was_not_left_unrenewed() -> None:
    package = held(state=LeaseState.EXPIRED)
    assert package.times is not None
    over = ending(replace(package, times=replace(package.times, absolute_expires_at=package.times.expires_at)))
    assert over is not None
    assert over.why.startswith("it had reached its absolute end")


def test_a_stopped_keeper_is_not_relied_on(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told)
    keeper.say()
    watch.look([held()])
    keeper.clock.at += 120.0
    watch.look([held(100.0 + 900.0)])
    (notice,) = told.quiet
    assert "no sign of life" in notice.text
    assert watch.left_to_us(held())
    trouble = watch.trouble([held()], UNICODE)
    assert trouble is not None
    assert trouble.text == "! keeper silent"


@pytest.mark.parametrize(("end", "how"), [("", "killed"), ("failed", "failed"), ("stopped", "stopped"), ("idle", "")])
def test_how_it_ended_is_told_where_leases_depend_on_it(keeper: Keeper, told: Told, end: str, how: str) -> None:
    watch = watching(keeper, told)
    keeper.say()
    watch.look([held()])
    keeper.say(end=end)
    keeper.end()
    watch.look([held()])
    assert [how in notice.cause for notice in told.quiet] == ([True] if how else [])
    trouble = watch.trouble([held()], UNICODE)
    assert trouble is not None
    assert trouble.text == "! no keeper"
    assert watch.trouble([held(kept=False)], UNICODE) is None
    told.quiet.clear()
    again = Keeper(keeper.folder, keeper.clock)
    again.say()
    watch.look([held()])
    assert ["runs again" in notice.text for notice in told.quiet] == ([True] if how else [])
    again.end()


def test_a_journal_that_it_cannot_write_is_bad(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told)
    keeper.say(journal_problem="the disk is full")
    watch.look([held()])
    trouble = watch.trouble([held()], UNICODE)
    assert trouble is not None
    assert (trouble.text, trouble.tone) == (f"{UNICODE.bad} keeper: journal", Tone.BAD)
    assert "memory" in told.quiet[0].text


def test_a_read_only_cockpit_renews_nothing_and_says_so(keeper: Keeper, told: Told) -> None:
    watch = watching(keeper, told, read_only=True)
    keeper.end()
    watch.look([held()])
    assert watch.keeping(held()) is Keeping.NOBODY
    assert watch.words() == ("no keeper", Tone.WARN)
    asyncio.run(watch.ensure())
    assert not watch.state or not watch.state.running
