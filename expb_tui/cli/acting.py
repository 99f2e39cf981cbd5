"""Carrying out one asynchronous act for a command: the house is opened, used and closed in one event loop."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import given
from expb_tui.core import faults
from expb_tui.launch import House, open_house

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.leases.salvage import Salvaged
    from expb_tui.core.profiles.store import ProfileStore

T = TypeVar("T")


def act(ctx: click.Context, work: Callable[[House], Awaitable[T]]) -> T:
    """Run ``work`` with this command's house. Ctrl-C cancels it; requests under way are still journaled.

    A second ctrl-c ends at once.
    """
    import asyncio

    house = open_house(given(ctx).chosen())
    warn_of_exposure(house.store)

    async def whole() -> T:
        try:
            return await work(house)
        except asyncio.CancelledError:
            await _await_answers(house)
            raise
        finally:
            await house.aclose()
            tell_salvage(house.salvaged())

    return faults.run(whole())


def tell_salvage(told: Salvaged | None) -> None:
    """Say that the journal was damaged, and what became of it."""
    for line in told.lines() if told else []:
        diagnostics.warn(line)


async def _await_answers(house: House) -> None:
    """After ctrl-c: what was sent may be carried out, so its answer is awaited for a moment, and it is said."""
    if not await house.unanswered():
        return
    diagnostics.note("Waiting up to 10 s for the answer to what was sent; ctrl-c again ends at once")
    await house.desk.aclose()
    for one in await house.unanswered():
        about = one.package_id or f"{one.role} in {one.project_name}"
        diagnostics.warn(f"a {one.kind} ({about}) was sent, and its answer did not come: it may have been carried out")
    diagnostics.note("See what became of it: expb-tui agent work list")


def warn_of_exposure(store: ProfileStore) -> None:
    """Say it where other users can get at the credentials of the profile file."""
    if who := store.exposed():
        path = shlex.quote(str(store.path))
        diagnostics.warn(f"{who} {store.path}, which holds credentials; chmod 600 {path} mends it, or our next write")


def named_profile(ctx: click.Context, name: str | None) -> str:
    """The profile that a command is about: its argument, else ``--profile``, else the default one."""
    if name:
        return name
    house = open_house(given(ctx).chosen())
    return house.store.select(house.chosen.profile).name


def confirm_stranding(ctx: click.Context, name: str, question: str, *, yes: bool) -> bool:
    """Name the leases that nobody could renew or submit without this profile, and ask (hazards 6).

    Nothing is asked where there are none.
    """
    stranded = act(ctx, lambda house: house.desk.stranded_by(name))
    if not stranded:
        return True
    return diagnostics.confirm(stranded_lines(name, stranded), question, yes=yes)


def stranded_lines(name: str, stranded: list[HeldPackage]) -> list[str]:
    """What would be stranded, one line a lease."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.text import coarse

    lines = [f"Without profile {name} nobody here can renew, submit or release:"]
    for held in stranded:
        left = coarse(held.remaining(SYSTEM_CLOCK))
        lines.append(f"  {held.uid}   {held.role}   {held.project_name or held.project_id}   {left} left")
    return lines
