"""Which of two programs is the newer one."""

from __future__ import annotations

import re


def newer(one: str, other: str) -> bool:
    """Whether ``one`` is a later release than ``other``; False where either is no version."""
    first, second = _parts(one), _parts(other)
    return first is not None and second is not None and first > second


def _parts(text: str) -> tuple[tuple[int, ...], int, int] | None:
    """Numbers without trailing zeros, then final releases after their pre-releases (PEP 440, as far as we use it)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)*)(?:\.?(dev|a|b|rc)(\d+))?", text)
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    stage = ("dev", "a", "b", "rc", None).index(found[2])
    return tuple(numbers), stage, int(found[3] or 0)
