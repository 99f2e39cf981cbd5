"""The only writer of standard error: errors, warnings, progress and questions, one or two cleaned lines each."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from expb_tui.core.errors import EXIT_FAILURE, EXIT_USAGE, ExpbError, UsageError, place_of
from expb_tui.core.text import clean, in_ascii, speaks_ascii_only

if TYPE_CHECKING:
    from typing import TextIO

PROGRAM = "expb-tui"
EXIT_INTERRUPTED = 130


def _write(line: str) -> None:
    rewrite(line + "\n")


def note(text: str) -> None:
    """Progress and remarks: plain lines."""
    for line in text.splitlines() or [""]:
        _write(clean(line))


def warn(text: str) -> None:
    """Something to know about although the command goes on."""
    _write(f"{PROGRAM}: warning: {clean(text)}")


def raw(text: str) -> None:
    """A block whose escape sequences are our own (links, large type, a QR code), for a terminal; already cleaned."""
    _write(text)


def rewrite(text: str) -> None:
    """Text without a line end, for a line that is written over and over on a terminal; already cleaned."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text if unicode() else in_ascii(text))
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)  # full, or its reader is gone: nobody can be told


def unicode() -> bool:
    """Whether standard error shows every character. A terminal is believed what its locale says."""
    if terminal(sys.stderr) and speaks_ascii_only(os.environ):
        return False
    return sys.stderr is None or (sys.stderr.encoding or "utf-8").lower().startswith("utf")


def fail(error: ExpbError) -> int:
    """Say what went wrong, why, and what to do; returns the exit code."""
    first, *rest = error.lines()
    _write(f"{PROGRAM}: error: {clean(first)}")
    for line in rest:
        _write(f"  {clean(line)}")
    return error.exit_code


def usage(message: str, hint: str) -> int:
    """A command line that cannot be read; returns the exit code of usage errors."""
    _write(f"{PROGRAM}: error: {clean(message)}")
    if hint:
        _write(f"  {clean(hint)}")
    return EXIT_USAGE


def interrupted() -> int:
    """Ctrl-C; returns the exit code of an interrupt."""
    _write(f"{PROGRAM}: interrupted")
    return EXIT_INTERRUPTED


def defect(error: BaseException) -> int:
    """An error that nobody foresaw: its kind and place; returns the exit code."""
    _write(f"{PROGRAM}: error: internal error: {place_of(error)}")
    _write("  This is a defect of expb-tui; please report it with this line")
    return EXIT_FAILURE


def fault(place: str) -> None:
    """A fault beside what the command does, by its kind and place."""
    _write(f"{PROGRAM}: warning: internal error: {place}")


def terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at the other end; a closed standard stream is None."""
    return stream is not None and stream.isatty()


def discard(stream: TextIO) -> None:
    """Nobody takes this stream any more, and what is still buffered would raise again when the interpreter ends."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def can_ask() -> bool:
    """Whether a person can see a question and answer it."""
    return terminal(sys.stdin) and terminal(sys.stderr)


def confirm(lines: list[str], question: str, *, yes: bool, flag: str = "--yes") -> bool:
    """Show ``lines`` and ask once; ``yes`` answers for the person.

    Raises ``UsageError`` where nobody can be asked.
    """
    for line in lines:
        note(line)
    if yes:
        return True
    if not can_ask():
        raise UsageError(
            f"{question} needs an answer", cause="there is no terminal to ask on", next_step=f"Repeat it with {flag}"
        )
    rewrite(f"{clean(question)} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
