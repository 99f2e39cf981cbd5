"""The commands that change something: each says what it will do, asks, and says what the service confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expb_tui.core.errors import UsageError
from expb_tui.core.text import clean
from expb_tui.plain import commands, reading
from expb_tui.plain.commands import Typed
from expb_tui.plain.targets import lease_of, task_of
from expb_tui.plain.words import KEPT_BY, about, count, sentence, spoken

if TYPE_CHECKING:
    from expb_tui.core.leases.model import ClaimOutcome
    from expb_tui.plain.session import PlainSession


async def act(session: PlainSession, asked: Typed) -> None:
    """Carry out a command that changes something. Raises ``ExpbError``."""
    if not asked.words:
        raise commands.usage(asked.command)
    match asked.command.name:
        case "claim":
            await _claim(session, asked)
        case "renew":
            await _renew(session, asked)
        case "release":
            await _release(session, asked)
        case "keep":
            await _keep(session, asked)
        case "fail":
            await _fail(session, asked)
        case "submit":
            from expb_tui.plain.submitting import submit

            await submit(session, asked)


async def _claim(session: PlainSession, asked: Typed) -> None:
    project_id, project_name, role = _wanted(session, asked)
    where = clean(project_name or project_id)
    outlook = await session.house.keeping_outlook(session.bridge.acting)
    session.voice.say(*(sentence(line) for line in outlook.lines()))
    if not await session.ask(f"Claim one task as {clean(role)} in {where}, with {reading.actor(session)}? Type yes."):
        return
    who = await session.house.session(session.bridge.acting)
    outcome = await session.house.desk.request(who, project_id, role, 1, project_name=project_name)
    if outcome.held is not None:
        session.own.add(outcome.held.uid)
    await session.bridge.claimed(outcome.held if outcome.kind == "assigned" else None, who)
    session.voice.say(*_claimed(session, outcome))


def _wanted(session: PlainSession, asked: Typed) -> tuple[str, str, str]:
    """Project id, project name and role. Raises ``UsageError`` where several projects offer the role."""
    from expb_tui.wire.work import canonical_role

    items = reading.offers(session)
    word = asked.words[0]
    if word.isdecimal():
        if not 1 <= int(word) <= len(items):
            raise UsageError(f"There is no work {word}", next_step="Type work for what is on offer")
        item = items[int(word) - 1]
        return item.project_id, item.project_name, item.role
    role = canonical_role(word)
    known = sorted({item.role for item in items})
    if items and role not in known:
        near = [name for name in known if name.startswith(role)]
        if len(near) != 1:
            raise UsageError(f"The role {word} is not on offer", cause=f"there are {', '.join(known)}")
        role = near[0]
    project = " ".join(asked.words[1:])
    found = [
        item for item in items if item.role == role and (not project or project in (item.project_id, item.project_name))
    ]
    with_work = [item for item in found if item.available] or found
    profile = session.bridge.profile
    ours = [item for item in with_work if profile is not None and item.project_id == profile.project_id]
    with_work = ours or with_work
    if len(with_work) == 1:
        return with_work[0].project_id, with_work[0].project_name, role
    if with_work:
        raise UsageError(
            f"{len(with_work)} projects offer {role}", next_step="Type work, and claim with the number of its line"
        )
    if profile is not None and profile.project_id and not project:
        return profile.project_id, profile.project_name or "", role
    raise UsageError("No project is known", next_step="Set one for the profile: expb-tui context use PROJECT")


def _claimed(session: PlainSession, outcome: ClaimOutcome) -> list[str]:
    held = outcome.held
    if outcome.kind == "assigned" and held is not None:
        left = spoken(held.remaining(session.house.clock))
        number = session.numbers.of(held.uid)
        return [
            sentence(
                f"Claimed: lease {number}, {about(held)}, {count(len(held.tasks), 'task')}, {left} left",
                "Package and lease token are in the journal of this host",
                f"Type show {number} to read it, submit {number} to fill it in",
            )
        ]
    if outcome.kind == "token-lost":
        return [
            sentence(
                "Work was assigned, but the answer with its lease token was lost",
                clean(outcome.why),
                "Nobody can submit it; a project member can withdraw it, or its lease runs out",
            )
        ]
    wait = f"Ask again in {spoken(outcome.retry_after)}" if outcome.retry_after else ""
    return [sentence("No work just now; that is a normal answer", clean(outcome.why), wait)]


async def _renew(session: PlainSession, asked: Typed) -> None:
    held = lease_of(session, asked.words[0])
    number = session.numbers.of(held.uid)
    outcome = await session.house.desk.renew(await session.bridge.session_for(held), held.uid)
    await session.bridge.leases_changed()
    left = spoken(outcome.held.remaining(session.house.clock))
    said = {
        "renewed": f"Lease {number} is renewed: {left} left",
        "capped": f"Lease {number} is at its absolute end and cannot be extended: {left} left. Submit in time",
        "ended": f"Lease {number} has ended, {outcome.held.word}; there is nothing to renew",
    }
    session.voice.say(sentence(said[outcome.kind]))


async def _release(session: PlainSession, asked: Typed) -> None:
    held = lease_of(session, asked.words[0])
    number = session.numbers.of(held.uid)
    drafts = "Its unsent drafts stay on this host" if any(task.has_draft for task in held.tasks) else ""
    question = sentence(
        f"Release lease {number}, {about(held)}, {held.done} of {count(len(held.tasks), 'task')} submitted?", drafts
    )
    if not await session.ask(f"{question} Type yes."):
        return
    outcome = await session.house.desk.release(await session.bridge.session_for(held), held.uid)
    await session.bridge.leases_changed()
    if outcome.kind == "ended":
        session.voice.say(sentence(f"Lease {number} had ended before, {outcome.held.word}"))
    else:
        session.voice.say(f"Lease {number} is released; its open tasks return to the queue.")


async def _keep(session: PlainSession, asked: Typed) -> None:
    held = lease_of(session, asked.words[0])
    wish = asked.words[1].lower() if len(asked.words) > 1 else "on"
    if wish not in ("on", "off"):
        raise commands.usage(asked.command)
    await session.bridge.set_kept([held], wish == "on")
    now = next((one for one in session.bridge.held or () if one.uid == held.uid), held)
    words = KEPT_BY[session.bridge.keeper.keeping(now)] or now.word
    session.voice.say(sentence(f"Lease {session.numbers.of(held.uid)}: {words}"))


async def _fail(session: PlainSession, asked: Typed) -> None:
    from expb_tui.plain.submitting import confirm_and_send

    held, task = task_of(session, asked.words[0])
    _, _, said = asked.rest.partition(" ")
    if not said.strip():
        raise UsageError("Say why the task failed", next_step=f"Type {asked.command.usage}")
    body: dict[str, Any] = {"taskId": task.task_id, "outcome": "failed", "reason": said.strip()}
    await confirm_and_send(session, held, body)
