"""What people do with a proposed change set: applying it is their work, the record says that they did."""

from __future__ import annotations

from expb_tui.server.context import Answer, Call, item
from expb_tui.server.problems import Problem
from expb_tui.server.research.editing import record_to_change
from expb_tui.server.research.kinds import INTEGRATIONS
from expb_tui.server.resources import Command, Patch
from expb_tui.server.routing import Operations, Who
from expb_tui.wire.base import AnyResource

operations = Operations("research")


@operations.patch(
    "/v1/integrations/{uid}",
    "decideIntegration",
    "Say that a proposed change set was applied or declined",
    who=Who.EITHER,
    body=Patch(None, {"apply": "applied", "decline": "declined"}),
    answers={200: AnyResource},
)
def decide_integration(call: Call, body: Command) -> Answer:
    row = record_to_change(call, INTEGRATIONS)
    if row.phase != "proposed":
        raise Problem(409, "phase-conflict", f"The integration is {row.phase} already.")
    return item(INTEGRATIONS, call.update(INTEGRATIONS, row, phase=body.phase))
