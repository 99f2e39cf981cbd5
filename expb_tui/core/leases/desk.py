"""The desk: claims, shows, renews, releases and submits, always through the journal (architecture, How things flow)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.leases.model import (
    ClaimOutcome,
    HeldPackage,
    Receipt,
    ReleaseOutcome,
    RenewOutcome,
    SubmitOutcome,
)

if TYPE_CHECKING:
    from expb_tui.core.leases.journal import Draft, Journal
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import ProfileStore


class Desk:
    """Every act on work packages. One per process; ``aclose`` waits for requests that are under way.

    ``session`` is the credential to act with; the desk refuses (``NoCredential``) one that is not the agent, account
    and endpoint that the package was claimed with. Acts are shielded: a cancelled caller leaves the request running, and
    its answer is journaled. All errors are ``ExpbError``; an ``ApiProblem`` comes through where nothing better is known.
    """

    def __init__(
        self,
        journal: Journal,
        store: ProfileStore,
        *,
        clock: Clock = SYSTEM_CLOCK,
        lease_header: str = "X-Lease-Token",
        patience: float = 20.0,
    ) -> None:
        raise NotImplementedError

    async def request(
        self, session: Session, project_id: str, role: str, max_tasks: int = 1, *, project_name: str = ""
    ) -> ClaimOutcome:
        """Claim work. The package and its token are in the journal before this returns."""
        raise NotImplementedError

    async def show(self, session: Session, package_id: str) -> HeldPackage:
        """Read the package from the server and journal what it says; works for packages that this host does not hold too."""
        raise NotImplementedError

    async def renew(self, session: Session, package_id: str) -> RenewOutcome:
        """Extend the lease now. Raises ``LeaseLost``, ``TokenLost``, ``NoCredential``, ``NotHeld``."""
        raise NotImplementedError

    async def release(self, session: Session, package_id: str) -> ReleaseOutcome:
        """Give the package back; its open tasks return to the queue."""
        raise NotImplementedError

    async def withdraw(self, session: Session, package_id: str) -> HeldPackage:
        """Withdraw a stuck package with a project member's *user* session (hazards 16)."""
        raise NotImplementedError

    async def submit(
        self, session: Session, package_id: str, body: dict[str, Any], *, extra_secrets: Iterable[Any] = ()
    ) -> SubmitOutcome:
        """Send one submission (the wire body: taskId, outcome, output or reason).

        Raises ``SubmissionBlocked`` before anything is sent where the body is wrong or holds a secret, ``LeaseLost``,
        ``Unresolved`` and ``ApiProblem`` (422 with ``fields``).
        """
        raise NotImplementedError

    async def adopt(self, session: Session, answer: Any) -> HeldPackage:
        """Take a saved answer of ``work request`` (the JSON value, token included) into the journal."""
        raise NotImplementedError

    async def resolve(self, session: Session) -> list[HeldPackage]:
        """Settle requests of dead processes made with this credential (hazards 4); returns the packages touched."""
        raise NotImplementedError

    async def held(self, *, session: Session | None = None, everything: bool = False) -> list[HeldPackage]:
        """Packages on this host, soonest end first; no network. Ended ones for a day, or all with ``everything``.

        ``session`` is one without a profile (a token from the environment), so that its packages are not shown as *no credential*.
        """
        raise NotImplementedError

    async def get(self, package_id: str, *, session: Session | None = None) -> HeldPackage:
        """One held package; no network. Raises ``NotHeld``."""
        raise NotImplementedError

    async def stranded_by(self, profile_name: str) -> list[HeldPackage]:
        """Leases that nobody could renew or submit any more if this profile were signed out, removed or re-pointed."""
        raise NotImplementedError

    async def save_draft(
        self, package_id: str, task_id: str, values: dict[str, Any], *, text: str | None = None
    ) -> None:
        """Keep what a person typed; durable when this returns. ``text``: YAML that does not parse yet."""
        raise NotImplementedError

    async def draft(self, package_id: str, task_id: str) -> Draft | None:
        """What was typed for this task."""
        raise NotImplementedError

    async def drop_draft(self, package_id: str, task_id: str) -> None:
        """Forget the draft."""
        raise NotImplementedError

    async def receipts(self, package_id: str | None = None) -> list[Receipt]:
        """Receipts, newest first."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Wait (at most a few seconds) for requests under way, so that their answers are journaled."""
        raise NotImplementedError
