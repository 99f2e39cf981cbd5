"""``expb-tui agent``: what an agent identity does."""

from __future__ import annotations

import click

from expb_tui.cli.tree import Noun


@click.group(
    cls=Noun,
    lazy={
        "opportunity": ("expb_tui.cli.opportunity:opportunity", "Work on offer, per project and role."),
        "work": ("expb_tui.cli.work:work", "Claim, show, renew, submit and release work packages."),
    },
)
def agent() -> None:
    """Find, claim, keep and submit an agent's work."""
