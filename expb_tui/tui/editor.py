"""Text in the operator's own editor or pager: the terminal is handed over and taken back, the text survives both."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from textual.app import App, SuspendNotSupported

from expb_tui.core import programs, signals
from expb_tui.core.errors import ExpbError


async def run_in_terminal(app: App[Any], command: list[str]) -> int:
    """Run ``command`` on the terminal while the cockpit steps aside; returns its exit status.

    The event loop goes on, so that requests under way get their answers; nothing is drawn until the program ends.
    Raises ``ExpbError`` (codes ``no-terminal``, ``editor-failed``).
    """
    status: int | None = None
    trouble: OSError | None = None
    app.in_editor = True  # type: ignore[attr-defined]  # ours; Textual's App has no such mark
    try:
        with app.suspend(), app.batch_update(), signals.of_a_waiting_shell():
            # Nothing may leave this block as an exception: Textual would not take the terminal back.
            process: asyncio.subprocess.Process | None = None
            cancelled: asyncio.CancelledError | None = None
            try:
                process = await asyncio.create_subprocess_exec(*command, env=programs.child_environment())
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
        raise programs.not_started(command[0], trouble)
    return status


async def edit(app: App[Any], text: str, *, name: str, configured: str | None = None) -> str:
    """Let the operator edit ``text`` (cleaned) as a file called ``name``; returns the text as it was saved.

    Raises ``ExpbError``: ``no-editor``, ``editor-failed`` (it ended with a status other than 0), ``unreadable`` (not
    UTF-8, too long, or gone). After the last two the edited file stays on disk and the error names it.
    """
    command = programs.editor_command(configured)
    with programs.private_file(name, programs.for_editor(text)) as path:
        return programs.edited(path, command[0], await run_in_terminal(app, [*command, str(path)]))


async def page(app: App[Any], text: str, *, name: str, configured: str | None = None) -> None:
    """Show ``text`` (cleaned, modelines broken) in the operator's pager, as a file of that name.

    Raises ``ExpbError`` as :func:`edit` does.
    """
    command = programs.pager_command(configured)
    with programs.private_file(programs.file_name(name, ".txt"), programs.for_pager(text)) as path:
        await run_in_terminal(app, [*command, str(path)])
