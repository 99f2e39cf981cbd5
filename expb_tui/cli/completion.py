"""``expb-tui completion``."""

from __future__ import annotations

import click

from expb_tui.cli.tree import PROGRAM, Command, given, root

VARIABLE = "_EXPB_TUI_COMPLETE"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    \b
    bash   eval "$(expb-tui completion bash)"          in ~/.bashrc
    zsh    eval "$(expb-tui completion zsh)"           in ~/.zshrc, after compinit
    fish   expb-tui completion fish | source           in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    if maker is None:  # pragma: no cover - the three shells are click's own
        raise AssertionError(shell)
    given(ctx).output().text(maker(root, {}, PROGRAM, VARIABLE).source())
