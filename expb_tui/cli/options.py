"""The options of every command, before the noun and after it. No click here: the cockpit's first line reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class GlobalOption(NamedTuple):
    """``metavar`` is None for a flag."""

    dest: str
    names: tuple[str, ...]
    metavar: str | None
    help: str


GLOBALS = (
    GlobalOption("profile", ("--profile",), "NAME", "The profile to act as, for this invocation."),
    GlobalOption("endpoint", ("--api-server-address",), "URL", "The Exp-Bench service; saved profiles keep theirs."),
    GlobalOption("output", ("-o", "--output", "--format"), "FORMAT", "table (default), wide, json or yaml."),
    GlobalOption(
        "token",
        ("--token",),
        "TOKEN",
        "Act with this token instead of a profile; it is never stored. Other users of this host can read it here: "
        "prefer EXPBENCH_AGENT_TOKEN or EXPBENCH_AGENT_TOKEN_FILE.",
    ),
    GlobalOption("timeout", ("--timeout",), "TIME", "The longest wait for one answer, such as 30s or 1m."),
    GlobalOption("account", ("--account",), "ID", "Refuse to act with a credential of another account."),
    GlobalOption("project", ("--project",), "PROJECT", "A project's id or name, instead of the profile's context."),
    GlobalOption(
        "insecure_http",
        ("--insecure-http",),
        None,
        "Allow plain http to a host other than this one. Tokens are readable on the way.",
    ),
)


class Scan(NamedTuple):
    """What a command line says before it is parsed: the options of ``GLOBALS`` by ``dest``, and the bare words."""

    options: dict[str, str]
    words: list[str]
    flags: list[str]


def scan(argv: Sequence[str]) -> Scan:
    """Split ``argv`` without judging it; the parser does that later."""
    takes_value = {name: option.dest for option in GLOBALS for name in option.names if option.metavar}
    options: dict[str, str] = {}
    words: list[str] = []
    flags: list[str] = []
    waiting: str | None = None
    for part in argv:
        if waiting is not None:
            options[waiting], waiting = part, None
            continue
        name, equals, value = part.partition("=")
        if name in takes_value and equals:
            options[takes_value[name]] = value
        elif part in takes_value:
            waiting = takes_value[part]
        elif part.startswith("-") and part != "-":
            flags.append(part)
        else:
            words.append(part)
    return Scan(options, words, flags)
