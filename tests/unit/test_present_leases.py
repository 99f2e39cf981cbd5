"""Leases as rows: what is amber and what is red, what is told to the second, and when a row changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from expb_tui.core.keeper.state import KeeperProblem, KeeperState
from expb_tui.core.leases.keeping import Keeping, keeping_of, why_no_keeper
from expb_tui.core.leases.model import HeldPackage, LeaseState
from expb_tui.present import leases, packages
from expb_tui.present.cells import ASCII, UNICODE, Row, Table, Tone
from tests.support.held import NOW, FixedClock, held


def texts(table: Table, row: int = 0) -> dict[str, str]:
    return {column.title: cell.text for column, cell in zip(table.columns, table.rows[row].cells, strict=True)}


def ending(seconds: float, **changes: object) -> HeldPackage:
    """A lease of 15 minutes, 14 of them left, whose absolute end is ``seconds`` away."""
    package = held(840.0, **changes)  # type: ignore[arg-type]  # names of real fields
    assert package.times is not None
    return replace(package, times=replace(package.times, absolute_expires_at=NOW + timedelta(seconds=seconds)))


@pytest.mark.parametrize(("phase", "word"), [("active", "active"), ("", "active"), ("dan\x1bcing", "dan\u241bcing")])
def test_a_phase_that_nobody_knows_is_shown_as_it_is(phase: str, word: str) -> None:
    (row,) = leases.listing([held(phase=phase)], FixedClock()).rows
    assert any(cell.text.endswith(f" {word}") for cell in row.cells)


def test_a_lease_shows_countdown_and_bar_first_then_who_keeps_it() -> None:
    table = leases.pane([held(renewals=3)], FixedClock())
    assert [column.title for column in table.columns[:2]] == ["LEFT", "LEASE"]
    row = texts(table)
    assert row["STATE"] == f"{UNICODE.live} active"
    assert row["TASKS"] == "1/2"
    assert row["LEASE"] == UNICODE.full * leases.BAR_WIDTH
    assert (row["RENEW"], row["KEPT BY"], row["RENEWED"]) == ("in 10m", "keeper", "3")


def test_seconds_are_told_of_the_selected_and_the_soonest_lease_and_below_two_minutes() -> None:
    some = [held(572.0, uid="soonest"), held(754.0, uid="selected"), held(754.0, uid="other"), held(873.0, uid="far")]
    table = leases.pane(some, FixedClock(), selected="selected")
    assert [row.cells[0].text for row in table.rows] == ["9m 32s", "12m 34s", "12m", "14m"]
    near = leases.pane([held(118.0, uid="a"), held(119.0, uid="b")], FixedClock())
    assert [row.cells[0].text for row in near.rows] == ["118s", "119s"]


def test_a_long_lease_is_told_in_hours_and_days() -> None:
    for seconds, text in ((3_872.0, "1h 04m 32s"), (200_000.0, "2d 7h")):
        assert leases.left(held(seconds, length=seconds), FixedClock(), fine=True).text == text


@pytest.mark.parametrize("keeping", [Keeping.KEEPER, Keeping.COCKPIT, Keeping.OFF, Keeping.NOBODY])
@pytest.mark.parametrize("fine", [False, True])
def test_a_lease_row_changes_when_it_says_and_not_before(keeping: Keeping, fine: bool) -> None:
    package, clock = held(400.0, kept=keeping is not Keeping.OFF), FixedClock()
    selected = "wp-1" if fine else None
    sooner = held(1.0, uid="sooner")  # so that only the selected one is told to the second
    for _ in range(450):
        made = leases.LeaseRows()

        def row(rows: leases.LeaseRows) -> Row:
            return rows.table([sooner, package], clock, keeping=lambda _: keeping, selected=selected).rows[1]

        before = row(made)
        if before.next_change is None:
            break
        clock.at += max(0.0, before.next_change - 0.01)
        assert row(made) is before
        assert row(leases.LeaseRows()).cells == before.cells
        clock.at += 0.02
        assert row(made).cells != before.cells
    assert leases.left(package, clock).text == "0s"


def test_what_has_not_changed_is_not_made_again() -> None:
    clock, made = FixedClock(), leases.LeaseRows()
    some = [held(802.5 + 40 * place, length=4000.0, uid=f"wp-{place}") for place in range(50)]
    first = made.table(some, clock, selected="wp-7")
    clock.at += 1.0
    second = made.table(some, clock, selected="wp-7")
    changed = [row.key for row, before in zip(second.rows, first.rows, strict=True) if row is not before]
    assert changed == ["wp-0", "wp-7"]
    assert made.next_change(clock) == pytest.approx(0.5, abs=0.01)
    moved = made.table(some, clock, selected="wp-8")
    assert [row.key for row, old in zip(moved.rows, second.rows, strict=True) if row is not old] == ["wp-7", "wp-8"]


def test_an_idle_hour_of_a_long_lease_costs_few_repaints() -> None:
    package, clock, changes = held(4 * 3600.0, length=4 * 3600.0), FixedClock(), 0
    package = replace(package, state=LeaseState.TOKEN_LOST)  # not live, so it is not the soonest one
    while clock.at < 1000.0 + 3600.0:
        change = leases.pane([package], clock).next_change
        assert change is not None
        clock.at += change
        changes += 1
    assert changes < 10


# Amber and red


@pytest.mark.parametrize(
    ("package", "keeping", "tone"),
    [
        (held(301.0), Keeping.KEEPER, Tone.OK),
        (held(230.0), Keeping.COCKPIT, Tone.OK),  # a renewal is due, not overdue
        (held(220.0), Keeping.KEEPER, Tone.WARN),  # overdue: below a quarter
        (held(91.0), Keeping.KEEPER, Tone.WARN),
        (held(89.0), Keeping.KEEPER, Tone.BAD),  # under a tenth
        (held(800.0), Keeping.OFF, Tone.WARN),
        (held(800.0), Keeping.NOBODY, Tone.WARN),
        (held(89.0), Keeping.OFF, Tone.BAD),
        (ending(902.0), Keeping.KEEPER, Tone.OK),
        (ending(899.0), Keeping.KEEPER, Tone.WARN),  # the absolute end is nearer than one lease
        (held(800.0, LeaseState.LOST), Keeping.NONE, Tone.DIM),
        (held(800.0, LeaseState.COMPLETED), Keeping.NONE, Tone.DIM),
        (held(800.0, LeaseState.NO_CREDENTIAL), Keeping.NONE, Tone.WARN),
        (held(800.0, LeaseState.TOKEN_LOST), Keeping.NONE, Tone.WARN),
    ],
)
def test_amber_and_red_mean_what_they_say(package: HeldPackage, keeping: Keeping, tone: Tone) -> None:
    assert leases.urgency(package, FixedClock(), keeping) is tone
    (row,) = leases.pane([package], FixedClock(), keeping=lambda _: keeping).rows
    assert {row.cells[0].tone, row.cells[1].tone} == {tone}


@pytest.mark.parametrize(
    ("package", "keeping", "words"),
    [
        (held(800.0), Keeping.KEEPER, "in 8m"),
        (held(400.0), Keeping.KEEPER, "<2m"),
        (held(290.0), Keeping.KEEPER, "due"),
        (held(200.0), Keeping.KEEPER, "overdue"),
        (held(800.0), Keeping.OFF, "off"),
        (held(800.0), Keeping.NOBODY, "nobody"),
        (ending(890.0), Keeping.KEEPER, "last in 9m"),
        (ending(841.0), Keeping.KEEPER, "no more"),
        (ending(841.0), Keeping.NOBODY, "no more"),
        (held(800.0, LeaseState.TOKEN_LOST), Keeping.NONE, "-"),
    ],
)
def test_what_colour_says_stands_in_words_too(package: HeldPackage, keeping: Keeping, words: str) -> None:
    found = leases.renewal(package, FixedClock(), keeping)
    assert found.text == words
    assert (found.tone is Tone.WARN) == (words in ("overdue", "off", "nobody", "last in 9m", "no more"))


def test_the_next_renewal_of_a_short_lease_is_told_in_seconds_as_the_lease_is() -> None:
    short, long = held(50.0, uid="short", length=60.0), held(400.0, uid="long")
    table = leases.pane([short, long, replace(short, uid="other")], FixedClock())
    assert [texts(table, row)["RENEW"] for row in range(3)] == ["30s", "<2m", "30s"]
    assert texts(leases.pane([short, long], FixedClock(), selected="long"), 1)["RENEW"] == "100s"
    # The words change when the lease itself comes to be told in seconds, though the renewal is not due by then.
    soon = leases.renewal(held(130.0, length=150.0), FixedClock())
    assert soon.text == "<2m"
    assert soon.next_change == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize("state", list(LeaseState))
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_each_state_is_told_by_sign_and_word(state: LeaseState, glyphs: object) -> None:
    chosen = ASCII if glyphs is ASCII else UNICODE
    text = leases.state(held(state=state), chosen).text
    assert text.endswith(f" {state.value}")
    assert len(text) > len(state.value) + 1


def test_an_ended_package_has_no_countdown() -> None:
    table = leases.pane([held(state=LeaseState.RELEASED)], FixedClock())
    assert texts(table)["LEFT"] == "-"
    assert table.next_change is None


def test_with_ascii_glyphs_every_cell_is_ascii() -> None:
    table = leases.pane([held()], FixedClock(), glyphs=ASCII)
    assert all(cell.text.isascii() for cell in table.rows[0].cells)


# Who keeps it


def keeper(**changes: object) -> KeeperState:
    return replace(
        KeeperState(running=True, pid=7, seen_ticks=1000.0, seen_boot=boot(), version="1"),
        **changes,  # type: ignore[arg-type]  # names of real fields
    )


def boot() -> str:
    from expb_tui.core.clock import boot_id

    return boot_id()


def test_who_keeps_a_lease() -> None:
    assert keeping_of(held(), keeper=True) is Keeping.KEEPER
    assert keeping_of(held(), keeper=True, here=True) is Keeping.KEEPER
    assert keeping_of(held(), keeper=False, here=True) is Keeping.COCKPIT
    assert keeping_of(held(), keeper=False) is Keeping.NOBODY
    assert keeping_of(held(kept=False), keeper=True, here=True) is Keeping.OFF
    assert keeping_of(held(state=LeaseState.LOST), keeper=True, here=True) is Keeping.NONE
    without = held(state=LeaseState.NO_CREDENTIAL)
    assert keeping_of(without, keeper=True) is Keeping.NONE
    lent = replace(without, profile_name="")
    assert keeping_of(lent, keeper=True) is Keeping.KEEPER
    assert leases.renewal(lent, FixedClock(), Keeping.KEEPER).text == "by keeper"
    assert leases.urgency(lent, FixedClock(), Keeping.KEEPER) is Tone.OK


def test_why_the_keeper_does_not_keep_it_is_said() -> None:
    clock = FixedClock()
    problem = KeeperProblem("", "researcher", "/home/x/profiles.json", "No credential", "locked", "", "", NOW, 1, True)
    assert why_no_keeper(held(), keeper(), clock) == ""
    assert why_no_keeper(held(), KeeperState(), clock) == "no keeper runs"
    assert "No credential, locked" in why_no_keeper(held(), keeper(problems=(problem,)), clock)
    assert "no sign of life" in why_no_keeper(held(), keeper(seen_ticks=0.0), clock)
    assert "token" in why_no_keeper(held(profile_name=""), keeper(), clock)


def test_facts_say_who_keeps_it_when_next_and_how_often_it_was_renewed() -> None:
    facts = {row.key: row.cells[1] for row in packages.facts(held(renewals=2), FixedClock()).rows}
    assert facts["kept"].text.startswith("by the keeper")
    assert facts["next renewal"].text == "in 10m"
    assert facts["renewed"].text == "twice"
    table = packages.facts(held(), FixedClock(), keeping=Keeping.NOBODY, why_no_keeper="no keeper runs")
    facts = {row.key: row.cells[1] for row in table.rows}
    assert facts["kept"] == ("by nobody; no keeper runs", Tone.WARN)
    lost = packages.facts(held(state=LeaseState.LOST, reason="taken over", next_step="claim again"), FixedClock())
    facts = {row.key: row.cells[1] for row in lost.rows}
    assert "kept" not in facts
    assert (facts["why"].text, facts["next"].text) == ("taken over", "claim again")
