"""Who gets to see a research record, and how a member gets hold of it to change it."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import ColumnElement

from expb_tui.server.context import Call
from expb_tui.server.identity.access import require_member
from expb_tui.server.offers import See
from expb_tui.server.resources import Kind, RowOf


def shown_to(kind: Kind, admit: Callable[[Call, str], RowOf]) -> See:
    """Finds the record of the address, for those whom ``admit`` (such as ``require_reader``) lets into its project."""

    def see(call: Call) -> RowOf:
        row = call.fetch(kind, call.path["uid"])
        admit(call, row.project_id)
        return row

    return see


def to_change(kind: Kind) -> See:
    """Finds the record for a member, locked after its project, with the clock read after that."""

    def see(call: Call) -> RowOf:
        found = call.fetch(kind, call.path["uid"])
        require_member(call, found.project_id, lock=True)
        row = call.fetch(kind, found.id, lock=True)
        call.read_clock()
        return row

    return see


def rows_of_project(kind: Kind, call: Call) -> list[ColumnElement[bool]]:
    """The records of the project of the address."""
    return [kind.table.c.project_id == call.path["project"]]
