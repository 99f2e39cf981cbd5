"""The commands that people type: one table feeds the parser and the help."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from expb_tui.core.errors import UsageError


class Command(NamedTuple):
    """``names`` are what is typed, the first is the one shown; ``changes``: something on the server."""

    names: tuple[str, ...]
    usage: str
    help: str
    changes: bool = False

    @property
    def name(self) -> str:
        """The shown name."""
        return self.names[0]


COMMANDS = (
    Command(("help", "h", "?"), "help [COMMAND]", "Read the commands, or one of them."),
    Command(("list", "l", "leases"), "list", "Read the leases of this host, the soonest end first."),
    Command(("work", "w"), "work", "Read what work is on offer, and why a role has none."),
    Command(("show", "s"), "show LEASE", "Read a package and its open tasks as the service has them now."),
    Command(("claim", "c"), "claim ROLE or WORK-NUMBER", "Ask for one task of a role; asks first.", True),
    Command(("renew",), "renew LEASE", "Extend a lease now.", True),
    Command(
        ("submit",),
        "submit LEASE[.TASK] [FILE]",
        "Fill in a task in your editor, or send the body in FILE; reads what is sent and asks first.",
        True,
    ),
    Command(("fail",), "fail LEASE[.TASK] REASON", "Report a task as failed; asks first.", True),
    Command(("release",), "release LEASE", "Give a package back; asks first.", True),
    Command(("keep",), "keep LEASE [on or off]", "Have a lease renewed by itself, or not."),
    Command(("receipts",), "receipts", "Read the last confirmed submissions of this host."),
    Command(("status", "st"), "status", "Read who acts, whether the service answers, and who renews."),
    Command(("repeat", "r"), "repeat [NUMBER]", "Read the last announcements again, five or NUMBER of them."),
    Command(("quit", "q", "exit"), "quit", "Leave; says what goes on and what does not."),
)
BY_NAME = {name: command for command in COMMANDS for name in command.names}


class Typed(NamedTuple):
    """A command with its words, and the rest of the line as it was typed."""

    command: Command
    words: list[str]
    rest: str


def parse(line: str) -> Typed:
    """What a line asks for. Raises ``UsageError`` with what was meant perhaps."""
    name, _, rest = line.strip().partition(" ")
    command = BY_NAME.get(name.lower())
    if command is None:
        near = get_close_matches(name.lower(), BY_NAME, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise UsageError(f"There is no command {name}", cause=hint, next_step="Type help for the commands")
    rest = rest.strip()
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    return Typed(command, words, rest)


def usage(command: Command) -> UsageError:
    """The words for a command whose operands are missing or too many."""
    return UsageError(f"Type {command.usage}", cause=command.help.rstrip("."))


def help_lines(name: str = "", *, read_only: bool = False) -> Iterable[str]:
    """Every command, or the one of that name. Raises ``UsageError``."""
    if name:
        command = parse(name).command
        also = f" Also: {', '.join(command.names[1:])}." if command.names[1:] else ""
        yield f"{command.usage}. {command.help}{also}"
        return
    for command in COMMANDS:
        if not (read_only and command.changes):
            yield f"{command.usage}. {command.help}"
    yield "LEASE is the number that list reads out, or a package id. An empty line reads a summary."
    yield "Changes are announced by themselves. Ctrl+c cancels what is running; Ctrl+d leaves; Ctrl+z suspends."
    yield "Where an announcement falls into what you type, Ctrl+r shows your line again; nothing of it is lost."
