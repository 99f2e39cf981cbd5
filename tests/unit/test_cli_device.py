"""The pieces of a device login on a terminal: honest links, codes that can be copied, codes that fit whole."""

from __future__ import annotations

import pytest

from expb_tui.cli.device import code_lines, link, qr_lines
from expb_tui.present import large_type


def test_a_link_shows_its_target() -> None:
    address = "https://bench.example.test/oauth/device?user_code=K7Q2M-W9_XPA"
    assert link(address) == f"\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://bench.example.test/\x1b]8;;https://evil.test\x1b\\",
        "https://bench.example.test/\u202etset.live",
        "https://bench.example.test/ a",
        "",
    ],
)
def test_anything_else_is_plain_text_without_escapes(address: str) -> None:
    assert "\x1b" not in link(address)
    assert "\u202e" not in link(address)


@pytest.mark.parametrize(("columns", "blocks", "large"), [(100, True, True), (60, True, False), (100, False, False)])
def test_the_code_can_always_be_copied(columns: int, blocks: bool, large: bool) -> None:
    code = "K7Q2M-W9_XPA"
    lines = code_lines(code, columns, blocks=blocks)
    assert code in lines[-1]
    assert (len(lines) == large_type.LINES + 2) is large
    assert max(map(len, lines)) <= columns - 4


def test_a_code_without_a_glyph_is_spaced_out() -> None:
    assert code_lines("A+B", 80, blocks=True) == ["A + B      (A+B)"]


def test_a_qr_code_is_whole_or_absent() -> None:
    address = "https://bench.example.test/oauth/device?user_code=K7Q2M-W9_XPA"
    lines = qr_lines(address, 100, 50)
    assert len({len(line) for line in lines}) == 1
    assert all("\x1b[38;2;0;0;0;48;2;255;255;255m" in line and line.endswith("\x1b[0m") for line in lines)
    assert qr_lines(address, 30, 50) == []
    assert qr_lines(address, 100, 10) == []
