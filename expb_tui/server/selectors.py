"""Label and field selectors with the Kubernetes grammar, turned into SQL conditions (contract, section 1.8)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from sqlalchemy import BigInteger, ColumnElement, Integer, and_, case, cast, false, func, not_, or_

from expb_tui.server.problems import Problem
from expb_tui.server.resources import LABEL_KEY
from expb_tui.server.rfc3339 import parse_instant
from expb_tui.server.store.columns import InstantColumn

_TOKEN = re.compile(r"\s*(==|!=|=|>|<|!|\(|\)|,|[^\s=!<>(),]+)")
_LONGEST = 4096
_MOST = 32
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: ``operator`` is ``in``, ``notin``, ``exists``, ``absent``, ``>`` or ``<``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_selector(text: str) -> list[Requirement]:
    """The terms, all of which must hold. Raises ``ValueError`` saying where it stops making sense."""
    if len(text) > _LONGEST:
        raise ValueError("is too long")
    tokens: list[str] = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise ValueError(f"cannot be read at {stripped[position : position + 20]!r}")
        tokens.append(match.group(1))
        position = match.end()
    return _Parser(tokens).requirements() if tokens else []


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found = [self._requirement()]
        while self._peek() == ",":
            self._take()
            found.append(self._requirement())
        if self._peek() is not None:
            self._fail()
        if len(found) > _MOST:
            raise ValueError(f"has more than {_MOST} terms")
        return found

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise ValueError("ends too early")
        self._next += 1
        return token

    def _fail(self) -> NoReturn:
        raise ValueError(f"does not expect {self._peek()!r}" if self._peek() else "ends too early")

    def _word(self) -> str:
        token = self._peek()
        if token is None or token in ("=", "==", "!=", ">", "<", "!", "(", ")", ","):
            self._fail()
        return self._take()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word(), "absent")
        key = self._word()
        following = self._peek()
        if following is None or following == ",":
            return Requirement(key, "exists")
        operator = self._take()
        if operator in ("=", "==", "!="):
            # "a=" is the empty value.
            value = "" if self._peek() in (None, ",") else self._word()
            return Requirement(key, "notin" if operator == "!=" else "in", (value,))
        if operator in (">", "<"):
            return Requirement(key, operator, (self._word(),))
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        raise ValueError(f"does not know the operator {operator!r}")

    def _values(self) -> tuple[str, ...]:
        if self._take() != "(":
            raise ValueError("wants a list in parentheses")
        values = ["" if self._peek() in (",", ")") else self._word()]
        while (following := self._take()) == ",":
            values.append("" if self._peek() in (",", ")") else self._word())
        if following != ")":
            raise ValueError("wants a closing parenthesis")
        return tuple(values)


def label_conditions(text: str, labels: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    """SQL conditions for a ``labels`` selector over a JSON column. Raises 400 ``invalid-query``."""

    def condition(requirement: Requirement) -> ColumnElement[bool]:
        if re.fullmatch(LABEL_KEY, requirement.key) is None:
            raise ValueError(f"{requirement.key!r} is not a label key")
        value = labels[requirement.key].as_string()
        if requirement.operator in (">", "<"):
            bound = requirement.values[0]
            if _WHOLE.fullmatch(bound) is None:
                raise ValueError("compares with a whole number only")
            number = cast(case((_is_whole(value), value), else_=None), BigInteger)
            return number > int(bound) if requirement.operator == ">" else number < int(bound)
        return _membership(value, requirement)

    return _conditions(text, condition, "labels", "invalid-query")


def field_conditions(text: str, fields: Mapping[str, ColumnElement[Any]]) -> list[ColumnElement[bool]]:
    """SQL conditions for a ``fields`` selector over selectable paths. Raises 400 ``invalid-field-selector``."""

    def condition(requirement: Requirement) -> ColumnElement[bool]:
        column = fields.get(requirement.key)
        if column is None:
            raise ValueError(f"does not know the path {requirement.key!r}")
        read = _reader(column)
        if read is _whole:
            # So that a number beyond the column's own range is compared, not refused.
            column = cast(column, BigInteger)
        if requirement.operator in (">", "<"):
            if read is str:
                raise ValueError(f"cannot compare the text {requirement.key!r}")
            bound = read(requirement.values[0])
            compare = operator.gt if requirement.operator == ">" else operator.lt
            compared: ColumnElement[bool] = compare(column, bound)
            return compared
        typed = Requirement(requirement.key, requirement.operator, tuple(read(value) for value in requirement.values))
        return _membership(column, typed)

    return _conditions(text, condition, "fields", "invalid-field-selector")


def _conditions(
    text: str, condition: Callable[[Requirement], ColumnElement[bool]], name: str, code: str
) -> list[ColumnElement[bool]]:
    try:
        return [condition(requirement) for requirement in parse_selector(text)]
    except ValueError as error:
        raise Problem(400, code, "The selector is not valid.", fields={name: str(error)}, shape=True) from error


def _membership(value: ColumnElement[Any], requirement: Requirement) -> ColumnElement[bool]:
    if requirement.operator == "exists":
        return value.is_not(None)
    if requirement.operator == "absent":
        return value.is_(None)
    if requirement.operator == "in":
        return value.in_(requirement.values) if requirement.values else false()
    return or_(value.is_(None), not_(value.in_(requirement.values)))


def _is_whole(value: ColumnElement[Any]) -> ColumnElement[bool]:
    """Text of digits, short enough for a 64-bit number, on either database."""
    bare = func.ltrim(value, "-")
    return and_(func.length(bare).between(1, 15), func.length(func.trim(bare, "0123456789")) == 0)


def _reader(column: ColumnElement[Any]) -> Callable[[str], Any]:
    """How a selector's text becomes a value of the column."""
    if isinstance(column.type, InstantColumn):
        return _instant
    if isinstance(column.type, (Integer, BigInteger)):
        return _whole
    return str


def _instant(text: str) -> datetime:
    return parse_instant(text)


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
