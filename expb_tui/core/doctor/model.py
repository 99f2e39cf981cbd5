"""What the doctor finds: one fact each, with its state and the line that mends it. Nothing here ever holds a secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.errors import ExpbError
    from expb_tui.core.profiles.store import ProfileStore
    from expb_tui.core.secret import SecretStr
    from expb_tui.core.settings import Settings


class State(StrEnum):
    """``warn`` works, but less well or less safely than it could; ``bad`` does not; ``unknown`` could not be found out.

    Nothing that is merely absent (tmux, where there is none) is a finding.
    """

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


AREAS = (
    "terminal", "tmux", "screen", "clipboard", "programs", "settings", "profiles", "keyring", "clock", "keeper",
    "journal", "endpoint",
)  # fmt: skip
"""What is examined, in the order in which it is told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``name`` is stable: an area and a word (``tmux.escape-time``). Texts are one line each, cleaned here."""

    name: str
    state: State
    says: str
    """What is so, and what that does here."""
    mend: str = ""
    """The exact line, to be typed in a shell or done, that mends it; empty where nothing is to be mended."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "says", clean(self.says))
        object.__setattr__(self, "mend", clean(self.mend))

    @classmethod
    def of(cls, name: str, problem: ExpbError, state: State = State.BAD) -> Self:
        """What an error says, with its next step as the line that mends it."""
        first, *rest = problem.lines()
        return cls(name, state, first, " ".join(rest))

    @property
    def area(self) -> str:
        """The part of ``AREAS`` that it belongs to."""
        return self.name.partition(".")[0]

    def public(self) -> dict[str, str]:
        """As structured output gives it."""
        pairs = {"name": self.name, "state": self.state.value, "says": self.says, "mend": self.mend}
        return {key: value for key, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class Answers:
    """What the terminal itself told when it was asked. Source: xterm's ctlseqs (XTVERSION, XTGETTCAP, DA1)."""

    name: str = ""
    """Program and version, such as ``WezTerm 20240203``; empty where it did not say."""
    takes_copies: bool = False
    """It says that it takes OSC 52."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The terminal as this process sees it; a command makes it with ``asking.look``."""

    present: bool
    """There is a terminal on input and output."""
    columns: int = 0
    lines: int = 0
    answers: Answers | None = None
    """None where it was not asked, or did not answer."""


@dataclass(frozen=True)
class Circumstances:
    """What is examined. Paths and environment are arguments, so that nothing is read from elsewhere."""

    environ: Mapping[str, str] = field(repr=False)
    sight: Sight
    store: ProfileStore
    journal: Path
    settings: Settings | None
    """None where they are broken; then ``settings_problem`` says how."""
    settings_problem: ExpbError | None = None
    profile: str | None = None
    """As named on the command line; None for the default."""
    endpoint: str | None = None
    token: SecretStr | None = field(default=None, repr=False)
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, slots=True)
class Check:
    """One examination. ``run`` blocks, and is given up after ``limit`` seconds; it may find nothing."""

    name: str
    """Of the finding that stands in where it is given up."""
    run: Callable[[Circumstances], Sequence[Finding]]
    limit: float = 5.0


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """By area, and inside one in the order in which they were found."""
    return sorted(findings, key=lambda finding: AREAS.index(finding.area))


def healthy(findings: Sequence[Finding]) -> bool:
    """Nothing is bad."""
    return all(finding.state is not State.BAD for finding in findings)
