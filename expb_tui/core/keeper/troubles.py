"""What the keeper cannot do at the moment, gathered from its renewers for its state file and its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.keeper.state import KeeperProblem
from expb_tui.core.keeper.tokens import Identity, identity_of
from expb_tui.core.leases.journal import KeptPin
from expb_tui.core.leases.model import LeaseLost
from expb_tui.core.leases.renewer import RenewalNote
from expb_tui.core.text import clean

_FORGET = 5.0
"""Seconds after which a trouble with the journal is over if it did not come again."""


class Troubles:
    """Each is said once in the log when it begins, and once when it is over."""

    def __init__(self, say: Callable[[str], None], clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._tries: dict[str, KeeperProblem] = {}
        """By package."""
        self._unread: dict[tuple[str, str, str], KeeperProblem] = {}
        """By profile file, profile, and package where no profile holds its token."""
        self._ends: dict[str, datetime | None] = {}
        """By package: the end of its lease when it was last looked at."""
        self._covered: set[str] = set()
        """Packages whose trouble is that of their credential."""
        self._journal = ("", 0.0)

    def note(self, note: RenewalNote) -> None:
        """A renewer's word about one package, or (without an id) about the journal."""
        error, uid = note.error, note.package_id
        if error is None:
            before = self._tries.pop(uid, None)
            if before is not None:
                self._say(f"{uid}: renewed, after {before.tries} failed tries")
        elif isinstance(error, FileProblem) or not uid:
            self.journal(error)
        elif isinstance(error, LeaseLost):
            self._tries.pop(uid, None)
            self._say(str(error))
        else:
            before = self._tries.get(uid)
            self._tries[uid] = self._problem(error, before, package_id=uid)
            # Not by its words: they may name the request, which is another each time.
            if before is None or before.code != error.code:
                self._say(str(error))

    def journal(self, problem: ExpbError) -> None:
        """The journal, or we ourselves, did not work."""
        words = clean(problem.lines()[0])
        if words != self._journal[0]:
            self._say(words)
        self._journal = words, self._clock.ticks()

    def credentials(self, kept: list[KeptPin], problem_of: Callable[[Identity], ExpbError | None]) -> None:
        """What was found out about the credentials of everything that is kept."""
        now: dict[tuple[str, str, str], KeeperProblem] = {}
        covered = set()
        for one in kept:
            error = problem_of(identity_of(one.pin))
            if error is None:
                continue
            covered.add(one.uid)
            pin = one.pin
            key = pin.profile_file, pin.profile_name, "" if pin.profile_name else one.uid
            if key not in now:
                problem = self._problem(error, self._unread.get(key), key[2], pin.profile_name, pin.profile_file)
                now[key] = replace(problem, cannot_read=True)
        for key in now.keys() - self._unread.keys():
            self._say(f"{clean(key[1] or key[2])}: {now[key].what}: {now[key].cause}")
        for key in self._unread.keys() - now.keys():
            self._say(f"{clean(key[1] or key[2])}: its credential can be used now, or is not needed any more")
        self._unread, self._covered = now, covered
        before, self._ends = self._ends, {one.uid: one.expires_at for one in kept}
        for uid in [uid for uid in self._tries if uid not in self._ends or _later(self._ends[uid], before.get(uid))]:
            del self._tries[uid]  # over, or somebody else has renewed it

    def listed(self) -> tuple[KeeperProblem, ...]:
        """Everything, the oldest first."""
        tries = (problem for uid, problem in self._tries.items() if uid not in self._covered)
        return tuple(sorted((*self._unread.values(), *tries), key=lambda problem: problem.since))

    def journal_words(self) -> str:
        """Why the journal does not work; empty where it does."""
        words, at = self._journal
        if words and self._clock.ticks() - at > _FORGET:
            self._say("the journal works again")
            self._journal = "", 0.0
            return ""
        return words

    def _problem(
        self, error: ExpbError, before: KeeperProblem | None, package_id: str, profile: str = "", file: str = ""
    ) -> KeeperProblem:
        return KeeperProblem(
            package_id,
            profile,
            file,
            clean(error.what),
            clean(error.cause),
            clean(error.next_step),
            error.code,
            before.since if before else self._clock.now(),
            before.tries + 1 if before else 1,
        )


def _later(end: datetime | None, before: datetime | None) -> bool:
    return end is not None and before is not None and end > before
