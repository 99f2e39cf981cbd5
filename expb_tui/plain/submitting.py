"""Submitting from a plain session: the draft in the operator's editor, or a body from a file; read out, asked, sent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from expb_tui.core import programs
from expb_tui.core.errors import ExpbError, FileProblem, UsageError
from expb_tui.core.submissions import draft as drafts
from expb_tui.core.submissions import evidence, task_view, yamlio
from expb_tui.core.submissions.roles import form_for
from expb_tui.core.text import clean
from expb_tui.plain.commands import Typed
from expb_tui.plain.targets import refuse_lost, task_of
from expb_tui.plain.words import about, count, sentence
from expb_tui.present.times import moment

if TYPE_CHECKING:
    from expb_tui.core.leases.drafts import Draft
    from expb_tui.core.leases.model import HeldPackage, HeldTask
    from expb_tui.core.submissions.fields import Form
    from expb_tui.plain.session import PlainSession


async def submit(session: PlainSession, asked: Typed) -> None:
    """``submit LEASE[.TASK] [FILE]``. Raises ``ExpbError``; a draft is on the disk before anything can fail."""
    held, task = task_of(session, asked.words[0])
    if len(asked.words) > 1:
        body = read_body(" ".join(asked.words[1:]))
        body.setdefault("taskId", task.task_id)
        await confirm_and_send(session, held, body)
        return
    form = form_for(task.role or held.role, task.task_id, task.input)
    written = await _edited(session, held, task, form)
    if written is not None and await confirm_and_send(session, held, written):
        await session.house.desk.drop_draft(held.uid, task.task_id)


def read_body(name: str) -> dict[str, Any]:
    """The submission in a file, JSON or YAML. Raises ``FileProblem`` or ``UsageError``."""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as handle:
            data = handle.read(yamlio.MAX_INPUT + 1)
    except OSError as error:
        raise FileProblem(f"{name} cannot be read", cause=error.strerror or type(error).__name__) from None
    if len(data) > yamlio.MAX_INPUT:
        raise UsageError(f"{name} is too large", cause=f"more than {yamlio.MAX_INPUT} bytes are not read")
    try:
        document = yamlio.read_document(data.decode("utf-8-sig"), name=name)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text", cause=f"byte {error.start}") from None
    if not isinstance(document, Mapping):
        raise UsageError(f"{name} holds no object", cause="a body with named keys is expected")
    return dict(document)


async def _edited(session: PlainSession, held: HeldPackage, task: HeldTask, form: Form) -> dict[str, Any] | None:
    """The body of the draft, edited until it can be sent; None where the operator leaves it for later."""
    desk = session.house.desk
    kept = base = await _draft(session, held, task)
    mark = uuid4().hex[:8]
    values = {**form.defaults(), **(kept.values if kept else {})}
    text = kept.text if kept else None
    sections = task_view.sections(task.role or held.role, task.input)
    problems: dict[str, str] = {}
    command = programs.editor_command(session.house.settings.editor or None)
    name = programs.file_name(task.task_id, ".yaml")
    while True:
        shown = text if text is not None else drafts.render(form, values, sections, problems=problems or None)
        with programs.private_file(name, programs.for_editor(shown)) as path:
            status = await session.lend_terminal([*command, str(path)])
            written = programs.edited(path, command[0], status)
            try:
                values, text = drafts.parse(form, written), None
            except drafts.DraftError as error:
                text = written
                base = await desk.save_draft(held.uid, task.task_id, values, text=text, based_on=base, mark=mark)
                session.voice.say(sentence(*error.lines()))
            else:
                base = await desk.save_draft(held.uid, task.task_id, values, based_on=base, mark=mark)
        await session.bridge.leases_changed()
        refuse_lost(session, held)  # the draft is saved
        if text is None:
            values_read, problems = await _checked(form, values)
            if not problems:
                return form.to_body(values_read)
            session.voice.say(sentence(f"The draft is saved; {count(len(problems), 'answer')} to look at"))
            session.voice.say(*(_problem(form, key, words) for key, words in problems.items()))
        if not await session.ask("Open it in the editor again? Type yes."):
            return None


async def _draft(session: PlainSession, held: HeldPackage, task: HeldTask) -> Draft | None:
    """What has been typed for the task; where a newer version is kept than the draft, the operator is asked for it."""
    desk = session.house.desk
    draft, others = await desk.draft(held.uid, task.task_id), await desk.other_drafts(held.uid, task.task_id)
    if not others or (draft is not None and draft.updated_at >= others[0].updated_at):
        return draft
    saved = moment(others[0].updated_at, session.house.clock.now())
    where = "another version of this draft" if draft else "a draft of this task, of when it was held before,"
    session.voice.say(sentence(f"{where} is on this host, saved {saved}"))
    if await session.ask("Go on from it? Type yes; otherwise it stays as it is."):
        return await desk.take_draft(held.uid, others[0])
    return draft


async def _checked(form: Form, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    problems = form.problems(values)
    if problems:
        return dict(values), problems
    try:
        complete = await evidence.complete(form, values, folder=Path.cwd())
    except evidence.EvidenceProblem as error:
        return dict(values), dict(error.problems)
    return complete, form.problems(complete)


def _problem(form: Form, key: str, words: str) -> str:
    one = form.field(key)
    return sentence(f"{clean(one.label)}: {clean(words)}" if one else clean(words))


async def confirm_and_send(session: PlainSession, held: HeldPackage, body: dict[str, Any]) -> bool:
    """Read out what is sent and where, ask, send, and say the receipt; True once the service has confirmed.

    Raises ``ExpbError``; ``problems`` of a refusal are read out first.
    """
    desk = session.house.desk
    await desk.check(held.uid, body)
    session.voice.say(*clean(yamlio.write_yaml(body), multiline=True).rstrip("\n").split("\n"))
    number = session.numbers.of(held.uid)
    what = "Report the task as failed" if body.get("outcome") == "failed" else "Send this"
    if not await session.ask(f"{what} for lease {number}, {about(held)}, to {clean(held.endpoint)}? Type yes."):
        return False
    session.voice.say("Sending; nothing counts as submitted before the service confirms it.")
    try:
        outcome = await desk.submit(await session.bridge.session_for(held), held.uid, body)
    except ExpbError as error:
        for path, words in _told(error).items():
            session.voice.say(sentence(f"{clean(path)}: {clean(words)}"))
        raise
    finally:
        await session.bridge.leases_changed()
    receipt = outcome.receipt
    record = f" as {receipt.record_kind} {receipt.record_id}" if receipt.record_id else ""
    before = "; it had been submitted before, and nothing was sent twice" if outcome.kind == "already" else ""
    now = outcome.held
    rest = f"{now.done} of {count(len(now.tasks), 'task')} submitted, the lease is {now.word}"
    session.voice.say(sentence(f"Submitted and confirmed, {receipt.outcome}{clean(record)}{before}", rest))
    return True


def _told(error: ExpbError) -> Mapping[str, str]:
    for name in ("problems", "fields"):
        found = getattr(error, name, None)
        if isinstance(found, Mapping):
            return found
    return {}
