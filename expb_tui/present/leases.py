"""Leases as rows: the countdown first, because it is what changes (style, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expb_tui.present.cells import MISSING, UNICODE, Cell, Column, Glyphs, Row, Table, Tone, bar, cell, shown
from expb_tui.present.times import Words, countdown, moment

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.model import HeldPackage

BAR_WIDTH = 8

COLUMNS = (
    Column("LEFT", 6, "right"),
    Column("LEASE", BAR_WIDTH),
    Column("STATE", 17),
    Column("ROLE", 19),
    Column("TASKS", 5, "right"),
    Column("PROJECT", 18),
    Column("RENEW", 8, "right"),
    Column("ENDS", 12),
    Column("PROFILE", 12),
    Column("PACKAGE", 36),
    Column("RENEWALS", 8, "right"),
)
_LISTING = (0, 2, 3, 4, 5, 7, 8, 9)
_LISTING_WIDE = (0, 2, 3, 4, 5, 6, 7, 8, 9, 10)

_LOOKS: dict[str, tuple[str, Tone]] = {
    "active": ("live", Tone.OK),
    "renewal overdue": ("warn", Tone.WARN),
    "expired": ("bad", Tone.BAD),
    "lost": ("bad", Tone.BAD),
    "token lost": ("lost", Tone.BAD),
    "no credential": ("lost", Tone.WARN),
    "completed": ("ok", Tone.DIM),
    "released": ("idle", Tone.DIM),
    "revoked": ("bad", Tone.BAD),
}
"""Glyph and tone of each state word; the word itself always stands beside them."""

_SOON = 1 / 3
_VERY_SOON = 1 / 8


def state(held: HeldPackage, glyphs: Glyphs = UNICODE) -> Cell:
    """The state as sign and word."""
    glyph, tone = _LOOKS.get(held.word, ("lost", Tone.WARN))
    sign: str = getattr(glyphs, glyph)
    return cell(f"{sign} {held.word}", tone)


def _over(held: HeldPackage) -> bool:
    return held.state.ended or held.state.value in ("expired", "lost")


def left(held: HeldPackage, clock: Clock) -> Words:
    """The countdown, or ``-`` where the lease is over or nothing is known of it."""
    if _over(held) or held.times is None:
        return Words(MISSING, None)
    return countdown(held.remaining(clock))


def urgency(held: HeldPackage, clock: Clock) -> Tone:
    """The tone of the countdown, by the share of the lease that is left; said in words by LEFT and STATE too."""
    if _over(held) or held.times is None:
        return Tone.DIM
    share = held.remaining(clock) / max(1.0, held.times.lease_seconds)
    return Tone.BAD if share <= _VERY_SOON else Tone.WARN if share <= _SOON else Tone.OK


def _until_next_tone(held: HeldPackage, clock: Clock) -> float | None:
    if _over(held) or held.times is None:
        return None
    remaining, length = held.remaining(clock), max(1.0, held.times.lease_seconds)
    edges = [remaining - share * length + 0.001 for share in (_SOON, _VERY_SOON)]
    return min((edge for edge in edges if edge > 0.001), default=None)


def _lease_bar(held: HeldPackage, clock: Clock, glyphs: Glyphs) -> Words:
    if _over(held) or held.times is None:
        return Words("", None)
    length = max(1.0, held.times.lease_seconds)
    remaining = held.remaining(clock)
    share = min(1.0, remaining / length)
    text = bar(share, BAR_WIDTH, glyphs)
    if remaining <= 0:
        return Words(text, None)
    # It changes where share * width crosses a half, downwards; the first cell stays until the end.
    filled = text.count(glyphs.full)
    edge = 0.0 if filled <= 1 else (filled - 0.5) / BAR_WIDTH * length
    return Words(text, max(0.05, remaining - edge + 0.001))


def _renewal(held: HeldPackage, clock: Clock) -> Words:
    due = held.renew_in(clock)
    if due is None:
        at_end = held.times is not None and held.times.capped and held.usable
        return Words("at end" if at_end else MISSING, None)
    if due <= 0:
        return Words("due", None)
    # Coarse throughout: beside a countdown in seconds a second one would only cost repaints.
    words = countdown(max(due, 120.0))
    return Words("<2m", due + 0.001) if due < 120 else Words(f"in {words.text}", words.next_change)


def tasks_done(held: HeldPackage) -> str:
    """``1/2``: tasks submitted of all."""
    return f"{held.done}/{len(held.tasks)}"


def _row(held: HeldPackage, clock: Clock, glyphs: Glyphs) -> Row:
    words, bars, due = left(held, clock), _lease_bar(held, clock, glyphs), _renewal(held, clock)
    tone = urgency(held, clock)
    absolute = held.times.absolute_expires_at if held.times else None
    cells = (
        Cell(words.text, tone),
        Cell(bars.text, tone),
        state(held, glyphs),
        cell(held.role),
        cell(tasks_done(held), Tone.OK if held.tasks and held.done == len(held.tasks) else Tone.TEXT),
        cell(held.project_name or held.project_id),
        Cell(due.text, Tone.WARN if due.text == "due" else Tone.DIM),
        cell(moment(absolute, clock.now()), Tone.DIM),
        cell(held.profile_name),
        cell(held.uid, Tone.DIM),
        cell(held.renewals, Tone.DIM),
    )
    changes = (words.next_change, bars.next_change, due.next_change, _until_next_tone(held, clock))
    return Row(held.uid, cells, min((change for change in changes if change is not None), default=None))


def pane(packages: Sequence[HeldPackage], clock: Clock, *, glyphs: Glyphs = UNICODE) -> Table:
    """The leases pane, most important columns first: a face leaves out the last ones where there is no room."""
    rows = tuple(_row(held, clock, glyphs) for held in packages)
    return Table(COLUMNS, rows, shown(len(rows), noun="leases"))


def listing(packages: Sequence[HeldPackage], clock: Clock, *, wide: bool = False, glyphs: Glyphs = UNICODE) -> Table:
    """``agent work list``: the same rows without the bar."""
    places = _LISTING_WIDE if wide else _LISTING
    rows = tuple(
        row._replace(cells=tuple(row.cells[place] for place in places))
        for row in (_row(held, clock, glyphs) for held in packages)
    )
    return Table(tuple(COLUMNS[place] for place in places), rows, shown(len(rows)))
