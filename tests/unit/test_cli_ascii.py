"""Commands on a terminal whose locale is not UTF-8: ASCII only, and nothing lost where the format can spell it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from expb_tui.core.text import in_ascii, spoken_encoding
from tests.support.cockpit import PROGRAM, environment
from tests.support.terminal import terminal

NAME = "m\u00fcnchen-\u5b57"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    entry = {"scope": "account", "endpoint": "https://bench.example", "type": "agent", "token": "t"}
    (tmp_path / "profiles.json").write_text(json.dumps({"default": NAME, "profiles": {NAME: entry}}))
    (tmp_path / "profiles.json").chmod(0o600)
    return environment(tmp_path, LC_ALL="C", NO_COLOR="1")


def _shown(environ: dict[str, str], *arguments: str) -> bytes:
    with terminal([PROGRAM, *arguments], columns=200, environ=environ) as shown:
        shown.wait_end()
        return bytes(shown.output)


def test_tables_and_errors_are_spelled_in_ascii(environ: dict[str, str]) -> None:
    listing = _shown(environ, "profile", "list")
    assert listing.isascii()
    assert b"munchen-??" in listing
    wrong = _shown(environ, "--profile", "m\u00fcnster", "profile", "show")
    assert wrong.isascii()
    assert b"munster" in wrong


def test_structured_output_loses_nothing(environ: dict[str, str]) -> None:
    told = _shown(environ, "profile", "list", "-o", "json")
    assert told.isascii()
    assert NAME in json.dumps(json.loads(told), ensure_ascii=False)
    told = _shown(environ, "profile", "list", "-o", "yaml")
    assert told.isascii()
    assert NAME in json.dumps(yaml.safe_load(told), ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain \x1b[1m", "plain \x1b[1m"),
        ("\u256d\u2500 \u25b8 caf\u00e9\u2026", "+- > cafe~"),
        ("\u5b57\u0301\u00df", "???"),
        ("\u00db31m", "U31m"),
        ("\ufb01", "?"),
    ],
)
def test_the_nearest_ascii_takes_as_many_cells(text: str, plain: str) -> None:
    assert in_ascii(text) == plain


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({"LC_ALL": "C"}, "utf-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1"),
        ({"LANG": "de_DE.UTF-8"}, "utf-8"),
        ({"LANG": "xx.UTF-16"}, "utf-8"),
        ({"LANG": "xx.nonsense"}, "utf-8"),
        ({}, "utf-8"),
    ],
)
def test_keys_come_in_the_locales_encoding(environ: dict[str, str], encoding: str) -> None:
    assert spoken_encoding(environ) == encoding
