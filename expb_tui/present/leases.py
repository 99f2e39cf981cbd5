"""Leases as rows: the countdown first, because it is what changes (style, section 5).

Amber means that a renewal is overdue, that nothing renews the lease, or that its absolute end is nearer than one lease;
red, that less than a tenth of it is left. LEFT, STATE, RENEW and KEPT BY say the same in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.leases.keeping import Keeping, keeping_of, last_lease, overdue
from expb_tui.core.leases.model import LITTLE_SHARE
from expb_tui.core.text import coarse
from expb_tui.present.cells import MISSING, UNICODE, Cell, Column, Glyphs, Row, Table, Tone, bar, cell, shown
from expb_tui.present.times import FINE_BELOW, Words, countdown, countdown_fine, moment

if TYPE_CHECKING:
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.model import HeldPackage

BAR_WIDTH = 8

COLUMNS = (
    Column("LEFT", 7, "right", least=7),  # `14m 32s` and `75s`: what follows stays where it is
    Column("LEASE", BAR_WIDTH),
    Column("STATE", 17),
    Column("ROLE", 19),
    Column("RENEW", 10, "right"),
    Column("KEPT BY", 7),
    Column("TASKS", 5, "right"),
    Column("RENEWED", 7, "right"),
    Column("PROJECT", 18),
    Column("ABSOLUTE END", 12),
    Column("PROFILE", 12),
    Column("PACKAGE", 36),
)
_PANE = tuple(column.title for column in COLUMNS)
_PANE_OF_PROJECTS = tuple(title for title in _PANE if title != "PROJECT")
_PANE_OF_PROJECTS = (*_PANE_OF_PROJECTS[:5], "PROJECT", *_PANE_OF_PROJECTS[5:])
"""The project stands further ahead only where there is more than one."""
_LISTING = ("LEFT", "STATE", "ROLE", "TASKS", "PROJECT", "KEPT BY", "ABSOLUTE END", "PROFILE", "PACKAGE")
_LISTING_WIDE = (*_LISTING, "RENEW", "RENEWED")

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

_EDGE = 0.001

Who = Callable[["HeldPackage"], Keeping]
"""Says who keeps a lease, as far as the face that shows it knows."""


def as_wished(held: HeldPackage) -> Keeping:
    """Who keeps a lease where nothing is known of this host's keeper: what is to be kept is taken for kept."""
    return keeping_of(held, keeper=True)


def state(held: HeldPackage, glyphs: Glyphs = UNICODE) -> Cell:
    """The state as sign and word."""
    glyph, tone = _LOOKS.get(held.word, ("lost", Tone.WARN))
    sign: str = getattr(glyphs, glyph)
    return cell(f"{sign} {held.word}", tone)


def over(held: HeldPackage) -> bool:
    """Nothing can be done with the lease any more."""
    return held.state.ended or held.state.value in ("expired", "lost")


def left(held: HeldPackage, clock: Clock, *, fine: bool = False) -> Words:
    """The countdown, or ``-`` where the lease is over or nothing is known of it; ``fine`` to the second."""
    if over(held) or held.times is None:
        return Words(MISSING, None)
    return (countdown_fine if fine else countdown)(held.remaining(clock))


def urgency(held: HeldPackage, clock: Clock, keeping: Keeping | None = None) -> Tone:
    """The tone of the countdown."""
    if over(held) or held.times is None:
        return Tone.DIM
    if held.remaining(clock) < held.times.lease_seconds * LITTLE_SHARE:
        return Tone.BAD
    renewed = (as_wished(held) if keeping is None else keeping).renews
    return Tone.OK if renewed and not overdue(held, clock) and not last_lease(held, clock) else Tone.WARN


def _until_next_tone(held: HeldPackage, clock: Clock, keeping: Keeping) -> float | None:
    if over(held) or held.times is None:
        return None
    times = held.times
    edges: list[float | None] = [times.remaining(clock) - times.lease_seconds * LITTLE_SHARE]
    if keeping.renews:
        edges += [times.until_overdue(clock), times.until_last(clock)]
    return min((edge + _EDGE for edge in edges if edge is not None and edge >= 0), default=None)


def _lease_bar(held: HeldPackage, clock: Clock, glyphs: Glyphs) -> Words:
    if over(held) or held.times is None:
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
    return Words(text, max(0.05, remaining - edge + _EDGE))


class Renewal(NamedTuple):
    """What comes next for a lease: ``in 9m``, ``35s``, ``due``, ``overdue``, ``last in 9m`` (its absolute end is nearer
    than one more lease), ``no more`` (it reaches that end), ``off``, ``nobody``."""

    text: str
    tone: Tone
    next_change: float | None


def renewal(held: HeldPackage, clock: Clock, keeping: Keeping | None = None, *, fine: bool = False) -> Renewal:
    """When the next renewal is due, or why there is none; ``fine`` to the second below two minutes."""
    keeping = as_wished(held) if keeping is None else keeping
    if keeping is Keeping.NONE or held.times is None:
        return Renewal(MISSING, Tone.DIM, None)
    if keeping is Keeping.OFF:
        return Renewal("off", Tone.WARN, None)
    if held.times.capped:
        return Renewal("no more", Tone.WARN, None)
    if keeping is Keeping.NOBODY:
        return Renewal("nobody", Tone.WARN, None)
    if not held.renewable:
        return Renewal("by keeper", Tone.DIM, None)
    due = held.renew_in(clock)
    if overdue(held, clock):
        return Renewal("overdue", Tone.WARN, None)
    if not due:
        return Renewal("due", Tone.DIM, None)
    last = last_lease(held, clock)
    # Coarse above: beside a countdown in seconds a second one would only cost repaints. A lease that is itself told in
    # seconds is told so here too, for "<2m" may be later than its end.
    spare = held.remaining(clock) - FINE_BELOW
    near = due < FINE_BELOW and not fine and spare >= 0
    words = Words(f"<{coarse(FINE_BELOW)}", min(due, spare) + _EDGE) if near else countdown(due)
    told = words.text if due < FINE_BELOW else f"in {words.text}"  # no wider than before: the column stays as it is
    return Renewal(f"last {told}" if last else told, Tone.WARN if last else Tone.DIM, words.next_change)


_KEPT_TONES = {Keeping.OFF: Tone.WARN, Keeping.NOBODY: Tone.WARN}


def kept_by(keeping: Keeping) -> Cell:
    """Who keeps it, as one word."""
    return Cell(keeping.value, _KEPT_TONES.get(keeping, Tone.DIM))


def keeping_words(keeping: Keeping, why_no_keeper: str = "") -> Cell:
    """Who keeps it, as a sentence, with the reason where the keeper does not."""
    why = f"; {why_no_keeper}" if why_no_keeper else ""
    said = {
        Keeping.KEEPER: ("by the keeper, with or without the cockpit", Tone.TEXT),
        Keeping.COCKPIT: (f"by this cockpit while it is open{why}", Tone.TEXT),
        Keeping.NOBODY: (f"by nobody{why}", Tone.WARN),
        Keeping.OFF: ("no: it runs out unless somebody renews it by hand", Tone.WARN),
        Keeping.NONE: (MISSING, Tone.DIM),
    }
    return cell(*said[keeping])


def tasks_done(held: HeldPackage) -> str:
    """``1/2``: tasks submitted of all."""
    return f"{held.done}/{len(held.tasks)}"


def _row(
    held: HeldPackage, clock: Clock, glyphs: Glyphs, keeping: Keeping, places: Sequence[int], *, fine: bool = False
) -> Row:
    words, bars = left(held, clock, fine=fine), _lease_bar(held, clock, glyphs)
    due = renewal(held, clock, keeping, fine=fine)
    tone = urgency(held, clock, keeping)
    absolute = held.times.absolute_expires_at if held.times else None
    ending = held.usable and last_lease(held, clock)
    cells = (
        Cell(words.text, tone),
        Cell(bars.text, tone),
        state(held, glyphs),
        cell(held.role),
        Cell(due.text, due.tone),
        kept_by(keeping),
        cell(tasks_done(held), Tone.OK if held.tasks and held.done == len(held.tasks) else Tone.TEXT),
        cell(held.renewals, Tone.DIM),
        cell(held.project_name or held.project_id),
        cell(moment(absolute, clock.now()), Tone.WARN if ending else Tone.DIM),
        cell(held.profile_name),
        cell(held.uid, Tone.DIM),
    )
    changes = (words.next_change, bars.next_change, due.next_change, _until_next_tone(held, clock, keeping))
    chosen = tuple(cells[place] for place in places)
    return Row(held.uid, chosen, min((change for change in changes if change is not None), default=None))


def soonest(packages: Iterable[HeldPackage], clock: Clock) -> HeldPackage | None:
    """The live lease that ends first."""
    live = (held for held in packages if held.live)
    return min(live, key=lambda held: held.remaining(clock), default=None)


def _places(titles: Sequence[str]) -> tuple[int, ...]:
    return tuple(_PANE.index(title) for title in titles)


class _Made(NamedTuple):
    held: HeldPackage
    keeping: Keeping
    fine: bool
    due: float
    row: Row


class LeaseRows:
    """The pane's table from one look to the next: a row is made again only where its lease changed or its time came.

    The selected lease and the soonest are counted down to the second, all others coarsely above two minutes, so that a
    screen on which nothing is near its end is quiet.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], _Made] = {}
        self._made_for: tuple[Glyphs, bool] = (UNICODE, False)
        self._due = float("inf")

    def table(
        self,
        packages: Sequence[HeldPackage],
        clock: Clock,
        *,
        glyphs: Glyphs = UNICODE,
        keeping: Who = as_wished,
        selected: str | None = None,
    ) -> Table:
        """Most important columns first: a face leaves out the last ones where there is no room.

        ``packages`` come soonest end first, as the desk gives them.
        """
        several = len({held.project_id for held in packages}) > 1
        if (glyphs, several) != self._made_for:
            self._made, self._made_for = {}, (glyphs, several)
        places = _places(_PANE_OF_PROJECTS if several else _PANE)
        now = clock.ticks()
        first = next((held for held in packages if held.live), None)
        fine_ones = {selected, first.uid if first else None}
        before, self._made = self._made, {}
        for held in packages:
            who, fine = keeping(held), held.uid in fine_ones
            made = before.get((held.endpoint, held.uid))
            if made is None or made.held is not held or made[1:3] != (who, fine) or made.due <= now:
                row = _row(held, clock, glyphs, who, places, fine=fine)
                due = now + row.next_change if row.next_change is not None else float("inf")
                made = _Made(held, who, fine, due, row)
            self._made[held.endpoint, held.uid] = made
        self._due = min((made.due for made in self._made.values()), default=float("inf"))
        rows = tuple(made.row for made in self._made.values())
        return Table(tuple(COLUMNS[place] for place in places), rows, shown(len(rows), noun="leases"))

    def next_change(self, clock: Clock) -> float | None:
        """Seconds until a row of the last table reads differently; None for never."""
        return None if self._due == float("inf") else max(0.0, self._due - clock.ticks())


def pane(
    packages: Sequence[HeldPackage],
    clock: Clock,
    *,
    glyphs: Glyphs = UNICODE,
    keeping: Who = as_wished,
    selected: str | None = None,
) -> Table:
    """One look at the leases, as ``LeaseRows`` makes them."""
    return LeaseRows().table(packages, clock, glyphs=glyphs, keeping=keeping, selected=selected)


def listing(
    packages: Sequence[HeldPackage],
    clock: Clock,
    *,
    wide: bool = False,
    glyphs: Glyphs = UNICODE,
    keeping: Who = as_wished,
) -> Table:
    """``agent work list``: the same rows without the bar."""
    places = _places(_LISTING_WIDE if wide else _LISTING)
    rows = tuple(_row(held, clock, glyphs, keeping(held), places) for held in packages)
    return Table(tuple(COLUMNS[place] for place in places), rows, shown(len(rows)))
