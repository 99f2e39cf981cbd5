"""The connection as the header shows it: a state with the time of the last good answer, never a dialog."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.present.times import age, moment

if TYPE_CHECKING:
    from expb_tui.core.opportunities import Snapshot


class LinkState(StrEnum):
    """``nobody``: there is no profile to ask with. ``refused``: the service answers, but with an error. ``waiting``: a
    question has been open for a while."""

    OPENING = "opening"
    ASKING = "asking"
    WAITING = "waiting"
    ONLINE = "online"
    LOST = "no answer"
    REFUSED = "refused"
    SIGNED_OUT = "signed out"
    NOBODY = "nobody"


class Link(NamedTuple):
    """``at`` and ``ticks`` tell of the last good answer, by the wall clock and by the one that never jumps."""

    state: LinkState
    at: datetime | None = None
    ticks: float | None = None
    error: ExpbError | None = None
    waiting_since: float | None = None
    """Ticks when the open question was sent."""


_STALE = 60.0
"""Seconds below which an answer is simply ``online``; its age would change the header for nothing."""


def words(link: Link, clock: Clock, glyphs: Glyphs) -> tuple[Cell, float | None]:
    """The header's piece, and the seconds until it reads differently."""
    if link.state in (LinkState.OPENING, LinkState.ASKING):
        return Cell(f"{glyphs.more} {link.state.value}", Tone.DIM), None
    if link.state is LinkState.NOBODY:
        return Cell(f"{glyphs.idle} no profile", Tone.DIM), None
    if link.state is LinkState.SIGNED_OUT:
        return Cell(f"{glyphs.bad} signed out", Tone.BAD), None
    passed = None if link.ticks is None else max(0.0, clock.ticks() - link.ticks)
    if link.state is LinkState.WAITING:
        waiting = age(clock.ticks() - (link.waiting_since or clock.ticks()))
        text = "no answer yet" if waiting.text == "now" else f"no answer for {waiting.text}"
        return Cell(f"{glyphs.more} {text}", Tone.WARN), waiting.next_change
    if link.state is LinkState.ONLINE:
        if passed is None or passed < _STALE:
            return Cell(f"{glyphs.ok} online", Tone.OK), None if passed is None else _STALE - passed + 0.001
        since = age(passed)
        return Cell(f"{glyphs.ok} online, {since.text} ago", Tone.OK), since.next_change
    if link.state is LinkState.REFUSED:
        status = getattr(link.error, "status", 0)
        what = f"{glyphs.bad} refused with {status}" if status else f"{glyphs.bad} refused"
        if passed is None:
            return Cell(what, Tone.BAD), None
        since = age(passed)
        return Cell(f"{what}, good {since.text} ago" if since.text != "now" else what, Tone.BAD), since.next_change
    if passed is None:
        return Cell(f"{glyphs.bad} no answer", Tone.BAD), None
    since = age(passed)
    return Cell(
        f"{glyphs.bad} no answer since {moment(link.at, clock.now())}, {since.text}", Tone.BAD
    ), since.next_change


def of_error(error: ExpbError) -> Link:
    """What a failed question says about the connection."""
    from expb_tui.core.api.failures import ApiProblem
    from expb_tui.core.errors import SignInNeeded

    if isinstance(error, SignInNeeded):
        return Link(LinkState.SIGNED_OUT, error=error)
    return Link(LinkState.REFUSED if isinstance(error, ApiProblem) else LinkState.LOST, error=error)


def of_snapshot(snapshot: Snapshot, before: Link) -> Link:
    """What the feed of work on offer says about the connection."""
    state, at, ticks = snapshot.state.value, snapshot.taken_at, snapshot.taken_ticks
    if snapshot.waiting_since is not None:
        return Link(LinkState.WAITING, at, ticks, snapshot.error, snapshot.waiting_since)
    if state == "fresh":
        return Link(LinkState.ONLINE, at, ticks)
    if snapshot.error is not None:
        return of_error(snapshot.error)._replace(at=at, ticks=ticks)
    return {
        "stale": Link(LinkState.LOST, at, ticks),
        "loading": Link(LinkState.ASKING, at, ticks),
    }.get(state, before)


def reason(link: Link) -> tuple[str, str]:
    """Cause and next step in words, for the pane that cannot show work."""
    if link.error is None:
        return "", ""
    what = clean(link.error.what) + (f": {clean(link.error.cause)}" if link.error.cause else "")
    return what, clean(link.error.next_step)
