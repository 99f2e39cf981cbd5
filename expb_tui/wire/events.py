"""Live invalidations (section 6.2.9): an event says "read this again" and holds no content."""

from __future__ import annotations

from expb_tui.wire.base import SnakeModel


class Invalidation(SnakeModel):
    """The ``data`` of an ``invalidate`` event."""

    api_version: str = ""
    kind: str
    uid: str
    account_id: str | None = None
    project_id: str | None = None
    version: int | None = None
    action: str = ""
    request_id: str | None = None
