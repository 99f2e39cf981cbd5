"""The frame's words: who acts where in the header, and what was told last in the status line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.clock import Clock
from expb_tui.core.text import clean
from expb_tui.present import leases
from expb_tui.present.cells import Cell, Glyphs, Tone, plural
from expb_tui.tui import link
from expb_tui.tui.bridge import Bridge
from expb_tui.tui.notices import Notice, sign
from expb_tui.tui.panes.base import sentence
from expb_tui.tui.widgets.lines import Line, words
from expb_tui.tui.widgets.one_line import Piece

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage


class Header(NamedTuple):
    """``change`` is seconds until it reads differently by itself; None for never."""

    left: list[Piece]
    right: list[Piece]
    change: float | None


def header(bridge: Bridge, glyphs: Glyphs, *, read_only: bool) -> Header:
    """Product, profile, project and service at the left; connection, soonest lease and marks at the right."""
    house = bridge.house
    profile = bridge.profile
    left = [Piece((Cell("expb-tui", Tone.ACCENT),), 3)]
    if profile is not None:
        left.append(Piece((Cell(clean(profile.name)), Cell(f" {profile.type}", Tone.DIM)), 1))
        if profile.account_id:
            left.append(Piece(words(f"account {clean(profile.account_id[:8])}", Tone.DIM), 8))
        if project := profile.project_name or profile.project_id:
            left.append(Piece(words(clean(project)), 5))
        left.append(Piece(words(clean(profile.endpoint.partition("://")[2] or profile.endpoint), Tone.DIM), 6))
    elif house.chosen.token is not None:
        left.append(Piece(words("agent token, no profile"), 1))
    right = [Piece(words("read-only", Tone.INFO), 4)] if read_only else []
    state, change = link.words(bridge.link, house.clock, glyphs)
    right.append(Piece((state,)))
    if live := live_leases(bridge):
        soonest = min(live, key=lambda held: held.remaining(house.clock))
        left_over = leases.left(soonest, house.clock)
        tone = leases.urgency(soonest, house.clock)
        right.append(Piece((Cell("lease ", Tone.DIM), Cell(left_over.text, tone))))
        change = min((time for time in (change, left_over.next_change) if time is not None), default=None)
    if house.demo_hint is not None:
        right.append(Piece(words("DEMO", Tone.WARN), 2))
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
    """Packages of this host that can still be worked on."""
    return [held for held in bridge.held or () if held.usable]


def leaving(live: Sequence[HeldPackage], clock: Clock) -> list[Line]:
    """What becomes of the leases when the cockpit is left."""
    if not live:
        return [words("This host holds no live lease.")]
    soonest = min(live, key=lambda held: held.remaining(clock))
    stays = "stays" if len(live) == 1 else "stay"
    return [
        sentence((plural(len(live), "lease"), Tone.WARN), f" {stays} claimed."),
        sentence(
            "Nothing renews them while the cockpit is closed; the first ends in ",
            (leases.left(soonest, clock).text, leases.urgency(soonest, clock)),
            f" ({clean(soonest.role)}).",
        ),
        words("Tokens and drafts stay in the journal: open the cockpit again before then to go on.", Tone.DIM),
    ]


def farewell(live: Sequence[HeldPackage], clock: Clock) -> str | None:
    """One line for the shell where the cockpit is left without a question."""
    if not live:
        return None
    first = leases.left(min(live, key=lambda held: held.remaining(clock)), clock).text
    return f"{plural(len(live), 'lease')} claimed and not renewed any more; the first ends in {first}."
