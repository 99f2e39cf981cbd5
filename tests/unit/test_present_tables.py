"""Presenters without a terminal: what stands in the rows, and that no meaning is told by colour alone."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from expb_tui.core.clock import boot_id
from expb_tui.core.leases.model import HeldPackage, HeldTask, LeaseState, LeaseTimes, Receipt
from expb_tui.core.opportunities import Answer, Cause, FeedState, Snapshot
from expb_tui.core.profiles.document import Profile, Profiles
from expb_tui.core.secret import SecretStr
from expb_tui.core.submissions.task_view import Fact, Section
from expb_tui.present import envelopes, leases, opportunities, packages, profiles, tasks
from expb_tui.present.cells import ASCII, UNICODE, Table, Tone, bar, shown
from expb_tui.wire.work import EMPTY_CAUSES, Opportunity

NOW = datetime(2026, 10, 5, 9, 0, tzinfo=UTC)


class FixedClock:
    def __init__(self, ticks: float = 1000.0) -> None:
        self.at = ticks

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.at - 1000.0)

    def ticks(self) -> float:
        return self.at


def held(
    left: float = 900.0, state: LeaseState = LeaseState.ACTIVE, length: float = 900.0, **changes: object
) -> HeldPackage:
    times = LeaseTimes(
        expires_at=NOW + timedelta(seconds=left + 1),
        absolute_expires_at=NOW + timedelta(hours=4),
        lease_seconds=length,
        server_date=NOW,
        sent_wall=NOW,
        sent_ticks=1000.0,
        sent_boot=boot_id(),
    )
    package = HeldPackage(
        uid="wp-1",
        endpoint="https://bench.example.test",
        account_id="acc-1",
        agent_id="agt-1",
        project_id="prj-1",
        project_name="checkout-latency",
        role="experimenter",
        profile_name="researcher",
        profile_file="/home/x/profiles.json",
        state=state,
        reason="",
        next_step="",
        version=1,
        phase="active",
        times=times,
        renewals=0,
        tasks=(HeldTask("task-1", "experimenter", "assigned"), HeldTask("task-2", "experimenter", "submitted")),
        has_token=True,
        claimed_at=NOW,
        last_answer_at=NOW,
    )
    return replace(package, **changes)  # type: ignore[arg-type]  # the tests name real fields


def texts(table: Table, row: int = 0) -> dict[str, str]:
    return {
        column.title: cell.text
        for column, cell in zip(table.columns, table.rows[row].cells, strict=True)
        if column.title
    }


@pytest.mark.parametrize(("phase", "word"), [("active", "active"), ("", "active"), ("dan\x1bcing", "dan\u241bcing")])
def test_a_phase_that_nobody_knows_is_shown_as_it_is(phase: str, word: str) -> None:
    (row,) = leases.listing([held(phase=phase)], FixedClock()).rows
    assert any(cell.text.endswith(f" {word}") for cell in row.cells)


def test_a_lease_shows_its_countdown_first() -> None:
    table = leases.pane([held()], FixedClock())
    assert table.columns[0].title == "LEFT"
    row = texts(table)
    assert row["LEFT"] == "15m"
    assert row["STATE"] == f"{UNICODE.live} active"
    assert row["TASKS"] == "1/2"
    assert row["LEASE"] == UNICODE.full * leases.BAR_WIDTH
    assert row["RENEW"] == "in 10m"


def test_a_lease_row_changes_when_it_says_and_not_before() -> None:
    package, clock = held(400.0), FixedClock()
    for _ in range(200):
        table = leases.pane([package], clock)
        change = table.next_change
        if change is None:
            break
        clock.at += max(0.0, change - 0.01)
        assert leases.pane([package], clock).rows[0].cells == table.rows[0].cells
        clock.at += 0.02
        assert leases.pane([package], clock).rows[0].cells != table.rows[0].cells
    assert texts(leases.pane([package], clock))["LEFT"] == "0s"


def test_an_idle_hour_of_a_long_lease_costs_few_repaints() -> None:
    package, clock, changes = held(4 * 3600.0, length=4 * 3600.0), FixedClock(), 0
    while clock.at < 1000.0 + 3600.0:
        change = leases.pane([package], clock).next_change
        assert change is not None
        clock.at += change
        changes += 1
    assert changes < 10


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


@pytest.mark.parametrize("glyph", [*UNICODE, *ASCII])
def test_no_glyph_has_an_uncertain_width(glyph: str) -> None:
    assert len(glyph) == 1
    assert unicodedata.east_asian_width(glyph) in ("N", "Na")


def test_ascii_glyphs_are_ascii() -> None:
    assert "".join(ASCII).isascii()
    table = leases.pane([held()], FixedClock(), glyphs=ASCII)
    assert all(cell.text.isascii() for cell in table.rows[0].cells)


@pytest.mark.parametrize(("part", "filled"), [(0.0, 0), (0.001, 1), (0.5, 4), (0.999, 7), (1.0, 8), (7.0, 8)])
def test_a_bar_is_empty_or_full_only_at_the_ends(part: float, filled: int) -> None:
    assert bar(part, 8).count(UNICODE.full) == filled
    assert len(bar(part, 8)) == 8


def user(**changes: object) -> Profile:
    profile = Profile(
        "owner",
        endpoint="https://bench.example.test",
        token=SecretStr("access-planted"),
        refresh_token=SecretStr("refresh-planted"),
        expires_at=NOW + timedelta(minutes=12),
        project_name="checkout-latency",
        project_id="prj-1",
    )
    return replace(profile, **changes)  # type: ignore[arg-type]  # the tests name real fields


@pytest.mark.parametrize(
    ("profile", "expires", "state"),
    [
        (user(), "in 12m", "signed in"),
        (user(expires_at=NOW), "expired", "signed in"),
        (user(expires_at=NOW, refresh_token=None), "expired", "expired"),
        (user().signed_out(), "signed out", "signed out"),
        (user(token=None, refresh_token=None, expires_at=None, in_keyring=True), "-", "signed in"),
        (user(type="agent", expires_at=None), "-", "signed in"),
        (user(type="agent", expires_at=NOW), "expired", "expired"),
    ],
)
def test_profiles_tell_whether_they_can_act(profile: Profile, expires: str, state: str) -> None:
    assert texts(profiles.listing([profile], None, NOW))["EXPIRES"] == expires
    assert profiles.state(profile, NOW).text.split(" ", 1)[1] == state


def test_profile_tables_hold_no_credentials() -> None:
    known = Profiles("owner", {"owner": user()})
    shown_text = repr(
        [
            profiles.listing(known.by_name.values(), "owner", NOW, wide=True),
            profiles.pane(known, NOW, selected="owner"),
            profiles.details(user(), NOW, default=True),
        ]
    )
    assert "planted" not in shown_text


def test_profile_listing_columns_and_order() -> None:
    table = profiles.listing([user(name="b"), user(name="a", project_name=None, project_id=None)], "b", NOW)
    assert [column.title for column in table.columns] == [
        "NAME",
        "DEFAULT",
        "TYPE",
        "SCOPE",
        "ENDPOINT",
        "PROJECT",
        "EXPIRES",
    ]
    assert [row.key for row in table.rows] == ["a", "b"]
    assert texts(table, 0)["PROJECT"] == "-"
    assert texts(table, 1)["DEFAULT"] == "*"
    assert table.footer == "2 resources shown"


def test_opportunities_say_why_there_is_none() -> None:
    items = [
        Opportunity(project_id="p", project_name="shop", role="ideator", available=2),
        Opportunity(project_id="p", project_name="shop", role="integrator", blocked_by=["hold", "a-new-word"]),
        Opportunity(project_id="p", project_name="shop", role="experimenter", available=1, retry_after_seconds=90),
    ]
    table = opportunities.table(items)
    assert texts(table, 0)["STATE"] == f"{UNICODE.ok} open"
    assert texts(table, 1)["STATE"] == f"{UNICODE.warn} a hold stops assignment, a-new-word"
    assert texts(table, 2)["STATE"] == f"{UNICODE.idle} again in 1m"
    assert len({row.key for row in table.rows}) == 3


def test_every_cause_of_the_contract_has_words() -> None:
    assert tuple(opportunities.CAUSES) == EMPTY_CAUSES


def test_causes_show_what_blocks_and_what_cannot_be_seen() -> None:
    table = opportunities.causes_table(
        [
            Cause("project-inactive", "project is active", Answer.OK),
            Cause("hold", "a hold", Answer.BLOCKING, detail="frozen for the audit", next_step="Ask its owner"),
            Cause("limit", "a limit", Answer.HIDDEN),
        ]
    )
    assert [row.cells[1].tone for row in table.rows] == [Tone.OK, Tone.BAD, Tone.DIM]
    assert table.rows[1].cells[2].text == "frozen for the audit. Ask its owner"
    assert table.footer == "1 of 3 causes block"


def test_freshness_tells_source_age_and_trouble() -> None:
    clock = FixedClock()
    fresh = Snapshot(FeedState.FRESH, source="events", taken_ticks=1000.0 - 62)
    assert opportunities.freshness(fresh, clock).cell.text == f"{UNICODE.ok} 1m ago, live events"
    assert opportunities.freshness(fresh, clock).next_change == pytest.approx(58.0, abs=0.1)
    assert opportunities.freshness(Snapshot(FeedState.LOADING), clock).cell.text.startswith(UNICODE.more)
    stale = opportunities.freshness(replace(fresh, state=FeedState.STALE), clock)
    assert stale.cell.tone is Tone.WARN
    assert stale.cell.text == f"{UNICODE.warn} stale, 1m ago"
    assert opportunities.freshness(Snapshot(FeedState.ERROR), clock).cell.tone is Tone.BAD


def test_package_facts_say_whether_the_token_is_here_and_never_which() -> None:
    facts = {row.key: row.cells[1].text for row in packages.facts(held(), FixedClock()).rows}
    assert facts["token"] == f"{UNICODE.ok} in the journal"
    lost = packages.facts(held(has_token=False, reason="the answer was lost", next_step="wait"), FixedClock())
    facts = {row.key: row.cells[1].text for row in lost.rows}
    assert facts["token"] == f"{UNICODE.lost} not here"
    assert facts["why"] == "the answer was lost"
    assert facts["next"] == "wait"


def test_package_tasks_and_receipts() -> None:
    receipt = Receipt(
        "wp-1", "task-2", "experimenter", "shop", "completed", NOW - timedelta(minutes=3), "results", "r1"
    )
    package = held(tasks=(HeldTask("task-2", "experimenter", "assigned", receipt=receipt, has_draft=True),))
    row = texts(packages.tasks(package))
    assert row["STATE"] == f"{UNICODE.ok} submitted"
    assert row["DRAFT"] == "yes"
    table = packages.receipts([receipt], FixedClock())
    assert texts(table)["SUBMITTED"] == "3m ago"
    assert texts(table)["RECORD"] == "r1"
    facts = {row.key: row.cells[1].text for row in packages.receipt_facts(receipt).rows}
    assert facts["record"] == "results r1"
    assert facts["confirmed by"] == "the server's answer"


def test_reading_lines_are_wrapped_and_aligned() -> None:
    sections = [
        Section(
            "Objective",
            facts=(Fact("unit", "ms"), Fact("direction", "minimize")),
            prose=("word " * 20,),
            quiet=(Fact("id", "obj-1"),),
        ),
        Section("Instructions", bullets=("Warm up for two minutes.",)),
    ]
    lines = tasks.reading_lines(sections, width=60)
    assert lines[0].tone is Tone.ACCENT
    assert [line.text for line in lines[1:6]] == [
        "  " + "word " * 10 + "word",
        "  " + "word " * 8 + "word",
        "  unit       ms",
        "  direction  minimize",
        "  id         obj-1",
    ]
    assert max(len(line.text) for line in lines) <= 60
    assert lines[-1].text == f"  {UNICODE.arrow} Warm up for two minutes."


@pytest.mark.parametrize(
    ("envelope", "row"),
    [
        (
            {
                "kind": "work-packages",
                "metadata": {
                    "uid": "wp-1",
                    "name": "wp-1",
                    "version": 3,
                    "labels": {"host": "lab-07", "b": ""},
                    "creationTimestamp": "2026-10-05T10:30:00.5+02:00",
                },
            },
            ["wp-1", "work-packages", "wp-1", "3", "host=lab-07,b=", "29m"],
        ),
        ({"kind": "of-the-future", "metadata": None}, ["-", "of-the-future", "-", "-", "-", "<unknown>"]),
    ],
)
def test_envelopes(envelope: dict[str, object], row: list[str]) -> None:
    wide = envelopes.table([envelope], NOW, wide=True)
    assert [column.title for column in wide.columns] == ["NAME", "KIND", "UID", "VERSION", "LABELS", "AGE"]
    assert [cell.text for cell in wide.rows[0].cells] == row
    narrow = envelopes.table([envelope], NOW)
    assert [cell.text for cell in narrow.rows[0].cells] == [row[0], row[1], row[5]]


def test_labels_heads_and_bullets_have_tones_of_their_own() -> None:
    section = Section(
        "Hypothesis",
        facts=(Fact("unit", "ms"),),
        prose=("Rationale: it is.",),
        bullets=("Risk: none",),
        quiet=(Fact("id", "h"),),
    )
    _, prose, fact, bullet, quiet = tasks.toned_lines([section], width=60)
    assert [(piece.text, piece.tone) for piece in quiet] == [("  id    ", Tone.DIM), ("h", Tone.DIM)]
    assert [(piece.text, piece.tone) for piece in fact] == [("  unit  ", Tone.DIM), ("ms", Tone.TEXT)]
    assert [(piece.text, piece.tone) for piece in prose] == [("  Rationale: ", Tone.INFO), ("it is.", Tone.TEXT)]
    assert [piece.tone for piece in bullet] == [Tone.ACCENT, Tone.INFO, Tone.TEXT]


def test_footers() -> None:
    assert shown(3) == "3 resources shown"
    assert shown(3, 12) == "3 of 12 resources shown"
