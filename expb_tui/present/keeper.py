"""The keeper's state in words, for ``keeper status``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from expb_tui.core.clock import Clock
from expb_tui.core.keeper.state import KeeperProblem, KeeperState
from expb_tui.core.text import clean, coarse
from expb_tui.present.cells import Cell, Tone, plural
from expb_tui.present.times import moment

Line = tuple[Cell, ...]
_LABEL = 13


def status_lines(state: KeeperState, clock: Clock, *, off: bool = False) -> list[Line]:
    """One fact a line: label, then words. ``off``: the setting says that none is started."""
    return [(Cell(label.ljust(_LABEL), Tone.DIM), words) for label, words in _facts(state, clock, off)]


def problem_line(problem: KeeperProblem) -> str:
    """What does not work, for whom and why, in one line."""
    whose = problem.package_id or problem.profile
    about = f"{clean(whose)}: " if whose and whose not in problem.what else ""
    tries = f" ({problem.tries} tries)" if problem.tries > 1 else ""
    return f"{about}{problem.what}{': ' if problem.cause else ''}{problem.cause}{tries}"


def _facts(state: KeeperState, clock: Clock, off: bool) -> Iterator[tuple[str, Cell]]:
    if not state.running:
        ends = {"": "", "idle": "; the last one ended because there was nothing to keep", "stopped": "; it was stopped"}
        told = ends.get(state.end, f"; the last one ended: {state.end}") if state.pid else ""
        yield "Keeper", Cell(f"none runs{told}", Tone.WARN)
        if off:
            yield "", Cell("none is started by itself: setting keeper = off", Tone.DIM)
        return
    now = clock.now()
    if state.silent(clock):
        yield "Keeper", Cell(f"process {state.pid} gives no sign of life; it may be stopped", Tone.BAD)
        yield "", Cell(f"continue it with: kill -CONT {state.pid}", Tone.TEXT)
    elif state.opaque:
        yield "Keeper", Cell(f"runs; {state.opaque}", Tone.WARN)
    else:
        yield (
            "Keeper",
            Cell(f"runs since {moment(state.since, now)}, process {state.pid}, version {state.version}", Tone.OK),
        )
    yield "Keeps", Cell(plural(state.keeps, "lease") + _next(state, now))
    if state.journal_problem:
        yield "Journal", Cell(f"{state.journal_problem}; answers are kept in memory", Tone.BAD)
    for profile in state.lent:
        yield "In memory", Cell(f"the token of {clean(profile)}: its renewal ends with this keeper", Tone.WARN)
    others = len(state.lent_agents) - len(state.lent)
    if others > 0:
        yield "In memory", Cell(f"{plural(others, 'more token')} lent to it: renewal ends with this keeper", Tone.WARN)
    for problem in state.problems:
        yield "Problem", Cell(problem_line(problem), Tone.BAD if problem.cannot_read else Tone.WARN)
        if problem.next_step:
            yield "", Cell(problem.next_step)
    if state.more_problems:
        yield "Problem", Cell(f"and {state.more_problems} more", Tone.WARN)
    if state.idle_end is not None:
        yield "Ends", Cell(f"at {moment(state.idle_end, now)} unless there is a lease to keep", Tone.DIM)


def _next(state: KeeperState, now: datetime) -> str:
    if state.next_renewal_at is None:
        return ""
    left = (state.next_renewal_at - now).total_seconds()
    return f", next renewal in {coarse(left)}" if left >= 1 else ", next renewal now"
