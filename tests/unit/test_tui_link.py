"""The header's words about the connection: what state, and when the last good answer came."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from expb_tui.core.api.failures import ApiProblem, Unreachable
from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.present.cells import UNICODE, Tone
from expb_tui.watch.link import Link, LinkState, of_error, words

NOW = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def ticks(self) -> float:
        return 1000.0


def said(link: Link) -> str:
    return words(link, FixedClock(), UNICODE)[0].text


def test_a_young_answer_is_online_and_an_old_one_says_its_age() -> None:
    assert said(Link(LinkState.ONLINE, NOW, 990.0)) == "✓ online"
    assert said(Link(LinkState.ONLINE, NOW, 1000.0 - 190)) == "✓ online, 3m ago"


def test_a_lost_connection_says_since_when() -> None:
    cell, change = words(Link(LinkState.LOST, NOW, 1000.0 - 25), FixedClock(), UNICODE)
    assert cell.text.startswith("✗ no answer since ")
    assert cell.text.endswith(", 25s")
    assert cell.tone is Tone.BAD
    assert change is not None
    assert said(Link(LinkState.LOST)) == "✗ no answer"


def problem(status: int) -> ApiProblem:
    return ApiProblem("GET /v1/work-opportunities", status, "unavailable")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (SignInNeeded("Profile 'a' is signed out"), LinkState.SIGNED_OUT),
        (problem(503), LinkState.REFUSED),
        (Unreachable("The service cannot be reached"), LinkState.LOST),
    ],
)
def test_each_failure_has_its_state(error: ExpbError, state: LinkState) -> None:
    assert of_error(error).state is state


def test_a_refusal_is_no_silence() -> None:
    assert said(of_error(problem(503))) == "✗ refused with 503"
    assert said(of_error(problem(503))._replace(at=NOW, ticks=1000.0 - 25)) == "✗ refused with 503, good 25s ago"
