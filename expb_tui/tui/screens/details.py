"""Labels and values in a dialog."""

from __future__ import annotations

from textual.app import ComposeResult

from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Row, Table
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.facts import fact_lines
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line

_WIDTH = 84
_MOST = 26


class DetailsScreen(Dialog[None]):
    """Nothing can be changed here; what is found out later replaces what was known (``say``)."""

    def __init__(self, title: str, table: Table) -> None:
        super().__init__(title, width=_WIDTH)
        self._rows = {row.cells[0].text: row.cells for row in table.rows}
        self.text = _Pairs(self._rows)

    def compose_body(self) -> ComposeResult:
        self.text.styles.height = min(_MOST, len(self.text.wrapped(_WIDTH - 6)) + 1)
        yield self.text

    def say(self, label: str, value: str) -> None:
        """Give a label another value."""
        name, before = self._rows[label]
        self._rows[label] = (name, Cell(clean(value), before.tone))
        if self.is_mounted:
            self.text.styles.height = min(_MOST, len(self.text.wrapped(_WIDTH - 6)) + 1)
            self.text.rewrap()


class _Pairs(LineText):
    def __init__(self, rows: dict[str, tuple[Cell, ...]]) -> None:
        super().__init__(framed=False, id="details")
        self._pairs = rows

    def wrapped(self, width: int) -> list[Line]:
        return fact_lines(Table((), tuple(Row(label, cells) for label, cells in self._pairs.items())), width)
