"""Reading what people type as option values."""

from __future__ import annotations

import re

from expb_tui.core.errors import UsageError
from expb_tui.core.secret import SecretStr, is_token

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}

_ALONE = "Give the token alone, on one line"


def seconds(text: str | None) -> float | None:
    """``30``, ``30s``, ``1m``, ``500ms`` in seconds. Raises ``UsageError``."""
    if text is None:
        return None
    match = _TIME.match(text.strip())
    value = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if value <= 0:
        raise UsageError(f"'{text}' is not a time", next_step="Write it as 30s or 1m")
    return value


def token(text: str, source: str) -> SecretStr:
    """``text`` as a token: one word, without the line end. Raises ``UsageError``, which never quotes it."""
    word = text.strip()
    if not word:
        raise UsageError(f"{source} is empty", cause="there is no token in it", next_step=_ALONE)
    if not is_token(word):
        raise UsageError(f"{source} is not a token", cause="it holds blanks or odd characters", next_step=_ALONE)
    return SecretStr(word)
