"""``expb-tui doctor``: what terminal, tmux, clipboard, keyring, clock, keeper and endpoint can do here."""

from __future__ import annotations

import os

import click

from expb_tui.cli.tree import Command, given


@click.command(cls=Command)
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Tell what works here, what does not, and the line that mends it.

    Terminal, tmux, screen, clipboard, editor and pager, settings, profile file, keyring, clock, keeper, journal and
    the service are examined; nothing is changed. The exit code is 0 unless something is bad.
    """
    from expb_tui.core import faults
    from expb_tui.core.doctor.asking import look
    from expb_tui.core.doctor.examination import examine
    from expb_tui.core.doctor.model import Finding, healthy, in_order
    from expb_tui.launch import open_house
    from expb_tui.present import doctor as present

    said = given(ctx)
    output = said.output()
    here = open_house(said.chosen()).circumstances(look(os.environ, ask=not output.structured))

    async def found() -> list[Finding]:
        return [finding async for some in examine(here) for finding in some]

    findings = in_order(faults.run(found()))
    if output.structured:
        output.data([finding.public() for finding in findings])
    else:
        lines = present.lines(findings, output.glyphs, width=output.columns)
        output.toned([*lines, (), (present.summary(findings),)])
    if not healthy(findings):
        ctx.exit(1)
