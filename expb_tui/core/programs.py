"""The operator's own editor and pager: which ones, and what they are given of the environment (hazards 17)."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from expb_tui.core.errors import ExpbError
from expb_tui.core.secret import environ_for_helpers

_FALLBACK_EDITORS = ("sensible-editor", "editor", "nano", "vi")
_FALLBACK_PAGERS = ("less", "more")


def editor_command(configured: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The editor's command: as configured, ``$VISUAL``, ``$EDITOR``, or the first usual one that is installed.

    Raises ``ExpbError`` (code ``no-editor``).
    """
    return _command((configured, environ.get("VISUAL"), environ.get("EDITOR")), _FALLBACK_EDITORS, "editor", "EDITOR")


def pager_command(configured: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The pager's command: as configured, ``$PAGER``, or the first usual one.

    Raises ``ExpbError`` (code ``no-pager``).
    """
    return _command((configured, environ.get("PAGER")), _FALLBACK_PAGERS, "pager", "PAGER")


def _command(chosen: tuple[str | None, ...], fallbacks: tuple[str, ...], noun: str, variable: str) -> list[str]:
    for text in chosen:
        if not text or not text.strip():
            continue
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ExpbError(
                f"The {noun} command cannot be read",
                cause=f"{error} in {text!r}",
                next_step=f"Correct {variable} and try again",
                code=f"no-{noun}",
            ) from None
        if shutil.which(words[0]) is None:
            raise ExpbError(
                f"The {noun} {words[0]} is not found",
                cause="there is no such program on this host",
                next_step=f"Set {variable} to one that is installed",
                code=f"no-{noun}",
            )
        return words
    for name in fallbacks:
        if shutil.which(name) is not None:
            return [name]
    raise ExpbError(
        f"No {noun} is known", cause=f"{variable} is not set", next_step=f"Set {variable}", code=f"no-{noun}"
    )


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What an editor or pager gets: ours without credentials, and ``less`` without filters or commands of its own."""
    ours = environ_for_helpers(environ)
    return {name: value for name, value in ours.items() if name not in ("LESSOPEN", "LESSCLOSE")} | {"LESSSECURE": "1"}
