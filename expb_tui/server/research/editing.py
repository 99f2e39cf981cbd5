"""How a member gets hold of a record to change it."""

from __future__ import annotations

from expb_tui.server.context import Call
from expb_tui.server.identity.access import require_member
from expb_tui.server.resources import Kind, RowOf


def record_to_change(call: Call, kind: Kind) -> RowOf:
    """The record of the address, locked after its project, with the clock read after that.

    Raises 404 unless the caller is a member of its project, 412 unless it is the version that the caller has read.
    """
    found = call.fetch(kind, call.path["uid"])
    require_member(call, found.project_id, lock=True)
    row = call.fetch(kind, found.id, lock=True)
    call.match(row)
    call.read_clock()
    return row
