"""Evidence from local files: digest, size and media type; the bytes stay here (contract, section 7 point 19)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import mimetypes
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions.fields import PATCH_TEXT, Form, Kind
from expb_tui.core.text import clean

MAX_PATCH = 900_000
"""Characters of a patch; the wire model refuses more."""
_CHUNK = 1 << 20

# Python's own table only: what a host's /etc/mime.types says must not change what is reported.
_TYPES = mimetypes.MimeTypes()
for _suffix, _type in {
    ".log": "text/plain",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".md": "text/markdown",
    ".diff": "text/x-diff",
    ".patch": "text/x-diff",
    ".parquet": "application/vnd.apache.parquet",
}.items():
    _TYPES.add_type(_type, _suffix)


class EvidenceProblem(UsageError):
    """A file cannot be used; ``problems`` says why by field key."""

    code = "evidence"

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(
            "A file cannot be used", cause="; ".join(problems.values()), next_step="Name another file and try again"
        )
        self.problems = problems


@dataclass(frozen=True)
class FileFacts:
    """What is said of a file: SHA-256 in hex, size in bytes."""

    name: str
    sha256: str
    size: int
    media_type: str


async def complete(form: Form, values: Mapping[str, Any], *, folder: Path) -> dict[str, Any]:
    """``values`` with every named file read: digest, size, media type and name filled in, a patch file's text loaded.

    Relative paths count from ``folder``. Raises ``EvidenceProblem``; a cancelled call stops reading.
    """
    stop = threading.Event()
    try:
        return await asyncio.to_thread(_complete, form, values, folder, stop)
    except asyncio.CancelledError:
        stop.set()
        raise


def facts_of(path: str, *, folder: Path, stop: threading.Event | None = None) -> FileFacts:
    """Read one file in pieces. Raises ``UsageError`` where it is missing, not regular, or leads out of its folder."""
    digest = hashlib.sha256()
    size = 0
    descriptor, shown = _open(path, folder)
    with open(descriptor, "rb", buffering=0) as handle:
        before = os.fstat(descriptor)
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            if stop is not None and stop.is_set():
                raise UsageError(f"{shown} was not read to its end", cause="it was cancelled")
        after = os.fstat(descriptor)
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or size != after.st_size:
        raise UsageError(f"{shown} changed while it was read", next_step="Wait until it is written and try again")
    name = Path(path).name
    return FileFacts(name, digest.hexdigest(), size, _TYPES.guess_type(name)[0] or "application/octet-stream")


def patch_text(path: str, *, folder: Path) -> str:
    """The text of a patch file. Raises ``UsageError`` where it is too long or no UTF-8."""
    descriptor, shown = _open(path, folder)
    with open(descriptor, "rb") as handle:
        data = handle.read(4 * MAX_PATCH + 1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{shown} is not UTF-8 text", next_step="Send it as a reference instead") from None
    if len(text) > MAX_PATCH:
        raise UsageError(f"{shown} is longer than {MAX_PATCH} characters", next_step="Send it as a reference instead")
    if not text.strip():
        raise UsageError(f"{shown} is empty")
    return text


_DIFF = re.compile(r"^diff --git a/(?P<old>\S+) b/(?P<new>\S+)$")


def changes_of(patch: str) -> list[str]:
    """The changed files of a unified diff, as lines of the form's ``changes`` field."""
    out: list[str] = []
    seen: set[str] = set()

    def add(line: str) -> None:
        if line not in seen:
            seen.add(line)
            out.append(line)

    lines = patch.splitlines()
    if any(_DIFF.match(line) for line in lines):
        action, old, new = "", "", ""
        for line in [*lines, "diff --git a/- b/-"]:
            if found := _DIFF.match(line):
                if action:
                    add(f"rename {old} -> {new}" if action == "rename" else f"{action} {new}")
                action, old, new = "modify", found["old"], found["new"]
            elif line.startswith("new file mode"):
                action = "add"
            elif line.startswith("deleted file mode"):
                action = "delete"
            elif line.startswith("rename from"):
                action = "rename"
        return out
    for before, after in itertools.pairwise(lines):
        if before.startswith("--- ") and after.startswith("+++ "):
            old, new = (re.sub(r"^[ab]/", "", line[4:].split("\t")[0].strip()) for line in (before, after))
            if old == "/dev/null":
                add(f"add {new}")
            else:
                add(f"delete {old}" if new == "/dev/null" else f"modify {new}")
    return out


def _complete(form: Form, values: Mapping[str, Any], folder: Path, stop: threading.Event) -> dict[str, Any]:
    out = dict(values)
    problems: dict[str, str] = {}
    for one in form.visible(values):
        try:
            if one.kind is Kind.FILES:
                out[one.key] = [_filled(row, folder, stop) for row in values.get(one.key) or []]
            elif one.kind is Kind.FILE and values.get(one.key):
                out[PATCH_TEXT] = patch_text(str(values[one.key]), folder=folder)
                if not values.get("changes"):
                    out["changes"] = changes_of(out[PATCH_TEXT])
        except UsageError as error:
            problems[one.key] = f"{error.what}: {error.cause}" if error.cause else error.what
    if problems:
        raise EvidenceProblem(problems)
    return out


def _filled(row: Mapping[str, Any], folder: Path, stop: threading.Event) -> dict[str, Any]:
    path = str(row.get("path") or "").strip()
    if not path:
        return dict(row)
    facts = facts_of(path, folder=folder, stop=stop)
    return {
        **row,
        "name": str(row.get("name") or "").strip() or facts.name,
        "sha256": facts.sha256,
        "size_bytes": facts.size,
        "media_type": facts.media_type,
    }


def _open(path: str, folder: Path) -> tuple[int, str]:
    """A descriptor of a regular file that stands where its path says, and its cleaned name."""
    shown = clean(path)
    if "\0" in path:
        raise UsageError(f"{shown} is no file name")
    typed = Path(path).expanduser()
    named = Path(os.path.normpath(folder / typed))
    inside = not typed.is_absolute() and ".." not in typed.parts
    home = Path(os.path.realpath(folder if inside else named.parent))
    real = Path(os.path.realpath(named))
    if not real.is_relative_to(home):
        raise UsageError(
            f"{shown} is a link that leads out of its folder",
            next_step="Name the file that it leads to, if you mean it",
        )
    try:
        # Without blocking: opening a pipe or a device must not hang.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read", cause=error.strerror or "unknown") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise UsageError(f"{shown} is {kind}", next_step="Name a file; pack a folder into an archive first")
    return descriptor, shown
