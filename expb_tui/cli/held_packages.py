"""Which held package a command is about, the credential to act with, and how an act's answer is printed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from expb_tui.cli import diagnostics, inputs
from expb_tui.cli.acting import tell_salvage
from expb_tui.core.errors import SignInNeeded, UsageError
from expb_tui.present import envelopes, leases, packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from expb_tui.cli.output import Output
    from expb_tui.core.leases.keeping import Keeping
    from expb_tui.core.leases.model import HeldPackage, Raw
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House

_SAY_SALVAGE = timedelta(days=1)
"""So long the list says that the journal was damaged, whichever process set it aside."""


def print_act(output: Output, word: str, raw: Raw | None, held: HeldPackage | None) -> None:
    """An operation result: the answer as given, or ``created``/``updated`` and the tables."""
    document = raw.document() if raw else None
    if output.structured:
        output.data(document)
        return
    if word:
        output.lines([word])
    from expb_tui.core.api.reading import resource_of
    from expb_tui.core.clock import SYSTEM_CLOCK

    envelope = resource_of(document)
    # A failed task makes no record, so there is none in the answer.
    if isinstance(envelope, dict) and "kind" in envelope:
        output.table(envelopes.table([envelope], SYSTEM_CLOCK.now(), wide=output.wide))
    if held is not None:
        print_held(output, held)


def print_held(output: Output, held: HeldPackage) -> None:
    """Lease and tasks below a blank line."""
    from expb_tui.core.clock import SYSTEM_CLOCK

    output.lines([""])
    shown = leases.listing([held], SYSTEM_CLOCK, wide=output.wide, glyphs=output.glyphs, keeping=who_keeps())
    output.table(shown._replace(footer=""))
    if held.tasks:
        output.lines([""])
        output.table(packages.tasks(held, glyphs=output.glyphs)._replace(footer=""))


def tell_drafts(held: HeldPackage) -> None:
    """Say that something was typed for its tasks when they were held before, and where it is offered."""
    count = sum(task.draft_before and task.open for task in held.tasks)
    if count:
        what = "its task" if len(held.tasks) == 1 else f"{count} of its tasks"
        diagnostics.note(
            f"A draft of {what} is on this host, typed when it was held before: the cockpit's form offers it,"
            " and so does submit in expb-tui --plain"
        )


def print_list(output: Output, held: list[HeldPackage]) -> None:
    """Held packages as rows, or as data."""
    from expb_tui.core.clock import SYSTEM_CLOCK

    output.show(
        lambda: [held_data(one) for one in held],
        lambda: leases.listing(held, SYSTEM_CLOCK, wide=output.wide, glyphs=output.glyphs, keeping=who_keeps()),
    )


def who_keeps() -> Callable[[HeldPackage], Keeping]:
    """Who keeps a lease, as this host's keeper and open cockpits are now; this command itself keeps nothing."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.keeper.state import look
    from expb_tui.core.leases.keeping import face_renews, keeping_of
    from expb_tui.core.paths import state_dir

    keeper, here = look(), face_renews(state_dir())
    return lambda held: keeping_of(held, keeper=keeper.keeps_it(held, SYSTEM_CLOCK), here=here)


async def have_it_kept(house: House, session: Session) -> None:
    """A keeper runs after this, unless the settings want none; a failure is only said: the package is journaled."""
    ensured = await house.ensure_keeper(session)
    if ensured.problem is not None:
        diagnostics.warn(str(ensured.problem))
    elif ensured.kind == "started":
        diagnostics.note("A keeper has been started; expb-tui keeper status shows what it renews")
    elif ensured.kind == "off":
        diagnostics.note("Nothing renews it by itself: no keeper is started here (setting keeper = off)")


async def live_ones(house: House, packages: tuple[str, ...], *, everything: bool) -> list[HeldPackage]:
    """The leases that are named, all live ones, or the only one. Raises ``UsageError`` and ``NotHeld``."""
    if packages and everything:
        raise UsageError("Name packages or give --all, not both", next_step="Leave one of them out")
    if packages:
        return [await house.desk.get(package) for package in packages]
    live = [held for held in await house.desk.held(session=await bare_token(house)) if held.usable]
    if everything or len(live) == 1:
        return live
    raise UsageError(
        "Name a package",
        cause=f"{len(live) or 'none'} {'is' if len(live) == 1 else 'are'} held here",
        next_step="See: expb-tui agent work list; or give --all",
    )


async def bare_token(house: House) -> Session | None:
    """The session of a token without a profile, if that is what acts here."""
    try:
        session = await house.session()
    except (SignInNeeded, UsageError):
        return None
    return session if session.explicit else None


async def settle_cut_off(house: House) -> None:
    """Find out what became of what was left behind, and say what is still not known (hazards 4 and 5)."""
    for error in await house.desk.settle_left_over(lambda name: house.session(name or None)):
        diagnostics.warn(str(error))
    told = house.journal.salvaged()
    if told is not None and told != house.salvaged() and house.clock.now() - told.at < _SAY_SALVAGE:
        tell_salvage(told)
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


async def target(house: House, package: str | None, answer: str | None) -> tuple[Session, str]:
    """The package that a command is about and the credential to act with. Raises ``UsageError``."""
    if answer is not None:
        from expb_tui.core.api.work import saved_answer

        document = inputs.read_document(answer)
        uid, _ = saved_answer(document)
        if package not in (None, uid):
            raise UsageError(
                f"{inputs.name_of(answer)} is about package {uid}",
                cause=f"not about {package}",
                next_step="Leave the package out, or name the other file",
            )
        session = await house.session()
        await house.desk.adopt(session, document)
        return session, uid
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


def held_data(held: HeldPackage) -> dict[str, Any]:
    """A held package for programs; never its token."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.wire.base import instant_text

    times = held.times
    return {
        "package_id": held.uid,
        "state": held.word,
        "phase": held.phase,
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
        "kept": held.kept,
        "kept_by": who_keeps()(held).value,
        "keeping_problem": held.keeping_problem,
        "tasks": [
            {
                "task_id": task.task_id,
                "role": task.role,
                "phase": task.phase,
                "has_draft": task.has_draft,
                "draft_before": task.draft_before,
                "record_id": task.record_id,
            }
            for task in held.tasks
        ],
    }
