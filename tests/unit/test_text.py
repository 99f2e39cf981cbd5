"""Cleaning, durations, and which locales get ASCII."""

from __future__ import annotations

import pytest

from expb_tui.core.text import clean, coarse, lacks_signs, speaks_ascii_only


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "en_GB.utf8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_a_locale_that_names_another_encoding_gets_ascii(environ: dict[str, str], ascii_only: bool) -> None:
    assert speaks_ascii_only(environ) is ascii_only


@pytest.mark.parametrize(
    ("term", "few"),
    [("linux", True), ("vt220", True), ("xterm-256color", False), ("tmux-256color", False), ("", False)],
)
def test_a_console_has_few_signs(term: str, few: bool) -> None:
    assert lacks_signs({"TERM": term, "LANG": "en_GB.UTF-8"}) is few


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\u241b[31mred"),
        ("a\u202eb", "a\ufffdb"),
        ("one\u2028two\x85three", "one\ufffdtwo\ufffdthree"),
        ("a\ud800b", "a\ufffdb"),
        ("a\nb\tc", "a b c"),
        ("Zürich 東京", "Zürich 東京"),
    ],
)
def test_nothing_that_steers_a_terminal_comes_through(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_line_breaks_stay_where_they_are_wanted() -> None:
    assert clean("a\r\nb\tc\rd", multiline=True) == "a\nb    c\u240dd"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (59.9, "59s"), (60, "1m"), (7199, "1h"), (172_800, "2d"), (-5, "0s")]
)
def test_durations_have_one_unit(seconds: float, words: str) -> None:
    assert coarse(seconds) == words
