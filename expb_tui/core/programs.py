"""The operator's own editor and pager: which they are, what they are given, and what comes back (hazards 17).

Nothing here touches a terminal; a face runs the command while it steps aside.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from expb_tui.core import paths
from expb_tui.core.errors import ExpbError
from expb_tui.core.secret import environ_for_helpers
from expb_tui.core.text import clean

_FALLBACK_EDITORS = ("sensible-editor", "editor", "nano", "vi")
_FALLBACK_PAGERS = ("less", "more")
_LIMIT = 1 << 20
"""Bytes of an edited text: no request body is larger (contract, section 1.9)."""

# What vim (``vi:``, ``vim:``, ``vim700:``, ``ex:`` after a blank or at the start) and Emacs read as settings in a file.
_MODELINE = re.compile(r"(?i)(?:(?<=\s)|^)(vim?(?:[<=>]?\d+)?|ex)(?=:)|-\*-|Local Variables(?=:)", re.MULTILINE)
_PADDING = "#\n" * 6
"""Comments at the end of an edited text; vim reads settings in the first and last five lines."""
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def break_modelines(text: str, *, comments_only: bool = False) -> str:
    """``text`` in which no editor finds settings: a dot stands between the word and its colon.

    ``comments_only`` leaves everything but ``#`` comments as it is, for drafts whose values belong to the operator.
    """

    def broken(match: re.Match[str]) -> str:
        return "-.*.-" if match.group() == "-*-" else match.group() + "."

    if comments_only:
        return _COMMENT.sub(lambda comment: _MODELINE.sub(broken, comment.group()), text)
    return _MODELINE.sub(broken, text)


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


def file_name(title: str, suffix: str) -> str:
    """A short file name of plain letters that tells what is in it."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in title)[:60].strip("-")
    return f"{kept or 'text'}{suffix}"


@contextlib.contextmanager
def private_file(name: str, text: str) -> Iterator[Path]:
    """``text`` in a 0600 file of that name in a fresh 0700 folder of this host's state.

    The folder goes when the block ends, except where it ends with an error: then the file is what is left of the work.
    """
    folder = Path(tempfile.mkdtemp(prefix="edit-", dir=paths.private_dir(paths.state_dir() / "edits")))
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="\n") as handle:
        handle.write(text)
    yield path
    shutil.rmtree(folder, ignore_errors=True)


def for_editor(text: str) -> str:
    """A draft as an editor gets it: cleaned, and nowhere a line that an editor would obey."""
    shown = break_modelines(clean(text, multiline=True), comments_only=True)
    # Editors look for settings in the last lines too, and there values may stand that came from outside.
    return shown.removesuffix(_PADDING) + _PADDING


def for_pager(text: str) -> str:
    """A text as a pager gets it: cleaned, modelines broken."""
    return break_modelines(clean(text, multiline=True))


def edited(path: Path, program: str, status: int) -> str:
    """What ``program``, which ended with ``status``, left in the file.

    Raises ``ExpbError``: ``editor-failed`` for a status other than 0, ``unreadable`` where the text is not UTF-8, too
    long, or gone. The error names the file, which then stays.
    """
    kept = f"What was written is in {path}"
    if status != 0:
        raise ExpbError(
            f"{program} ended with status {status}",
            cause="so nothing is taken over from it",
            next_step=kept,
            code="editor-failed",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExpbError(
            "The edited text cannot be read", cause=error.strerror or "", next_step=kept, code="unreadable"
        ) from error
    if len(data) > _LIMIT:
        raise ExpbError(
            "The edited text is too long",
            cause=f"it has {len(data):,} bytes, and no request may have more than {_LIMIT:,}",
            next_step=kept,
            code="unreadable",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExpbError(
            "The edited text is not UTF-8",
            cause=f"byte {error.start} does not belong there",
            next_step=kept,
            code="unreadable",
        ) from error


def not_started(program: str, trouble: OSError | None) -> ExpbError:
    """The words for a program that is there and does not start."""
    return ExpbError(
        f"{program} does not start",
        cause=(trouble.strerror or "unknown reason") if trouble else "unknown reason",
        next_step="Set EDITOR to one that is installed",
        code="editor-failed",
    )
