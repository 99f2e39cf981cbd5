"""Reading and writing YAML as JSON: no dates, no yes/no booleans, no duplicate keys, no tags, anchors or aliases."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from expb_tui.core.errors import UsageError

MAX_INPUT = 1_048_576
"""Bytes that a file or standard input may hold (contract, section 5)."""
MAX_DEPTH = 64
"""Levels of nesting; deeper input is refused before it can exhaust the stack."""

_NULL = re.compile(r"(?:null|~|)\Z")
_BOOL = re.compile(r"(?:true|false)\Z")
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONG_NUMBER = 400
"""Characters; anything longer is not a number that a person wrote, and costs quadratic time to read."""


class YamlProblem(UsageError):
    """The text is not one document of JSON values; ``line`` and ``column`` count from 1."""

    code = "yaml"

    def __init__(self, name: str, message: str, *, line: int, column: int) -> None:
        super().__init__(
            f"{name}, line {line}, column {column}", cause=message, next_step="Correct that place and try again"
        )
        self.line = line
        self.column = column
        self.message = message


class _Loader(yaml.SafeLoader):
    """Composes nodes only; anchors, aliases and tags never get that far."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.composer.ComposerError(None, None, "anchors and aliases are not read here", event.start_mark)
        if getattr(event, "tag", None):
            raise yaml.composer.ComposerError(None, None, "tags such as !!str are not read here", event.start_mark)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


# Without resolvers every plain scalar stays a string; ``_plain`` decides by the JSON schema alone.
_Loader.yaml_implicit_resolvers = {}


def read_document(text: str, *, name: str = "input") -> Any:
    """The one JSON or YAML document in ``text``. Raises ``YamlProblem``."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_INPUT:
        raise YamlProblem(name, f"larger than {MAX_INPUT} bytes", line=1, column=1)
    if (bad := _SURROGATE.search(text)) is not None:
        raise _at(name, text, bad.start(), "half of a surrogate pair")
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[", '"'):
        try:
            return _read_json(text.lstrip("\ufeff"), name)
        except json.JSONDecodeError:
            pass  # a YAML flow mapping may start the same way
    return _read_yaml(text, name)


def node_of(text: str, *, name: str = "input") -> Node | None:
    """The parsed tree with its marks, for readers that report places by key. Raises ``YamlProblem``."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ": ".join(word for word in (error.context, error.problem) if word)
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlProblem(name, words or "not YAML", line=place[0], column=place[1]) from None
    except yaml.reader.ReaderError as error:
        raise _at(name, text, error.position, "a character that YAML does not allow") from None
    except RecursionError:
        raise YamlProblem(name, f"nested deeper than {MAX_DEPTH} levels", line=1, column=1) from None


def value_of(node: Node | None, *, name: str = "input") -> Any:
    """The JSON value of a node. Raises ``YamlProblem``."""
    if node is None:
        return None
    if isinstance(node, ScalarNode):
        return _plain(node, name) if node.style is None else _checked_text(node, name)
    if isinstance(node, SequenceNode):
        return [value_of(item, name=name) for item in node.value]
    if isinstance(node, MappingNode):
        return {key: value_of(item, name=name) for key, _, item in items_of(node, name=name)}
    raise AssertionError(node)


def items_of(node: MappingNode, *, name: str = "input") -> list[tuple[str, Node, Node]]:
    """Key, key node and value node of a mapping. Raises ``YamlProblem`` for a key that is twice there or is no text."""
    seen: set[str] = set()
    out: list[tuple[str, Node, Node]] = []
    for key_node, value in node.value:
        if not isinstance(key_node, ScalarNode):
            _fail(key_node, name, "a key must be a word")
        key = _checked_text(key_node, name)
        if key_node.style is None and _NULL.match(key):
            _fail(key_node, name, "a key is missing")
        if key in seen:
            _fail(key_node, name, "this key stands here twice")
        seen.add(key)
        out.append((key, key_node, value))
    return out


def _read_yaml(text: str, name: str) -> Any:
    return value_of(node_of(text, name=name), name=name)


def _read_json(text: str, name: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            if key in out:
                place = text.rfind(json.dumps(key, ensure_ascii=False))
                raise _at(name, text, max(0, place), "this key stands here twice")
            out[key] = value
        return out

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            raise _at(name, text, max(0, text.find(word)), "not a finite number")
        return value

    def constant(word: str) -> NoReturn:
        raise _at(name, text, max(0, text.find(word)), "not a finite number")

    def whole(word: str) -> int:
        if len(word) > _LONG_NUMBER:
            raise _at(name, text, max(0, text.find(word)), "a number of too many digits")
        return int(word)

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_int=whole, parse_constant=constant)
    except RecursionError:
        raise YamlProblem(name, f"nested deeper than {MAX_DEPTH} levels", line=1, column=1) from None
    _check_json(value, name)
    return value


def _check_json(value: Any, name: str) -> None:
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise YamlProblem(name, f"nested deeper than {MAX_DEPTH} levels", line=1, column=1)
        if isinstance(item, str) and _SURROGATE.search(item):
            raise YamlProblem(name, "half of a surrogate pair", line=1, column=1)
        if isinstance(item, dict):
            stack.extend((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            stack.extend((part, depth + 1) for part in item)


def _plain(node: ScalarNode, name: str) -> Any:
    word = node.value
    if _NULL.match(word):
        return None
    if _BOOL.match(word):
        return word == "true"
    if _FLOAT.match(word):
        if len(word) > _LONG_NUMBER:
            _fail(node, name, "a number of too many digits")
        if _INT.match(word):
            return int(word)
        value = float(word)
        if not math.isfinite(value):
            _fail(node, name, "not a finite number")
        return value
    return _checked_text(node, name)


def _checked_text(node: ScalarNode, name: str) -> str:
    text = str(node.value)
    if _SURROGATE.search(text):
        _fail(node, name, "half of a surrogate pair")
    return text


def _fail(node: Node, name: str, message: str) -> NoReturn:
    raise YamlProblem(name, message, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _at(name: str, text: str, offset: int, message: str) -> YamlProblem:
    before = text[:offset]
    line = before.count("\n") + 1
    return YamlProblem(name, message, line=line, column=offset - (before.rfind("\n") + 1) + 1)


class _Dumper(yaml.SafeDumper):
    """Quotes what any YAML reader, 1.1 or 1.2, could take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_ODD_BREAK = re.compile("[\r\x85\u2028\u2029]")


def _represent_text(dumper: yaml.SafeDumper, text: str) -> ScalarNode:
    # A block keeps prose readable, but it would normalise the odd line breaks; the emitter falls back to quotes
    # where a block cannot hold the text.
    style = '"' if _ODD_BREAK.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
# YAML 1.1 wants a dot in a float, JSON does not: without this the text "1e3" would be written bare.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-0123456789"))


class _BlankDumper(_Dumper):
    """Leaves the place of a null empty, for a person to fill in."""


_BlankDumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))


def write_yaml(value: Any, *, blank_null: bool = False) -> str:
    """Block style, two spaces, key order kept; reads back equal through ``read_document``."""
    text: str = yaml.dump(
        value,
        Dumper=_BlankDumper if blank_null else _Dumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        indent=2,
    )
    return text.removesuffix("...\n")
