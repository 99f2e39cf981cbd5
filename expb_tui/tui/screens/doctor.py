"""What works here: the doctor's findings as they come; the one under the cursor in full, with what mends it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult

from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.present import doctor as present
from expb_tui.present.cells import Table, Tone
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, words


class DoctorScreen(Dialog[None]):
    """Examines when it is opened, and again when asked to; nothing is changed."""

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog", "doctor")
    BINDINGS = bindings("dialog", "doctor")
    DEFAULT_CSS = """
    DoctorScreen {
        #findings { height: 3fr; }
        #finding { height: 1fr; min-height: 6; border-top: solid $edge; }
    }
    """

    def __init__(self, here: Circumstances) -> None:
        super().__init__("Doctor", width=110, tall=True)
        self._here = here
        self._findings: list[Finding] = []
        self._over = False
        self._moved = False
        self._put: str | None = None
        """Where the cursor was left by the last change of the list."""
        self._sent = ("", "")
        """The line that was copied last, and what became of it."""
        self.list = LineTable(Table(present.ROWS, ()), framed=False, id="findings")
        self.list.empty = (words("Examining", Tone.DIM),)
        self.text = LineText(framed=False, id="finding")

    def compose_body(self) -> ComposeResult:
        yield self.list
        yield self.text

    def on_mount(self) -> None:
        self.act_doctor_again()

    def act_doctor_again(self) -> None:
        """Look at everything anew."""
        self._findings, self._over, self._moved = [], False, False
        self._show()
        start(self, self._examine, "examine")

    async def _examine(self) -> None:
        from expb_tui.core.doctor.examination import examine

        async for found in examine(self._here):
            self._findings += found
            self._show()
        self._over = True
        worst = present.worst(self._findings)
        if worst is not None and not self._moved and self.list.current_key == self._put:
            self.list.select(worst)
            self._put = worst
        self._show()

    def _show(self) -> None:
        glyphs = host(self).look.glyphs
        self._moved = self._moved or self.list.current_key != self._put
        self.list.set_table(present.rows(self._findings, glyphs))
        self._put = self.list.current_key
        self.show_finding()
        self.show_keys()

    @property
    def chosen(self) -> Finding | None:
        """The finding under the cursor."""
        return present.keyed(self._findings).get(self.list.current_key or "")

    @on(LineTable.Highlighted)
    def show_finding(self) -> None:
        """The finding under the cursor in full, under how many there are of each state."""
        text, tone = present.summary(self._findings)
        parts = [part for part in (text, "" if self._over else "still examining") if part]
        lines: list[Line] = [words(", ".join(parts), tone)]
        finding = self.chosen
        if finding is not None:
            glyphs = host(self).look.glyphs
            lines += [(), (present.sign(finding.state, glyphs), *words(f" {finding.says}"))]
            if finding.mend:
                what = "  more  " if finding.state is State.OK else "  mend  "
                lines.append(words(what + finding.mend, Tone.INFO))
            if finding.mend and finding.mend == self._sent[0]:
                lines.append(words(f"        {self._sent[1]}", Tone.DIM))
        self.text.set_lines(lines, keep_place=False)

    def can(self, action_id: str) -> bool:
        if action_id == "doctor.copy":
            return self.chosen is not None and bool(self.chosen.mend)
        return action_id != "doctor.again" or self._over

    def act_doctor_copy(self) -> None:
        """Send the line that mends to the operator's clipboard; it stays on the screen."""
        from expb_tui.tui.clipboard import copy

        finding = self.chosen
        if finding is None:
            return
        app = host(self)

        async def send() -> None:
            self._sent = finding.mend, await copy(app, finding.mend)
            app.say(": ".join(reversed(self._sent)), Tone.INFO)
            self.show_finding()

        start(self, send, "copy")
