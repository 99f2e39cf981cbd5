"""Settling what was left behind: requests of processes that died, or gave up, before their answer was journaled
(hazards 4), and packages that a damaged journal no longer knows (hazards 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from expb_tui.core import faults
from expb_tui.core.api.endpoint import same_endpoint
from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.claims import is_fresh, lost_packages, run_claim
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.model import ClaimOutcome, SubmitOutcome
from expb_tui.core.leases.owner import this_process
from expb_tui.core.leases.schema import ENDED_PHASES, Intent, PackageRow, Pin
from expb_tui.core.leases.submits import confirmed_by_reading, receipt_for, run_submission
from expb_tui.core.leases.upkeep import read

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

REPLAY_SECONDS = 120.0
"""An older claim is never replayed: it would take new work that nobody asked for any more."""
_LONGEST_WAIT = 900.0
"""Seconds after which nobody waits for an answer any more, not even a process that cannot be seen from here."""

Settled = ClaimOutcome | SubmitOutcome | PackageRow
"""What a settled request turned out to be."""


async def resolve(context: Context, session: Session) -> list[Settled]:
    """Settle what can be settled with this credential.

    Within two minutes and under the same credential by the same key, otherwise by reading only. What cannot be
    settled now (no connection) stays for the next time.
    """
    pin = await context.credentials.pin(session)
    await context.credentials.authorize(session, pin)
    settled: list[Settled] = []
    for intent in await _orphans(context):
        theirs = intent.pin
        if (theirs.endpoint, theirs.account_id, theirs.agent_id) != (pin.endpoint, pin.account_id, pin.agent_id):
            continue
        if not await context.journal.take_over(intent, this_process()):
            continue
        fresh = theirs.credential_id == pin.credential_id and is_fresh(context, intent, REPLAY_SECONDS)
        try:
            settled += await _settle(context, session, intent, replay=fresh)
        except ExpbError:
            await context.journal.give_up(intent)
        except Exception as defect:  # a fault of ours in one of them must not hide the others, nor the list
            await context.journal.give_up(intent)
            faults.note(defect)
    return [*settled, *await _listed_after_salvage(context, session, pin)]


async def settle_left_over(context: Context, sessions: Callable[[str], Awaitable[Session]]) -> list[ExpbError]:
    """``resolve`` for every profile that has something to settle. See ``Desk.settle_left_over``."""
    problems: list[ExpbError] = []
    for name in sorted({intent.pin.profile_name for intent in await _orphans(context)} | _unlisted_profiles(context)):
        try:
            await resolve(context, await sessions(name))
        except ExpbError as problem:
            problems.append(problem)
    return problems


async def _orphans(context: Context) -> list[Intent]:
    """Open requests whose process is dead or no longer waits, as far as can be known."""
    return [
        one
        for one in await context.journal.open_intents()
        if one.given_up or not one.owner.alive() or not (one.owner.seen or is_fresh(context, one, _LONGEST_WAIT))
    ]


def _unlisted_profiles(context: Context) -> set[str]:
    """Profiles of agents whose packages have not been asked for since the journal was salvaged."""
    told = context.journal.salvaged()
    if told is None:
        return set()
    return {
        name
        for name, profile in context.credentials.store.read().by_name.items()
        if profile.is_agent
        and profile.signed_in
        and profile.agent_id
        and not any(same_endpoint(profile.endpoint, at) and profile.agent_id == agent for at, agent in told.listed)
    }


async def _listed_after_salvage(context: Context, session: Session, pin: Pin) -> list[PackageRow]:
    """What the service has assigned to this agent, into a journal that was begun anew: token lost where it is gone."""
    told = context.journal.salvaged()
    if told is None or not pin.agent_id or (pin.endpoint, pin.agent_id) in told.listed:
        return []
    who = await context.credentials.principal(session)
    rows = {row.uid: row for row in await context.journal.packages() if row.pin.endpoint == pin.endpoint}
    projects = set(who.role_grants or {}) | {
        row.project_id for row in rows.values() if row.pin.agent_id == pin.agent_id
    }
    found: list[PackageRow] = []
    for project in sorted(projects):
        try:
            listed = await context.api.packages(session, project)
        except ApiProblem as problem:
            if problem.status in (403, 404):
                continue
            raise
        for answer in listed:
            package = answer.package
            if package is None or package.spec.agent_id not in (None, pin.agent_id):
                continue
            old = rows.get(package.uid)
            if old is None and package.status.phase in ENDED_PHASES:
                continue
            new = context.row_of(answer, old.pin if old else pin, project_id=project)
            if session.profile.project_id == project:
                new = replace(new, project_name=session.profile.project_name or "")
            found.append(await context.journal.merge(new))
    await context.journal.mark_listed(pin.endpoint, pin.agent_id)
    return found


async def _settle(context: Context, session: Session, intent: Intent, *, replay: bool) -> list[Settled]:
    if intent.kind == "claim":
        if replay:
            return [await run_claim(context, session, intent)]
        found: list[Settled] = []
        found += await lost_packages(context, session, intent)
        await context.journal.settle(intent, "listed")
        return found
    row = await context.journal.package(intent.package_uid, intent.pin.endpoint)
    if row is None:
        await context.journal.settle(intent, "unknown-package")
        return []
    if intent.kind == "submit":
        if replay:
            return [await run_submission(context, session, row, intent)]
        answer = await confirmed_by_reading(context, session, row, intent, uncertain=True)
        if answer is None:
            await context.journal.settle(intent, "not-done")
            return [row]
        update = context.row_of(answer, row.pin)
        _, kept = await context.journal.settle_submission(intent, receipt_for(context, row, intent, answer), update)
        return [kept]
    row, _ = await read(context, session, row)
    await context.journal.settle(intent, "done" if row.phase == "released" else "not-done")
    return [row]
