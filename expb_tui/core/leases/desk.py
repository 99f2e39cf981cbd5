"""The desk: claims, shows, renews, releases and submits, always through the journal (architecture, How things flow)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from expb_tui.core.api.failures import RequestFailure
from expb_tui.core.api.work import WorkApi, saved_answer
from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases import claims, recovery, submits, unsaved, upkeep
from expb_tui.core.leases.confirming import ended, task_id_of
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.credentials import Credentials, ProfileLook
from expb_tui.core.leases.drafts import Draft
from expb_tui.core.leases.guard import Guard
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.looks import Overview
from expb_tui.core.leases.model import (
    ClaimOutcome,
    HeldPackage,
    LeaseState,
    NoCredential,
    NotHeld,
    PendingRequest,
    Raw,
    Receipt,
    ReleaseOutcome,
    RenewOutcome,
    ShowOutcome,
    SubmitOutcome,
)
from expb_tui.core.leases.owner import this_process
from expb_tui.core.leases.schema import ENDED_PHASES, PackageRow, Pin
from expb_tui.core.leases.states import held_of
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean
from expb_tui.wire.work import LEASE_HEADER, canonical_role

if TYPE_CHECKING:
    from expb_tui.core.leases.saving import Saver
    from expb_tui.core.leases.unsaved import UnsavedClaim
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import ProfileStore

T = TypeVar("T")

SHOW_ENDED = timedelta(days=1)
"""How long ended packages stay in the list."""
_CLOSING = 10.0
"""Seconds that ``aclose`` waits for requests under way."""


class Desk:
    """Every act on work packages. One per process; ``aclose`` waits for requests that are under way.

    ``session`` is the credential to act with; the desk refuses (``NoCredential``) one that is not the agent, account
    and endpoint that the package was claimed with. Acts are shielded: a cancelled caller leaves the request running,
    and its answer is journaled. All errors are ``ExpbError``; an ``ApiProblem`` comes through where nothing better is
    known.
    """

    def __init__(
        self,
        journal: Journal,
        store: ProfileStore,
        *,
        clock: Clock = SYSTEM_CLOCK,
        lease_header: str = LEASE_HEADER,
        routes: Mapping[str, str] | None = None,
        patience: float = 20.0,
    ) -> None:
        """``patience``: seconds after which an act begins no further try."""
        self.journal = journal
        self.store = store
        self.clock = clock
        self.api = WorkApi(lease_header=lease_header, routes=routes)
        self._context = Context(journal, Credentials(store), self.api, clock, patience)
        self._guard = Guard(journal, store)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._closing = _CLOSING

    async def request(
        self,
        session: Session,
        project_id: str,
        role: str,
        max_tasks: int = 1,
        *,
        project_name: str = "",
        keep_unsaved: bool = False,
    ) -> ClaimOutcome:
        """Claim work. The package and its token are in the journal before this returns.

        Requests whose answer was lost before are settled first; where that brings the very work that is asked for,
        no more is claimed. Raises ``Unresolved`` where the answer of this one is lost too, and ``ClaimNotSaved`` where
        the journal does not take it: given back, or with ``keep_unsaved`` in the error, to be shown to a person once.
        """
        named = session.profile.project_name if session.profile.project_id == project_id else None
        name = project_name or named or ""
        work = self._request(session, project_id, role, max_tasks, name, keep_unsaved=keep_unsaved)
        return await self._shielded(work)

    async def save_unsaved(self, claim: UnsavedClaim) -> HeldPackage:
        """Offer a claim that could not be saved to the journal again. Raises ``FileProblem``."""
        return await self._context.held(await self._shielded(unsaved.save(self._context, claim)))

    async def give_back(self, session: Session, claim: UnsavedClaim) -> None:
        """Release a claim that could not be saved. Raises a ``RequestFailure``."""
        await self._shielded(unsaved.give_back(self._context, session, claim))

    async def show(self, session: Session, package_id: str) -> ShowOutcome:
        """Read the package from the server, and journal what it says if this host holds it."""
        return await self._shielded(self._show(session, package_id))

    async def renew(self, session: Session, package_id: str) -> RenewOutcome:
        """Extend the lease now. Raises ``LeaseLost``, ``TokenLost``, ``NoCredential``, ``NotHeld``."""
        return await self._shielded(upkeep.renew(self._context, session, package_id))

    async def release(self, session: Session, package_id: str) -> ReleaseOutcome:
        """Give the package back; its open tasks return to the queue. Raises as ``renew``."""
        return await self._shielded(upkeep.release(self._context, session, package_id))

    async def withdraw(self, session: Session, package_id: str) -> ShowOutcome:
        """Withdraw a stuck package with a project member's *user* session (hazards 16)."""
        return await self._shielded(self._withdraw(session, package_id))

    async def check(self, package_id: str, body: Mapping[str, Any], *, extra_secrets: Iterable[SecretStr] = ()) -> None:
        """Raise ``SubmissionBlocked`` where the body is wrong or holds a secret; sends nothing. ``NotHeld``."""
        held = await self.get(package_id)
        task = held.task(task_id_of(body))
        role = canonical_role((task.role if task else "") or held.role)
        await self._guard.check(role, body, extra_secrets)

    async def submit(
        self,
        session: Session,
        package_id: str,
        body: Mapping[str, Any],
        *,
        extra_secrets: Iterable[SecretStr] = (),
    ) -> SubmitOutcome:
        """Send one submission (the wire body: taskId, outcome, output or reason), after ``check``.

        Raises ``SubmissionBlocked`` before anything is sent, ``LeaseLost``, ``Unresolved`` and ``ApiProblem`` (422 with
        ``fields``).
        """
        await self.check(package_id, body, extra_secrets=extra_secrets)
        return await self._shielded(submits.submit(self._context, session, package_id, body))

    async def adopt(self, session: Session, answer: Any) -> HeldPackage:
        """Take a saved answer of ``work request`` (the JSON value, token included) into the journal.

        The package is read first, so that a foreign or ended one is not adopted. A token that is journaled stays.
        """
        return await self._shielded(self._adopt(session, answer))

    async def resolve(self, session: Session) -> list[HeldPackage]:
        """Settle requests of dead processes made with this credential (hazards 4); returns the packages touched."""
        settled = await self._shielded(recovery.resolve(self._context, session))
        out = [await self._context.held(item) if isinstance(item, PackageRow) else item.held for item in settled]
        return [held for held in out if held is not None]

    async def settle_left_over(self, sessions: Callable[[str], Awaitable[Session]]) -> list[ExpbError]:
        """Settle what dead processes and a damaged journal left, each with the profile that it belongs to.

        One question to the journal while there is nothing; ``sessions`` gives a profile's session (``""``: the token
        without a profile). Returns what stood in the way; the rest stays for the next time.
        """
        return await self._shielded(recovery.settle_left_over(self._context, sessions))

    async def held(self, *, session: Session | None = None, everything: bool = False) -> list[HeldPackage]:
        """Packages on this host, soonest end first; no network. Ended ones for a day, or all with ``everything``.

        ``session`` is one with a token of the environment: its packages are then not shown as *no credential*.
        """
        overview = await self.journal.overview()
        found = self._as_held(overview, session)
        if not everything:
            since = self.clock.now() - SHOW_ENDED
            found = [one for one in found if _current(one.state) or one.last_answer_at >= since]
        return sorted(found, key=lambda one: (not _current(one.state), one.remaining(self.clock), one.row_id))

    async def get(self, package_id: str, *, session: Session | None = None) -> HeldPackage:
        """One held package; no network. Raises ``NotHeld``."""
        for one in self._as_held(await self.journal.overview(package_id), session):
            return one
        raise NotHeld.package(package_id)

    async def pending(self, *, ours: bool = False) -> list[PendingRequest]:
        """Requests whose answers are not known yet, oldest first; no network. ``ours``: of this process only."""
        return [
            PendingRequest(
                intent.kind,
                intent.project_name or intent.project_id,
                intent.role,
                intent.package_uid,
                intent.task_id,
                intent.owner.alive() and not intent.given_up,
            )
            for intent in await self.journal.open_intents()
            if not ours or intent.owner == this_process()
        ]

    async def stranded_by(self, profile_name: str) -> list[HeldPackage]:
        """Leases that nobody could renew or submit any more if this profile were signed out, removed or re-pointed."""
        held = await self.held()
        path = str(self.store.path)
        return [one for one in held if one.profile_name == profile_name and one.profile_file == path and one.usable]

    async def set_kept(self, package_ids: Iterable[str], kept: bool) -> None:
        """Whether renewers look after these packages; a local choice, no network. Unknown ids are passed over.

        A package that is not kept runs out at its end unless a person renews it.
        """
        await self.journal.set_kept(package_ids, kept)

    async def set_keeping_problem(self, package_ids: Iterable[str], problem: str) -> None:
        """For the keeper: why it cannot renew these packages, for every face to show; empty once it can."""
        await self.journal.set_keeping_problem(package_ids, problem)

    async def save_draft(
        self,
        package_id: str,
        task_id: str,
        values: dict[str, Any],
        *,
        text: str | None = None,
        based_on: Draft | None = None,
        mark: str = "",
    ) -> Draft:
        """Keep what a person typed; durable when this returns. ``text``: YAML that does not parse yet.

        Raises ``DraftMoved`` where the draft is not what this was ``based_on`` any more, but another window's; what
        was typed here is then kept beside it, under ``mark``.
        """
        return await self.journal.save_draft(package_id, task_id, values, text, based_on=based_on, mark=mark)

    async def draft(self, package_id: str, task_id: str) -> Draft | None:
        """What was typed for this task."""
        return await self.journal.draft(package_id, task_id)

    async def other_drafts(self, package_id: str, task_id: str) -> list[Draft]:
        """Other versions of what was typed for this task, newest first: when an earlier package had it, and what two
        windows have typed at the same time."""
        return await self.journal.other_drafts(package_id, task_id)

    async def take_draft(self, package_id: str, version: Draft) -> Draft:
        """One of several versions goes on as the draft; what it replaces is kept beside it."""
        return await self.journal.take_draft(package_id, version)

    async def drop_draft(self, package_id: str, task_id: str) -> None:
        """Forget the draft."""
        await self.journal.drop_draft(package_id, task_id)

    async def receipts(self, package_id: str | None = None) -> list[Receipt]:
        """Receipts, newest first."""
        found = await self.journal.receipts()
        return [receipt for receipt in found if package_id in (None, receipt.package_id)]

    async def aclose(self) -> None:
        """Wait a few seconds for requests under way, so that their answers are journaled; in vain only once."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=self._closing)
            self._closing = 0.0 if late else _CLOSING

    def context(self, saver: Saver) -> Context:
        """For a renewer: what ``upkeep.keep`` needs, with answers journaled by ``saver``."""
        return replace(self._context, saver=saver)

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something that must not be torn down with its caller; ``aclose`` waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._finished)
        return task

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Quitting or cancelling must not tear down a request in flight: it goes on, and its answer is journaled."""
        return await asyncio.shield(self.begin(work))

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # seen: whoever waited has it, and a cancelled waiter does not want it

    async def _request(
        self,
        session: Session,
        project_id: str,
        role: str,
        max_tasks: int,
        project_name: str,
        *,
        keep_unsaved: bool,
    ) -> ClaimOutcome:
        for item in await recovery.resolve(self._context, session):
            if not isinstance(item, ClaimOutcome) or item.kind != "assigned" or item.held is None:
                continue
            same_role = canonical_role(item.held.role) == canonical_role(role)
            if same_role and item.held.project_id == project_id:
                return item
        return await claims.claim(
            self._context, session, project_id, role, max_tasks, project_name, keep_unsaved=keep_unsaved
        )

    async def _show(self, session: Session, package_id: str) -> ShowOutcome:
        row = await self.journal.package(package_id, session.endpoint) or await self.journal.package(package_id)
        if row is not None and (session.profile.type == "agent" or session.endpoint != row.pin.endpoint):
            await self._context.credentials.authorize(session, row.pin)
        answer = await self.api.read(session, package_id)
        if row is not None:
            row = await self.journal.merge(self._context.row_of(answer, row.pin))
            return ShowOutcome(await self._context.held(row), Raw(answer.raw))
        assert answer.package is not None
        pin = Pin(
            session.endpoint,
            answer.package.metadata.account or "",
            answer.package.spec.agent_id or "",
            "",
            "",
            "",
        )
        seen = held_of(self._context.row_of(answer, pin), clock=self.clock)
        if seen.state is LeaseState.TOKEN_LOST:
            seen = replace(seen, reason="This host does not hold its lease", next_step="")
        return ShowOutcome(seen, Raw(answer.raw))

    async def _withdraw(self, session: Session, package_id: str) -> ShowOutcome:
        seen = await self._show(session, package_id)
        row = await self.journal.package(package_id, session.endpoint)
        try:
            answer = ended(await self.api.withdraw(session, package_id, version=seen.held.version))
        except RequestFailure as failure:
            if not failure.outcome_unknown:
                raise
            seen = await self._show(session, package_id)
            if seen.held.phase not in ENDED_PHASES:
                raise
            return seen
        if row is None:
            held = replace(seen.held, state=LeaseState.REVOKED, version=answer.version)
            return ShowOutcome(held, Raw(answer.raw))
        row = await self.journal.merge(self._context.row_of(answer, row.pin))
        return ShowOutcome(await self._context.held(row), Raw(answer.raw))

    async def _adopt(self, session: Session, answer: Any) -> HeldPackage:
        uid, token = saved_answer(answer)
        pin = await self._context.credentials.pin(session)
        await self._context.credentials.authorize(session, pin)
        known = await self.journal.package(uid, session.endpoint)
        if known is not None:
            await self._context.credentials.authorize(session, known.pin)
        seen = await self.api.read(session, uid)
        package = seen.package
        assert package is not None
        if package.spec.agent_id not in (None, pin.agent_id):
            raise NoCredential(
                f"The package {clean(uid)} was not adopted",
                cause="it belongs to another agent",
                next_step="Choose that agent's profile with --profile",
            )
        if known is None or known.token is None or known.lost_code:
            seen = replace(seen, token=token)
        row = self._context.row_of(seen, pin, project_name=session.profile.project_name or "")
        if session.profile.project_id != row.project_id:
            row = replace(row, project_name="")
        row = await self.journal.merge(row)
        if known is not None:
            row = await self.journal.repin(row.id, pin)
        return await self._context.held(row)

    def _as_held(self, overview: Overview, session: Session | None) -> list[HeldPackage]:
        look = ProfileLook(self.store)

        @cache
        def problem(pin: Pin) -> str:
            acting = session is not None and session.explicit and session.endpoint == pin.endpoint
            return "" if acting and not pin.profile_name else look.refused(pin)

        return [overview.held(row, self.clock, problem(row.pin)) for row in overview.packages]


def _current(state: LeaseState) -> bool:
    """It still needs a person's or a renewer's attention."""
    return not state.ended and state not in (LeaseState.EXPIRED, LeaseState.LOST)
