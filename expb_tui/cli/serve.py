"""``expb-tui serve``: the local Exp-Bench server, from the ``server`` extra."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import Command, given
from expb_tui.core.errors import ExpbError

if TYPE_CHECKING:
    from expb_tui.server.run import Address, RunningServer
    from expb_tui.server.seed import SeededDemo

INSTALL = "pip install 'expb-tui[server]'"


def not_installed(module: str | None) -> ExpbError:
    """The server's packages are an extra; this says how to get them."""
    return ExpbError(
        "The local server is not installed",
        cause=f"the package {module} is missing" if module else "its packages are missing",
        next_step=f"Install it with: {INSTALL}",
        code="server-missing",
    )


@click.command(cls=Command)
@click.option("--database", metavar="URL", help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME.")
@click.option("--host", default="127.0.0.1", help="The address to listen on (127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65_535), default=8080, help="The port; 0 takes a free one (8080).")
@click.option("--seed-demo", is_flag=True, help="Put a small research project with open work into a new database.")
@click.option("--issuer", metavar="URL", help="The address that people and clients use, where it differs.")
@click.option("--trusted-proxy", metavar="ADDRESS", help="Believe the X-Forwarded headers of this address or network.")
@click.option(
    "--client-id",
    "client_ids",
    metavar="ID",
    multiple=True,
    help="A client that people may sign in with, instead of expbctl; may be given several times.",
)
@click.option("--no-self-review", is_flag=True, help="Nobody reviews a proposal or result of their own.")
@click.option(
    "--account-provisioning",
    type=click.Choice(["self-service", "system-admin-only"]),
    default="self-service",
    help="Who may create accounts (self-service).",
)
@click.option(
    "--system-admin",
    "system_admins",
    metavar="EMAIL",
    multiple=True,
    help="A user who may open system sessions until a start without this; may be given several times.",
)
@click.option(
    "--oauth-requests-per-minute",
    "oauth_rate",
    type=click.IntRange(10, 100_000),
    default=120,
    help="From one address, sign-in pages and polls included (120).",
)
@click.option("--device-interval", type=click.IntRange(1), default=5, hidden=True, help="Seconds between polls.")
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input closes.")
@click.pass_context
def serve(
    ctx: click.Context,
    database: str | None,
    host: str,
    port: int,
    seed_demo: bool,
    issuer: str | None,
    trusted_proxy: str | None,
    client_ids: tuple[str, ...],
    no_self_review: bool,
    account_provisioning: Literal["self-service", "system-admin-only"],
    system_admins: tuple[str, ...],
    oauth_rate: int,
    device_interval: int,
    until_eof: bool,
) -> None:
    """Run a local Exp-Bench server until it is stopped with ctrl-c or SIGTERM.

    With -o json the first line on standard output is one object with the address and, after --seed-demo, the owner's
    e-mail and password and the account, project and agent ids. Without --database the data is kept in this host's
    state folder. Plain http beyond this host needs --insecure-http.
    """
    said = given(ctx)
    output = said.output()
    try:
        from expb_tui.server.config import Lifetimes, RequestLimits, ServerError, ServerSettings
        from expb_tui.server.run import RunningServer, log_to_standard_error
        from expb_tui.wire.oauth import DEFAULT_CLIENT_ID
    except ModuleNotFoundError as error:
        raise not_installed(error.name) from error
    settings = ServerSettings(
        database=database or _default_database(),
        host=host,
        port=port,
        issuer=issuer,
        trusted_proxy=trusted_proxy,
        insecure_http=bool(said.values.get("insecure_http")),
        client_ids=client_ids or (DEFAULT_CLIENT_ID,),
        allow_self_review=not no_self_review,
        account_provisioning=account_provisioning,
        system_admins=system_admins,
        limits=RequestLimits(oauth_per_minute=oauth_rate),
        lifetimes=Lifetimes(device_interval=device_interval),
    )

    log_to_standard_error()
    if until_eof:
        threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        server = RunningServer(settings)
        seeded = _seed(server) if seed_demo else None

        def ready(address: Address) -> None:
            facts = _facts(address, seeded)
            if output.structured:
                output.line_of_json(facts)
            else:
                output.lines(f"{name.replace('_', ' ')}: {value}" for name, value in facts.items())
                diagnostics.note("Serving; stop it with ctrl-c")

        server.run(ready)
    except ServerError as error:
        raise ExpbError(error.what, cause=error.cause, next_step=error.next_step, code=error.code) from error


def _seed(server: RunningServer) -> SeededDemo:
    from expb_tui.server.seed import seed_demo

    return seed_demo(server.services)


def _facts(address: Address, seeded: SeededDemo | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"address": address.url}
    if seeded is not None:
        facts |= {
            "email": seeded.email,
            "password": seeded.password,
            "account_id": seeded.account_id,
            "project_id": seeded.project_id,
            "project_name": seeded.project_name,
            "agent_id": seeded.agent_id,
            "agent_name": seeded.agent_name,
            "agent_token": seeded.agent_token,
        }
    return facts


def _default_database() -> str:
    from expb_tui.core.paths import private_dir, state_dir

    return f"sqlite:///{private_dir(state_dir()) / 'server.sqlite'}"


def _end_with_input() -> None:
    # Whoever started us holds the other end; it closes however that process ends, kill -9 included.
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
