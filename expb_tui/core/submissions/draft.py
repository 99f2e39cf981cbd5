"""A commented YAML draft for ``$EDITOR``, and back. Text from outside stands in it as comments and quoted values only.

Comments are split at every line break that YAML knows, U+0085, U+2028 and U+2029 included (hazards 17): otherwise a
hypothesis with such a character could end its comment and become a live key.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions.fields import Field, Form, Kind
from expb_tui.core.submissions.task_view import Section
from expb_tui.core.submissions.yamlio import YamlProblem, items_of, node_of, value_of, write_yaml
from expb_tui.core.text import clean

_WIDTH = 96
_BREAKS = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_TEXTS = (Kind.TEXT, Kind.PROSE, Kind.CHOICE, Kind.FILE)


class DraftError(UsageError):
    """The draft does not parse, or holds a key that the form does not know; ``text`` is the draft, word for word.

    ``line`` and ``column`` count from 1.
    """

    code = "draft"

    def __init__(self, message: str, *, line: int, column: int, text: str) -> None:
        super().__init__(
            f"The draft, line {line}, column {column}",
            cause=message,
            next_step="Open it again and correct that place; nothing that you wrote is lost",
        )
        self.message = message
        self.line = line
        self.column = column
        self.text = text


def render(
    form: Form, values: Mapping[str, Any], sections: Sequence[Section], *, problems: Mapping[str, str] | None = None
) -> str:
    """The draft: the task as comments, then every field with its help; ``problems`` stand above their fields."""
    out: list[str] = []
    out += _comment(f"Submission of the task {form.task_id} as {form.role}.")
    out += _comment("Lines that begin with # are not sent. Save and close the editor to go on.")
    for section in sections:
        out += ["#", *_comment(f"== {section.title} ==")]
        for paragraph in section.prose:
            out += _comment(paragraph)
        for fact in section.facts:
            out += _comment(f"{fact.label}: {fact.value}")
        for bullet in section.bullets:
            out += _comment(f"- {bullet}")
        for fact in section.quiet:
            out += _comment(f"({fact.label}: {fact.value})")
    out += ["#", "# " + "=" * 60]
    said = dict(problems or {})
    if general := said.pop("", ""):
        out += ["", *_comment(f"!! {general}")]
    for one in form.fields:
        out += ["", *_heading(one)]
        if one.key in said:
            out += _comment(f"!! {said[one.key]}")
        out += _body(one, values.get(one.key))
    return "\n".join(out) + "\n"


def parse(form: Form, text: str) -> dict[str, Any]:
    """The values of a draft; a field that was deleted from it counts as empty. Raises ``DraftError``."""
    try:
        node = node_of(text, name="The draft")
        if node is None:
            node = MappingNode("", [], None, None)
        if not isinstance(node, MappingNode):
            raise _wrong(node, text, "lines such as key: value are expected")
        values: dict[str, Any] = {one.key: _nothing(one) for one in form.fields}
        known = {one.key: one for one in form.fields}
        for key, key_node, value in items_of(node, name="The draft"):
            if key not in known:
                raise _wrong(key_node, text, _unknown(key, list(known)))
            values[key] = _read(known[key], value, text)
    except YamlProblem as error:
        raise DraftError(error.message, line=error.line, column=error.column, text=text) from None
    return values


def _nothing(one: Field) -> Any:
    return {Kind.LIST: [], Kind.FILES: [], Kind.BOOL: False}.get(one.kind, "")


def _comment(text: str) -> list[str]:
    out: list[str] = []
    for line in _BREAKS.split(text):
        wrapped = textwrap.wrap(clean(line), _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
        out += [f"# {part}".rstrip() for part in wrapped]
    return out


def _heading(one: Field) -> list[str]:
    need = "needed" if one.required else "may stay empty"
    unit = f", in {one.unit}" if one.unit else ""
    out = _comment(f"{one.label}{unit} ({need}). {one.help}".strip())
    for rule in one.visible_when:
        if rule.key != "outcome" or one.key == "reason":
            out += _comment(f"Sent only where {rule.key} is {' or '.join(sorted(rule.values))}.")
    for choice in one.choices:
        words = choice.help or (choice.label if choice.label != choice.value else "")
        out += _comment(f"  {choice.value}: {words}" if words else f"  {choice.value}")
    if one.kind is Kind.FILES:
        for column in one.columns:
            words = ", ".join(choice.value for choice in column.choices) or column.help
            out += _comment(f"  {column.key}: {words}".rstrip(": "))
    return out


def _body(one: Field, value: Any) -> Iterator[str]:
    if one.kind is Kind.FILES:
        rows = value if isinstance(value, list) and value else [{}]
        value = [{column.key: _cell(row, column) for column in one.columns} for row in rows]
    elif one.kind is Kind.LIST and not value:
        yield f"{one.key}:"
        yield "#  - one entry a line"
        return
    elif one.kind is Kind.PROSE and not value:
        yield f"{one.key}: |"
        yield "  "
        return
    elif value in (None, ""):
        yield f"{one.key}:"
        return
    yield write_yaml({one.key: value}, blank_null=True).removesuffix("\n")


def _cell(row: Mapping[str, Any], column: Field) -> Any:
    return row.get(column.key) or column.empty_value() or None


def _read(one: Field, node: Node, text: str) -> Any:
    if one.kind in _TEXTS:
        return _scalar(node, text)
    if one.kind is Kind.NUMBER:
        # Quoted or oddly spelled numbers stay as typed, so that the form can say what is wrong with them.
        value = value_of(node, name="The draft")
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else _scalar(node, text)
    if one.kind is Kind.BOOL:
        value = value_of(node, name="The draft")
        if value is not None and not isinstance(value, bool):
            raise _wrong(node, text, "true or false is expected")
        return bool(value)
    if _is_null(node):
        return []
    if not isinstance(node, SequenceNode):
        raise _wrong(node, text, "a list is expected: lines that begin with - ")
    if one.kind is Kind.LIST:
        return [item for item in (_scalar(part, text) for part in node.value) if item.strip()]
    return [row for row in (_row(one, part, text) for part in node.value) if row]


def _row(one: Field, node: Node, text: str) -> dict[str, Any]:
    """One entry, or an empty mapping where nothing was filled into the template."""
    if _is_null(node):
        return {}
    if not isinstance(node, MappingNode):
        raise _wrong(node, text, "lines such as key: value are expected")
    columns = {column.key: column for column in one.columns}
    row: dict[str, Any] = {}
    for key, key_node, value in items_of(node, name="The draft"):
        if key not in columns:
            raise _wrong(key_node, text, _unknown(key, list(columns)))
        if cell := _scalar(value, text):
            row[key] = cell
    typed = {key for key in row if row[key] != columns[key].default}
    return row if typed else {}


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.style is None and node.value in ("", "null", "~")


def _scalar(node: Node, text: str) -> str:
    """The text as typed: ``1e3`` or ``0012`` in a text field is a text, not a number."""
    if not isinstance(node, ScalarNode):
        raise _wrong(node, text, "text is expected; put it in quotes if it begins with a special character")
    if _is_null(node):
        return ""
    value = str(node.value)
    return value if value.strip() else ""


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    shown = clean(key[:60])
    return f"there is no field {shown}; did you mean {close[0]}?" if close else f"there is no field {shown}"


def _wrong(node: Node, text: str, message: str) -> DraftError:
    return DraftError(message, line=node.start_mark.line + 1, column=node.start_mark.column + 1, text=text)
