"""What a lease is at a moment: hazards 1 (time), 6 (moved profiles) and the words for each state."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.clock import SYSTEM_CLOCK
from expb_tui.core.leases.credentials import ProfileLook, mismatch
from expb_tui.core.leases.model import LeaseState
from expb_tui.core.leases.states import held_of
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import MovingClock, package_row, pin, times


def test_remaining_counts_from_the_sending_of_the_request_less_a_second() -> None:
    clock = MovingClock()
    lease = times(600.0, ago=20.0)
    assert lease.remaining(clock) == pytest.approx(580.0, abs=0.5)
    clock.ahead = 480.0  # suspended for eight minutes: this clock counts them
    assert lease.remaining(clock) == pytest.approx(100.0, abs=0.5)
    clock.ahead = 700.0
    assert lease.remaining(clock) < 0


def test_only_the_servers_clock_judges_its_instants() -> None:
    wrong = timedelta(hours=-5)
    lease = times(600.0)
    shifted = times(
        600.0,
        expires_at=lease.expires_at + wrong,
        server_date=lease.server_date + wrong,
        absolute_expires_at=None,
    )
    assert shifted.remaining(SYSTEM_CLOCK) == pytest.approx(600.0, abs=0.5)


def test_a_lagging_date_never_promises_more_than_one_renewal_buys() -> None:
    lease = times(900.0)
    lagging = times(900.0, server_date=lease.server_date - timedelta(seconds=3), expires_at=lease.expires_at)
    assert lagging.remaining(SYSTEM_CLOCK) <= 900.0


def test_after_a_reboot_the_wall_clock_stands_in_and_is_marked() -> None:
    lease = times(600.0, ago=30.0, sent_boot="an-earlier-boot", sent_ticks=1e9)
    assert not lease.verified()
    assert lease.remaining(SYSTEM_CLOCK) == pytest.approx(570.0, abs=0.5)
    expired = held_of(package_row(times=times(10.0, ago=60.0, sent_boot="an-earlier-boot")), clock=SYSTEM_CLOCK)
    assert expired.state is LeaseState.EXPIRED
    assert "this host's clock" in expired.reason


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, LeaseState.ACTIVE),
        ({"times": times(310.0)}, LeaseState.ACTIVE),
        ({"times": times(200.0)}, LeaseState.OVERDUE),
        ({"times": times(-1.0)}, LeaseState.EXPIRED),
        ({"token": None}, LeaseState.TOKEN_LOST),
        ({"token": None, "times": times(-1.0)}, LeaseState.EXPIRED),
        ({"lost_code": "lease-conflict", "lost_reason": "gone"}, LeaseState.LOST),
        ({"phase": "completed", "token": None}, LeaseState.COMPLETED),
        ({"phase": "released", "token": None}, LeaseState.RELEASED),
        ({"phase": "revoked", "token": None}, LeaseState.REVOKED),
        ({"phase": "expired", "token": None}, LeaseState.EXPIRED),
        ({"phase": "a-later-phase"}, LeaseState.ACTIVE),
        ({"times": None}, LeaseState.ACTIVE),
    ],
)
def test_each_state_has_its_word(changes: dict[str, Any], state: LeaseState) -> None:
    held = held_of(package_row(**changes), clock=SYSTEM_CLOCK)
    assert held.state is state
    assert bool(held.reason) == (state not in (LeaseState.ACTIVE, LeaseState.COMPLETED, LeaseState.RELEASED))
    assert (held.renew_in(SYSTEM_CLOCK) is None) == (not held.renewable or held.times is None)


def test_a_missing_credential_is_said_after_what_is_worse() -> None:
    held = held_of(package_row(), clock=SYSTEM_CLOCK, credential_problem="the profile is gone")
    assert (held.state, held.reason) == (LeaseState.NO_CREDENTIAL, "the profile is gone")
    assert not held.usable
    lost = held_of(package_row(lost_code="lease-conflict"), clock=SYSTEM_CLOCK, credential_problem="x")
    assert lost.state is LeaseState.LOST


def test_a_renewal_is_due_at_a_third_and_never_at_the_absolute_end() -> None:
    early = held_of(package_row(times=times(500.0)), clock=SYSTEM_CLOCK)
    assert early.renew_in(SYSTEM_CLOCK) == pytest.approx(200, abs=1)
    assert held_of(package_row(times=times(299.0)), clock=SYSTEM_CLOCK).renew_in(SYSTEM_CLOCK) == 0
    lease = times(100.0)
    capped = held_of(package_row(times=times(100.0, absolute_expires_at=lease.expires_at)), clock=SYSTEM_CLOCK)
    assert capped.state is LeaseState.ACTIVE
    assert capped.renew_in(SYSTEM_CLOCK) is None


def profile(**changes: Any) -> Profile:
    values: dict[str, Any] = {
        "endpoint": "https://bench.example.test",
        "account_id": "acc-1",
        "agent_id": "agt-1",
        "token": SecretStr("identity-token"),
        **changes,
    }
    return Profile("researcher", "agent", **values)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (profile(), ""),
        (profile(token=SecretStr("another token of the same agent")), ""),
        (profile(endpoint="https://other.example.test"), "points to https://other.example.test"),
        (profile(account_id="acc-2"), "another account"),
        (profile(agent_id="agt-2"), "another agent"),
        (profile(agent_id=None, account_id=None), ""),
        (profile(token=None), "signed out"),
        (None, "is gone"),
    ],
)
def test_a_moved_profile_is_told_by_what_moved(now: Profile | None, words: str) -> None:
    problem = mismatch(pin(), now)
    assert (words in problem) if words else problem == ""


def test_the_profile_file_itself_is_pinned(tmp_path: Path) -> None:
    store, other = ProfileStore(tmp_path / "a.json"), ProfileStore(tmp_path / "b.json")
    store.put(profile())
    assert ProfileLook(store).problem(pin(profile_file=str(store.path))) == ""
    assert "is gone" in ProfileLook(store).problem(pin(profile_file=str(other.path)))
    other.path.write_text("{")
    assert "cannot be read" in ProfileLook(store).problem(pin(profile_file=str(other.path)))
    assert "no profile holds" in ProfileLook(store).problem(pin(profile_name=""))
