"""What a plain session announces: every change once, and no tick of a clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from expb_tui.core.api.offers import Offer
from expb_tui.core.leases.keeping import Keeping
from expb_tui.core.leases.model import HeldPackage, HeldTask, LeaseState
from expb_tui.plain.changes import LeaseChanges, Numbers, WorkChanges
from expb_tui.plain.words import joined, line_of, sentence, spoken
from tests.support.held import FixedClock, held


def renewed(package: HeldPackage, clock: FixedClock) -> HeldPackage:
    """The package after one more renewal at this moment."""
    times = package.times
    assert times is not None
    sent = replace(
        times,
        expires_at=clock.now() + timedelta(seconds=times.lease_seconds + 1),
        server_date=clock.now(),
        sent_wall=clock.now(),
        sent_ticks=clock.at,
    )
    return replace(package, times=sent, renewals=package.renewals + 1)


class Watched:
    """A session that runs through time as ``PlainSession`` does: it looks when told that something may be due."""

    def __init__(self, keeping: Keeping = Keeping.KEEPER) -> None:
        self.clock = FixedClock()
        self.keeping = keeping
        self.changes = LeaseChanges(Numbers())
        self.looks = 0

    def look(self, *leases: HeldPackage) -> list[str]:
        self.looks += 1
        lines, self.due = self.changes.look(leases, self.clock, lambda _: self.keeping)
        return lines

    def run(self, package: HeldPackage, seconds: float) -> list[str]:
        end, lines = self.clock.at + seconds, []
        while self.due is not None and self.clock.at + self.due < end:
            self.clock.at += self.due
            lines += self.look(package)
        self.clock.at = end
        return lines


def test_a_lease_that_nobody_renews_is_announced_at_a_few_moments_only() -> None:
    session, lease = Watched(Keeping.OFF), held(left=3600.0, length=3600.0)
    assert session.look(lease) == []
    lines = session.run(lease, 3599.0)
    left = [line.partition(": ")[2].partition(" left")[0] for line in lines]
    assert left == ["30 minutes", "10 minutes", "5 minutes", "2 minutes", "1 minute", "30 seconds", "10 seconds"]
    assert lines[0] == "Lease 1, experimenter in checkout-latency: 30 minutes left, keeping is off."
    assert session.looks < 12


def test_a_lease_that_is_renewed_in_time_is_never_spoken_of() -> None:
    session, lease = Watched(), held()
    said = session.look(lease)
    for _ in range(20):
        said += session.run(lease, 600.0)
        lease = renewed(lease, session.clock)
        said += session.look(lease)
    assert said == []


def test_a_short_lease_is_announced_only_below_its_half() -> None:
    session, lease = Watched(Keeping.NOBODY), held(left=60.0, length=60.0)
    session.look(lease)
    assert [line.partition(": ")[2] for line in session.run(lease, 59.0)] == [
        "30 seconds left, renewed by nobody.",
        "10 seconds left, renewed by nobody.",
    ]


def test_an_overdue_renewal_and_its_coming_after_all_are_said() -> None:
    session, lease = Watched(), held(left=900.0)
    session.look(lease)
    session.clock.at += 700
    late = replace(lease, state=LeaseState.OVERDUE, reason="No renewal has been confirmed in time")
    (line,) = session.look(late)
    assert "Renewal overdue, 3 minutes left. No renewal has been confirmed in time." in line
    assert session.run(late, 100.0) == [
        "Lease 1, experimenter in checkout-latency: 2 minutes left, its renewal is overdue."
    ]
    back = renewed(replace(lease, state=LeaseState.ACTIVE), session.clock)
    assert session.look(back) == ["Lease 1, experimenter in checkout-latency: renewed after all, 15 minutes left."]
    assert session.run(back, 500.0) == []


def test_what_comes_changes_hands_and_ends_is_said_once() -> None:
    session, lease = Watched(), held()
    assert session.look() == []
    assert session.look(lease) == [
        "Lease 1, experimenter in checkout-latency: new, 2 tasks, 15 minutes left, renewed by the keeper."
    ]
    assert session.look(lease) == []
    session.keeping = Keeping.COCKPIT
    assert session.look(lease) == ["Lease 1, experimenter in checkout-latency: renewed by this session."]
    done = replace(lease, tasks=tuple(HeldTask(f"task-{n}", "experimenter", "submitted") for n in (1, 2)))
    assert session.look(done) == ["Lease 1, experimenter in checkout-latency: 2 of 2 tasks submitted."]
    ended = replace(done, state=LeaseState.COMPLETED, phase="completed")
    assert session.look(ended) == ["Lease 1, experimenter in checkout-latency: Completed."]
    assert session.look() == []


def test_leases_with_the_same_to_say_share_a_line() -> None:
    session = Watched()
    leases = [held(uid=f"wp-{n}") for n in range(4)]
    session.look(*leases)
    session.keeping = Keeping.NOBODY
    assert session.look(*leases) == ["Leases 1, 2, 3 and 4: renewed by nobody."]


def test_numbers_are_never_given_twice() -> None:
    numbers = Numbers()
    assert [numbers.of("a"), numbers.of("b"), numbers.of("a"), numbers.of("c")] == [1, 2, 1, 3]
    assert numbers.uid(2) == "b"
    assert numbers.uid(9) is None


def _offer(role: str, available: int) -> Offer:
    return Offer(project_id="prj-1", project_name="checkout-latency", role=role, available=available)


def test_only_work_that_appears_is_announced() -> None:
    work = WorkChanges()
    assert work.look([_offer("ideator", 2), _offer("experimenter", 0)]) == []
    assert work.look([_offer("ideator", 3), _offer("experimenter", 1)]) == [
        "Work for experimenter in checkout-latency: 1 open."
    ]
    assert work.look([_offer("ideator", 0), _offer("experimenter", 1)]) == []
    assert work.look([_offer("ideator", 1), _offer("experimenter", 1)]) == [
        "Work for ideator in checkout-latency: 1 open."
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 seconds"), (1.9, "1 second"), (59, "59 seconds"), (61, "1 minute"), (7300, "2 hours"), (90_000, "1 day")],
)
def test_durations_are_whole_words(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_a_line_has_no_sign_and_no_control_in_it() -> None:
    clock = FixedClock()
    package = held(left=60.0, project_name="evil\x1b[2J\u202eproject", renewals=2)
    line = line_of(3, package, Keeping.KEEPER, clock)
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert line.startswith("3. experimenter in evil")
    assert "1 minute left, renewed by the keeper, renewed 2 times, 1 of 2 tasks submitted, package wp-1" in line
    assert sentence("one", "", "Two!", "three.") == "One. Two! Three."
    assert joined(["1"]) == "1"
