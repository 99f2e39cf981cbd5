"""Reading and writing YAML as JSON: no dates, no yes/no booleans, no duplicate keys, no tags, anchors or aliases."""

from __future__ import annotations

from typing import Any

from expb_tui.core.errors import UsageError

MAX_INPUT = 1_048_576
"""Bytes that a file or standard input may hold (contract, section 5)."""


class YamlProblem(UsageError):
    """The text is not one document of JSON values; ``line`` and ``column`` count from 1."""

    code = "yaml"

    def __init__(self, name: str, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{name}, line {line}, column {column}", cause=message)
        self.line = line
        self.column = column


def read_document(text: str, *, name: str = "input") -> Any:
    """The one JSON or YAML document in ``text``. Raises ``YamlProblem``."""
    raise NotImplementedError


def write_yaml(value: Any) -> str:
    """Block style, two spaces, key order kept; reads back equal through ``read_document``."""
    raise NotImplementedError
