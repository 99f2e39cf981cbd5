"""What the role forms share: reading a task's input, which is JSON from outside, and asking for what it lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from expb_tui.core.submissions.fields import Field, Fixed, Kind
from expb_tui.core.text import clean
from expb_tui.wire.research import Constraint

_LABEL_LENGTH = 80


def part(value: Any, *keys: str) -> Any:
    """A nested value of hostile JSON in either spelling, or None."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        snake = re.sub(r"([A-Z])", r"_\1", key).lower()
        value = value[key] if key in value else value.get(snake)
    return value


def word(value: Any) -> str:
    """A text of the task, or the empty string for anything else."""
    return value if isinstance(value, str) else ""


def short(text: str) -> str:
    """One cleaned line, cut to a label's length."""
    line = clean(text).strip()
    return line if len(line) <= _LABEL_LENGTH else line[: _LABEL_LENGTH - 1] + "…"


def settled(path: str, value: Any, key: str, label: str) -> tuple[list[Field], list[Fixed]]:
    """A part that the task names; where it does not, the operator is asked."""
    if word(value):
        return [], [Fixed(path, value)]
    return [Field(key, label, Kind.TEXT, required=True, wire_path=path, help="The task does not name it.")], []


def objective_id(task: Mapping[str, Any]) -> Any:
    """The objective's id from wherever the task names it."""
    return (
        part(task, "objective", "metadata", "uid")
        or part(task, "hypothesis", "spec", "objectiveId")
        or part(task, "result", "spec", "objectiveId")
    )


def measure(task: Mapping[str, Any], key: str) -> Any:
    """A part of the objective's measure: ``name``, ``unit``, ``direction``, ``baseline`` or ``target``."""
    return part(task, "objective", "spec", "measure", key)


def expected_effect(task: Mapping[str, Any], key: str, path: str, label: str) -> tuple[list[Field], list[Fixed]]:
    """The field of an expected effect; its unit is the objective's, or is asked for where the task has none."""
    unit = word(measure(task, "unit"))
    fields = [
        Field(
            key,
            label,
            Kind.NUMBER,
            unit=short(unit),
            wire_path=f"{path}.value",
            help="The value of the measure that you expect.",
        )
    ]
    if unit:
        return fields, [Fixed(f"{path}.unit", unit, only_with=key)]
    fields.append(Field(f"{key}_unit", f"{label}, unit", Kind.TEXT, wire_path=f"{path}.unit"))
    return fields, []


Built = tuple[list[Field], list[Fixed], dict[str, Constraint]]
"""A role's fields, what the task settles, and its constraints by field key."""
