"""The form of a task: one declarative description that the cockpit's forms, the YAML drafts and the help are made of.

Values are a flat mapping of field key to value: ``str`` for text, prose, choice and file (a path), the typed text or a
number for number, ``bool`` for bool, a list of strings for list, a list of row mappings for files (``Field.columns``).
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from expb_tui.core.submissions.words import words_for
from expb_tui.wire.research import OUTPUTS, Constraint
from expb_tui.wire.work import Submission

PATCH_TEXT = "patch_text"
"""Not a field: where ``evidence.complete`` puts the text of the patch file."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?\Z")


class Kind(StrEnum):
    """How a field is typed; a list with ``choices`` is picked from, and a file is a path on this host."""

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
    whole: bool = False
    """A number without a fraction, at least zero."""
    item: Callable[[Any], Any] | None = None
    """For ``list`` and ``files``: what is sent for one line or row. Raises ``ValueError`` with words for a person."""

    def empty_value(self) -> Any:
        """The value of this field where nobody has typed anything; a default of white space only is none."""
        if isinstance(self.default, (list, tuple)):
            return [item for item in self.default if not isinstance(item, str) or item.strip()]
        if self.default is not None and not (isinstance(self.default, str) and not self.default.strip()):
            return self.default
        return {Kind.LIST: [], Kind.FILES: [], Kind.BOOL: False}.get(self.kind, "")


@dataclass(frozen=True)
class Fixed:
    """A part of the body that the task settles; with ``only_with`` it is sent only beside a filled field."""

    wire_path: str
    value: Any
    only_with: str = ""


@dataclass(frozen=True)
class Form:
    """The fields for one task. The first is always ``outcome`` (completed or failed)."""

    role: str
    task_id: str
    fields: tuple[Field, ...]
    fixed: tuple[Fixed, ...] = ()
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    """By the key of the field that takes the measured value."""

    def field(self, key: str) -> Field | None:
        """The field of that key."""
        return next((one for one in self.fields if one.key == key), None)

    def defaults(self) -> dict[str, Any]:
        """The values of an untouched form."""
        return {one.key: one.empty_value() for one in self.fields}

    def visible(self, values: Mapping[str, Any]) -> list[Field]:
        """The fields that these values bring to light, in order."""
        return [
            one for one in self.fields if all(str(values.get(rule.key, "")) in rule.values for rule in one.visible_when)
        ]

    def notes(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Computed words beside a field: ``satisfied`` or ``not satisfied`` beside a constraint's value."""
        out = {}
        for key, constraint in self.constraints.items():
            number = read_number(values.get(key))
            if number is not None:
                out[key] = "satisfied" if constraint.holds(number) else "not satisfied"
        return out

    def problems(self, values: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong, by field key; empty where the form can be sent once its files have been read."""
        found = {}
        for one in self.visible(values):
            message = _field_problem(one, values.get(one.key))
            if message:
                found[one.key] = message
        if found:
            return found
        trial = dict(values)
        if trial.get("delivery") == "patch" and PATCH_TEXT not in trial:
            # The patch is read, and an empty list of changes taken from it, only when the form is completed.
            trial[PATCH_TEXT] = "-"
            trial["changes"] = trial.get("changes") or ["modify -"]
        return self.by_key(wire_problems(self.role, self.to_body(trial)))

    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The submission body: taskId, outcome, and output or reason. Call it where ``problems`` is empty."""
        body: dict[str, Any] = {"taskId": self.task_id}
        sent = set()
        for one in self.visible(values):
            value = _sent_value(one, values)
            if value is None or not one.wire_path:
                continue
            sent.add(one.key)
            _put(body, one.wire_path, value)
        if body.get("outcome") == "completed":
            for part in self.fixed:
                if not part.only_with or part.only_with in sent:
                    _put(body, part.wire_path, part.value)
            for key, constraint in self.constraints.items():
                number = read_number(values.get(key))
                asked = self.field(key)
                if asked is not None and number is not None:
                    _put(body, asked.wire_path.removesuffix("value") + "satisfied", constraint.holds(number))
        return body

    def by_key(self, problems: Mapping[str, str]) -> dict[str, str]:
        """Problems by path of the body (a server's ``fields``) by field key; ``""`` for what fits no field."""
        out: dict[str, str] = {}
        for path, message in problems.items():
            parts = _path_parts(path)
            best: Field | None = None
            for one in self.fields:
                mine = _path_parts(one.wire_path)
                if (
                    mine
                    and parts[: len(mine)] == mine
                    and (best is None or len(mine) > len(_path_parts(best.wire_path)))
                ):
                    best = one
            key = best.key if best else ""
            text = message if best else f"{path}: {message}"
            out[key] = f"{out[key]}; {text}" if key in out else text
        return out


def read_number(value: Any) -> float | int | None:
    """The finite number that a person typed, or None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value if abs(value) <= sys.float_info.max else None
    text = str(value).strip()
    if not _NUMBER.match(text):
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 18 else number


def wire_problems(role: str, body: Mapping[str, Any]) -> dict[str, str]:
    """What the contract's models say against a submission body, by path; a role that we do not know is not judged."""
    found: dict[str, str] = {}
    try:
        Submission.model_validate(dict(body), extra="forbid")
    except ValidationError as error:
        found.update(_messages("", error))
    model = OUTPUTS.get(role)
    if model is not None and body.get("outcome") == "completed" and isinstance(body.get("output"), dict):
        try:
            model.model_validate(body["output"], extra="forbid")
        except ValidationError as error:
            found.update(_messages("output", error))
    return found


def _messages(prefix: str, error: ValidationError) -> dict[str, str]:
    out = {}
    for item in error.errors(include_url=False, include_input=False):
        parts = [prefix] if prefix else []
        parts += [str(part) for part in item["loc"]]
        out[".".join(parts) or "body"] = words_for(item)
    return out


def _path_parts(path: str) -> list[str]:
    flat = path.replace("[", ".").replace("]", "")
    return [part.replace("_", "").lower() for part in flat.split(".") if part]


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted path; a number in the path is an index of a list that grows in order."""
    target: Any = body
    parts = path.split(".")
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        fresh = value if following is None else [] if following.isdigit() else {}
        if isinstance(target, list):
            index = int(part)
            if following is None:
                target.insert(index, fresh)
                return
            if index >= len(target):
                target.append(fresh)
                index = len(target) - 1
            target = target[index]
        elif following is None:
            target[part] = fresh
        else:
            target = target.setdefault(part, fresh)


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _field_problem(one: Field, value: Any) -> str:
    if _blank(value):
        return "is needed" if one.required else ""
    if one.kind is Kind.NUMBER:
        number = read_number(value)
        if number is None:
            return "a number such as 396.4 is expected"
        if one.whole and (number < 0 or number != int(number)):
            return "a whole number of at least 0 is expected"
    elif one.kind is Kind.CHOICE:
        known = [choice.value for choice in one.choices]
        if value not in known:
            return f"choose one of {', '.join(known)}"
    elif one.kind is Kind.BOOL:
        if not isinstance(value, bool):
            return "true or false is expected"
    elif one.kind is Kind.LIST:
        return _list_problem(one, value)
    elif one.kind is Kind.FILES:
        return _rows_problem(one, value)
    elif not isinstance(value, str):
        return "text is expected"
    return ""


def _list_problem(one: Field, value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "a list of texts is expected"
    lines = [item for item in value if item.strip()]
    if one.required and not lines:
        return "is needed"
    known = {choice.value for choice in one.choices}
    for place, line in enumerate(lines, 1):
        if known and line not in known:
            return f"line {place} is none of those on offer"
        if one.item is not None:
            try:
                one.item(line)
            except ValueError as error:
                return f"line {place}: {error}"
    return ""


def _rows_problem(one: Field, value: Any) -> str:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return "a list of entries is expected"
    for place, row in enumerate(value, 1):
        for column in one.columns:
            message = _field_problem(column, row.get(column.key))
            if message:
                return f"entry {place}, {column.label}: {message}"
        if one.item is not None:
            try:
                one.item(row)
            except ValueError as error:
                return f"entry {place}: {error}"
    return ""


def _sent_value(one: Field, values: Mapping[str, Any]) -> Any:
    value = values.get(one.key)
    if one.kind is Kind.FILE:
        text = values.get(PATCH_TEXT)
        if not text:
            return None
        return {
            "mediaType": "text/x-diff",
            "content": text,
            "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        }
    if _blank(value):
        return None
    if one.kind is Kind.NUMBER:
        number = read_number(value)
        return int(number) if one.whole and number is not None else number
    if one.kind is Kind.LIST:
        assert isinstance(value, list)
        lines = [line.strip() for line in value if line.strip()]
        return [one.item(line) for line in lines] if one.item else lines or None
    if one.kind is Kind.FILES:
        assert isinstance(value, list)
        return [one.item(row) for row in value] if one.item else value
    return value.strip() if isinstance(value, str) else value
