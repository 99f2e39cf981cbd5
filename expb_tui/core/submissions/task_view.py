"""A task's input laid out for reading, every text cleaned (hazards 17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """One line: a short label and a value of one line."""

    label: str
    value: str


@dataclass(frozen=True)
class Section:
    """A titled block: facts first, then paragraphs (each may hold line feeds), then bullet points."""

    title: str
    facts: tuple[Fact, ...] = ()
    prose: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()


def sections(role: str, task_input: Mapping[str, Any]) -> list[Section]:
    """The sections of a task, most important first; what this version does not know comes last, as it was sent."""
    raise NotImplementedError
