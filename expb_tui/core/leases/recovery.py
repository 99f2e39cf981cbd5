"""Settling requests of processes that died, or gave up, before their answer was journaled (hazards 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.claims import intent_age, lost_packages, run_claim
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.model import ClaimOutcome, SubmitOutcome
from expb_tui.core.leases.owner import this_process
from expb_tui.core.leases.schema import Intent, PackageRow
from expb_tui.core.leases.submits import confirmed_by_reading, receipt_for, run_submission
from expb_tui.core.leases.upkeep import read

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

REPLAY_SECONDS = 120.0
"""An older claim is never replayed: it would take new work that nobody asked for any more."""


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
    for intent in await context.journal.open_intents():
        theirs = intent.pin
        if (theirs.endpoint, theirs.account_id, theirs.agent_id) != (pin.endpoint, pin.account_id, pin.agent_id):
            continue
        if intent.owner.alive() and not intent.given_up:
            continue
        if not await context.journal.take_over(intent, this_process()):
            continue
        fresh = theirs.credential_id == pin.credential_id and intent_age(context, intent) <= REPLAY_SECONDS
        try:
            settled += await _settle(context, session, intent, replay=fresh)
        except ExpbError:
            await context.journal.give_up(intent)
    return settled


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
