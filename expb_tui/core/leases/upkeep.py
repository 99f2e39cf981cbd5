"""Renewing and releasing a lease, and the judgement whether one is really lost (hazards 3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.core.api.failures import ApiProblem, BadAnswer, RequestFailure, Unreachable
from expb_tui.core.api.work import PackageAnswer
from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.claims import new_key
from expb_tui.core.leases.confirming import ended, extended
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.model import LeaseLost, Raw, ReleaseOutcome, RenewOutcome, TokenLost, Unresolved
from expb_tui.core.leases.schema import ENDED_PHASES, Intent, PackageRow
from expb_tui.core.leases.states import TOKEN_LOST_STEP, held_of
from expb_tui.core.leases.turns import package_turn
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

_TURN_PATIENCE = 15.0
_TOKEN_TRIES = 4
_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
_SHORTEST_TRY, _LONGEST_TRY = 3.0, 20.0
"""Seconds that one renewal may take: a server that hangs must leave time for another try."""
_SLACK = 2.0
"""Seconds by which two answers about one lease may differ: a ``Date`` has whole ones."""
_TRY_SHARES = (1 / 4, 1 / 4, 1 / 3, 1 / 2)
"""Shares of what is left of a lease that its renewer's tries may take, one after the other."""

Verdict = Literal["retry", "ended", "unclear"]


def usable_token(row: PackageRow) -> SecretStr:
    """The lease token. Raises ``TokenLost``, ``LeaseLost``, or for a package that ended normally ``package-ended``."""
    if row.lost_code or row.phase in ("expired", "revoked"):
        raise lost_error(row)
    if row.phase in ENDED_PHASES:
        raise ExpbError(
            f"The package {clean(row.uid)} is {row.phase}",
            next_step="Nothing more can be done with it; request new work to go on",
            code="package-ended",
        )
    if row.token is None:
        raise TokenLost(
            f"The lease token of the package {clean(row.uid)} is not here",
            cause="the answer that held it never arrived, or was lost with the journal",
            next_step=TOKEN_LOST_STEP,
        )
    return row.token


_PHASE_REASONS = {
    "expired": "the service takes nothing for it any more",
    "revoked": "a project member revoked it",
}


def lost_error(row: PackageRow) -> LeaseLost:
    """The words for a lost lease."""
    expired = row.phase == "expired" or row.lost_code == "lease-expired"
    return LeaseLost(
        f"The lease of the package {clean(row.uid)} {'has expired' if expired else 'is lost'}",
        cause=_PHASE_REASONS.get(row.phase) or row.lost_reason or "the service no longer accepts it",
        next_step="Nothing was submitted; drafts stay. Request new work to go on",
        code="lease-expired" if expired else row.lost_code or "lease-lost",
    )


async def judge(
    context: Context, session: Session, row: PackageRow, problem: ApiProblem, *, locked: bool = False
) -> tuple[Verdict, PackageRow]:
    """What a refusal of the token used in ``row`` means (hazards 3).

    First the journal again, where another process may have put a newer token (``retry``); then the package itself:
    ``ended`` is normal; otherwise the lease is lost and ``LeaseLost`` is raised. ``unclear``: the refusal has another
    reason. Where the package cannot be read, nothing is lost and the read's error is raised.
    """
    now = await _journaled(context, row)
    if _newer_token(now, row):
        return "retry", now
    if not locked and now.phase not in ENDED_PHASES:
        # Somebody may be renewing at this moment, with the new token in an answer that is not journaled yet.
        async with package_turn(context.journal.folder, row.id, patience=_TURN_PATIENCE):
            now = await _journaled(context, row)
    if now.phase not in ENDED_PHASES and not _newer_token(now, row):
        now, _ = await read(context, session, row)
    if _newer_token(now, row):
        return "retry", now
    if now.phase in ("completed", "released", "submitted"):
        return "ended", now
    if now.phase in ENDED_PHASES:
        raise lost_error(now)
    over = now.times is not None and now.times.remaining(context.clock) <= 0
    if problem.code == "lease-conflict" or (problem.code == "lease-expired" and over):
        reason = "it ran out" if over else "the service no longer accepts its token; somebody else may hold it now"
        raise lost_error(await context.journal.lose(now.id, problem.code, reason, token=row.token))
    return "unclear", now


async def _journaled(context: Context, row: PackageRow) -> PackageRow:
    return await context.journal.package(row.uid, row.pin.endpoint) or row


def _newer_token(now: PackageRow, used: PackageRow) -> bool:
    """``used`` may be ahead of the journal, where that cannot be written."""
    return now.token is not None and now.token != used.token and now.version >= used.version


async def read(context: Context, session: Session, row: PackageRow) -> tuple[PackageRow, PackageAnswer]:
    """Read the package and journal it; twice, where its lease is shorter than what is known of it."""
    for _ in range(2):
        answer = await context.api.read(session, row.uid, in_bulk=context.saver is not None)
        now = context.row_of(answer, row.pin)
        if not _shorter(now, row, context.clock):
            break
    return await context.save(now, row), answer


def _shorter(now: PackageRow, known: PackageRow, clock: Clock) -> bool:
    """A lease that goes on gets no shorter: a proxy's ``Date``, or another odd answer, must not end its keeping."""
    if now.phase in ENDED_PHASES or now.times is None or known.times is None or not known.times.verified():
        return False
    return now.times.remaining(clock) < known.times.remaining(clock) - _SLACK


@dataclass(frozen=True)
class Renewed:
    """How one try ended: the kind of a ``RenewOutcome``, the package as journaled, and the answer as it came."""

    kind: Literal["renewed", "capped", "ended"]
    row: PackageRow
    raw: Any = field(default=None, repr=False)


async def renew_once(context: Context, session: Session, row: PackageRow, *, within: float) -> Renewed:
    """One try with a fresh key, in the package's turn that the caller has; ``within``: seconds for the answer."""
    await context.credentials.authorize(session, row.pin)
    for _ in range(_TOKEN_TRIES):
        token = usable_token(row)
        try:
            answer = extended(await context.api.renew(session, row.uid, token, key=new_key(), within=within))
        except BadAnswer as failure:
            return await _after_odd_answer(context, session, row, failure)
        except ApiProblem as problem:
            if problem.status != 409:
                raise
            if problem.code == "lease-limit":
                now, seen = await read(context, session, row)
                return Renewed("capped", await _capped(context, now), seen.raw)
            verdict, row = await judge(context, session, row, problem, locked=True)
            if verdict == "ended":
                return Renewed("ended", row)
            if verdict == "unclear":
                raise
            continue
        return await _renewed(context, session, row, answer)
    raise lost_error(row)


def within(row: PackageRow, clock: Clock, share: float) -> float:
    """Seconds to wait for the answer to a renewal: a share of what is left, so that there is time for further tries."""
    left = row.times.remaining(clock) if row.times else _LONGEST_TRY
    return min(_LONGEST_TRY, max(_SHORTEST_TRY, left * share))


async def _after_odd_answer(context: Context, session: Session, row: PackageRow, failure: BadAnswer) -> Renewed:
    """What answered did not confirm the renewal: the package itself tells whether its lease runs longer now."""
    try:
        now, seen = await read(context, session, row)
    except RequestFailure:
        raise failure from None
    if now.phase in ENDED_PHASES:
        return Renewed("ended", now, seen.raw)
    if now.times is None or (row.times is not None and now.times.expires_at <= row.times.expires_at):
        raise failure
    return Renewed("renewed", now, seen.raw)


async def _renewed(context: Context, session: Session, row: PackageRow, answer: PackageAnswer) -> Renewed:
    now = context.row_of(answer, row.pin)
    if _shorter(now, row, context.clock):
        # What is sure is saved first: the token of a confirmed renewal.
        known = await context.save(replace(now, times=row.times), row)
        kept, answer = await read(context, session, known)
    else:
        kept = await context.save(now, row)
    if kept.phase in ENDED_PHASES:
        return Renewed("ended", kept, answer.raw)
    # Some servers answer a renewal at the cap with the same end instead of lease-limit.
    capped = kept.times is not None and kept.times.capped and row.times is not None
    same_end = (
        capped and kept.times is not None and row.times is not None and kept.times.expires_at <= row.times.expires_at
    )
    if same_end:
        kept = await _capped(context, kept)
    return Renewed("capped" if same_end else "renewed", kept, answer.raw)


async def _capped(context: Context, row: PackageRow) -> PackageRow:
    """No renewal moves the end any more, even where the service names no absolute one: it is not asked again."""
    if row.times is None or row.times.capped:
        return row
    times = replace(row.times, absolute_expires_at=row.times.expires_at)
    return await context.save(replace(row, times=times), row)


async def renew(context: Context, session: Session, package_id: str) -> RenewOutcome:
    """Renew now, with further tries while there is patience. See ``Desk.renew``."""
    row = await context.row(session, package_id)
    usable_token(row)
    until = context.clock.ticks() + context.patience
    pause = _PAUSE
    async with package_turn(context.journal.folder, row.id, patience=_TURN_PATIENCE):
        while True:
            row = await context.journal.package(row.uid, row.pin.endpoint) or row
            if row.phase in ENDED_PHASES:
                return RenewOutcome("ended", await context.held(row))
            try:
                done = await renew_once(context, session, row, within=within(row, context.clock, 1 / 2))
                return RenewOutcome(
                    done.kind, await context.held(done.row), None if done.raw is None else Raw(done.raw)
                )
            except RequestFailure as failure:
                wait = _next_try(failure, pause)
                if wait is None or context.clock.ticks() + wait > until:
                    raise
            await asyncio.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)


async def keep(context: Context, session: Session, row: PackageRow, *, tries: int) -> PackageRow:
    """Renew a lease that is due, in its turn that the caller has; one try. For the renewer.

    ``row`` is the newest that is known of it, ``tries`` how many have failed in a row: a service that is slow is given
    longer each time. After a reboot the package is read first (hazards 1): only then is it known how much of the lease
    is left. Gives the package as it is now, whether or not it had to be renewed. Raises ``NotJournaled`` where the
    renewal is confirmed and cannot be saved.
    """
    if row.times is not None and not row.times.verified():
        await context.credentials.authorize(session, row.pin)
        row, _ = await read(context, session, row)
        if held_of(row, clock=context.clock).renew_in(context.clock) != 0:
            return row
    share = _TRY_SHARES[min(tries, len(_TRY_SHARES) - 1)]
    return (await renew_once(context, session, row, within=within(row, context.clock, share))).row


def _next_try(failure: RequestFailure, pause: float) -> float | None:
    if isinstance(failure, Unreachable):
        return pause
    if isinstance(failure, ApiProblem) and (failure.status == 429 or failure.status >= 500):
        return failure.retry_after if failure.retry_after is not None else pause
    return None


async def release(context: Context, session: Session, package_id: str) -> ReleaseOutcome:
    """Give a package back. See ``Desk.release``."""
    row = await context.row(session, package_id)
    async with package_turn(context.journal.folder, row.id, patience=_TURN_PATIENCE):
        row, seen = await read(context, session, row)
        if row.phase in ENDED_PHASES:
            return ReleaseOutcome("ended", await context.held(row), Raw(seen.raw))
        token = usable_token(row)
        intent = await context.journal.intend(
            context.intent(
                "release",
                row.pin,
                key="",
                route=context.api.path("package", package=row.uid),
                body={"operation": "release"},
                project_id=row.project_id,
                role=row.role,
                package_uid=row.uid,
            )
        )
        try:
            outcome = await _release(context, session, row, token)
        except RequestFailure as failure:
            if not failure.outcome_unknown:
                await context.journal.settle(intent, "refused")
                raise
            return await _after_silence(context, session, row, intent, failure)
        except ExpbError:
            await context.journal.settle(intent, "refused")
            raise
        await context.journal.settle(intent, "done")
        return outcome


async def _after_silence(
    context: Context, session: Session, row: PackageRow, intent: Intent, failure: RequestFailure
) -> ReleaseOutcome:
    """The answer to a release was lost: the package itself tells."""
    try:
        row, seen = await read(context, session, row)
    except RequestFailure:
        await context.journal.give_up(intent)
        raise Unresolved(
            "The release was sent, and its answer is not known",
            cause=failure.lines()[0],
            next_step="Show the package to see whether it was given back",
        ) from failure
    if row.phase not in ENDED_PHASES:
        await context.journal.settle(intent, "not-done")
        raise failure
    await context.journal.settle(intent, "done")
    return ReleaseOutcome("released" if row.phase == "released" else "ended", await context.held(row), Raw(seen.raw))


async def _release(context: Context, session: Session, row: PackageRow, token: SecretStr) -> ReleaseOutcome:
    for _ in range(_TOKEN_TRIES):
        try:
            answer = ended(await context.api.release(session, row.uid, token, version=row.version))
        except ApiProblem as problem:
            if problem.status in (412, 428):
                row, _seen = await read(context, session, row)
                verdict: Verdict = "ended" if row.phase in ENDED_PHASES else "retry"
            elif problem.status == 409:
                verdict, row = await judge(context, session, row, problem, locked=True)
            else:
                raise
            if verdict == "ended":
                return ReleaseOutcome("ended", await context.held(row))
            if verdict == "unclear":
                raise
            token = usable_token(row)
            continue
        kept = await context.journal.merge(context.row_of(answer, row.pin))
        return ReleaseOutcome("released", await context.held(kept), Raw(answer.raw))
    raise lost_error(row)
