"""``expb-tui version``."""

from __future__ import annotations

import click

from expb_tui.cli.tree import PROGRAM, Command, given


def version_line() -> str:
    """``expb-tui 0.1.0``."""
    from expb_tui import __version__

    return f"{PROGRAM} {__version__}"


@click.command(cls=Command)
@click.pass_context
def version(ctx: click.Context) -> None:
    """Print the version."""
    output = given(ctx).output()
    if output.structured:
        import platform

        from expb_tui import __version__

        output.data({"version": __version__, "python": platform.python_version()})
    else:
        output.text(version_line())
