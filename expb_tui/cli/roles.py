"""The ``--role`` option: known roles are completed, any other word is sent as typed (contract, section 7, item 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from expb_tui.wire.work import ROLES

    return [CompletionItem(role) for role in ROLES if role.startswith(incomplete)]


def role_option(text: str) -> Callable[[Any], Any]:
    """``--role``, with its help text."""
    return click.option("--role", metavar="ROLE", help=text, shell_complete=_complete)
