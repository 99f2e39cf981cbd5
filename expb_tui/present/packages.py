"""One held package: its facts, its tasks, and the receipts of what was submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expb_tui.present import leases
from expb_tui.present.cells import UNICODE, Cell, Column, Glyphs, Row, Table, Tone, cell, shown
from expb_tui.present.times import moment, since

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.keeping import Keeping
    from expb_tui.core.leases.model import HeldPackage, HeldTask, Receipt

FACTS = (Column("", 12), Column(""))


def facts(
    held: HeldPackage,
    clock: Clock,
    *,
    glyphs: Glyphs = UNICODE,
    keeping: Keeping | None = None,
    why_no_keeper: str = "",
) -> Table:
    """The package as label and value; never the token, only whether it is here."""
    keeping = leases.as_wished(held) if keeping is None else keeping
    words = leases.left(held, clock)
    renewal = leases.renewal(held, clock, keeping, fine=True)
    absolute = held.times.absolute_expires_at if held.times else None
    expires = held.times.expires_at if held.times else None
    now = clock.now()
    lines: list[tuple[str, Cell, float | None]] = [
        ("state", leases.state(held, glyphs), None),
        ("left", Cell(words.text, leases.urgency(held, clock, keeping)), words.next_change),
    ]
    if held.reason:
        lines.append(("why", cell(held.reason, Tone.WARN), None))
    if held.next_step:
        lines.append(("next", cell(held.next_step, Tone.INFO), None))
    if held.renewable:
        lines += [
            ("kept", leases.keeping_words(keeping, why_no_keeper), None),
            ("next renewal", Cell(renewal.text, renewal.tone), renewal.next_change),
        ]
    lines += [
        ("renewed", cell(_times(held.renewals)), None),
        ("role", cell(held.role), None),
        ("project", cell(held.project_name or held.project_id), None),
        ("tasks", cell(f"{held.done} submitted, {held.open} open"), None),
        ("lease ends", cell(moment(expires, now)), None),
        ("absolute end", cell(moment(absolute, now)), None),
        ("token", Cell(f"{glyphs.ok} in the journal", Tone.OK) if held.has_token else _no_token(glyphs), None),
        ("profile", cell(held.profile_name), None),
        ("service", cell(held.endpoint, Tone.LINK), None),
        ("package", cell(held.uid, Tone.DIM), None),
        ("last answer", cell(moment(held.last_answer_at, now), Tone.DIM), None),
    ]
    rows = tuple(Row(label, (Cell(label, Tone.DIM), value), change) for label, value, change in lines)
    return Table(FACTS, rows)


def _times(count: int) -> str:
    return {0: "not yet", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _no_token(glyphs: Glyphs) -> Cell:
    return Cell(f"{glyphs.lost} not here", Tone.WARN)


TASKS = (
    Column("STATE", 12),
    Column("ROLE", 19),
    Column("DRAFT", 5),
    Column("OUTCOME", 9),
    Column("TASK", 36),
    Column("RECORD", 36),
)

_PHASES: dict[str, tuple[str, Tone]] = {
    "assigned": ("live", Tone.INFO),
    "submitted": ("ok", Tone.OK),
    "expired": ("bad", Tone.BAD),
    "released": ("idle", Tone.DIM),
    "revoked": ("bad", Tone.DIM),
}


def task_state(task: HeldTask, glyphs: Glyphs = UNICODE) -> Cell:
    """``open`` for a task that waits for a submission, otherwise the server's word; with a sign."""
    word = "submitted" if task.submitted else task.phase
    glyph, tone = _PHASES.get(word, ("lost", Tone.WARN))
    sign: str = getattr(glyphs, glyph)
    return cell(f"{sign} {'open' if word == 'assigned' else word}", tone)


def tasks(held: HeldPackage, *, glyphs: Glyphs = UNICODE) -> Table:
    """The package's tasks; a face leaves out the last columns where there is no room."""
    rows = tuple(
        Row(
            task.task_id,
            (
                task_state(task, glyphs),
                cell(task.role or held.role),
                cell("yes" if task.has_draft else "older" if task.draft_before and task.open else None, Tone.INFO),
                cell(task.receipt.outcome if task.receipt else None),
                cell(task.task_id, Tone.DIM),
                cell(task.record_id, Tone.DIM),
            ),
        )
        for task in held.tasks
    )
    return Table(TASKS, rows, shown(len(rows), noun="tasks"))


RECEIPTS = (
    Column("SUBMITTED", 12),
    Column("OUTCOME", 11),
    Column("ROLE", 19),
    Column("PROJECT", 18),
    Column("RECORD", 36),
    Column("KIND", 18),
    Column("CONFIRMED BY", 12),
    Column("TASK", 36),
    Column("SHA256", 64),
)


def receipts(items: Sequence[Receipt], clock: Clock, *, glyphs: Glyphs = UNICODE) -> Table:
    """Confirmed submissions, in the order given."""
    rows = tuple(
        Row(
            f"{receipt.package_id}/{receipt.task_id}",
            (
                cell(f"{since(receipt.submitted_at, clock.now())} ago"),
                Cell(f"{glyphs.ok} completed", Tone.OK)
                if receipt.outcome == "completed"
                else cell(f"{glyphs.warn} {receipt.outcome}", Tone.WARN),
                cell(receipt.role),
                cell(receipt.project_name),
                cell(receipt.record_id, Tone.ACCENT),
                cell(receipt.record_kind),
                cell(f"the {receipt.confirmed_by}" if receipt.confirmed_by == "answer" else receipt.confirmed_by),
                cell(receipt.task_id, Tone.DIM),
                cell(receipt.output_sha256, Tone.DIM),
            ),
        )
        for receipt in items
    )
    return Table(RECEIPTS, rows, shown(len(rows), noun="receipts"))


def receipt_facts(receipt: Receipt, *, glyphs: Glyphs = UNICODE) -> Table:
    """One receipt as label and value."""
    confirmed = {
        "answer": "the server's answer",
        "reading": "reading the package (the answer itself was lost)",
    }.get(receipt.confirmed_by, receipt.confirmed_by)
    pairs = (
        ("outcome", cell(f"{glyphs.ok} {receipt.outcome}", Tone.OK)),
        ("submitted", cell(receipt.submitted_at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"))),
        ("confirmed by", cell(confirmed)),
        ("role", cell(receipt.role)),
        ("project", cell(receipt.project_name)),
        ("record", cell(" ".join(part for part in (receipt.record_kind, receipt.record_id) if part))),
        ("package", cell(receipt.package_id, Tone.DIM)),
        ("task", cell(receipt.task_id, Tone.DIM)),
        ("sha256", cell(receipt.output_sha256, Tone.DIM)),
        ("request", cell(receipt.request_id, Tone.DIM)),
    )
    return Table(FACTS, tuple(Row(label, (Cell(label, Tone.DIM), value)) for label, value in pairs))
