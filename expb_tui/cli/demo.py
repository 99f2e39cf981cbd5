"""``expb-tui demo``: everything on a local server with a small research project in it."""

from __future__ import annotations

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.tree import Command, given


@click.command(cls=Command)
@click.option("--headless", is_flag=True, help="Walk the whole work loop without a screen and print each step.")
@click.option("--plain", is_flag=True, help="Lines and typed commands instead of screens.")
@click.option("--keep", metavar="DIR", help="Keep the demo's data in DIR instead of throwing it away.")
@click.pass_context
def demo(ctx: click.Context, headless: bool, plain: bool, keep: str | None) -> None:
    """Try everything on a local server with a small research project.

    The cockpit opens signed in as the project's agent; a second profile, 'owner', is still to be signed in, so that
    the device login can be tried. Your own profiles, settings and leases are not touched.

    With --headless: sign in through the approval page, register an agent, authorize it, and claim, renew and submit
    work in every role. The exit code is 0 only if the server confirmed each step.
    """
    from expb_tui.cli.demo_server import USER_PROFILE, world, write_profiles
    from expb_tui.launch import Chosen, DemoHint, dumb_terminal, open_face, open_house, require_terminal

    chosen = given(ctx).chosen()
    if headless:
        diagnostics.note("Starting a local Exp-Bench server")
        with world(keep) as there:
            from expb_tui.cli.demo_walk import walk

            confirmed = walk(there, given(ctx).output())
        _say_kept(keep)
        ctx.exit(0 if confirmed else 1)
    from expb_tui.first_line import DEMO_WORDS, FirstLine

    line = given(ctx).line
    if plain or dumb_terminal():
        diagnostics.note("Starting a local Exp-Bench server")
    else:
        require_terminal()
        line = line or FirstLine.show_words(*DEMO_WORDS)
    try:
        with world(keep) as there:
            write_profiles(there)
            hint = DemoHint(there.address, there.email, there.password, USER_PROFILE)
            house = open_house(Chosen(timeout=chosen.timeout), demo_hint=hint)
            code = open_face(house, line=line, plain=plain)
    finally:
        if line is not None:
            line.restore()
    _say_kept(keep)
    ctx.exit(code)


def _say_kept(keep: str | None) -> None:
    if keep is not None:
        diagnostics.note(f"The demo's data is kept in {keep}: server.sqlite, profiles.json, state, server.log")
