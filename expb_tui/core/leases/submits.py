"""Submitting a task: checked, journaled, sent, and confirmed by an answer or by reading (hazards 2 to 4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import ApiProblem, RequestFailure
from expb_tui.core.api.work import PackageAnswer, SubmissionAnswer
from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.claims import new_key
from expb_tui.core.leases.confirming import digest_of, shown, task_id_of, took
from expb_tui.core.leases.context import Context
from expb_tui.core.leases.model import NotHeld, Raw, Receipt, SubmitOutcome, Unresolved
from expb_tui.core.leases.schema import Intent, PackageRow
from expb_tui.core.leases.sending import Attempt, StillUnknown
from expb_tui.core.leases.upkeep import judge, read, usable_token
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

_TOKEN_TRIES = 4
_Attempt = Attempt[SubmissionAnswer | PackageAnswer]


async def submit(context: Context, session: Session, package_id: str, body: Mapping[str, Any]) -> SubmitOutcome:
    """Send a checked submission. See ``Desk.submit``."""
    row = await context.row(session, package_id)
    task_id = task_id_of(body)
    held = await context.held(row)
    task = held.task(task_id)
    if task is None:
        raise NotHeld(
            f"The package {clean(package_id)} has no task {clean(task_id)}",
            next_step="Show the package to see its tasks",
        )
    if task.receipt is not None:
        return _again(task.receipt, held, digest_of(body))
    usable_token(row)
    intent = await context.journal.intend(
        context.intent(
            "submit",
            row.pin,
            key=new_key(),
            route=context.api.path("submissions", package=row.uid),
            body=dict(body),
            project_id=row.project_id,
            project_name=row.project_name,
            role=task.role,
            package_uid=row.uid,
            task_id=task_id,
        )
    )
    return await run_submission(context, session, row, intent)


async def run_submission(context: Context, session: Session, row: PackageRow, intent: Intent) -> SubmitOutcome:
    """Send a journaled submission, a fresh one or a replay, until it is known what became of it."""
    current = intent

    async def send(key: str) -> SubmissionAnswer | PackageAnswer:
        return await _send(context, session, row, intent, attempt)

    async def look() -> SubmissionAnswer | PackageAnswer | None:
        return await confirmed_by_reading(context, session, row, intent, uncertain=attempt.uncertain)

    async def fresh_key() -> str:
        nonlocal current
        current = await context.journal.rekey(current, new_key())
        return current.key

    attempt: _Attempt = Attempt(intent.key, send, look, fresh_key, context.patience, context.clock)
    try:
        answer = await attempt.run()
    except StillUnknown as unknown:
        await context.journal.give_up(current)
        raise Unresolved(
            "The submission was sent, and its answer is not known",
            cause=unknown.failure.lines()[0],
            next_step="The draft stays; show the package to see whether it arrived, before you send it again",
        ) from unknown
    except ExpbError:
        if attempt.uncertain:
            await context.journal.give_up(current)
        else:
            await context.journal.settle(current, "refused")
        raise
    return await _confirm(context, row, current, answer)


async def _send(
    context: Context, session: Session, row: PackageRow, intent: Intent, attempt: _Attempt
) -> SubmissionAnswer | PackageAnswer:
    """One try; a newer token from the journal is used at once, a closed task is looked at."""
    for _ in range(_TOKEN_TRIES):
        row = await context.journal.package(row.uid, row.pin.endpoint) or row
        token = usable_token(row)
        await context.credentials.authorize(session, row.pin)
        try:
            answer = await context.api.submit(session, row.uid, token, intent.body, key=attempt.key)
            return took(answer, row.uid, intent.body)
        except ApiProblem as problem:
            if problem.status != 409 or problem.code.startswith("idempotency-"):
                raise
            try:
                found = await confirmed_by_reading(context, session, row, intent, uncertain=attempt.uncertain)
                if found is not None:
                    return found
                attempt.uncertain = False
                verdict, row = await judge(context, session, row, problem)
            except RequestFailure as failure:
                if attempt.uncertain:
                    raise StillUnknown(problem) from failure
                raise problem from failure
            if verdict != "retry":
                raise _closed(problem, intent) from problem
            # The refusal may have been stored under the key: the newer token goes with a fresh one.
            attempt.key = await attempt.fresh_key()
    raise _closed(None, intent)


def _closed(problem: ApiProblem | None, intent: Intent) -> ExpbError:
    if problem is not None and problem.code not in ("task-closed", "lease-conflict", "lease-expired"):
        return problem
    return ExpbError(
        f"The task {clean(intent.task_id)} is closed, and this submission is not what it holds",
        cause="it was submitted with another output, released, or withdrawn",
        next_step="Show the package; the draft stays",
        code="task-closed",
    )


async def confirmed_by_reading(
    context: Context, session: Session, row: PackageRow, intent: Intent, *, uncertain: bool
) -> PackageAnswer | None:
    """The package, if it shows that this very submission arrived; ``uncertain``: one was sent without an answer.

    Where the service keeps no digest, a submitted task is taken for ours only if ours may have arrived.
    """
    _, answer = await read(context, session, row)
    assert answer.package is not None
    ours = shown(answer.package, intent.body)
    return answer if ours or (ours is None and uncertain) else None


async def _confirm(
    context: Context, row: PackageRow, intent: Intent, answer: SubmissionAnswer | PackageAnswer
) -> SubmitOutcome:
    package = answer if isinstance(answer, PackageAnswer) else answer.package
    row = await context.journal.package(row.uid, row.pin.endpoint) or row
    # A service that answers without the package: the row stays as it is until the next read.
    update = context.row_of(package, row.pin) if package is not None and package.package is not None else row
    made = receipt_for(context, row, intent, answer)
    try:
        receipt, kept = await context.journal.settle_submission(intent, made, update)
    except FileProblem as problem:
        raise ExpbError(
            f"The task {clean(intent.task_id)} was submitted, but its receipt could not be saved",
            cause=f"{problem.what}: {problem.cause}",
            next_step=f"{problem.next_step}; the receipt is then made by reading the package",
            code="receipt-not-saved",
        ) from problem
    held = await context.held(kept)
    by_reading = isinstance(answer, PackageAnswer)
    return SubmitOutcome("already" if by_reading else "submitted", receipt, held, Raw(answer.raw))


def receipt_for(context: Context, row: PackageRow, intent: Intent, answer: SubmissionAnswer | PackageAnswer) -> Receipt:
    """The receipt that an answer, or a package that was read, stands for."""
    when: datetime = answer.answer.date or context.clock.now()
    body: Mapping[str, Any] = intent.body
    kind, record, by_reading = "", "", isinstance(answer, PackageAnswer)
    if isinstance(answer, SubmissionAnswer):
        kind, record = answer.record_kind, answer.record_id
    elif answer.package is not None:
        tasks = answer.package.status.tasks
        record = next((task.record_id or "" for task in tasks if task.task_id == intent.task_id), "")
    return Receipt(
        row.uid,
        intent.task_id,
        intent.role or row.role,
        row.project_name or row.project_id,
        "failed" if body.get("outcome") == "failed" else "completed",
        when,
        kind,
        record,
        digest_of(body),
        answer.answer.request_id,
        "reading" if by_reading else "answer",
    )


def _again(receipt: Receipt, held: Any, digest: str) -> SubmitOutcome:
    if receipt.output_sha256 == digest:
        return SubmitOutcome("already", receipt, held)
    raise ExpbError(
        f"The task {clean(receipt.task_id)} was submitted before",
        cause=f"on {receipt.submitted_at:%Y-%m-%d at %H:%M:%S} UTC, with another output",
        next_step="A task takes one submission; its receipt is kept",
        code="task-closed",
    )
