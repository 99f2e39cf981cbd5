"""Instants as RFC 3339 writes them, and nothing else that a lenient parser would take for one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator

from expb_tui.wire.base import Instant

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def parse_instant(text: str) -> datetime:
    """The instant in UTC, to the microsecond. Raises ``ValueError`` with words for a person."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("must be a time such as 2026-10-05T08:00:00Z")
    fraction = match.group(1) or ""
    text = text.upper().replace("Z", "+00:00").replace(fraction, fraction[:7], 1) if fraction else text.upper()
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("is not a time that exists") from error


def _strict(value: Any) -> Any:
    return parse_instant(value) if isinstance(value, str) else value


StrictInstant = Annotated[Instant, BeforeValidator(_strict)]
"""For the bodies that the server reads."""
