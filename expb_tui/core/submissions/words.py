"""What the wire models say against a value, in words for the person who typed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

INSTANT = "an instant with its offset is expected, such as 2026-10-05T09:12:30Z"

_WORDS = {
    "missing": "is needed",
    "extra_forbidden": "is not known here",
    "string_type": "text is expected",
    "string_too_short": "must not be empty",
    "string_too_long": "is longer than {max_length} characters",
    "string_pattern_mismatch": "does not have the expected form",
    "float_type": "a number is expected",
    "int_type": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "finite_number": "a finite number is expected",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "bool_type": "true or false is expected",
    "literal_error": "must be {expected}",
    "list_type": "a list is expected",
    "too_short": "needs at least {min_length} entries",
    "too_long": "may have at most {max_length} entries",
}
"""By the kind of pydantic's errors; what stands in braces is from the error's context."""
_OBJECTS = ("dict_type", "model_type", "model_attributes_type")


def words_for(error: ErrorDetails) -> str:
    """One sentence without a subject, to stand after the name of the field; pydantic's own where none is known."""
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx") or {}
    if kind.startswith(("datetime_", "timezone_")):
        return INSTANT
    if kind in _OBJECTS:
        return "lines such as key: value are expected"
    if kind in _WORDS:
        return _WORDS[kind].format_map(context)
    return str(error["msg"]).removeprefix("Value error, ")
