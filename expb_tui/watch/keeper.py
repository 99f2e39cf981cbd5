"""The keeper as the cockpit sees it: started where none runs, looked at once a second, and its trouble told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.keeping import Keeping, keeping_of, why_no_keeper
from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.watch.notices import Notice, of_error, of_renewal

if TYPE_CHECKING:
    from expb_tui.core.keeper.state import KeeperProblem, KeeperState
    from expb_tui.core.leases.model import HeldPackage, LeaseTimes
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House

AGAIN = 30.0
"""Seconds between two tries to start a keeper: one that dies at once must not be started without pause."""


class Listener(Protocol):
    """What is told, and that something shown has changed."""

    def tell(self, notice: Notice) -> None:
        """Keep a notice and show it."""
        ...


class KeeperWatch:
    """``mark`` says that panes and header show something else now."""

    def __init__(self, house: House, listener: Listener, mark: Callable[[], None]) -> None:
        self._house = house
        self._listener = listener
        self._mark = mark
        self._stamp: object = None
        self._shown: object = None
        self._told: set[tuple[str, ...]] = set()
        self._lent: set[tuple[int, str]] = set()
        self._next_try = 0.0
        self._missed = False
        """It has ended while leases depended on it, and that was told."""
        self._starting = False
        self.state: KeeperState | None = None
        """None until it has been looked at."""
        self.here = not house.settings.read_only
        """This cockpit renews what no keeper does."""
        self._failed: dict[str, tuple[LeaseTimes | None, ExpbError]] = {}
        """By package: the lease that this cockpit has tried in vain to extend, and why."""

    # What is known

    def keeping(self, held: HeldPackage) -> Keeping:
        """Who keeps a lease now."""
        state = self.state
        keeps = state is not None and state.keeps_it(held, self._house.clock)
        return keeping_of(held, keeper=keeps, here=self.here and self._failure(held) is None)

    def tried(self, held: HeldPackage, error: ExpbError | None) -> None:
        """What came of this cockpit's own last renewal of a lease."""
        if error is None:
            self._failed.pop(held.uid, None)
        else:
            self._failed[held.uid] = held.times, error

    def _failure(self, held: HeldPackage) -> ExpbError | None:
        times, error = self._failed.get(held.uid, (None, None))
        return error if times == held.times else None  # otherwise somebody has renewed it since

    def why_not(self, held: HeldPackage) -> str:
        """Why the keeper does not keep a lease, in a few words; empty where it does."""
        if self._house.settings.keeper == "off" and not (self.state and self.state.running):
            return "the keeper is off (setting keeper)"
        why = why_no_keeper(held, self.state, self._house.clock) if self.state is not None else ""
        error = self._failure(held) if self.here else None
        if error is None or not why:
            return why
        return f"{why}; this cockpit cannot either: {error.what}" + (f", {error.cause}" if error.cause else "")

    def left_to_us(self, held: HeldPackage) -> bool:
        """What the cockpit renews itself."""
        return self.state is None or not self.state.keeps_it(held, self._house.clock)

    def trouble(self, live: Iterable[HeldPackage], glyphs: Glyphs) -> Cell | None:
        """The header's word where leases are not kept as they should be; None where all is well."""
        wanted = [held for held in live if held.kept and held.renewable]
        state = self.state
        if state is None or not wanted:
            return None
        if not state.running:
            if self._house.settings.keeper == "off" and self.here:
                return None
            return Cell(f"{glyphs.warn} no keeper", Tone.WARN)
        if state.silent(self._house.clock):
            return Cell(f"{glyphs.warn} keeper silent", Tone.WARN)
        if state.journal_problem:
            return Cell(f"{glyphs.bad} keeper: journal", Tone.BAD)
        count = len(state.problems) + state.more_problems
        if count:
            return Cell(f"{glyphs.warn} keeper: {count} problem{'s' if count != 1 else ''}", Tone.WARN)
        return None

    def words(self) -> Cell:
        """Who renews, for the border of the leases."""
        state = self.state
        if state is None:
            return Cell("")
        if state.running:
            if state.silent(self._house.clock):
                return Cell("keeper silent", Tone.WARN)
            return Cell("keeper on", Tone.WARN if state.problems or state.journal_problem else Tone.DIM)
        if self.here:
            return Cell("kept by this cockpit", Tone.DIM)
        return Cell("no keeper", Tone.WARN)

    # Looking and starting

    def look(self, held: Iterable[HeldPackage]) -> None:
        """See what the keeper says; two ``stat`` calls where it says nothing new. Needs the desk's modules loaded."""
        from expb_tui.core.keeper.state import stamp

        now = stamp()
        if now != self._stamp or self.state is None:
            self._stamp = now
            before, self.state = self.state, self._house.keeper()
            self._tell_changes(before, self.state, held)
        silent = self.state.silent(self._house.clock)
        shown = (replace(self.state, seen_ticks=0.0, next_renewal_at=None), silent)
        if shown != self._shown:
            self._shown = shown
            if silent:
                self._tell_once(
                    ("silent", str(self.state.pid)),
                    f"The keeper (process {self.state.pid}) gives no sign of life",
                    "it was stopped, or it hangs",
                    f"{self._instead()}; expb-tui keeper status says more",
                )
            self._mark()

    async def ensure(self, session: Session | None = None) -> None:
        """Have a keeper run, if the settings want one; what goes wrong is told once and does not stop anything."""
        if not self.here or self._starting:
            return
        self._starting = True
        try:
            ensured = await self._house.ensure_keeper(session)
        finally:
            self._starting = False
            self._next_try = self._house.clock.ticks() + AGAIN
        if ensured.problem is not None:
            self._complain(ensured.problem)

    async def help(self, held: Iterable[HeldPackage], session_for: Callable[[HeldPackage], Awaitable[Session]]) -> None:
        """Start a keeper where one is missing, and lend it the tokens that it cannot read and this cockpit can."""
        state = self.state
        wanted = [one for one in held if one.kept and one.renewable]
        if state is None or not wanted or not self.here or self._house.clock.ticks() < self._next_try:
            return
        if not state.running:
            # Somebody who has just stopped it knows why.
            if state.end != "stopped" and self._house.settings.keeper != "off":
                await self.ensure()
            return
        for one in wanted:
            key = (state.pid, f"{one.endpoint} {one.agent_id} {one.profile_name}")
            lacking = one.keeping_problem or state.problem_of(one) is not None or not one.profile_name
            if not lacking or key in self._lent or state.has_token_of(one):
                continue
            self._lent.add(key)
            try:
                session = await session_for(one)
            except ExpbError:
                continue  # this cockpit cannot act for it either: its state says so
            await self.ensure(session)

    # Telling

    def _tell_changes(self, before: KeeperState | None, state: KeeperState, held: Iterable[HeldPackage]) -> None:
        for problem in state.problems if state.running else ():
            self._tell_problem(problem, next((one for one in held if one.uid == problem.package_id), None))
        if state.running and state.journal_problem:
            self._tell_once(
                ("journal", state.journal_problem),
                "The keeper cannot write the journal; it goes on renewing and keeps the answers in its memory",
                state.journal_problem,
                "Make room, or let the program go on that holds the journal; do not stop the keeper before that",
            )
        else:
            self._told = {key for key in self._told if key[0] != "journal"}
        if before is not None and not before.running and state.running and self._missed:
            self._missed = False
            text = f"A keeper runs again (process {state.pid}) and renews the leases"
            self._listener.tell(Notice(self._house.clock.now(), Tone.OK, text, pane="leases"))
        ended = before is not None and before.running and not state.running
        if ended and any(one.kept and one.renewable for one in held) and state.end not in ("handed over", "idle"):
            self._missed = True
            how = {"stopped": "it was stopped", "failed": "it failed"}.get(state.end, "it was killed")
            self._tell_once(
                ("ended", str(before.pid if before else 0)),
                "The keeper has ended",
                how,
                f"{self._instead()}; expb-tui keeper --detach starts it again",
            )

    def _instead(self) -> str:
        return "This cockpit renews its leases while it is open" if self.here else "Nothing renews its leases now"

    def _tell_problem(self, problem: KeeperProblem, held: HeldPackage | None) -> None:
        key = (problem.package_id, problem.profile, problem.code, problem.since.isoformat())
        if key not in self._told:
            self._told.add(key)
            now = self._house.clock.now()
            self._listener.tell(of_renewal(held, problem, now, tone=Tone.WARN, by=" by the keeper"))

    def _complain(self, error: ExpbError) -> None:
        key = ("start", error.code, error.what)
        if key not in self._told:
            self._told.add(key)
            self._listener.tell(of_error(error, self._house.clock.now(), tone=Tone.WARN))

    def _tell_once(self, key: tuple[str, ...], what: str, cause: str, next_step: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._listener.tell(Notice(self._house.clock.now(), Tone.WARN, what, cause, next_step, pane="leases"))
