"""What a plain session reads out when it is asked, and when it begins and ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from expb_tui.core.text import clean
from expb_tui.plain import commands
from expb_tui.plain.commands import Typed
from expb_tui.plain.targets import lease_of
from expb_tui.plain.words import SILENT, count, joined, line_of, sentence, spoken
from expb_tui.watch.link import LinkState, reason

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.submissions.task_view import Section
    from expb_tui.plain.session import PlainSession

_RECEIPTS = 10
_FACTS = ("why", "next", "lease ends", "absolute end", "token", "profile", "service", "last answer")
"""Facts of a package that its line does not say."""
_LINK = {
    LinkState.OPENING: "the service has not been asked yet",
    LinkState.ASKING: "the service is being asked",
    LinkState.WAITING: "the service has not answered yet",
    LinkState.ONLINE: "the service answers",
    LinkState.LOST: "the service does not answer",
    LinkState.REFUSED: "the service refuses",
    LinkState.SIGNED_OUT: "the profile is signed out",
    LinkState.NOBODY: "no profile is signed in here",
}


async def read(session: PlainSession, asked: Typed) -> None:
    """Carry out a command that changes nothing. Raises ``ExpbError``."""
    say = session.voice.say
    match asked.command.name:
        case "list":
            say(*(listing(session) or ["This host holds no package."]))
        case "work":
            say(*work(session))
        case "status":
            say(*status(session))
        case "receipts":
            say(*await _receipts(session))
        case "show":
            if not asked.words:
                raise commands.usage(asked.command)
            say(*await _shown(session, lease_of(session, asked.words[0])))


def actor(session: PlainSession) -> str:
    """Who acts, and where."""
    profile = session.bridge.profile
    if profile is not None:
        where = clean(profile.endpoint.partition("://")[2] or profile.endpoint)
        return f"profile {clean(profile.name)}, {profile.type}, at {where}"
    return "a token without a profile" if session.house.chosen.token else "nobody"


def greeting(session: PlainSession, version: str) -> Iterable[str]:
    """The first lines."""
    yield f"expb-tui {version}, plain mode, as {actor(session)}."
    hint = session.house.demo_hint
    if hint is not None:
        yield f"Demo: {clean(hint.user_profile)} signs in as {clean(hint.email)}, password {clean(hint.password)}."
    if session.read_only:
        yield "Read-only: nothing is changed on the service, and nothing is renewed."
    yield "Type help for the commands."


def listing(session: PlainSession) -> list[str]:
    """Every lease as a line."""
    clock = session.house.clock
    return [
        line_of(session.numbers.of(held.uid), held, session.bridge.keeper.keeping(held), clock)
        for held in session.bridge.held or ()
    ]


def summary(session: PlainSession) -> Iterable[str]:
    """One line on an empty line."""
    held = session.bridge.held
    leases = "the journal is being read" if held is None else count(len(session.live), "live lease")
    yield sentence(", ".join(part for part in (leases, session.soonest(), _LINK[session.bridge.link.state]) if part))


def offers(session: PlainSession) -> list[Offer]:
    """What the service offered last, as ``work`` numbers it."""
    snapshot = session.bridge.work
    return list(snapshot.items) if snapshot else []


def offer(session: PlainSession) -> str:
    """How many roles have work."""
    snapshot = session.bridge.work
    if snapshot is None or snapshot.taken_at is None:
        return ""
    open_ones = [item for item in snapshot.items if item.available]
    return f"{count(len(open_ones), 'role')} with work" if open_ones else "no role has work"


def work(session: PlainSession) -> Iterable[str]:
    """Work on offer, numbered."""
    from expb_tui.present import opportunities

    items = offers(session)
    for number, (item, row) in enumerate(zip(items, opportunities.table(items, glyphs=SILENT).rows, strict=True), 1):
        state = row.cells[4].text.strip()
        amount = f"{item.available} open" if item.available else state
        held = f", {count(item.active_packages, 'package')} held" if item.active_packages else ""
        yield sentence(f"{number}. {clean(item.role)} in {clean(item.project_name or item.project_id)}: {amount}{held}")
    snapshot = session.bridge.work
    if not items:
        cause, step = reason(session.bridge.link)
        yield sentence("Nothing is on offer" if snapshot else "Nothing is known of work", cause, step)
    elif snapshot is not None and snapshot.state.value != "fresh":
        age = snapshot.age(session.house.clock)
        yield sentence(f"This is old: the service answered {spoken(age)} ago" if age is not None else "This may be old")


def status(session: PlainSession) -> Iterable[str]:
    """Who acts, the connection, the keeper, the leases."""
    yield sentence(f"Acting as {actor(session)}")
    link = session.bridge.link
    passed = None if link.ticks is None else session.house.clock.ticks() - link.ticks
    good = (
        f", last good answer {spoken(passed)} ago" if passed is not None and link.state is not LinkState.ONLINE else ""
    )
    yield sentence(_LINK[link.state] + good, *reason(link))
    keeper = session.house.keeper()
    if keeper.running:
        yield sentence(f"The keeper runs, process {keeper.pid}, and keeps {count(keeper.keeps, 'lease')}")
        for problem in keeper.problems:
            yield sentence(f"The keeper has a problem: {problem.what}", problem.cause, problem.next_step)
    elif session.read_only:
        yield "No keeper runs, and this session is read-only: nothing renews the leases."
    else:
        yield "No keeper runs: leases are renewed by this session while it is open."
    yield from summary(session)


def leaving(session: PlainSession) -> list[str]:
    """What goes on without this session, and what does not."""
    clock = session.house.clock
    kept: list[HeldPackage] = []
    dropped: list[HeldPackage] = []
    for held in session.live:
        (kept if session.kept_without_us(held).renews else dropped).append(held)
    lines = []
    if kept:
        lines.append(sentence(f"The keeper goes on renewing {_named(session, kept)}"))
    if dropped:
        first = min(dropped, key=lambda held: held.remaining(clock))
        whys = {session.bridge.keeper.why_not(held) if held.kept else "keeping is off" for held in dropped}
        why = f": {joined(sorted(whys))}" if all(whys) else ""
        lines.append(
            sentence(
                f"Nobody renews {_named(session, dropped)} from now on{why}",
                f"The first ends in {spoken(first.remaining(clock))}",
                "Tokens and drafts stay in the journal of this host",
            )
        )
    return lines


def _named(session: PlainSession, leases: Sequence[HeldPackage]) -> str:
    numbers = joined([str(session.numbers.of(held.uid)) for held in leases])
    return f"lease {numbers}" if len(leases) == 1 else f"leases {numbers}"


async def _shown(session: PlainSession, held: HeldPackage) -> list[str]:
    from expb_tui.core.submissions import task_view
    from expb_tui.present import packages

    seen = (await session.house.desk.show(await session.bridge.session_for(held), held.uid)).held
    await session.bridge.leases_changed()
    keeping = session.bridge.keeper.keeping(seen)
    lines = ["As the service has it now:", line_of(session.numbers.of(held.uid), seen, keeping, session.house.clock)]
    lines += [
        f"{row.cells[0].text}: {row.cells[1].text.strip()}"
        for row in packages.facts(seen, session.house.clock, glyphs=SILENT).rows
        if row.cells[0].text in _FACTS and row.cells[1].text.strip() not in ("", "-")
    ]
    for number, task in enumerate(seen.tasks, 1):
        state = packages.task_state(task, SILENT).text.strip()
        drafted = ", with an unsent draft" if task.has_draft else ""
        if task.draft_before and task.open:
            drafted = ", with an unsent draft of when it was held before: submit offers it"
        lines.append(sentence(f"Task {number} of {len(seen.tasks)}: {state}{drafted}, id {clean(task.task_id)}"))
        if task.open and not task.submitted:
            for section in task_view.sections(task.role or seen.role, task.input):
                lines += _section(section)
    return lines


def _section(section: Section) -> Iterable[str]:
    yield f"{clean(section.title)}:"
    for paragraph in section.prose:
        yield from (clean(line) for line in paragraph.split("\n") if line.strip())
    for fact in (*section.facts, *section.quiet):
        yield f"{clean(fact.label)}: {clean(fact.value)}"
    yield from (clean(bullet) for bullet in section.bullets)


async def _receipts(session: PlainSession) -> Iterable[str]:
    found = await session.house.desk.receipts()
    now = session.house.clock.now()
    lines = [
        sentence(
            f"{spoken((now - one.submitted_at).total_seconds())} ago: {clean(one.role)} in {clean(one.project_name)}, "
            f"{one.outcome}, {clean(f'{one.record_kind} {one.record_id}'.strip()) or 'no record'}"
        )
        for one in found[:_RECEIPTS]
    ]
    more = len(found) - len(lines)
    return (
        [*lines, f"{more} older ones: expb-tui agent work list --all"] if more else lines or ["No receipt is here yet."]
    )
