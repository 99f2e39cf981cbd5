"""What people do with a proposed change set: applying it is their work, the record says that they did."""

from __future__ import annotations

from expb_tui.server.context import Call
from expb_tui.server.offers import Changes, offer_patch
from expb_tui.server.problems import Problem
from expb_tui.server.research.editing import to_change
from expb_tui.server.research.kinds import INTEGRATIONS
from expb_tui.server.resources import Patch, RowOf
from expb_tui.server.routing import Operations
from expb_tui.wire.base import AnyResource

operations = Operations("research")


def _undecided(call: Call, row: RowOf, changes: Changes) -> Changes:
    if row.phase != "proposed":
        raise Problem(409, "phase-conflict", f"The integration is {row.phase} already.")
    return changes


offer_patch(
    operations,
    INTEGRATIONS,
    see=to_change(INTEGRATIONS),
    body=Patch(None, {"apply": "applied", "decline": "declined"}),
    check=_undecided,
    id="decideIntegration",
    summary="Say that a proposed change set was applied or declined",
    answer=AnyResource,
)
