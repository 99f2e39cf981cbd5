"""Reading ``--file``: a path or ``-`` for standard input, JSON or one YAML document, at most 1 MiB."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from expb_tui.cli import diagnostics
from expb_tui.core.errors import FileProblem, UsageError


def read_bytes(source: str, limit: int) -> bytes:
    """At most ``limit`` bytes of the file or of standard input. Raises ``FileProblem`` or ``UsageError``."""
    try:
        if source == "-":
            if diagnostics.terminal(sys.stdin):
                diagnostics.note("Reading standard input; end it with ctrl-d")
            return _limited(_standard_input(), "standard input", limit)
        with open(source, "rb") as handle:
            return _limited(handle, source, limit)
    except OSError as error:
        raise FileProblem(
            f"{source} cannot be read",
            cause=error.strerror or type(error).__name__,
            next_step="Check the name and the mode of the file; - is standard input",
        ) from None


def first_line() -> str:
    """The first line of standard input; what is no UTF-8 in it is replaced. Raises ``UsageError``."""
    return _standard_input().readline(65_536).decode("utf-8", "replace")


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UsageError("Standard input is closed", next_step="Give the text on standard input, or name a file")
    return sys.stdin.buffer


def _limited(handle: BinaryIO, name: str, limit: int) -> bytes:
    content = handle.read(limit + 1)
    if len(content) > limit:
        raise UsageError(
            f"{name} is too large",
            cause=f"more than {limit} bytes are not read",
            next_step="Send large parts as references",
        )
    return content


def read_text(source: str) -> str:
    """The text of a file or of standard input, as UTF-8 without a byte order mark."""
    from expb_tui.core.submissions.yamlio import MAX_INPUT

    content = read_bytes(source, MAX_INPUT)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name_of(source)} is not UTF-8 text", cause=f"byte {error.start}", next_step="Save it as UTF-8"
        ) from None


def name_of(source: str) -> str:
    """What to call the source in a message."""
    return "standard input" if source == "-" else source


def read_document(source: str) -> Any:
    """The one document in ``source``. Raises ``UsageError`` with line and column."""
    from expb_tui.core.submissions import yamlio

    return yamlio.read_document(read_text(source), name=name_of(source))


def read_mapping(source: str) -> dict[str, Any]:
    """The one document in ``source``, which must be an object. Raises ``UsageError``."""
    document = read_document(source)
    if not isinstance(document, Mapping):
        raise UsageError(
            f"{name_of(source)} holds no object",
            cause="a body with named keys is expected",
            next_step="An example for each role is in the command's --help",
        )
    return dict(document)
