"""The form of each role, one declarative description that the cockpit's forms, the YAML drafts and the help are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """How a field is typed. Values: str for text, prose and choice; the typed text or a number for number; bool for
    bool; a list of strings for list; a list of row mappings (see ``Field.columns``) for files; a path as str for file."""

    TEXT = "text"
    PROSE = "prose"
    NUMBER = "number"
    CHOICE = "choice"
    BOOL = "bool"
    LIST = "list"
    FILES = "files"
    FILE = "file"


@dataclass(frozen=True)
class Choice:
    """``value`` is sent, ``label`` is read."""

    value: str
    label: str
    help: str = ""


@dataclass(frozen=True)
class Condition:
    """Holds where the value of another field is one of these."""

    key: str
    values: frozenset[str]


@dataclass(frozen=True)
class Field:
    """One question. It is shown where all of ``visible_when`` hold; a field that is not shown is not sent."""

    key: str
    label: str
    kind: Kind
    required: bool = False
    choices: tuple[Choice, ...] = ()
    help: str = ""
    unit: str = ""
    group: str = ""
    """Fields of one group stand together under this heading, e.g. ``Constraints``."""
    default: Any = None
    visible_when: tuple[Condition, ...] = ()
    columns: tuple[Field, ...] = ()
    """For ``files``: the fields of one row."""
    wire_path: str = ""
    """Where the value goes in the submission body, e.g. ``output.result.summary``; problems are mapped back by it."""


@dataclass(frozen=True)
class Form:
    """The fields for one task. The first is always ``outcome`` (completed or failed)."""

    role: str
    task_id: str
    fields: tuple[Field, ...]
    task_input: Mapping[str, Any] = field(repr=False)

    def defaults(self) -> dict[str, Any]:
        """The values of an untouched form."""
        raise NotImplementedError

    def visible(self, values: Mapping[str, Any]) -> list[Field]:
        """The fields that these values bring to light, in order."""
        raise NotImplementedError

    def notes(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Computed words beside a field, e.g. ``satisfied`` or ``not satisfied`` beside a constraint's value."""
        raise NotImplementedError

    def problems(self, values: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong, by field key; empty where the form can be sent (after ``evidence.complete``)."""
        raise NotImplementedError

    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The submission body (taskId, outcome, output or reason). Call it where ``problems`` is empty."""
        raise NotImplementedError

    def to_output(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The role's output alone."""
        raise NotImplementedError

    def by_key(self, wire_problems: Mapping[str, str]) -> dict[str, str]:
        """A server's ``fields`` (or ``SubmissionBlocked.problems``) by field key; what fits no field has the key ``""``."""
        raise NotImplementedError


def form_for(role: str, task_id: str, task_input: Mapping[str, Any]) -> Form:
    """The form of a task. Raises ``ExpbError`` (code ``unknown-role``) for a role that this version does not know."""
    raise NotImplementedError
