"""Errors and notices, newest first; the one under the cursor in full, with its next step."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from expb_tui.present.cells import Cell, Column, Glyphs, Row, Table, Tone
from expb_tui.tui.notices import Notice, sign
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, words


class NoticesScreen(Dialog[None]):
    """Reading them resets the count in the key line."""

    DEFAULT_CSS = """
    NoticesScreen {
        #notices { height: 2fr; }
        #notice { height: 1fr; min-height: 6; border-top: solid $edge; }
    }
    """

    def __init__(self, notices: list[Notice], glyphs: Glyphs) -> None:
        super().__init__("Notices", width=104, tall=True)
        self._notices = notices
        rows = tuple(
            Row(
                str(place),
                (
                    Cell(f"{notice.at.astimezone():%H:%M:%S}", Tone.DIM),
                    Cell(sign(notice.tone, glyphs), notice.tone),
                    Cell(notice.text + (f" ({notice.times} times)" if notice.times > 1 else "")),
                ),
            )
            for place, notice in enumerate(notices)
        )
        self.list = LineTable(Table((Column("", 8), Column("", 1), Column("")), rows), framed=False, id="notices")
        self.list.empty = (words("Nothing has been told yet.", Tone.DIM),)
        self.text = LineText(framed=False, id="notice")

    def compose_body(self) -> ComposeResult:
        yield self.list
        yield self.text

    def on_mount(self) -> None:
        self.show_notice()

    @on(LineTable.Highlighted)
    def show_notice(self) -> None:
        """The notice under the cursor, in full."""
        key = self.list.current_key
        if key is None:
            return
        notice = self._notices[int(key)]
        lines: list[Line] = [words(notice.text, notice.tone)]
        if notice.cause:
            lines.append(words(f"  why   {notice.cause}"))
        if notice.next_step:
            lines.append(words(f"  next  {notice.next_step}", Tone.INFO))
        if notice.code:
            lines.append(words(f"  code  {notice.code}", Tone.DIM))
        self.text.set_lines(lines, keep_place=False)
