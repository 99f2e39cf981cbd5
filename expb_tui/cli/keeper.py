"""``expb-tui keeper``: the process that renews leases with nobody looking on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import Noun, given
from expb_tui.core import faults

if TYPE_CHECKING:
    from expb_tui.core.keeper.state import KeeperState
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.settings import Settings
    from expb_tui.launch import House

_NAMED = 10
"""Leases that are named one by one."""


@click.group(cls=Noun, invoke_without_command=True)
@click.option("--stay", is_flag=True, help="Do not end when there is nothing to keep.")
@click.option("--detach", is_flag=True, help="Start it in the background and say how that went.")
@click.pass_context
def keeper(ctx: click.Context, stay: bool, detach: bool) -> None:
    """Renew every lease on this host that is set to be kept.

    One runs per user and host. The cockpit and 'agent work request' start it by themselves (setting keeper = off stops
    that); it outlives them, a lost connection and the end of the session, and ends five minutes after the last lease.
    """
    if ctx.invoked_subcommand is None:
        ctx.exit(_detached(ctx, stay) if detach else _here(ctx, stay))


def _settings(ctx: click.Context) -> Settings:
    from expb_tui.launch import open_house

    return open_house(given(ctx).chosen()).settings


def _here(ctx: click.Context, stay: bool) -> int:
    from expb_tui.core.keeper import start
    from expb_tui.core.paths import state_dir

    try:
        start.run(state_dir(), _settings(ctx), stay=stay, say=diagnostics.note, ready=lambda: None)
    except start.AlreadyRuns as error:
        if error.code != start.AlreadyRuns.code:
            raise
        diagnostics.note(f"{error.what}: {error.cause}")
    return 0


def _detached(ctx: click.Context, stay: bool) -> int:
    from expb_tui.core.errors import EXIT_FAILURE, ExpbError, place_of
    from expb_tui.core.keeper.detach import fork_away
    from expb_tui.core.keeper.log import Log
    from expb_tui.core.paths import private_dir, state_dir

    settings, folder = _settings(ctx), private_dir(state_dir())
    log = Log(folder)
    tell, told = fork_away(log)
    if tell is None:
        return _said(ctx, told)

    from expb_tui.core.keeper import start

    try:
        start.run(folder, settings, stay=stay, say=log.say, ready=lambda: tell({"kind": "started"}))
    except ExpbError as error:
        if error.code == start.AlreadyRuns.code:
            tell({"kind": "running", "what": error.what, "cause": error.cause, "next_step": error.next_step})
            return 0
        log.say(str(error))
        tell(
            {
                "kind": "failed",
                "what": error.what,
                "cause": error.cause,
                "next_step": error.next_step,
                "code": error.code,
            }
        )
        return EXIT_FAILURE
    except BaseException as error:
        log.say(f"internal error: {place_of(error)}")
        tell({"kind": "failed", "what": "The keeper failed", "cause": f"internal error: {place_of(error)}"})
        return EXIT_FAILURE
    return 0


def _said(ctx: click.Context, told: dict[str, Any]) -> int:
    """What the detached start told, in this command's words."""
    from expb_tui.core.errors import ExpbError
    from expb_tui.core.keeper.log import LOG_NAME
    from expb_tui.core.keeper.state import look
    from expb_tui.core.paths import state_dir

    output = given(ctx).output()
    if output.structured:
        output.line_of_json(told)
    if told.get("kind") in ("started", "running"):
        diagnostics.note(
            f"The keeper runs now, process {look().pid}" if told["kind"] == "started" else "A keeper runs already"
        )
        return 0
    raise ExpbError(
        told.get("what") or "The keeper ended without a word",
        cause=told.get("cause") or "",
        next_step=told.get("next_step") or f"See its log: {state_dir() / LOG_NAME}",
        code=told.get("code") or "keeper",
    )


@keeper.command("status")
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show whether a keeper runs, what it keeps, and what it cannot keep."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.keeper.state import look
    from expb_tui.present.keeper import status_lines

    output, state = given(ctx).output(), look()
    if output.structured:
        output.data(_data(state))
    else:
        output.toned(status_lines(state, SYSTEM_CLOCK, off=_settings(ctx).keeper == "off"))


def _data(state: KeeperState) -> dict[str, Any]:
    from dataclasses import asdict
    from datetime import datetime

    from expb_tui.core.clock import SYSTEM_CLOCK

    def plain(item: Any) -> Any:
        if isinstance(item, datetime):
            return item.isoformat()
        if isinstance(item, dict):
            return {name: plain(value) for name, value in item.items()}
        return [plain(value) for value in item] if isinstance(item, list | tuple) else item

    data: dict[str, Any] = plain(asdict(state))
    for name in ("seen_ticks", "seen_boot", "opaque"):
        data.pop(name)
    data["lent_agents"] = [{"endpoint": endpoint, "agent_id": agent} for endpoint, agent in state.lent_agents]
    return {**data, "silent": state.silent(SYSTEM_CLOCK)}


@keeper.command("stop")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def stop(ctx: click.Context, yes: bool) -> int:
    """End the keeper once its requests are answered. Leases are then renewed only while a cockpit is open."""
    import asyncio

    from expb_tui.core.keeper.control import ask
    from expb_tui.core.keeper.state import look
    from expb_tui.core.paths import state_dir

    state = look()
    if not state.running:
        diagnostics.note("No keeper runs on this host")
        return 0
    if state.keeps:
        lines = _left_by(ctx, state)
        lines += [f"  the token of {profile} is in its memory only, and goes with it" for profile in state.lent]
        if not diagnostics.confirm(lines, "Stop the keeper?", yes=yes):
            diagnostics.note("The keeper goes on")
            return 1

    async def end() -> bool:
        await ask(state_dir(), "stop", limit=10.0)
        for _ in range(150):
            if not look().running:
                return True
            await asyncio.sleep(0.1)
        return False

    if faults.run(end()):
        diagnostics.note("The keeper has ended")
        return 0
    diagnostics.warn(f"process {state.pid} still waits for answers; it begins nothing new and ends by itself")
    return 0


def _left_by(ctx: click.Context, state: KeeperState) -> list[str]:
    """Who is without it, by name, and whether anybody else renews them."""
    from expb_tui.cli.acting import act
    from expb_tui.cli.held_packages import bare_token
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.errors import ExpbError
    from expb_tui.core.leases.keeping import face_renews
    from expb_tui.core.paths import state_dir
    from expb_tui.core.text import clean
    from expb_tui.present.cells import plural
    from expb_tui.present.leases import left

    async def kept(house: House) -> list[HeldPackage]:
        try:
            held = await house.desk.held(session=await bare_token(house))
        except ExpbError:
            return []  # a journal that cannot be read is no reason not to stop
        return [one for one in held if state.keeps_it(one, SYSTEM_CLOCK)]

    held = act(ctx, kept)
    count = plural(len(held) or state.keeps, "lease")
    after = "Only an open cockpit renews" if face_renews(state_dir()) else "Nobody renews"
    lines = [f"{after} {count} afterwards"]
    lines += [
        f"  {clean(one.role)} in {clean(one.project_name or one.project_id)}, {left(one, SYSTEM_CLOCK).text} left"
        for one in held[:_NAMED]
    ]
    return [*lines, f"  and {len(held) - _NAMED} more"] if len(held) > _NAMED else lines


@keeper.command("install")
@click.option("--print", "only_print", is_flag=True, help="Print the unit and change nothing.")
@click.option("--uninstall", is_flag=True, help="Stop, disable and remove it.")
@click.pass_context
def install(ctx: click.Context, only_print: bool, uninstall: bool) -> None:
    """Run the keeper as a service of your own systemd, from the start of the host on."""
    from expb_tui.core.errors import UsageError
    from expb_tui.core.keeper import service

    if only_print and uninstall:
        raise UsageError("--print and --uninstall exclude each other", next_step="Leave one of them out")
    if only_print:
        given(ctx).output().lines(service.unit_text().splitlines())
        for line in (*service.by_hand_lines(), *service.lingering_lines()):
            diagnostics.note(line)
    elif uninstall:
        diagnostics.note("The keeper is no service any more" if service.uninstall() else "The keeper was no service")
    else:
        diagnostics.note(f"The keeper is a service now: {service.install()}")
        for line in service.lingering_lines():
            diagnostics.note(line)
