"""A menu: everything that can be done with this row, or everything of it that can be copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult

from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Column, Row, Table, Tone
from expb_tui.tui.actions import Action, Keymap
from expb_tui.tui.panes.base import Copyable
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable

_MOST = 20


class MenuScreen(Dialog[str]):
    """Dismisses with the key of the chosen row."""

    LABELS: ClassVar[dict[str, str]] = {"dialog.accept": "Choose"}

    def __init__(self, title: str, table: Table, *, width: int = 76) -> None:
        super().__init__(title, width=width)
        self.menu = LineTable(table, framed=False, id="menu")
        self.menu.styles.height = min(_MOST, max(1, len(table.rows)) + (1 if table.columns[0].title else 0))

    def compose_body(self) -> ComposeResult:
        yield self.menu

    def act_dialog_accept(self) -> None:
        if self.menu.current_key is not None:
            self.dismiss(self.menu.current_key)


def action_rows(actions: Sequence[Action], keymap: Keymap) -> Table:
    """Actions with their keys, in the order given."""
    columns = (Column("", 9, "right"), Column("", 18), Column(""))
    rows = tuple(
        Row(
            action.id,
            (
                Cell(keymap.shown(action.id), Tone.ACCENT),
                Cell(f"{action.label} ", Tone.WARN if action.dangerous else Tone.TEXT),
                Cell(action.help, Tone.DIM),
            ),
        )
        for action in actions
    )
    return Table(columns, rows)


def copy_rows(items: Sequence[Copyable]) -> Table:
    """What can be copied, and the text itself."""
    rows = tuple(
        Row(str(place), (Cell(item.label, Tone.DIM), Cell(clean(item.text)))) for place, item in enumerate(items)
    )
    return Table((Column("", 14), Column("")), rows)
