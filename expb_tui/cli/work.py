"""``expb-tui agent work``: claim, show, renew, submit, release, list and adopt work packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from expb_tui.cli import diagnostics, examples, held_packages, inputs
from expb_tui.cli.acting import act
from expb_tui.cli.roles import role_option
from expb_tui.cli.tree import Command, Noun, given
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.present import leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from expb_tui.core.leases.model import HeldPackage
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


_some = click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
_all = click.option("--all", "everything", is_flag=True, help="Every live lease of this host.")


@click.group(cls=Noun)
def work() -> None:
    """Claim, show, renew, submit and release work packages.

    Packages and their lease tokens are kept in this host's journal, and the keeper renews their leases; PACKAGE may be
    left out while only one is held.
    """


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
        outlook = await house.keeping_outlook()
        for line in outlook.lines() if not outlook.keeper_off else ():
            diagnostics.warn(line)
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
            await held_packages.have_it_kept(house, session)
            held_packages.print_act(output, "created", outcome.raw, outcome.held)
            if outcome.held is not None:
                held_packages.tell_drafts(outcome.held)
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

        session, uid = await held_packages.target(house, package, answer)
        outcome = await house.desk.show(session, uid)
        held_packages.print_act(output, "", outcome.raw, outcome.held)
        held_packages.tell_drafts(outcome.held)
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
    """Renew an active lease, up to its absolute end."""
    output = given(ctx).output()

    async def extend(house: House) -> None:
        session, uid = await held_packages.target(house, package, answer)
        outcome = await house.desk.renew(session, uid)
        if outcome.held.kept:
            await held_packages.have_it_kept(house, session)
        if outcome.kind == "ended":
            diagnostics.note(f"Package {uid} has ended ({outcome.held.state.value}); there is nothing to renew")
        elif outcome.kind == "capped":
            diagnostics.note(f"The lease of {uid} is at its absolute end and cannot be extended; submit in time")
        held_packages.print_act(output, "updated" if outcome.kind == "renewed" else "", outcome.raw, outcome.held)

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
        raise UsageError("--file and --package cannot both be standard input", next_step="Save one of them in a file")
    body = inputs.read_mapping(source)

    async def send(house: House) -> None:
        session, uid = await held_packages.target(house, package, answer)
        outcome = await house.desk.submit(session, uid, body)
        receipt = outcome.receipt
        record = f" as {receipt.record_kind} {receipt.record_id}" if receipt.record_id else ""
        before = " before; nothing was sent twice" if outcome.kind == "already" else ""
        diagnostics.note(f"Task {receipt.task_id} is submitted ({receipt.outcome}){record}{before}")
        held_packages.print_act(output, "created", outcome.raw, outcome.held)

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
        session, uid = await held_packages.target(house, package, answer)
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
        held_packages.print_act(output, "updated" if outcome.kind == "released" else "", outcome.raw, outcome.held)
        return 0

    ctx.exit(act(ctx, give_back))


@work.command("withdraw")
@click.argument("package")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def withdraw(ctx: click.Context, package: str, yes: bool) -> None:
    """Take a package away from its agent, as a member of its project.

    For a package whose token is lost: its open tasks return to the queue at once instead of when the lease ends. It
    acts with --profile, or with a signed-in user profile of the same service and account.
    """
    output = given(ctx).output()

    async def take_away(house: House) -> int:
        session = await house.watcher(await house.session())
        if session is None:
            raise UsageError(
                "Only a member of the project can withdraw a package",
                cause="no user profile of this service and account is signed in",
                next_step="Sign in with: expb-tui --profile=owner auth login",
            )
        lines = [f"{package} is taken from its agent, who can then submit nothing for it"]
        if not diagnostics.confirm(lines, f"Withdraw {package}?", yes=yes):
            diagnostics.note("Nothing was withdrawn")
            return 1
        outcome = await house.desk.withdraw(session, package)
        held_packages.print_act(output, "updated", outcome.raw, None)
        return 0

    ctx.exit(act(ctx, take_away))


@work.command("list")
@click.option("--all", "everything", is_flag=True, help="Also packages that ended more than a day ago.")
@click.pass_context
def list_packages(ctx: click.Context, everything: bool) -> None:
    """List the packages that this host holds, by any profile; with --profile only those of that profile.

    The service is asked only where an earlier request was cut off before its answer came.
    """
    output = given(ctx).output()

    async def read(house: House) -> list[HeldPackage]:
        await held_packages.settle_cut_off(house)
        held = await house.desk.held(session=await held_packages.bare_token(house), everything=everything)
        only = house.chosen.profile
        return [one for one in held if only is None or one.profile_name == only]

    held_packages.print_list(output, act(ctx, read))


@work.command("keep")
@_some
@_all
@click.pass_context
def keep(ctx: click.Context, packages: tuple[str, ...], everything: bool) -> None:
    """Have leases renewed by the keeper; what is claimed here is kept from the start.

    Nothing is sent: the keeper renews when it is time, and is started if none runs.
    """
    _set_kept(ctx, packages, everything, kept=True)


@work.command("unkeep")
@_some
@_all
@click.pass_context
def unkeep(ctx: click.Context, packages: tuple[str, ...], everything: bool) -> None:
    """Have leases not renewed any more: each runs out at its end unless it is renewed by hand.

    Nothing is sent. Release a package instead to let others have its open tasks at once.
    """
    _set_kept(ctx, packages, everything, kept=False)


def _set_kept(ctx: click.Context, packages: tuple[str, ...], everything: bool, *, kept: bool) -> None:
    output = given(ctx).output()

    async def change(house: House) -> list[HeldPackage]:
        chosen = await held_packages.live_ones(house, packages, everything=everything)
        uids = [held.uid for held in chosen]
        await house.desk.set_kept(uids, kept)
        if kept:
            for name in sorted({held.profile_name for held in chosen if held.profile_name}):
                await held_packages.have_it_kept(house, await house.session(name))
        bare = await held_packages.bare_token(house)
        return [held for held in await house.desk.held(session=bare) if held.uid in uids]

    held_packages.print_list(output, act(ctx, change))


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
        session = await house.session()
        held = await house.desk.adopt(session, document)
        await held_packages.have_it_kept(house, session)
        return held

    held = act(ctx, take)
    diagnostics.note(f"Package {held.uid} is in the journal now")
    if output.structured:
        output.data(held_packages.held_data(held))
    else:
        held_packages.print_held(output, held)
