"""What the desk tells the faces: packages held on this host, and how each act ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.core.clock import Clock, boot_id
from expb_tui.core.errors import ExpbError, FileProblem, UsageError
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.leases.schema import PackageRow

SAFETY = 1.0
"""Seconds taken off every remaining time: the ``Date`` header counts whole seconds (hazards 1)."""
RENEW_SHARE = 1 / 3
"""A lease is renewed once this share of it, or less, is left (contract, 6.2.4)."""
OVERDUE_SHARE = 1 / 4
"""Below this share a renewal that should have happened has not."""
LITTLE_SHARE = 1 / 10
"""Below this share every face warns: hardly anything of the lease is left."""


class LeaseState(StrEnum):
    """The word that a face shows for a package. The first six hold or held work; the rest are ends."""

    ACTIVE = "active"
    OVERDUE = "renewal overdue"
    EXPIRED = "expired"
    LOST = "lost"
    TOKEN_LOST = "token lost"  # noqa: S105 - a word on the screen
    NO_CREDENTIAL = "no credential"
    COMPLETED = "completed"
    RELEASED = "released"
    REVOKED = "revoked"

    @property
    def ended(self) -> bool:
        """Nothing can be done with the package any more, and nothing was lost unnoticed."""
        return self in (LeaseState.COMPLETED, LeaseState.RELEASED, LeaseState.REVOKED)


@dataclass(frozen=True)
class LeaseTimes:
    """One server answer about a lease, with the clocks of the moment when its request was sent.

    ``server_date`` is the answer's ``Date``; where the server sent none it is this host's wall clock.
    """

    expires_at: datetime
    absolute_expires_at: datetime | None
    lease_seconds: float
    server_date: datetime
    sent_wall: datetime
    sent_ticks: float
    sent_boot: str

    def remaining(self, clock: Clock) -> float:
        """Seconds until the lease ends, negative after it (hazards 1); exact while this boot lasts."""
        granted = (self.expires_at - self.server_date).total_seconds() - SAFETY
        # A server whose Date lags would promise more than one renewal buys.
        return min(granted, self.lease_seconds) - self.elapsed(clock)

    def elapsed(self, clock: Clock) -> float:
        """Seconds since the request was sent, suspended time included; by the wall clock after a reboot."""
        if self.verified():
            return clock.ticks() - self.sent_ticks
        return (clock.now() - self.sent_wall).total_seconds()

    def verified(self) -> bool:
        """False after a reboot: the remaining time then leans on the wall clock until the package is read again."""
        return bool(self.sent_boot) and self.sent_boot == boot_id()

    def server_now(self, clock: Clock) -> float:
        """The server's time as a Unix timestamp, by its ``Date`` and the time that has passed."""
        return self.server_date.timestamp() + self.elapsed(clock)

    def until_overdue(self, clock: Clock) -> float | None:
        """Seconds until a renewal that should have extended the lease has not; None where none can."""
        return None if self.capped else self.remaining(clock) - self.lease_seconds * OVERDUE_SHARE

    def until_last(self, clock: Clock) -> float | None:
        """Seconds until the absolute end is nearer than one lease: renewals then extend it by less, or not at all."""
        if self.absolute_expires_at is None:
            return None
        return self.absolute_expires_at.timestamp() - self.server_now(clock) - self.lease_seconds

    @property
    def capped(self) -> bool:
        """The lease already reaches its absolute end: no renewal can extend it."""
        return self.absolute_expires_at is not None and self.expires_at >= self.absolute_expires_at


@dataclass(frozen=True)
class Receipt:
    """The server's confirmation that a task was submitted; it stays after the package has ended."""

    package_id: str
    task_id: str
    role: str
    project_name: str
    outcome: Literal["completed", "failed"]
    submitted_at: datetime
    """By the server's clock (the answer's ``Date``)."""
    record_kind: str = ""
    record_id: str = ""
    output_sha256: str = ""
    request_id: str = ""
    confirmed_by: Literal["answer", "reading"] = "answer"
    """``reading``: the answer was lost and the package showed afterwards that the submission had arrived."""


@dataclass(frozen=True)
class HeldTask:
    """One task of a held package, as the server last described it."""

    task_id: str
    role: str
    phase: str
    input: dict[str, Any] = field(default_factory=dict, repr=False)
    record_id: str | None = None
    output_sha256: str | None = None
    has_draft: bool = False
    draft_before: bool = False
    """It has none, but one was typed when an earlier package had it; whoever fills it in is offered that."""
    receipt: Receipt | None = None

    @property
    def open(self) -> bool:
        """It still waits for a submission."""
        return self.phase == "assigned"

    @property
    def submitted(self) -> bool:
        """The server has confirmed a submission, completed or failed."""
        return self.phase == "submitted" or self.receipt is not None


@dataclass(frozen=True)
class HeldPackage:
    """A package that this host holds or held, with its state at the moment of asking.

    ``reason`` says in words why the state is what it is (which credential is missing, why it was lost), and
    ``next_step`` what the operator can do; both are empty for a healthy lease.
    """

    uid: str
    endpoint: str
    account_id: str
    agent_id: str
    project_id: str
    project_name: str
    role: str
    profile_name: str
    """Empty where the package was claimed with a token that no profile holds."""
    profile_file: str
    state: LeaseState
    reason: str
    next_step: str
    version: int
    phase: str
    """The package's phase as the server last told it."""
    times: LeaseTimes | None
    renewals: int
    tasks: tuple[HeldTask, ...]
    has_token: bool
    claimed_at: datetime
    last_answer_at: datetime
    """Wall clock of this host when the server last answered about the package."""
    row_id: int = 0
    sending: bool = False
    """A claim, submission or release of this package has been sent and its answer is not known."""
    kept: bool = True
    """It is to be renewed without anybody asking; otherwise only by a person, each time (``Desk.set_kept``)."""
    keeping_problem: str = ""
    """Why the keeper cannot renew it, said before the first renewal is due; empty where it can, or none runs."""

    def remaining(self, clock: Clock) -> float:
        """Seconds until the lease ends (never negative); 0 where nothing is known of it."""
        return max(0.0, self.times.remaining(clock)) if self.times else 0.0

    def renew_in(self, clock: Clock) -> float | None:
        """Seconds until the next renewal is due (0: now); None where no renewal can or need be made."""
        if self.times is None or self.times.capped or not self.renewable:
            return None
        return max(0.0, self.times.remaining(clock) - self.times.lease_seconds * RENEW_SHARE)

    @property
    def word(self) -> str:
        """The word for its state: the service's own where that names a phase that we do not know (contract, 7.5)."""
        opaque = self.state is LeaseState.ACTIVE and self.phase not in ("", "active")
        return clean(self.phase) if opaque else self.state.value

    @property
    def renewable(self) -> bool:
        """A renewal may be sent."""
        return self.state in (LeaseState.ACTIVE, LeaseState.OVERDUE)

    @property
    def usable(self) -> bool:
        """Its tasks can be worked on and submitted."""
        return self.state in (LeaseState.ACTIVE, LeaseState.OVERDUE)

    @property
    def live(self) -> bool:
        """The service still has it as ours, whether or not anything can be done about it from here."""
        return self.usable or self.state is LeaseState.NO_CREDENTIAL

    @property
    def done(self) -> int:
        """Tasks submitted."""
        return sum(task.submitted for task in self.tasks)

    @property
    def open(self) -> int:
        """Tasks that wait for a submission."""
        return sum(task.open and not task.submitted for task in self.tasks)

    def task(self, task_id: str) -> HeldTask | None:
        """The task of that id."""
        return next((task for task in self.tasks if task.task_id == task_id), None)


class Raw:
    """A server answer as it came, for ``-o json``; it may hold a lease token, so it does not show itself."""

    __slots__ = ("_text",)

    def __init__(self, document: Any) -> None:
        self._text = SecretStr(json.dumps(document))

    def document(self) -> Any:
        """The JSON value; only for output that a person asked for by name, or for a 0600 file."""
        return json.loads(self._text.get_secret_value())

    def __repr__(self) -> str:
        return "Raw(...)"


@dataclass(frozen=True)
class ClaimOutcome:
    """How a claim ended.

    ``assigned``: package and token are in the journal. ``empty``: no work, a normal answer. ``refused``: the
    service cannot assign now (inactive project, a limit, the assignment interval): treated as no work, with
    ``why`` and perhaps ``retry_after`` seconds. ``token-lost``: work was assigned, but the answer with the token was
    lost.
    """

    kind: Literal["assigned", "empty", "refused", "token-lost"]
    held: HeldPackage | None = None
    why: str = ""
    code: str = ""
    retry_after: float | None = None
    raw: Raw | None = None


@dataclass(frozen=True)
class ShowOutcome:
    """A package as the server has it now; ``raw`` is its envelope as it came."""

    held: HeldPackage
    raw: Raw


@dataclass(frozen=True)
class PendingRequest:
    """A request whose answer is not known: its sender still waits, has given up, or is dead."""

    kind: Literal["claim", "submit", "release"]
    project_name: str
    role: str
    package_id: str
    task_id: str
    waiting: bool
    """A live process still waits for the answer."""


@dataclass(frozen=True)
class RenewOutcome:
    """``renewed``; ``capped`` (the absolute end is reached); ``ended`` (completed, released: a normal end)."""

    kind: Literal["renewed", "capped", "ended"]
    held: HeldPackage
    raw: Raw | None = None


@dataclass(frozen=True)
class ReleaseOutcome:
    """``released``, or ``ended`` where the package had ended before."""

    kind: Literal["released", "ended"]
    held: HeldPackage
    raw: Raw | None = None


@dataclass(frozen=True)
class SubmitOutcome:
    """The server confirmed the submission; ``receipt`` is already journaled.

    ``already``: the same output had been submitted before (an answer was lost, or it was sent twice).
    """

    kind: Literal["submitted", "already"]
    receipt: Receipt
    held: HeldPackage
    raw: Raw | None = None


class LeaseLost(ExpbError):
    """The server no longer accepts the lease: expired, revoked, or taken over. Drafts stay."""

    code = "lease-lost"


class NoCredential(ExpbError):
    """The profile that claimed the package no longer speaks for that agent on that service; nothing was sent."""

    code = "no-credential"


class TokenLost(ExpbError):
    """The package is assigned but its lease token never arrived."""

    code = "token-lost"


class Unresolved(ExpbError):
    """The request was sent and its answer is not known; it is settled by the next command that reads the packages."""

    code = "unresolved"


class NotJournaled(FileProblem):
    """A renewal was confirmed, but the journal cannot be written; ``row`` is what it should hold."""

    def __init__(self, problem: ExpbError, row: PackageRow) -> None:
        super().__init__(problem.what, cause=problem.cause, next_step=problem.next_step, code=problem.code)
        self.row = row


class NotHeld(ExpbError):
    """The journal of this host knows no such package or task."""

    code = "not-held"

    @classmethod
    def package(cls, package_id: str) -> NotHeld:
        """The words for a package."""
        return cls(
            f"The package {clean(package_id)} is not held on this host",
            cause="the journal does not know it",
            next_step="List packages with agent work list, or adopt the saved answer of its claim",
        )


class SubmissionBlocked(UsageError):
    """The submission was not sent: ``problems`` says what is wrong, by path of the body (``output.result.summary``)."""

    code = "submission-blocked"

    def __init__(
        self, what: str, problems: dict[str, str], *, cause: str = "", next_step: str = "", code: str | None = None
    ) -> None:
        super().__init__(what, cause=cause, next_step=next_step, code=code)
        self.problems = problems
