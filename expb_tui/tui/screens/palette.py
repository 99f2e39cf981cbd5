"""The palette: type a part of what is wanted. The same list, with a preview, chooses the theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from expb_tui.present.cells import Cell, Column, Row, Table, Tone
from expb_tui.tui.theme import Palette
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.lines import Pen
from expb_tui.tui.widgets.look import Look
from expb_tui.tui.widgets.one_line import OneLine

_LINES = 16


class _Prompt(OneLine):
    """What has been typed."""

    on = "panel"

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.text = ""

    def content(self) -> str:
        return self.text

    def draw(self, pen: Pen, width: int, look: Look) -> None:
        style = look.palette.style
        pen.put(" : ", style("accent", self.on, bold=True)).put(self.text, style("text", self.on))
        pen.put("_", style("accent", self.on))


class _Choices(LineTable):
    """The list under the prompt: what is typed filters it, Enter and Esc are the dialog's."""

    def __init__(self, table: Table, prompt: _Prompt) -> None:
        super().__init__(table, framed=False, id="palette")
        self.typing = True
        self._prompt = prompt

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return key not in ("enter", "escape") and super().check_consume_key(key, character)

    def take_key(self, key: str, character: str | None) -> bool:
        return key not in ("enter", "escape") and super().take_key(key, character)

    def set_filter(self, text: str) -> None:
        super().set_filter(text)
        self._prompt.text = text
        self._prompt.update()


class PaletteScreen(Dialog[str]):
    """Dismisses with the key of the chosen row."""

    LABELS: ClassVar[dict[str, str]] = {"dialog.accept": "Choose"}

    def __init__(self, table: Table, *, title: str = "Commands") -> None:
        super().__init__(title, width=88)
        self.prompt = _Prompt()
        self.list = _Choices(table, self.prompt)
        self.list.styles.height = min(_LINES, len(table.rows))

    def take_key(self, key: str, character: str | None) -> bool:
        """What is typed before the list has the focus is text for it already."""
        return self.list.take_key(key, character)

    def compose_body(self) -> ComposeResult:
        yield self.prompt
        yield self.list

    def act_dialog_accept(self) -> None:
        if self.list.current_key is not None:
            self.dismiss(self.list.current_key)


class ThemeScreen(Dialog[str]):
    """Shows each theme while the cursor is on it. Dismisses with the name that is kept."""

    LABELS: ClassVar[dict[str, str]] = {"dialog.accept": "Keep"}

    def __init__(self, palettes: list[Palette], current: str, preview: Callable[[str], None]) -> None:
        super().__init__("Theme", width=64)
        rows = tuple(
            Row(palette.name, (Cell(palette.name, Tone.ACCENT), Cell(palette.title, Tone.DIM))) for palette in palettes
        )
        self.list = LineTable(Table((Column("", 14), Column("")), rows), framed=False, id="themes")
        self.list.styles.height = min(_LINES, len(rows))
        self._current = current
        self._preview = preview

    def compose_body(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        self.list.select(self._current)

    @on(LineTable.Highlighted)
    def show_theme(self, message: LineTable.Highlighted) -> None:
        """The cursor moved: the whole cockpit shows that theme."""
        if message.key is not None:
            self._preview(message.key)

    def act_dialog_accept(self) -> None:
        self.dismiss(self.list.current_key)

    def act_dialog_close(self) -> None:
        self._preview(self._current)
        self.dismiss(None)
