"""Why a role has no work: the six causes of hazards 20, as faces show them. ``explaining.py`` finds them out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """What is known of one cause."""

    OK = "ok"
    BLOCKING = "blocking"
    HIDDEN = "cannot be seen with this credential"


@dataclass(frozen=True)
class Cause:
    """One possible cause: ``name`` is the contract's word, ``title`` and ``detail`` are for a person."""

    name: str
    title: str
    answer: Answer
    detail: str = ""
    next_step: str = ""
