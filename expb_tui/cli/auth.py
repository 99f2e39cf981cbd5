"""``expb-tui auth``: sign in by device authorization, register an agent, save a token, sign out, see who you are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from expb_tui.cli import diagnostics, inputs
from expb_tui.cli.acting import act, confirm_stranding, named_profile, stranded_lines
from expb_tui.cli.tree import Noun, given
from expb_tui.core.errors import UsageError
from expb_tui.present.cells import Row, Table, cell, columns

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import Profile
    from expb_tui.core.secret import SecretStr
    from expb_tui.launch import House
    from expb_tui.wire.identity import Principal

_STATUS = columns(("PROFILE", "ENDPOINT", "TYPE", "ACCOUNT", "ROLE", "PROJECT", "EXPIRES"))
_STATUS_WIDE = columns(
    ("PROFILE", "ENDPOINT", "TYPE", "SCOPE", "USER", "AGENT", "ACCOUNT", "ROLE", "PROJECT", "EXPIRES")
)


class _Asked(NamedTuple):
    """The options of ``auth`` and of ``auth login``."""

    agent_name: str | None = None
    agent_profile: str | None = None
    agent_token: str | None = None
    no_browser: bool = False
    no_qr: bool = False
    system: bool = False


def _login_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--agent-name", metavar="NAME", help="Also register an agent identity of this name."),
            click.option("--agent-profile", metavar="NAME", help="The profile for it (default: the agent's name)."),
            click.option(
                "--agent-token",
                metavar="[TOKEN]",
                is_flag=False,
                flag_value="-",
                help="Save a token that you already have as an agent profile. Without TOKEN, or with -, it is read "
                "from standard input, so that it stays out of the shell history and of the process list.",
            ),
            click.option("--no-browser", is_flag=True, help="Do not open a browser. Over SSH none is opened anyway."),
            click.option("--no-qr", is_flag=True, help="Do not show a QR code."),
            click.option("--system", is_flag=True, help="Ask for a system session instead of an account's."),
        )
    ):
        function = option(function)
    return function


@click.group(cls=Noun, invoke_without_command=True)
@_login_options
@click.pass_context
def auth(ctx: click.Context, /, **options: Any) -> None:
    """Sign in, sign out, and see who you are. Without a command: sign in.

    \b
    expb-tui auth
    expb-tui --profile=owner auth --agent-name=researcher --agent-profile=researcher
    expb-tui --profile=researcher auth --agent-token < token-file
    """
    asked = _Asked(**options)
    if ctx.invoked_subcommand is None:
        _sign_in(ctx, asked)
    elif asked != _Asked():
        raise UsageError(
            f"The options of auth do not go with '{ctx.invoked_subcommand}'",
            next_step="Write them after the command: expb-tui auth login --help",
        )


@auth.command("login")
@_login_options
@click.pass_context
def login(ctx: click.Context, /, **options: Any) -> None:
    """Sign in by device authorization: approve a code in a browser on any device.

    The session is saved in the profile that --profile names. With --agent-name an agent identity is registered too
    and its token saved as a second profile; with --agent-token only a token that you already have is saved.
    """
    _sign_in(ctx, _Asked(**options))


def _sign_in(ctx: click.Context, asked: _Asked) -> None:
    if asked.agent_token is not None:
        if asked.agent_name is not None:
            raise UsageError(
                "--agent-name and --agent-token do not go together",
                cause="one registers, one saves",
                next_step="Use one of them",
            )
        if asked.system:
            raise UsageError(
                "--system and --agent-token do not go together",
                cause="an agent has no system session",
                next_step="Use one of them",
            )
        _save_token(ctx, asked)
        return
    if asked.agent_profile is not None and asked.agent_name is None:
        raise UsageError("--agent-profile needs --agent-name or --agent-token", next_step="Add one of them")
    if asked.system and asked.agent_name is not None:
        raise UsageError(
            "--system and --agent-name do not go together",
            cause="an agent identity belongs to an account, and a system session has none",
            next_step="Sign in to the account to register an agent",
        )
    _print_saved(ctx, act(ctx, lambda house: _device_login(house, asked)))


async def _device_login(house: House, asked: _Asked) -> list[str]:
    from expb_tui.cli import device
    from expb_tui.core.profiles.login import DeviceLogin, register_agent

    flow = DeviceLogin(
        house.store,
        profile=house.chosen.profile,
        endpoint=house.chosen.endpoint,
        scope="system" if asked.system else "account",
        account=house.chosen.account,
        settings=house.settings,
        clock=house.clock,
    )
    try:
        await device.approve(flow, house.clock, show_qr=not asked.no_qr, browser=not asked.no_browser)
        saved = await flow.save()
    finally:
        await flow.aclose()
    await _say_saved(saved)
    if asked.agent_name is None:
        return [saved.name]
    session = await house.session(saved.name)
    agent_profile = asked.agent_profile or asked.agent_name
    agent = await register_agent(session, house.store, asked.agent_name, agent_profile)
    diagnostics.note(f"Agent identity {asked.agent_name} is registered ({agent.agent_id})")
    await _say_saved(agent)
    diagnostics.note("It has no project yet: a project administrator authorizes it for its roles")
    return [saved.name, agent.name]


async def _say_saved(profile: Profile) -> None:
    import asyncio

    from expb_tui.core.profiles import secrets

    # In a thread: why the keyring is not used may have to be found out first.
    place = await asyncio.to_thread(secrets.whereabouts, profile)
    diagnostics.note(f"Profile {profile.name} is saved for {profile.endpoint}; its credential is {place}")


def _token_of(asked: _Asked) -> SecretStr:
    from expb_tui.cli import values

    if asked.agent_token != "-":  # noqa: S105 - the sign for standard input
        diagnostics.warn(
            "other users of this host can read a token on the command line; leave the value out and give it on "
            "standard input"
        )
        return values.token(asked.agent_token or "", "--agent-token")
    if diagnostics.terminal(sys.stdin):
        from getpass import getpass

        return values.token(getpass("Agent token (it is not shown): ", sys.stderr), "The agent token")
    return values.token(inputs.first_line(), "standard input")


def _save_token(ctx: click.Context, asked: _Asked) -> None:
    from expb_tui.core.profiles.login import save_agent_token

    token = _token_of(asked)

    async def save(house: House) -> list[str]:
        name = asked.agent_profile or house.chosen.profile
        await _mind_stranding(house, name, token)
        saved = await save_agent_token(house.store, name, token, house.chosen.endpoint, settings=house.settings)
        await _say_saved(saved)
        return [saved.name]

    _print_saved(ctx, act(ctx, save))


async def _mind_stranding(house: House, name: str | None, token: SecretStr) -> None:
    """A profile that is to speak for another agent strands the leases of the one it spoke for (hazards 6)."""
    from expb_tui.core.profiles.session import Session

    held = await house.desk.stranded_by(name) if name else []
    if not held or name is None:
        return
    endpoint = house.chosen.endpoint or house.store.select(name).endpoint
    session = Session.open(house.store, endpoint=endpoint, token=token, settings=house.settings, clock=house.clock)
    try:
        principal = await session.principal()
    finally:
        await session.aclose()
    stranded = [one for one in held if one.agent_id != principal.agent_id or one.endpoint != session.endpoint]
    if stranded:
        raise UsageError(
            f"Profile {name} holds leases of another agent",
            cause="; ".join(line.strip() for line in stranded_lines(name, stranded)[1:]),
            next_step="Save the token under another name with --agent-profile, or release them first",
        )


def _print_saved(ctx: click.Context, names: list[str]) -> None:
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.profiles.store import ProfileStore
    from expb_tui.present.profiles import listing

    output, profiles = given(ctx).output(), ProfileStore().read()
    saved = [profiles.by_name[name] for name in names]
    output.show(
        lambda: [{"name": one.name, "default": one.name == profiles.default, "profile": one.public()} for one in saved],
        lambda: listing(saved, profiles.default, SYSTEM_CLOCK.now(), wide=output.wide),
    )


@auth.command("logout")
@click.option("--yes", "-y", is_flag=True, help="Do not ask where leases would be stranded.")
@click.pass_context
def logout(ctx: click.Context, yes: bool) -> None:
    """Sign the selected profile out.

    A user's session is revoked on the service. An agent's token is not: revoke it under Agents. Endpoint and project
    context stay saved.
    """
    name = named_profile(ctx, None)
    if not confirm_stranding(ctx, name, f"Sign {name} out all the same?", yes=yes):
        diagnostics.note("Nobody was signed out")
        ctx.exit(1)

    async def leave(house: House) -> None:
        from expb_tui.core.profiles.login import sign_out

        ended = await sign_out(house.store, name, settings=house.settings)
        if ended.problem is not None:
            diagnostics.note(f"Profile {name} is signed out on this host")
            raise ended.problem
        told = "and on the service" if ended.revoked else "only; its token stays valid on the service"
        diagnostics.note(f"Profile {name} is signed out on this host {told}")

    act(ctx, leave)


@auth.command("status")
@click.pass_context
def status(ctx: click.Context) -> None:
    """Ask the service who the selected credential speaks for."""
    output = given(ctx).output()

    async def ask(house: House) -> tuple[Session, Principal]:
        session = await house.session()
        return session, await session.principal()

    session, principal = act(ctx, ask)
    profile = session.profile
    output.show(
        lambda: _status_data(profile, session.endpoint, principal),
        lambda: _status_table(profile, session.endpoint, principal, wide=output.wide),
    )
    if not session.explicit:
        diagnostics.note(f"The credential is kept in the {profile.kept_in}")


def _status_data(profile: Profile, endpoint: str, principal: Principal) -> dict[str, Any]:
    from expb_tui.wire.base import instant_text

    pairs = {
        "profile": profile.name or None,
        "endpoint": endpoint,
        "type": principal.type,
        "scope": principal.scope,
        "user_id": principal.user_id,
        "agent_id": principal.agent_id,
        "account_id": principal.account_id,
        "account_role": principal.account_role,
        "project": profile.project_name or profile.project_id or "-",
        "expires_at": instant_text(profile.expires_at) if profile.expires_at else None,
    }
    return {key: value for key, value in pairs.items() if value is not None}


def _status_table(profile: Profile, endpoint: str, principal: Principal, *, wide: bool) -> Table:
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.present.times import expiry

    by_title = {
        "PROFILE": profile.name,
        "ENDPOINT": endpoint,
        "TYPE": principal.type,
        "SCOPE": principal.scope,
        "USER": principal.user_id,
        "AGENT": principal.agent_id,
        "ACCOUNT": principal.account_id,
        "ROLE": principal.account_role,
        "PROJECT": profile.project_name or profile.project_id,
        "EXPIRES": expiry(profile.expires_at, SYSTEM_CLOCK.now()).text,
    }
    titles = _STATUS_WIDE if wide else _STATUS
    return Table(titles, (Row(profile.name, tuple(cell(by_title[column.title]) for column in titles)),))
