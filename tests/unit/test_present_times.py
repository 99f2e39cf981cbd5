"""Countdowns, ages and expiries, and that the words change exactly when it is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expb_tui.present.times import age, countdown, expiry, moment, since

NOW = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (0.4, "0s"),
        (1, "1s"),
        (119.9, "119s"),
        (120, "2m"),
        (900, "15m"),
        (3599, "59m"),
        (3600, "1h"),
        (90_000, "1d"),
    ],
)
def test_a_countdown_is_coarse_until_two_minutes_are_left(left: float, text: str) -> None:
    assert countdown(left).text == text


@settings(deadline=None)
@given(st.floats(min_value=0.01, max_value=400_000, allow_nan=False))
def test_a_countdown_changes_when_it_says_and_not_before(left: float) -> None:
    words = countdown(left)
    assert words.next_change is not None
    assert words.next_change > 0
    assert countdown(left - max(0.0, words.next_change - 0.003)).text == words.text
    later = countdown(left - words.next_change)
    assert later.text != words.text or later.next_change is None


@settings(deadline=None)
@given(st.floats(min_value=0, max_value=400_000, allow_nan=False))
def test_an_age_changes_when_it_says_and_not_before(passed: float) -> None:
    words = age(passed)
    assert words.next_change is not None
    assert age(passed + max(0.0, words.next_change - 0.003)).text == words.text
    assert age(passed + words.next_change).text != words.text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, "-"),
        (NOW - timedelta(seconds=1), "expired"),
        (NOW + timedelta(minutes=12, seconds=30), "in 12m"),
        (NOW + timedelta(days=5, hours=1), "in 5d"),
    ],
)
def test_expiry(at: datetime | None, text: str) -> None:
    assert expiry(at, NOW).text == text


def test_the_age_of_an_unknown_instant_is_unknown() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since(NOW - timedelta(hours=3), NOW) == "3h"


def test_a_moment_of_another_day_names_the_day() -> None:
    local = NOW.astimezone()
    assert moment(NOW, NOW) == f"{local:%H:%M}"
    assert moment(NOW + timedelta(days=2), NOW).startswith(f"{local + timedelta(days=2):%b}")
    assert moment(None, NOW) == "-"
