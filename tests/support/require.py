"""A missing part skips a test with its reason; where ``EXPB_TEST_REQUIRE`` names it, the same skip is a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

PARTS = ("postgres", "chromium", "tmux", "zsh", "fish", "tmpfs", "screen")


def _required() -> set[str]:
    words = {word.strip() for word in os.environ.get("EXPB_TEST_REQUIRE", "").split(",") if word.strip()}
    unknown = words - set(PARTS) - {"all"}
    if unknown:
        raise pytest.UsageError(f"EXPB_TEST_REQUIRE names unknown parts: {', '.join(sorted(unknown))}")
    return set(PARTS) if "all" in words else words


def missing(part: str, reason: str) -> NoReturn:
    """Skip the running test because ``part`` is not here, or fail it where CI requires that part."""
    if part not in PARTS:
        raise ValueError(part)
    if part in _required():
        pytest.fail(f"{part} is required here, but {reason}", pytrace=False)
    pytest.skip(f"{part}: {reason}")
