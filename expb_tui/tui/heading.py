"""The frame's words: who acts where in the header, and what was told last in the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.leases.keeping import Keeping
from expb_tui.core.text import clean
from expb_tui.present import leases
from expb_tui.present.cells import Cell, Glyphs, Tone, plural
from expb_tui.tui.panes.base import sentence
from expb_tui.tui.widgets.lines import Line, words
from expb_tui.tui.widgets.one_line import Piece
from expb_tui.watch import link
from expb_tui.watch.bridge import Bridge
from expb_tui.watch.notices import Notice, sign

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage


class Header(NamedTuple):
    """``change`` is seconds until it reads differently by itself; None for never."""

    left: list[Piece]
    right: list[Piece]
    change: float | None


def header(bridge: Bridge, glyphs: Glyphs, *, read_only: bool) -> Header:
    """Product, profile, project and service at the left; connection, lost leases, trouble of the keeper, soonest lease
    and marks at the right."""
    house = bridge.house
    profile = bridge.profile
    left = [Piece((Cell("expb-tui", Tone.ACCENT),), 4)]
    if profile is not None:
        left.append(Piece((Cell(clean(profile.name)), Cell(f" {profile.type}", Tone.DIM)), 1))
        if profile.account_id:
            left.append(Piece(words(f"account {clean(profile.account_id[:8])}", Tone.DIM), 8))
        if project := profile.project_name or profile.project_id:
            left.append(Piece(words(clean(project)), 6))
        left.append(Piece(words(clean(profile.endpoint.partition("://")[2] or profile.endpoint), Tone.DIM), 7))
    elif house.chosen.token is not None:
        left.append(Piece(words("agent token, no profile"), 1))
    right = [Piece(words("read-only", Tone.INFO), 5)] if read_only else []
    state, change = link.words(bridge.link, house.clock, glyphs)
    right.append(Piece((state,)))
    live = live_leases(bridge)
    right += [Piece((word,)) for word in (bridge.losses.words(glyphs), bridge.keeper.trouble(live, glyphs)) if word]
    if soonest := next(iter(live), None):
        left_over = leases.left(soonest, house.clock)
        tone = leases.urgency(soonest, house.clock, bridge.keeper.keeping(soonest))
        right.append(Piece((Cell("lease ", Tone.DIM), Cell(left_over.text, tone))))
        right.append(Piece(words(clean(soonest.role), Tone.DIM), 2))
        change = min((time for time in (change, left_over.next_change) if time is not None), default=None)
    if house.demo_hint is not None:
        right.append(Piece(words("DEMO", Tone.WARN), 3))
    return Header(left, right, change)


def status(running: str, cancel_key: str, notice: Notice | None, glyphs: Glyphs) -> tuple[Line, Line]:
    """What is running and how to cancel it, else what was told last and when."""
    if running:
        return words(f"{glyphs.more} {clean(running)}", Tone.INFO), words(f"{cancel_key} cancels", Tone.DIM)
    if notice is None:
        return (), ()
    cause = f": {notice.cause}" if notice.cause else ""
    step = f"  {notice.next_step}" if notice.next_step else ""
    tone = notice.tone if notice.tone in (Tone.BAD, Tone.WARN) else Tone.TEXT
    line = sentence((f"{sign(notice.tone, glyphs)} ", notice.tone), (notice.text + cause, tone), (step, Tone.DIM))
    return line, words(f"{notice.at.astimezone():%H:%M}", Tone.DIM)


def live_leases(bridge: Bridge) -> list[HeldPackage]:
    """Packages that the service has as this host's, soonest end first."""
    return [held for held in bridge.held or () if held.live]


def leaving(bridge: Bridge) -> list[Line]:
    """What becomes of the leases when the cockpit is left: what goes on, and what does not."""
    live, clock, keeper = live_leases(bridge), bridge.house.clock, bridge.keeper
    if not live:
        return [words("This host holds no live lease.")]
    groups = _by_keeping(bridge)
    lines: list[Line] = []
    if kept := groups.pop(Keeping.KEEPER):
        goes = "goes" if len(kept) == 1 else "go"
        lines.append(
            sentence((plural(len(kept), "lease"), Tone.OK), f" {goes} on: the keeper renews {_them(kept)} without you.")
        )
        lent = [held for held in kept if keeper.state is not None and keeper.state.has_token_of(held)]
        if lent:
            text = f"  It has the token of {plural(len(lent), 'lease')} in its memory only: their renewal ends with it."
            lines.append(words(text, Tone.WARN))
    whys = {
        Keeping.COCKPIT: "Only this cockpit renews {them}; {reason}.",
        Keeping.NOBODY: "Nothing renews {them}; {reason}.",
        Keeping.OFF: "Keeping is off for {them}: no renewal comes by itself.",
        Keeping.NONE: "Nothing can renew {them} from here.",
    }
    for keeping, some in groups.items():
        if not some:
            continue
        first = leases.soonest(some, clock) or some[0]
        left = Cell(leases.left(first, clock).text, leases.urgency(first, clock, keeping))
        count, runs = plural(len(some), "lease"), "runs" if len(some) == 1 else "run"
        lines.append(sentence((count, Tone.WARN), f" {runs} out, the first in ", left, f" ({clean(first.role)})."))
        reason = clean(keeper.why_not(first)) or "no keeper runs"
        lines.append(words("  " + whys[keeping].format(them=_them(some), reason=reason), Tone.DIM))
    return [*lines, (), words("Tokens and drafts stay in the journal of this host.", Tone.DIM)]


def farewell(bridge: Bridge) -> str | None:
    """One line for the shell where the cockpit is left without a question."""
    live, clock = live_leases(bridge), bridge.house.clock
    if not live:
        return None
    kept = _by_keeping(bridge)[Keeping.KEEPER]
    rest = [held for held in live if held not in kept]
    parts = [f"{plural(len(kept), 'lease')} kept by the keeper"] if kept else []
    if rest:
        first = leases.left(leases.soonest(rest, clock) or rest[0], clock).text
        parts.append(f"{plural(len(rest), 'lease')} not renewed any more, the first ends in {first}")
    return f"{'; '.join(parts)}."


def _by_keeping(bridge: Bridge) -> dict[Keeping, list[HeldPackage]]:
    groups: dict[Keeping, list[HeldPackage]] = {keeping: [] for keeping in Keeping}
    for held in live_leases(bridge):
        groups[bridge.keeper.keeping(held)].append(held)
    return groups


def _them(some: list[HeldPackage]) -> str:
    return "it" if len(some) == 1 else "them"
