"""RFC 9457 problems as Exp-Bench writes them (section 1.7)."""

from __future__ import annotations

from expb_tui.wire.base import WireModel

MEDIA_TYPE = "application/problem+json"
UNKNOWN_CODE = "http-error"
"""The code that stands for an answer which carries none."""


class Problem(WireModel):
    """Branch on ``code`` only; ``fields`` maps an input path to what is wrong there."""

    type: str | None = None
    title: str = ""
    status: int = 0
    code: str = UNKNOWN_CODE
    detail: str | None = None
    instance: str | None = None
    request_id: str | None = None
    fields: dict[str, str] | None = None
