"""``expb-tui profile``: the saved profiles of this host, never with their credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import Given, Noun, given, profile_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from expb_tui.core.profiles.store import Profile, Profiles, ProfileStore


def _complete_name(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]


_optional_name = click.argument("name", required=False, shell_complete=_complete_name)
_required_name = click.argument("name", shell_complete=_complete_name)
_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.group(cls=Noun)
def profile() -> None:
    """Saved profiles of this host.

    They live in the file that expbctl uses too; EXPBENCH_PROFILES names another one.
    """


def _store() -> ProfileStore:
    from expb_tui.cli.acting import warn_of_exposure
    from expb_tui.core.profiles.store import ProfileStore

    store = ProfileStore()
    warn_of_exposure(store)
    return store


def _entry(profile: Profile, profiles: Profiles) -> dict[str, Any]:
    return {"name": profile.name, "default": profile.name == profiles.default, "profile": profile.public()}


def _show(said: Given, profiles: Profiles, name: str) -> None:
    """One profile: the table of the listing, or its entry."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.present.profiles import listing

    output, found = said.output(), profiles.by_name[name]
    output.show(
        lambda: _entry(found, profiles),
        lambda: listing([found], profiles.default, SYSTEM_CLOCK.now(), wide=output.wide, footer=False),
    )


@profile.command("list")
@click.pass_context
def list_profiles(ctx: click.Context) -> None:
    """List every profile, without credentials."""
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.present.profiles import listing

    output, profiles = given(ctx).output(), _store().read()
    output.show(
        lambda: [_entry(profiles.by_name[name], profiles) for name in profiles.names()],
        lambda: listing(profiles.by_name.values(), profiles.default, SYSTEM_CLOCK.now(), wide=output.wide),
    )


@profile.command("show")
@_optional_name
@click.pass_context
def show_profile(ctx: click.Context, name: str | None) -> None:
    """Show one profile, without credentials; the selected one if NAME is left out."""
    said, store = given(ctx), _store()
    chosen = store.select(name or said.values.get("profile")).name
    _show(said, store.read(), chosen)


@profile.command("use")
@_required_name
@click.pass_context
def use_profile(ctx: click.Context, name: str) -> None:
    """Make NAME the default profile."""
    said = given(ctx)
    profiles = _store().use(name)
    diagnostics.note(f"{name} is the default profile now")
    _show(said, profiles, name)


@profile.command("remove")
@_required_name
@_yes
@click.pass_context
def remove_profile(ctx: click.Context, name: str, yes: bool) -> None:
    """Forget a profile on this host.

    Nothing is revoked: revoke the token on the service where this host loses access for good.
    """
    from expb_tui.cli.acting import confirm_stranding
    from expb_tui.core.profiles import secrets

    store = _store()
    store.select(name)
    if not confirm_stranding(ctx, name, f"Remove profile {name} all the same?", yes=yes):
        diagnostics.note("Nothing was removed")
        ctx.exit(1)
    secrets.forget(store, name)
    diagnostics.note(f"Profile {name} is removed from this host; its credential was not revoked")


@profile.command("secure")
@_optional_name
@click.pass_context
def secure_profile(ctx: click.Context, name: str | None) -> None:
    """Move a profile's credential into the system keyring.

    expbctl reads the file only and will find the profile signed out; 'profile unsecure' moves it back.
    """
    from expb_tui.cli.acting import named_profile
    from expb_tui.core.profiles import secrets

    store, chosen = _store(), named_profile(ctx, name)
    state = secrets.secure(store, chosen)
    diagnostics.note(f"The credential of {chosen} is in {state.backend} now; expbctl does not look there")
    if not state.unattended:
        diagnostics.warn(
            "a process without your desktop session cannot read it, so nothing can renew leases unattended"
        )
    _show(given(ctx), store.read(), chosen)


@profile.command("unsecure")
@_optional_name
@click.pass_context
def unsecure_profile(ctx: click.Context, name: str | None) -> None:
    """Move a profile's credential into the 0600 file, where expbctl finds it."""
    from expb_tui.cli.acting import named_profile
    from expb_tui.core.profiles import secrets

    store, chosen = _store(), named_profile(ctx, name)
    secrets.unsecure(store, chosen)
    diagnostics.note(f"The credential of {chosen} is in {store.named} now (mode 0600)")
    _show(given(ctx), store.read(), chosen)
