"""Work on offer, how fresh the data is, and why there is no work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.text import coarse
from expb_tui.present.cells import UNICODE, Cell, Column, Glyphs, Row, Table, Tone, cell, shown
from expb_tui.present.times import age

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.clock import Clock
    from expb_tui.core.opportunities import Cause, Snapshot

CAUSES = {
    "project-inactive": "the project is not active",
    "objective-inactive": "no objective is active",
    "role-disabled": "the role is disabled",
    "review-gate": "work waits at a review gate",
    "hold": "a hold stops assignment",
    "limit": "a limit is reached",
}
"""The contract's words for an empty role, in the order in which a person should look."""

ROLES = {
    "ideator": "Proposes a hypothesis: what to change, why it should help, and how one would see that it did not.",
    "hypothesis-reviewer": "Judges a hypothesis before time is spent on it: accept, refine, combine or reject.",
    "experimenter": "Runs the experiment that an accepted hypothesis asks for, and reports what was measured.",
    "results-reviewer": "Judges a reported result: accept, reject, or ask for the evidence that is missing.",
    "integrator": "Combines accepted results into one change of the project's target, and measures it as a whole.",
}
"""What each role of the contract does, for a person who meets it for the first time."""

COLUMNS = (
    Column("PROJECT", 20),
    Column("ROLE", 19),
    Column("WORK", 6, "right"),
    Column("HELD", 4, "right"),
    Column("STATE", 24),
    Column("OBJECTIVES", 10, "right"),
    Column("PROJECT ID", 36),
)
LISTING = COLUMNS[:5]


def key(item: Offer) -> str:
    """The row key: project id and role."""
    return f"{item.project_id}/{item.role}"


def _state(item: Offer, glyphs: Glyphs) -> Cell:
    if item.blocked_by:
        words = ", ".join(CAUSES.get(cause, cause) for cause in item.blocked_by)
        return cell(f"{glyphs.warn} {words}", Tone.WARN)
    if item.retry_after_seconds > 0:
        return Cell(f"{glyphs.idle} again in {coarse(item.retry_after_seconds)}", Tone.INFO)
    if item.available > 0:
        return Cell(f"{glyphs.ok} open", Tone.OK)
    return Cell(f"{glyphs.idle} no work", Tone.DIM)


def table(
    items: Sequence[Offer],
    *,
    wide: bool = True,
    glyphs: Glyphs = UNICODE,
    total: int | None = None,
    noun: str = "opportunities",
) -> Table:
    """One row a project and role, most important columns first; without ``wide`` the ids stay out."""
    rows = []
    for item in items:
        cells = (
            cell(item.project_name or item.project_id),
            cell(item.role, Tone.ACCENT if item.available else Tone.DIM),
            cell(item.available, Tone.OK if item.available else Tone.DIM),
            cell(item.active_packages, Tone.INFO if item.active_packages else Tone.DIM),
            _state(item, glyphs),
            cell(len(item.objective_ids)),
            cell(item.project_id, Tone.DIM),
        )
        rows.append(Row(key(item), cells if wide else cells[: len(LISTING)]))
    return Table(COLUMNS if wide else LISTING, tuple(rows), shown(len(rows), total, noun=noun))


FACTS = (Column("", 12), Column(""))


def facts(item: Offer, *, glyphs: Glyphs = UNICODE) -> Table:
    """One project and role as label and value."""
    held = item.active_packages
    pairs = (
        ("role", cell(item.role, Tone.ACCENT)),
        ("project", cell(item.project_name or item.project_id)),
        ("state", _state(item, glyphs)),
        ("to claim", _tasks(item.available, Tone.OK)),
        (
            "in work",
            cell(f"{held} package" + ("" if held == 1 else "s"), Tone.INFO) if held else cell("none", Tone.DIM),
        ),
        ("objectives", cell(len(item.objective_ids))),
        ("project id", cell(item.project_id, Tone.DIM)),
    )
    return Table(FACTS, tuple(Row(label, (Cell(label, Tone.DIM), value)) for label, value in pairs))


def _tasks(count: int, tone: Tone) -> Cell:
    return Cell("no task", Tone.DIM) if not count else Cell(f"{count} task" + ("" if count == 1 else "s"), tone)


class Freshness(NamedTuple):
    """How old the data is, in one line; ``next_change`` in seconds."""

    cell: Cell
    next_change: float | None


def freshness(snapshot: Snapshot, clock: Clock, glyphs: Glyphs = UNICODE) -> Freshness:
    """The pane's status, short enough for a border: source and age of the data, or that it is old.

    The reason is told by the header and the notices.
    """
    passed = snapshot.age(clock)
    words = age(passed) if passed is not None else None
    old = "never" if words is None else words.text if words.text == "now" else f"{words.text} ago"
    change = words.next_change if words else None
    state = snapshot.state.value
    if snapshot.waiting_since is not None and words is not None:
        return Freshness(Cell(f"{glyphs.more} {words.text} old, no answer yet", Tone.WARN), change)
    if state == "fresh":
        by = "live events" if snapshot.source == "events" else "polling"
        return Freshness(Cell(f"{glyphs.ok} {old}, {by}", Tone.DIM), change)
    if state == "loading":
        return Freshness(Cell(f"{glyphs.more} asking the service", Tone.DIM), None)
    if state == "stale":
        return Freshness(Cell(f"{glyphs.warn} stale, {old}", Tone.WARN), change)
    return Freshness(Cell(f"{glyphs.bad} no answer", Tone.BAD), change)


CAUSE_COLUMNS = (Column("CAUSE", 22), Column("ANSWER", 14), Column("DETAIL"))


def causes_table(causes: Sequence[Cause], *, glyphs: Glyphs = UNICODE) -> Table:
    """All causes of emptiness with what is known of each (hazards 20)."""
    looks = {
        "ok": (f"{glyphs.ok} fine", Tone.OK),
        "blocking": (f"{glyphs.bad} blocks", Tone.BAD),
    }
    rows = []
    for cause in causes:
        words, tone = looks.get(cause.answer.value, (f"{glyphs.lost} not visible", Tone.DIM))
        detail = ". ".join(part.rstrip(".") for part in (cause.detail, cause.next_step) if part)
        rows.append(
            Row(
                cause.name,
                (cell(cause.title, tone if tone is Tone.BAD else Tone.TEXT), Cell(words, tone), cell(detail)),
            )
        )
    blocking = sum(cause.answer.value == "blocking" for cause in causes)
    footer = f"{blocking} of {len(causes)} causes block" if causes else ""
    return Table(CAUSE_COLUMNS, tuple(rows), footer)
