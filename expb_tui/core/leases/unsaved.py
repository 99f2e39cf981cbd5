"""A claim that no journal takes (full disk, a lock that nobody lets go): its token lives in this process only."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expb_tui.core.api.failures import ApiProblem, RequestFailure
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.confirming import ended
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.schema import ENDED_PHASES, Intent, PackageRow
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from datetime import datetime

    from expb_tui.core.profiles.session import Session

_PAUSE, _LONGEST_PAUSE = 0.5, 4.0


@dataclass(frozen=True)
class UnsavedClaim:
    """An assigned package that is written down nowhere. ``Desk.save_unsaved`` and ``Desk.give_back`` end this state."""

    row: PackageRow
    intent: Intent
    token: SecretStr

    @property
    def package_id(self) -> str:
        return self.row.uid

    @property
    def role(self) -> str:
        return self.row.role

    @property
    def project_name(self) -> str:
        return self.row.project_name or self.row.project_id

    @property
    def expires_at(self) -> datetime | None:
        """When its lease ends, by the server's clock."""
        return self.row.times.expires_at if self.row.times else None

    def answer_text(self) -> str:
        """What ``agent work adopt`` takes, token included: only for a person who asked to see it, once."""
        return json.dumps({"metadata": {"uid": self.row.uid}, "lease_token": self.token.get_secret_value()})


class ClaimNotSaved(ExpbError):
    """Work was assigned and cannot be written down. ``unsaved`` is None where it was given back, or never had a token.

    Raised with ``unsaved`` only to a face that shows the token to a person, once.
    """

    code = "claim-not-saved"

    def __init__(self, what: str, *, cause: str = "", next_step: str = "", unsaved: UnsavedClaim | None = None) -> None:
        super().__init__(what, cause=cause, next_step=next_step)
        self.unsaved = unsaved


def for_a_person(row: PackageRow, intent: Intent, problem: FileProblem) -> ClaimNotSaved:
    """Somebody is there to read the token."""
    assert row.token is not None
    return ClaimNotSaved(
        f"The package {clean(row.uid)} was assigned, and its lease token cannot be saved on this host",
        cause=problem.cause or problem.what,
        next_step=f"{problem.next_step}; then save it again. The token is shown only once; or give the package back",
        unsaved=UnsavedClaim(row, intent, row.token),
    )


async def save(context: Context, unsaved: UnsavedClaim) -> PackageRow:
    """Offer it to the journal again. Raises ``FileProblem``."""
    kept = await context.journal.settle(unsaved.intent, "done", unsaved.row)
    assert kept is not None
    return kept


async def settle_without_person(
    context: Context, session: Session, row: PackageRow, intent: Intent, problem: FileProblem
) -> PackageRow:
    """Save it after all, or give it back, whichever succeeds first while there is patience; nobody can read a token.

    Returns the saved row. Raises ``ClaimNotSaved`` where it was given back, or where neither succeeded.
    """
    package, failed = clean(row.uid), problem.what
    until = context.clock.ticks() + context.patience
    pause = _PAUSE
    while row.token is not None:
        try:
            await give_back(context, session, UnsavedClaim(row, intent, row.token))
        except ExpbError as failure:
            failed = f"{problem.what}; {failure.what}"
            if context.clock.ticks() + pause > until:
                break
        else:
            raise ClaimNotSaved(
                f"The package {package} was assigned and could not be saved; it was given back",
                cause=problem.cause or problem.what,
                next_step=problem.next_step,
            ) from problem
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
        with suppress(FileProblem):
            return await save(context, UnsavedClaim(row, intent, row.token))
    raise ClaimNotSaved(
        f"The package {package} was assigned and could neither be saved nor given back",
        cause=failed,
        next_step="It ends by itself when its lease runs out; a project member can withdraw it now",
    ) from problem


async def give_back(context: Context, session: Session, unsaved: UnsavedClaim) -> None:
    """Release it; returns once the service says that it has ended. Raises a ``RequestFailure``."""
    row = unsaved.row
    try:
        ended(await context.api.release(session, row.uid, unsaved.token, version=row.version))
    except RequestFailure as failure:
        stale = isinstance(failure, ApiProblem) and failure.status in (409, 412, 428)
        if not (stale or failure.outcome_unknown):
            raise
        seen = await context.api.read(session, row.uid)
        assert seen.package is not None
        if seen.package.status.phase not in ENDED_PHASES:
            if not (isinstance(failure, ApiProblem) and failure.status in (412, 428)):
                raise
            ended(await context.api.release(session, row.uid, unsaved.token, version=seen.version))
    with suppress(FileProblem):
        await context.journal.settle(unsaved.intent, "given-back")
