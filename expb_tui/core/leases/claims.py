"""Claiming work: intent, request, answer, and what is done where the answer is lost."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from expb_tui.core.api.failures import ApiProblem, RequestFailure
from expb_tui.core.api.work import PackageAnswer
from expb_tui.core.clock import boot_id
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.model import ClaimOutcome, Raw, Unresolved
from expb_tui.core.leases.schema import ENDED_PHASES, Intent, PackageRow
from expb_tui.core.leases.sending import Attempt, StillUnknown
from expb_tui.core.leases.unsaved import for_a_person, settle_without_person
from expb_tui.wire.base import instant_text
from expb_tui.wire.work import canonical_role

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

_NO_WORK = {
    "project-inactive": "The project is not active",
    "limit-exceeded": "A limit is reached",
    "rate-limited": "The service asks to wait before the next request",
}
_SKEW = timedelta(seconds=5)
_LATEST = timedelta(minutes=4)
"""After this long a claim's request has ended, replays included: a later package is another claim's."""
_CLOCKS = timedelta(hours=26)
"""How far this host's wall clock is trusted when a list is narrowed on the server."""


def new_key() -> str:
    """A fresh idempotency key."""
    return str(uuid.uuid4())


async def claim(
    context: Context,
    session: Session,
    project_id: str,
    role: str,
    max_tasks: int,
    project_name: str,
    *,
    keep_unsaved: bool = False,
) -> ClaimOutcome:
    """One claim with its intent. See ``Desk.request``."""
    pin = await context.credentials.pin(session)
    await context.credentials.authorize(session, pin)
    who = await context.credentials.principal(session)
    await context.journal.reserve()
    intent = await context.journal.intend(
        context.intent(
            "claim",
            pin,
            key=new_key(),
            route=context.api.path("claim", project=project_id),
            body=max_tasks,
            project_id=project_id,
            project_name=project_name,
            role=_spelled(role, (who.role_grants or {}).get(project_id, [])),
        )
    )
    return await run_claim(context, session, intent, keep_unsaved=keep_unsaved)


async def run_claim(context: Context, session: Session, intent: Intent, *, keep_unsaved: bool = False) -> ClaimOutcome:
    """Send a journaled claim, a fresh one or a replay, until it is known what became of it.

    ``keep_unsaved``: somebody is there to read the token of a package that the journal does not take.
    """
    current = intent

    async def send(key: str) -> PackageAnswer:
        return await context.api.claim(session, intent.project_id, intent.role, intent.body, key=key)

    async def look() -> PackageAnswer | None:
        return next(iter(await unknown_packages(context, session, current)), None)

    async def fresh_key() -> str:
        nonlocal current
        current = await context.journal.rekey(current, new_key())
        return current.key

    attempt = Attempt(intent.key, send, look, fresh_key, context.patience, context.clock)
    try:
        answer = await attempt.run()
        if answer.package is None and not answer.says_empty:
            answer = await _looked_for(look, answer)
    except StillUnknown as unknown:
        await context.journal.give_up(current)
        raise Unresolved(
            "The claim was sent, and its answer is not known",
            cause=unknown.failure.lines()[0],
            next_step="Work may have been assigned; it is looked for with the next claim or list",
        ) from unknown
    except ApiProblem as problem:
        # Either a refusal, or a failure after which the packages were read and nothing had happened.
        await context.journal.settle(current, "refused")
        if problem.code not in _NO_WORK and problem.status != 429:
            raise
        why = _NO_WORK.get(problem.code, _NO_WORK["rate-limited"])
        limit = problem.fields.get("limit", "")
        return ClaimOutcome(
            "refused",
            why=f"{why}: {limit}" if limit else problem.detail or why,
            code=problem.code,
            retry_after=problem.retry_after,
        )
    except ExpbError:
        if attempt.uncertain:
            await context.journal.give_up(current)
        else:
            await context.journal.settle(current, "refused")
        raise
    return await _answered(context, session, current, answer, keep_unsaved=keep_unsaved)


async def _looked_for(look: Callable[[], Awaitable[PackageAnswer | None]], answer: PackageAnswer) -> PackageAnswer:
    """What was assigned after all, else ``answer``, which names no package and does not say that there is no work."""
    try:
        return await look() or answer
    except RequestFailure as failure:
        raise StillUnknown(failure) from failure


async def _answered(
    context: Context, session: Session, intent: Intent, answer: PackageAnswer, *, keep_unsaved: bool
) -> ClaimOutcome:
    if answer.package is None:
        await context.journal.settle(intent, "empty")
        return ClaimOutcome("empty", raw=Raw(answer.raw))
    told = answer if answer.token is not None else await _as_it_is_now(context, session, answer)
    row = context.row_of(told, intent.pin, project_name=intent.project_name, project_id=intent.project_id)
    row = replace(row, role=row.role or intent.role)
    if told.token is None and row.phase in ENDED_PHASES:
        await context.journal.settle(intent, "ended")
        return ClaimOutcome("empty", why=f"The package that was assigned is {row.phase}", raw=Raw(told.raw))
    try:
        kept = await context.journal.settle(intent, "done", row)
    except FileProblem as problem:
        if keep_unsaved and row.token is not None:
            raise for_a_person(row, intent, problem) from problem
        kept = await settle_without_person(context, session, row, intent, problem)
    assert kept is not None
    if kept.times is None:
        with suppress(RequestFailure):  # without an end of its lease it would never be renewed
            seen = await context.api.read(session, kept.uid)
            kept = await context.journal.merge(context.row_of(seen, kept.pin))
    held = await context.held(kept)
    if kept.token is None:
        return ClaimOutcome("token-lost", held, why=held.reason, raw=Raw(answer.raw))
    return ClaimOutcome("assigned", held, raw=Raw(answer.raw))


async def _as_it_is_now(context: Context, session: Session, answer: PackageAnswer) -> PackageAnswer:
    """An answer without a token is a stored one: the package may have ended since."""
    assert answer.package is not None
    try:
        return await context.api.read(session, answer.package.uid)
    except RequestFailure:
        return answer


async def unknown_packages(context: Context, session: Session, intent: Intent) -> list[PackageAnswer]:
    """Active packages of this agent that the claim may have brought: right role and time, not in the journal."""
    asked = intent.created_wall - _CLOCKS
    listed = await context.api.packages(session, intent.project_id, query={"from": instant_text(asked)})
    known = {row.uid for row in await context.journal.packages() if row.pin.endpoint == session.endpoint}
    out = []
    for answer in listed:
        package = answer.package
        if package is None or package.uid in known or package.status.phase != "active":
            continue
        if package.spec.agent_id not in (None, intent.pin.agent_id):
            continue
        if canonical_role(package.spec.role) != canonical_role(intent.role):
            continue
        created = package.metadata.creation_timestamp
        now = answer.answer.date
        if (
            created is None
            or now is None
            or any(
                # In the server's time, so that a wrong clock here neither hides nor invents a package.
                now - age - _SKEW <= created <= now - age + _LATEST
                for age in _ages(context, intent, now)
            )
        ):
            out.append(answer)
    return out


def same_boot(intent: Intent) -> bool:
    """Whether this host has been up since an intent was written; False where the system does not tell."""
    return bool(intent.created_boot) and intent.created_boot == boot_id()


def is_fresh(context: Context, intent: Intent, seconds: float) -> bool:
    """Whether an intent is at most so old, by a clock that can be trusted: after a reboot none can."""
    if same_boot(intent):
        return context.clock.ticks() - intent.created_ticks <= seconds
    unknown = not intent.created_boot and not boot_id()
    return unknown and timedelta() <= context.clock.now() - intent.created_wall <= timedelta(seconds=seconds)


def _ages(context: Context, intent: Intent, server_now: datetime) -> list[timedelta]:
    """How old an intent may be. After a reboot the wall clock may have been wrong all the time, or be wrong since."""
    if same_boot(intent):
        return [timedelta(seconds=max(0.0, context.clock.ticks() - intent.created_ticks))]
    return [max(timedelta(), now - intent.created_wall) for now in (context.clock.now(), server_now)]


def _spelled(role: str, granted: list[str]) -> str:
    """The server's own spelling of a role where it has told one, else what was typed (contract, section 7 point 15)."""
    known: Mapping[str, str] = {canonical_role(word): word for word in granted}
    return known.get(canonical_role(role), role)


async def lost_packages(context: Context, session: Session, intent: Intent) -> list[PackageRow]:
    """Journal what ``unknown_packages`` finds, as *token lost*. May raise a ``RequestFailure``."""
    found = await unknown_packages(context, session, intent)
    rows = [
        context.row_of(answer, intent.pin, project_name=intent.project_name, project_id=intent.project_id)
        for answer in found
    ]
    return [await context.journal.merge(row) for row in rows]
