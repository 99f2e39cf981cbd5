"""Two cockpits and a keeper on one journal; processes that are killed and suspended; a service that is away."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.cockpit import in_terminal
from tests.support.drill import Drill, claim, faulty_way, kept, save_draft
from tests.support.keeper import KeeperProcess, keeper
from tests.support.loopback import FaultyWay
from tests.support.recorded import Place

LEASE = 12
"""Seconds; what is due after two thirds of it has four to happen in."""
LONGER_LEASE = 18
MARGIN = 5.0
"""Seconds that are left of a lease when those who were away for less than it come back."""
PATIENCE = 60.0


def wait(true: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Until it is so; patient."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        meanwhile()
        time.sleep(0.1)


def test_whoever_is_killed_or_stopped_the_others_keep_every_lease(drill: Drill) -> None:
    drill.lease(LEASE)
    place = drill.place(EXPB_TUI_MACHINE_ID="host-one")
    with (
        in_terminal(place.environ, settled="online") as one,
        in_terminal(place.environ, settled="online") as two,
        keeper(place.environ) as keeping,
    ):
        keeping.at_work()
        # With everybody at work: to start them takes a busy machine longer than such a lease lasts.
        uids = [claim(place).json()["resource"]["metadata"]["uid"] for _ in range(3)]

        def draw() -> None:
            for cockpit in (one, two):
                cockpit.terminal.pump(0.01)

        def all_renewed() -> None:
            before = drill.renewals()
            wait(lambda: all(count > before[uid] for uid, count in drill.renewals().items()), draw)
            assert set(drill.renewals()) == set(uids), "a lease was lost"

        all_renewed()
        keeping.send(signal.SIGKILL)
        keeping.wait()
        os.kill(one.terminal.pid, signal.SIGSTOP)
        all_renewed()
        os.kill(two.terminal.pid, signal.SIGKILL)
        os.kill(one.terminal.pid, signal.SIGCONT)
        all_renewed()
    assert set(drill.truthful(place)) == set(uids)


@dataclass
class Away:
    """A keeper that is suspended, or whose service does not answer, for shorter or longer than its lease."""

    place: Place
    keeper: KeeperProcess
    way: FaultyWay
    suspended: bool
    uid: str = ""

    def claim(self) -> None:
        self.uid = claim(self.place).json()["resource"]["metadata"]["uid"]
        save_draft(self.place, self.uid, "task", {"typed": "x"})

    def leave(self) -> None:
        if self.suspended:
            self.keeper.send(signal.SIGSTOP)
        else:
            self.way.fault = lambda _: "drop"

    def come_back(self) -> None:
        self.keeper.send(signal.SIGCONT)
        self.way.fault = lambda _: "pass"


def test_away_for_shorter_and_longer_than_a_lease(drill: Drill) -> None:
    drill.lease(LONGER_LEASE)
    with contextlib.ExitStack() as stack:

        def away(suspended: bool) -> Away:
            way = stack.enter_context(faulty_way(drill.server))
            place = drill.place(None, way.url, EXPB_TUI_MACHINE_ID="host-one")
            keeping = stack.enter_context(keeper(place.environ))
            keeping.at_work()
            return Away(place, keeping, way, suspended)

        shorter, longer = [away(True), away(False)], [away(True), away(False)]
        everybody = [*shorter, *longer]
        for one in everybody:
            one.claim()
            one.leave()
        left = drill.renewals()
        time.sleep(max(0.0, drill.first_end() - time.time() - MARGIN))  # they are due since a moment
        assert drill.renewals() == left == {one.uid: 0 for one in everybody}
        for one in shorter:
            one.come_back()
        wait(lambda: all(drill.renewals().get(one.uid) != 0 for one in shorter))
        assert {one.uid for one in shorter} <= drill.active(), "a lease was lost"
        wait(lambda: not {one.uid for one in longer} & drill.active())
        time.sleep(1.5)  # a host may believe in a lease for a second more than the service
        for one in longer:
            one.come_back()
        wait(lambda: all(one.keeper.state.keeps == 0 for one in longer))
        for one in shorter:
            assert drill.listed(one.place)[one.uid] in ("active", "renewal overdue")
            assert one.place.run("agent", "work", "renew", one.uid).code == 0
        for one in longer:
            assert drill.listed(one.place)[one.uid] in ("expired", "lost")
            assert [draft.values for draft in kept(one.place)[1]] == [{"typed": "x"}]
