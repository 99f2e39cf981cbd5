"""What is worth a line: leases that come, end, run short or change hands; never a tick of a clock.

Pure: what is known goes in, lines and the seconds until the next look come out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.leases.keeping import Keeping
from expb_tui.core.leases.model import LITTLE_SHARE, LeaseState
from expb_tui.core.text import clean
from expb_tui.plain.words import KEPT_BY, about, count, joined, sentence, spoken

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.clock import Clock
    from expb_tui.core.leases.model import HeldPackage

MOMENTS = (1800, 600, 300, 120, 60, 30, 10)
"""Seconds before its end at which a lease that nothing extends is announced; of a short one, those below half of it."""
_EDGE = 0.001
_LATE = 0.5
"""Seconds after a moment at which it is still told as that moment."""
_TOLD_BY_THE_BRIDGE = ("lost", "expired", "revoked", "no credential")
"""Losses, which every face tells in the same words, at once."""


class _Known(NamedTuple):
    held: HeldPackage
    keeping: Keeping
    said: int | None
    """The last moment that was announced for this end; None for none."""


class Numbers:
    """Short numbers for leases, given once and never again: what people type."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def of(self, uid: str) -> int:
        """The number of a package."""
        return self._of.setdefault(uid, len(self._of) + 1)

    def uid(self, number: int) -> str | None:
        """The package of a number."""
        return next((uid for uid, given in self._of.items() if given == number), None)


class LeaseChanges:
    """Leases from one look to the next."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._known: dict[str, _Known] | None = None

    def look(
        self,
        leases: Iterable[HeldPackage],
        clock: Clock,
        keeping: Callable[[HeldPackage], Keeping],
        quiet: Container[str] = (),
    ) -> tuple[list[str], float | None]:
        """The lines to say, and the seconds until one may be due without any change; None for never.

        The first look only learns: a face tells by itself what it found. ``quiet`` are packages of which it has just
        told by itself, too.
        """
        first, before = self._known is None, self._known or {}
        self._known = {}
        said: list[tuple[str, str, str]] = []  # number, about, words
        dues: list[float] = []
        for held in leases:
            known = before.get(held.uid)
            who = keeping(held)
            words, moment = self._changed(known, held, who, clock, first=first)
            number = str(self._numbers.of(held.uid))
            said += [(number, about(held), text) for text in words if held.uid not in quiet]
            self._known[held.uid] = _Known(held, who, moment)
            if (due := _next(held, clock)) is not None:
                dues.append(due)
        for uid, known in before.items():
            if uid not in self._known and not known.held.state.ended:
                said.append((str(self._numbers.of(uid)), about(known.held), "it is no longer listed on this host"))
        return list(_grouped(said)), min(dues, default=None)

    def _changed(
        self, known: _Known | None, held: HeldPackage, who: Keeping, clock: Clock, *, first: bool
    ) -> tuple[list[str], int | None]:
        moment = _moment(held, who, clock)
        if known is None:
            words = [] if first else [_arrived(held, who, clock)]
            return words, moment
        before = known.held
        words = []
        if held.word != before.word:
            if held.state.value not in _TOLD_BY_THE_BRIDGE:
                words.append(_state(before, held, clock))
        elif held.usable and who is not known.keeping and KEPT_BY[who]:
            words.append(KEPT_BY[who] + (f", {held.keeping_problem}" if held.keeping_problem else ""))
        if held.done > before.done:
            words.append(f"{held.done} of {count(len(held.tasks), 'task')} submitted")
        extended = (
            held.times is not None and before.times is not None and held.times.expires_at > before.times.expires_at
        )
        said = None if extended else known.said
        if extended and known.said is not None and moment is None and held.word == before.word:
            words.append(f"renewed, {spoken(held.remaining(clock))} left")
        if moment is not None and held.word == before.word and (said is None or moment < said):
            words.append(_short(held, who, clock))
        return words, moment if moment is not None else said


def _arrived(held: HeldPackage, who: Keeping, clock: Clock) -> str:
    if not held.usable:
        return sentence(f"new here, {held.word}", clean(held.reason), clean(held.next_step)).rstrip(".")
    tasks = count(len(held.tasks), "task")
    return ", ".join(filter(None, (f"new, {tasks}", f"{spoken(held.remaining(clock))} left", KEPT_BY[who])))


def _state(before: HeldPackage, held: HeldPackage, clock: Clock) -> str:
    left = f", {spoken(held.remaining(clock) + _LATE)} left" if held.renewable and held.times else ""
    if held.state is LeaseState.ACTIVE and before.state is LeaseState.OVERDUE:
        return f"renewed after all{left}"
    return sentence(held.word + left, clean(held.reason), clean(held.next_step)).rstrip(".")


def _short(held: HeldPackage, who: Keeping, clock: Clock) -> str:
    why = "its absolute end comes then" if held.times and held.times.capped else KEPT_BY[who]
    if held.state is LeaseState.OVERDUE:
        why = "its renewal is overdue"
    left = f"{spoken(held.remaining(clock) + _LATE)} left"
    return f"{left}, {why}" if why else left


def _moments(held: HeldPackage) -> Iterable[int]:
    if held.times is None or not held.renewable:
        return ()
    return (moment for moment in MOMENTS if moment <= held.times.lease_seconds / 2)


def _moment(held: HeldPackage, who: Keeping, clock: Clock) -> int | None:
    """The latest of the moments that has come; None where none has, or where a renewal will come in time."""
    if held.times is None or not held.renewable:
        return None
    remaining = held.remaining(clock)
    ending = not who.renews or held.times.capped or held.state is LeaseState.OVERDUE
    if not ending and remaining > held.times.lease_seconds * LITTLE_SHARE:
        return None
    return min((moment for moment in _moments(held) if remaining <= moment), default=None)


def _next(held: HeldPackage, clock: Clock) -> float | None:
    if held.times is None or not held.renewable:
        return None
    remaining = held.remaining(clock)
    edges = [*_moments(held), held.times.lease_seconds * LITTLE_SHARE, 0]
    return min((remaining - edge + _EDGE for edge in edges if remaining > edge), default=None)


def _grouped(said: list[tuple[str, str, str]]) -> Iterable[str]:
    """Several leases with one thing to say share a line."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for number, name, words in said:
        alike.setdefault(words, []).append((number, name))
    for words, whose in alike.items():
        if len(whose) == 1:
            yield sentence(f"Lease {whose[0][0]}, {whose[0][1]}: {words}")
        else:
            yield sentence(f"Leases {joined([number for number, _ in whose])}: {words}")


class WorkChanges:
    """Work on offer from one look to the next: only what appears is worth a line."""

    def __init__(self) -> None:
        self._known: Mapping[tuple[str, str], int] | None = None

    def look(self, items: Iterable[Offer]) -> list[str]:
        """The lines to say; the first look only learns."""
        now = {(item.project_id, item.role): item for item in items}
        before, self._known = self._known, {key: item.available for key, item in now.items()}
        if before is None:
            return []
        return [
            sentence(
                f"Work for {clean(item.role)} in {clean(item.project_name or item.project_id)}: {item.available} open"
            )
            for key, item in now.items()
            if item.available > 0 and not before.get(key)
        ]

    def forget(self) -> None:
        """Another profile asks from now on."""
        self._known = None
