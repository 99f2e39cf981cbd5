"""``expb-tui context``: the project that a profile works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import Given, Noun, given
from expb_tui.present.cells import Row, Table, cell, columns

if TYPE_CHECKING:
    from expb_tui.core.profiles.store import Profile

_COLUMNS = columns(("PROFILE", "ENDPOINT", "ACCOUNT", "PROJECT"))


def _data(profile: Profile) -> dict[str, Any]:
    pairs = {
        "profile": profile.name,
        "endpoint": profile.endpoint,
        "account_id": profile.account_id,
        "project_id": profile.project_id,
        "project_name": profile.project_name,
    }
    return {key: value for key, value in pairs.items() if value is not None or key in ("profile", "endpoint")}


def _table(profile: Profile) -> Table:
    values = (profile.name, profile.endpoint, profile.account_id, profile.project_name or profile.project_id)
    return Table(_COLUMNS, (Row(profile.name, tuple(cell(value) for value in values)),))


def _print(said: Given, profile: Profile) -> None:
    said.output().show(lambda: _data(profile), lambda: _table(profile))


def _selected(said: Given) -> Profile:
    from expb_tui.core.profiles.store import ProfileStore

    return ProfileStore().select(said.values.get("profile"))


@click.group(cls=Noun, invoke_without_command=True)
@click.pass_context
def context(ctx: click.Context) -> None:
    """The project that a profile works on; without a command it is shown."""
    if ctx.invoked_subcommand is None:
        _print(given(ctx), _selected(given(ctx)))


@context.command("show")
@click.pass_context
def show_context(ctx: click.Context) -> None:
    """Show the profile's service, account and project."""
    _print(given(ctx), _selected(given(ctx)))


@context.command("use")
@click.argument("project")
@click.pass_context
def use_context(ctx: click.Context, project: str) -> None:
    """Set the profile's project, by id or by name."""
    from expb_tui.cli.acting import act
    from expb_tui.launch import House

    async def work(house: House) -> None:
        from expb_tui.core.profiles.login import use_project

        await use_project(await house.session(), house.store, project)

    act(ctx, work)
    said = given(ctx)
    found = _selected(said)
    diagnostics.note(f"Profile {found.name} works on {found.project_name or found.project_id} now")
    _print(said, found)


@context.command("clear")
@click.pass_context
def clear_context(ctx: click.Context) -> None:
    """Forget the profile's project."""
    from expb_tui.core.profiles.store import ProfileStore

    said = given(ctx)
    found = _selected(said)
    cleared = ProfileStore().set_project(found.name, None, None)
    diagnostics.note(f"Profile {found.name} has no project now")
    _print(said, cleared)
