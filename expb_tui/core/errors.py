"""Errors that a person can meet: what, why and what to do next, with a stable word and exit code."""

from __future__ import annotations

import os

EXIT_FAILURE = 1
EXIT_USAGE = 80
"""Exit code 2 is reserved; 80 is what the sibling tools use for a usage error (contract, section 5)."""


class ExpbError(Exception):
    """Base of every error that reaches a person.

    ``what`` names the thing and what happened to it, ``cause`` says why, ``next_step`` what to do; each is
    one short sentence without secrets. ``code`` is a stable word that tests and scripts may branch on.
    """

    code = "error"
    exit_code = EXIT_FAILURE

    def __init__(
        self, what: str, *, cause: str = "", next_step: str = "", code: str | None = None, exit_code: int | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.next_step = next_step
        if code is not None:
            self.code = code
        if exit_code is not None:
            self.exit_code = exit_code

    def lines(self) -> list[str]:
        """One or two lines for a terminal: what and cause, then the next step."""
        first = f"{self.what}: {self.cause}" if self.cause else self.what
        return [first, self.next_step] if self.next_step else [first]

    def __str__(self) -> str:
        return " ".join(line if line.endswith((".", "!", "?")) else line + "." for line in self.lines())


class UsageError(ExpbError):
    """The command line, a form or a file that a person wrote is wrong."""

    code = "usage"
    exit_code = EXIT_USAGE


class FileProblem(ExpbError):
    """A local file is broken, unreadable or cannot be written; ``what`` names the file and the place in it."""

    code = "file"


class SignInNeeded(ExpbError):
    """No usable credential: signed out, revoked, expired, or kept where it cannot be read."""

    code = "sign-in-needed"


def place_of(error: BaseException) -> str:
    """The kind of an error that nobody foresaw, and where in our code it arose; never its text, which may quote a
    credential."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "expb_tui" in code.co_filename:
            place = f" at {os.path.basename(code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return type(error).__name__ + place
