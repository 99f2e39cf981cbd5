"""Text in the operator's own editor or pager: the terminal is handed over and taken back, the text survives both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from textual.app import App, SuspendNotSupported

from expb_tui.core import paths
from expb_tui.core.errors import ExpbError
from expb_tui.core.programs import child_environment, editor_command, pager_command
from expb_tui.core.text import clean

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


@contextlib.contextmanager
def _signals_of_a_waiting_shell() -> Iterator[None]:
    """While another program has the terminal, ctrl+c must not end us, and ctrl+z must stop us without any drawing.

    A handler that does nothing is used instead of SIG_IGN, which the child would inherit.
    """

    def nothing(number: int, frame: FrameType | None) -> None:
        return None

    wanted: dict[signal.Signals, Callable[[int, FrameType | None], None] | signal.Handlers] = {
        signal.SIGINT: nothing,
        signal.SIGQUIT: nothing,
        signal.SIGTSTP: signal.SIG_DFL,
        signal.SIGCONT: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def run_in_terminal(app: App[Any], command: list[str]) -> int:
    """Run ``command`` on the terminal while the cockpit steps aside; returns its exit status.

    The event loop goes on, so that requests under way get their answers; nothing is drawn until the program ends.
    Raises ``ExpbError`` (codes ``no-terminal``, ``editor-failed``).
    """
    status: int | None = None
    trouble: OSError | None = None
    app.in_editor = True  # type: ignore[attr-defined]  # ours; Textual's App has no such mark
    try:
        with app.suspend(), app.batch_update(), _signals_of_a_waiting_shell():
            # Nothing may leave this block as an exception: Textual would not take the terminal back.
            process: asyncio.subprocess.Process | None = None
            cancelled: asyncio.CancelledError | None = None
            try:
                process = await asyncio.create_subprocess_exec(*command, env=child_environment())
                status = await process.wait()
            except OSError as error:
                trouble = error
            except asyncio.CancelledError as error:
                cancelled = error
                if process is not None and process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.terminate()
    except SuspendNotSupported:
        raise ExpbError(
            f"{command[0]} cannot be opened",
            cause="this screen cannot be handed to another program",
            next_step="Use the form instead",
            code="no-terminal",
        ) from None
    finally:
        app.in_editor = False  # type: ignore[attr-defined]  # ours; Textual's App has no such mark
    app.refresh(repaint=True, layout=True)
    if cancelled is not None:
        raise cancelled
    if trouble is not None or status is None:
        raise ExpbError(
            f"{command[0]} does not start",
            cause=(trouble.strerror or "unknown reason") if trouble else "unknown reason",
            next_step="Set EDITOR to one that is installed",
            code="editor-failed",
        )
    return status


async def edit(app: App[Any], text: str, *, name: str, configured: str | None = None) -> str:
    """Let the operator edit ``text`` (cleaned) as a file called ``name``; returns the text as it was saved.

    Raises ``ExpbError``: ``no-editor``, ``editor-failed`` (it ended with a status other than 0), ``unreadable`` (not
    UTF-8, too long, or gone). After the last two the edited file stays on disk and the error names it.
    """
    command = editor_command(configured)
    shown = break_modelines(clean(text, multiline=True), comments_only=True)
    # Editors look for settings in the last lines too, and there values may stand that came from outside.
    shown = shown.removesuffix(_PADDING) + _PADDING
    with private_file(name, shown) as path:
        status = await run_in_terminal(app, [*command, str(path)])
        kept = f"What was written is in {path}"
        if status != 0:
            raise ExpbError(
                f"{command[0]} ended with status {status}",
                cause="so nothing is taken over from it",
                next_step=kept,
                code="editor-failed",
            )
        try:
            data = path.read_bytes()
            if len(data) > _LIMIT:
                raise ExpbError(
                    "The edited text is too long",
                    cause=f"it has {len(data):,} bytes, and no request may have more than {_LIMIT:,}",
                    next_step=kept,
                    code="unreadable",
                )
            return data.decode("utf-8")
        except OSError as error:
            raise ExpbError(
                "The edited text cannot be read", cause=error.strerror or "", next_step=kept, code="unreadable"
            ) from error
        except UnicodeDecodeError as error:
            raise ExpbError(
                "The edited text is not UTF-8",
                cause=f"byte {error.start} does not belong there",
                next_step=kept,
                code="unreadable",
            ) from error


async def page(app: App[Any], text: str, *, name: str, configured: str | None = None) -> None:
    """Show ``text`` (cleaned, modelines broken) in the operator's pager, as a file of that name.

    Raises ``ExpbError`` as :func:`edit` does.
    """
    command = pager_command(configured)
    with private_file(file_name(name, ".txt"), break_modelines(clean(text, multiline=True))) as path:
        await run_in_terminal(app, [*command, str(path)])
