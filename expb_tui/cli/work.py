"""``expb-tui agent work``: claim, show, renew, submit, release, list and adopt work packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from expb_tui.cli import diagnostics, examples, inputs
from expb_tui.cli.acting import act
from expb_tui.cli.roles import role_option
from expb_tui.cli.tree import Command, Noun, given
from expb_tui.core.errors import ExpbError, SignInNeeded, UsageError
from expb_tui.present import envelopes, leases, packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from expb_tui.cli.output import Output
    from expb_tui.core.leases.model import HeldPackage, Raw
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House


class _WithExamples(Command):
    """Writes the input examples below the options, as they are."""

    make_examples: Callable[[], str]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write(self.make_examples() + "\n")


class _Request(_WithExamples):
    make_examples = staticmethod(examples.request_help)


class _Submit(_WithExamples):
    make_examples = staticmethod(examples.submit_help)


_package = click.argument("package", required=False)
_answer = click.option(
    "--package", "answer", metavar="FILE", help="A saved answer of 'work request', token included; - is standard input."
)


@click.group(cls=Noun)
def work() -> None:
    """Claim, show, renew, submit and release work packages.

    Packages and their lease tokens are kept in this host's journal; PACKAGE may be left out while only one is held.
    """


def _now() -> Any:
    from expb_tui.core.clock import SYSTEM_CLOCK

    return SYSTEM_CLOCK.now()


def _envelope(document: Any, key: str = "resource") -> dict[str, Any] | None:
    """The resource in an operation result, or the document itself where it is bare (contract, section 7, item 7)."""
    if not isinstance(document, dict):
        return None
    found = document.get(key)
    if isinstance(found, dict):
        return found
    return document if key == "resource" and "kind" in document else None


def _print_act(output: Output, word: str, raw: Raw | None, held: HeldPackage | None) -> None:
    """An operation result: the answer as given, or ``created``/``updated`` and the tables."""
    document = raw.document() if raw else None
    if output.structured:
        output.data(document)
        return
    if word:
        output.lines([word])
    envelope = _envelope(document)
    if envelope is not None:
        output.table(envelopes.table([envelope], _now(), wide=output.wide))
    if held is not None:
        _print_held(output, held)


def _print_held(output: Output, held: HeldPackage) -> None:
    from expb_tui.core.clock import SYSTEM_CLOCK

    output.lines([""])
    output.table(leases.listing([held], SYSTEM_CLOCK, wide=output.wide, glyphs=output.glyphs)._replace(footer=""))
    if held.tasks:
        output.lines([""])
        output.table(packages.tasks(held, glyphs=output.glyphs)._replace(footer=""))


async def _bare_token(house: House) -> Session | None:
    """The session of a token without a profile, if that is what acts here."""
    try:
        session = await house.session()
    except (SignInNeeded, UsageError):
        return None
    return session if session.explicit else None


async def _settle_cut_off(house: House) -> None:
    """Find out what became of requests whose sender died, and say what is still not known (hazards 4)."""
    if any(not one.waiting for one in await house.desk.pending()):
        try:
            await house.desk.resolve(await house.session())
        except ExpbError as error:
            diagnostics.warn(str(error))
    for one in await house.desk.pending():
        about = one.package_id or f"{one.role} in {one.project_name}"
        state = "is still under way" if one.waiting else "was cut off, and its outcome is not known"
        diagnostics.note(f"A {one.kind} ({about}) {state}")


async def _session_for(house: House, held: HeldPackage | None) -> Session:
    """What was chosen on the command line, else the profile that claimed the package."""
    if held is not None and held.profile_name and house.chosen.profile is None and house.chosen.token is None:
        session = await house.session()
        return session if session.explicit else await house.session(held.profile_name)
    return await house.session()


async def _target(house: House, package: str | None, answer: str | None) -> tuple[Session, str]:
    """The package that a command is about and the credential to act with. Raises ``UsageError``."""
    if answer is not None:
        session = await house.session()
        held = await house.desk.adopt(session, inputs.read_document(answer))
        if package is not None and package != held.uid:
            raise UsageError(f"{inputs.name_of(answer)} is about package {held.uid}", cause=f"not about {package}")
        return session, held.uid
    everything = await house.desk.held(everything=package is not None)
    if package is not None:
        known = next((held for held in everything if held.uid == package), None)
        return await _session_for(house, known), package
    open_ones = [held for held in everything if not held.state.ended]
    if house.chosen.profile is not None:
        open_ones = [held for held in open_ones if held.profile_name == house.chosen.profile]
    if len(open_ones) == 1:
        return await _session_for(house, open_ones[0]), open_ones[0].uid
    if not open_ones:
        raise UsageError("Name a package", cause="none is held here", next_step="See: expb-tui agent work list --all")
    names = ", ".join(held.uid for held in open_ones)
    raise UsageError("Name a package", cause=f"{len(open_ones)} are held here", next_step=f"One of {names}")


@work.command("request", cls=_Request)
@click.option("--file", "-f", "source", metavar="FILE", help="The request, JSON or YAML; - is standard input.")
@role_option("Instead of --file: the role to work in.")
@click.option("--max-tasks", type=click.IntRange(1), help="Instead of --file: the most tasks to take (1).")
@click.pass_context
def request(ctx: click.Context, source: str | None, role: str | None, max_tasks: int | None) -> None:
    """Request a work package for a project and role.

    No work is a normal answer: an empty package, exit code 0. The package and its lease token are in this host's
    journal before anything is printed; the token is printed with --format json or yaml only. Treat that output as a
    credential.
    """
    from expb_tui.cli.requests import read_request

    output = given(ctx).output()
    body = read_request(source, role, max_tasks)

    async def claim(house: House) -> None:
        from expb_tui.cli.requests import settle_project

        session = await house.session()
        project_id, project_name = await settle_project(house, session, body.project_id)
        outcome = await house.desk.request(
            session, project_id, body.role, body.max_tasks, project_name=project_name or ""
        )
        if outcome.kind == "token-lost":
            raise ExpbError(
                f"Package {outcome.held.uid if outcome.held else ''} is assigned, but its lease token is lost",
                cause=outcome.why,
                next_step="Nobody can submit it; a project member can withdraw it, or its lease runs out",
                code="token-lost",
            )
        if outcome.kind == "assigned":
            _print_act(output, "created", outcome.raw, outcome.held)
            return
        why = f": {outcome.why}" if outcome.why else ""
        diagnostics.note(f"No work for {body.role} now{why}")
        if outcome.retry_after:
            diagnostics.note(f"Ask again in {outcome.retry_after:.0f} s")
        if output.structured:
            output.data(outcome.raw.document() if outcome.raw else {"resource": None})
        else:
            output.lines(["0 resources shown"])

    act(ctx, claim)


@work.command("show")
@_package
@_answer
@click.pass_context
def show(ctx: click.Context, package: str | None, answer: str | None) -> None:
    """Read a package's state from the service; never its token."""
    output = given(ctx).output()

    async def read(house: House) -> None:
        from expb_tui.core.submissions import task_view
        from expb_tui.present.tasks import reading_lines

        session, uid = await _target(house, package, answer)
        outcome = await house.desk.show(session, uid)
        _print_act(output, "", outcome.raw, outcome.held)
        if output.structured:
            return
        for task in outcome.held.tasks:
            if task.open:
                output.lines(["", f"task {task.task_id}"])
                sections = task_view.sections(task.role, task.input)
                output.lines(line.text for line in reading_lines(sections, glyphs=output.glyphs))

    act(ctx, read)


@work.command("renew")
@_package
@_answer
@click.pass_context
def renew(ctx: click.Context, package: str | None, answer: str | None) -> None:
    """Renew an active lease, up to its latest end."""
    output = given(ctx).output()

    async def extend(house: House) -> None:
        session, uid = await _target(house, package, answer)
        outcome = await house.desk.renew(session, uid)
        if outcome.kind == "ended":
            diagnostics.note(f"Package {uid} has ended ({outcome.held.state.value}); there is nothing to renew")
        elif outcome.kind == "capped":
            diagnostics.note(f"The lease of {uid} is at its latest end and cannot be extended; submit in time")
        _print_act(output, "updated" if outcome.kind == "renewed" else "", outcome.raw, outcome.held)

    act(ctx, extend)


@work.command("submit", cls=_Submit)
@_package
@click.option("--file", "-f", "source", metavar="FILE", required=True, help="The submission; - is standard input.")
@_answer
@click.pass_context
def submit(ctx: click.Context, package: str | None, source: str, answer: str | None) -> None:
    """Submit the result of one task, or that it failed and why.

    Exit code 0 means that the service has confirmed it. It is searched for secrets before it is sent.
    """
    output = given(ctx).output()
    if source == "-" and answer == "-":
        raise UsageError("--file and --package cannot both be standard input")
    body = inputs.read_mapping(source)

    async def send(house: House) -> None:
        session, uid = await _target(house, package, answer)
        outcome = await house.desk.submit(session, uid, body)
        receipt = outcome.receipt
        record = f" as {receipt.record_kind} {receipt.record_id}" if receipt.record_id else ""
        before = " before; nothing was sent twice" if outcome.kind == "already" else ""
        diagnostics.note(f"Task {receipt.task_id} is submitted ({receipt.outcome}){record}{before}")
        _print_act(output, "created", outcome.raw, outcome.held)

    act(ctx, send)


@work.command("release")
@_package
@_answer
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def release(ctx: click.Context, package: str | None, answer: str | None, yes: bool) -> None:
    """Give a package back; its open tasks return to the queue."""
    output = given(ctx).output()

    async def give_back(house: House) -> int:
        session, uid = await _target(house, package, answer)
        held = await house.desk.get(uid, session=session)
        lines = [f"{uid}   {held.role}   {held.project_name or held.project_id}   {leases.tasks_done(held)} submitted"]
        if any(task.has_draft for task in held.tasks):
            lines.append("It has unsent drafts; they stay on this host")
        if not diagnostics.confirm(lines, f"Release {uid}?", yes=yes):
            diagnostics.note("Nothing was released")
            return 1
        outcome = await house.desk.release(session, uid)
        if outcome.kind == "ended":
            diagnostics.note(f"Package {uid} had ended before ({outcome.held.state.value})")
        _print_act(output, "updated" if outcome.kind == "released" else "", outcome.raw, outcome.held)
        return 0

    ctx.exit(act(ctx, give_back))


@work.command("list")
@click.option("--all", "everything", is_flag=True, help="Also packages that ended more than a day ago.")
@click.pass_context
def list_packages(ctx: click.Context, everything: bool) -> None:
    """List the packages that this host holds, by any profile; with --profile only those of that profile.

    The service is asked only where an earlier request was cut off before its answer came.
    """
    output = given(ctx).output()

    async def read(house: House) -> list[HeldPackage]:
        await _settle_cut_off(house)
        held = await house.desk.held(session=await _bare_token(house), everything=everything)
        only = house.chosen.profile
        return [one for one in held if only is None or one.profile_name == only]

    held = act(ctx, read)
    from expb_tui.core.clock import SYSTEM_CLOCK

    output.show(
        lambda: [held_data(one) for one in held],
        lambda: leases.listing(held, SYSTEM_CLOCK, wide=output.wide, glyphs=output.glyphs),
    )


@work.command("adopt")
@click.argument("source", metavar="FILE")
@click.pass_context
def adopt(ctx: click.Context, source: str) -> None:
    """Take a saved answer of 'work request' (FILE, or - for standard input) into this host's journal.

    Afterwards the package is listed, shown, renewed and submitted here like any other.
    """
    output = given(ctx).output()
    document = inputs.read_document(source)

    async def take(house: House) -> HeldPackage:
        return await house.desk.adopt(await house.session(), document)

    held = act(ctx, take)
    diagnostics.note(f"Package {held.uid} is in the journal now")
    if output.structured:
        output.data(held_data(held))
    else:
        _print_held(output, held)


def held_data(held: HeldPackage) -> dict[str, Any]:
    """A held package for programs; never its token."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.wire.base import instant_text

    times = held.times
    return {
        "package_id": held.uid,
        "state": held.state.value,
        "reason": held.reason,
        "role": held.role,
        "project_id": held.project_id,
        "project_name": held.project_name,
        "profile": held.profile_name,
        "endpoint": held.endpoint,
        "account_id": held.account_id,
        "agent_id": held.agent_id,
        "remaining_seconds": round(held.remaining(SYSTEM_CLOCK), 1),
        "expires_at": instant_text(times.expires_at) if times else None,
        "absolute_expires_at": (
            instant_text(times.absolute_expires_at) if times and times.absolute_expires_at else None
        ),
        "renewals": held.renewals,
        "tasks": [
            {
                "task_id": task.task_id,
                "role": task.role,
                "phase": task.phase,
                "has_draft": task.has_draft,
                "record_id": task.record_id,
            }
            for task in held.tasks
        ],
    }
