"""The shapes of standard output: tables, JSON, YAML, and what a terminal is spared."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from expb_tui.cli.output import Output, json_text, parse_format, table_lines, yaml_text
from expb_tui.core.errors import UsageError
from expb_tui.present.cells import Cell, Row, Table, Tone, cell, columns

DATA: dict[str, Any] = {
    "name": "owner",
    "default": True,
    "profile": {"scope": "account", "nothing": None, "list": [], "object": {}},
    "items": ["yes", "2026-10-05", "1", "1.5", "null", "~", ""],
    "long": "word " * 60,
    "lines": "first\nsecond\n",
}
HOSTILE = "red \x1b[31m bidi \u202e c1 \x9b line \u2028 nel \x85 zero \u200b tag \U000e0041 alone \ud800 del \x7f"


def _steers(text: str) -> list[str]:
    return [
        char
        for char in text
        if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")
    ]


def test_json_is_indented_with_tabs_and_keeps_order() -> None:
    text = json_text(DATA, terminal=False)
    assert json.loads(text) == DATA
    assert text.splitlines()[1] == '\t"name": "owner",'
    assert list(json.loads(text)) == list(DATA)


def test_yaml_is_block_style_in_the_order_of_the_json() -> None:
    text = yaml_text(DATA, terminal=False)
    assert yaml.safe_load(text) == DATA
    lines = text.splitlines()
    assert lines[:4] == ["name: owner", "default: true", "profile:", "  scope: account"]
    assert "lines: |" in lines
    assert max(len(line) for line in lines) > 250, "long lines are not folded"


@pytest.mark.parametrize("render", [json_text, yaml_text])
def test_a_terminal_is_not_steered_and_nothing_is_lost(render: Any) -> None:
    data = {"text": HOSTILE, HOSTILE: [HOSTILE]}
    shown = render(data, terminal=True)
    assert _steers(shown) == []
    back = json.loads(shown) if render is json_text else yaml.safe_load(shown)
    assert back == data


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_structured_output_reads_back_equal(data: Any) -> None:
    for terminal in (True, False):
        assert json.loads(json_text(data, terminal=terminal)) == data
        assert yaml.safe_load(yaml_text({"value": data}, terminal=terminal)) == {"value": data}
        json_text(data, terminal=terminal).encode()
        yaml_text(data, terminal=terminal).encode()


def test_a_table_has_no_borders_and_three_spaces_between_columns() -> None:
    rows = (
        Row("1", (cell("owner"), cell("*"), cell("https://bench.example"))),
        Row("2", (cell("researcher"), cell(None), cell("-"))),
    )
    assert table_lines(Table(columns(("NAME", "default", "ENDPOINT")), rows, "2 resources shown")) == [
        "NAME         DEFAULT   ENDPOINT",
        "owner        *         https://bench.example",
        "researcher   -         -",
        "2 resources shown",
    ]


def test_an_empty_table_is_its_footer() -> None:
    assert table_lines(Table(columns(("NAME",)), (), "0 resources shown")) == ["0 resources shown"]


def test_wide_characters_take_two_cells() -> None:
    rows = (Row("1", (cell("測定"), cell("x"))), Row("2", (cell("abcd"), cell("x"))))
    heads, first, second = table_lines(Table(columns(("N", "X")), rows))
    assert heads == "N      X"
    assert first == "測定   x"
    assert second == "abcd   x"


def test_colour_stands_around_the_text_only() -> None:
    rows = (Row("1", (Cell("no", Tone.BAD), Cell("longer"))),)
    (_, line) = table_lines(Table(columns(("STATE", "NAME")), rows), colour=True)
    assert line == "\x1b[31mno\x1b[0m      longer"


def test_cells_are_cleaned() -> None:
    assert _steers(cell(HOSTILE).text) == []


@pytest.mark.parametrize(("word", "form"), [(None, "table"), ("YML", "yaml"), ("wide", "wide"), ("json", "json")])
def test_formats(word: str | None, form: str) -> None:
    assert parse_format(word) == form


def test_an_unknown_format_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as raised:
        parse_format("xml")
    assert raised.value.exit_code == 80


def test_a_stream_that_cannot_show_a_character_still_gets_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    Output().lines(["naïve ✓"])
    assert raw.getvalue() == b"na?ve ?\n"
