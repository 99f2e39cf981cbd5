"""A commented YAML draft for ``$EDITOR``, and back. Text from outside stands in it as comments only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions.fields import Form
from expb_tui.core.submissions.task_view import Section


class DraftError(UsageError):
    """The draft does not parse, or holds a key that the form does not know; ``text`` is the draft, word for word."""

    code = "draft"

    def __init__(self, message: str, *, line: int, column: int, text: str) -> None:
        super().__init__(f"line {line}, column {column}", cause=message)
        self.line = line
        self.column = column
        self.text = text


def render(
    form: Form, values: Mapping[str, Any], sections: Sequence[Section], *, problems: Mapping[str, str] | None = None
) -> str:
    """The draft: the task as comments, then every visible field with its help. ``problems`` (by field key) stand above their fields."""
    raise NotImplementedError


def parse(form: Form, text: str) -> dict[str, Any]:
    """The values of a draft. Raises ``DraftError``."""
    raise NotImplementedError
