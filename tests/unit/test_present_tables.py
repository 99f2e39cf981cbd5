"""Presenters without a terminal: what stands in the rows, and that no meaning is told by colour alone."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import timedelta

import pytest

from expb_tui.core.api.offers import Offer
from expb_tui.core.leases.model import HeldTask, Receipt
from expb_tui.core.opportunities import Answer, Cause, FeedState, Snapshot
from expb_tui.core.profiles.document import Profile, Profiles
from expb_tui.core.secret import SecretStr
from expb_tui.core.submissions.task_view import Fact, Section
from expb_tui.present import envelopes, opportunities, packages, profiles, tasks
from expb_tui.present.cells import ASCII, UNICODE, Table, Tone, bar, shown
from expb_tui.wire.work import EMPTY_CAUSES
from tests.support.held import NOW, FixedClock, held


def texts(table: Table, row: int = 0) -> dict[str, str]:
    return {
        column.title: cell.text
        for column, cell in zip(table.columns, table.rows[row].cells, strict=True)
        if column.title
    }


@pytest.mark.parametrize("glyph", [*UNICODE, *ASCII])
def test_no_glyph_has_an_uncertain_width(glyph: str) -> None:
    assert len(glyph) == 1
    assert unicodedata.east_asian_width(glyph) in ("N", "Na")


def test_ascii_glyphs_are_ascii() -> None:
    assert "".join(ASCII).isascii()


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
        Offer(project_id="p", project_name="shop", role="ideator", available=2),
        Offer(project_id="p", project_name="shop", role="integrator", blocked_by=("hold", "a-new-word")),
        Offer(project_id="p", project_name="shop", role="experimenter", available=1, retry_after_seconds=90),
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
