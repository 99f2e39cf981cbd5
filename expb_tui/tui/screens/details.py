"""A table of labels and values in a dialog."""

from __future__ import annotations

from textual.app import ComposeResult

from expb_tui.present.cells import Table
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable

_MOST = 24


class DetailsScreen(Dialog[None]):
    """Nothing can be changed here."""

    def __init__(self, title: str, table: Table) -> None:
        super().__init__(title, width=84)
        self._table = table

    def compose_body(self) -> ComposeResult:
        table = LineTable(self._table, framed=False, id="details")
        table.styles.height = min(_MOST, len(self._table.rows))
        yield table
