"""YAML read as JSON: what a person writes is what is sent, and nothing else."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expb_tui.core.submissions.yamlio import MAX_DEPTH, MAX_INPUT, YamlProblem, read_document, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes\nb: no\nc: on", {"a": "yes", "b": "no", "c": "on"}),
        ("a: 2026-10-05\nb: 09:30", {"a": "2026-10-05", "b": "09:30"}),
        ("a: 1e3\nb: -4\nc: 1.5", {"a": 1000.0, "b": -4, "c": 1.5}),
        (
            "a: 0o17\nb: 012\nc: 0x1f\nd: 1_000\ne: .inf",
            {"a": "0o17", "b": "012", "c": "0x1f", "d": "1_000", "e": ".inf"},
        ),
        ("a: True\nb: NULL\nc: null\nd: ~\ne:", {"a": "True", "b": "NULL", "c": None, "d": None, "e": None}),
        ("a: \"true\"\nb: '1'", {"a": "true", "b": "1"}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ("{a: 1, b: [x, y]}", {"a": 1, "b": ["x", "y"]}),
        ("<<: x", {"<<": "x"}),
        ("", None),
        ("# only a comment", None),
    ],
)
def test_plain_words_follow_the_json_schema(text: str, value: object) -> None:
    assert read_document(text) == value


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, 1, "twice"),
        ('{"a": 1,\n "a": 2}', 2, 2, "twice"),
        ("a: &x 1\nb: *x", 1, 4, "anchors"),
        ("a: !!python/object:os.system x", 1, 4, "tags"),
        ("a: !!str 1", 1, 4, "tags"),
        ("a: 1\n---\nb: 2", 2, 1, "single document"),
        ("a: [1, 2", 1, 9, ""),
        ("a:\n\t- b", 2, 1, ""),
        ("? [a, b]\n: c", 1, 3, "a key must be a word"),
        ("a: 1e999", 1, 4, "finite"),
        ('{"a": NaN}', 1, 7, "finite"),
        ('a: "\\ud800"', 1, 4, "surrogate"),
        ("a: \x07", 1, 4, "not allow"),
        ("a: 1" + "0" * 500, 1, 4, "digits"),
    ],
)
def test_what_is_no_json_value_is_refused_with_its_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(YamlProblem) as caught:
        read_document(text, name="body.yaml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.message
    assert "body.yaml" in str(caught.value)
    assert caught.value.exit_code == 80


@pytest.mark.parametrize(
    "text", ["[" * 9000, "- " * 9000 + "x", '{"a":' * 9000, "a: {" * 200], ids=["list", "dash", "json", "flow"]
)
def test_deep_nesting_and_size_are_refused_and_not_a_crash(text: str) -> None:
    with pytest.raises(YamlProblem):
        read_document(text)
    assert read_document("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    with pytest.raises(YamlProblem, match="larger"):
        read_document("x" * (MAX_INPUT + 1))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(string.printable, max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_JSON)
def test_what_is_written_reads_back_equal(value: Any) -> None:
    text = write_yaml(value)
    assert read_document(text) == value
    text.encode()


@given(_JSON)
def test_json_reads_as_json_does(value: Any) -> None:
    assert read_document(json.dumps(value)) == value


@pytest.mark.parametrize("word", ["yes", "1e3", "null", "~", "0x1f", "2026-10-05", "=", "<<", "1_0", "a: b", "# c", ""])
def test_texts_that_look_like_something_else_are_quoted_for_every_reader(word: str) -> None:
    import yaml

    assert yaml.safe_load(write_yaml({"key": word})) == {"key": word}
