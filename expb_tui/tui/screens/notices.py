"""What was told: errors and what was done, newest first; the one under the cursor in full, with its next step."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult

from expb_tui.present.cells import MISSING, Cell, Column, Row, Table, Tone, cell
from expb_tui.present.times import moment
from expb_tui.tui import clipboard
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.facts import fact_lines
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, words, wrap
from expb_tui.watch.notices import Notice, Notices, sign

_COLUMNS = (Column("", 12), Column("", 1), Column("", 5, "right"), Column(""))
_WIDTH = 110
_TEXT = 6
"""Lines for the notice under the cursor."""
_AROUND = 6
"""Lines of the dialog that are neither list nor notice."""


class NoticesScreen(Dialog[Notice]):
    """Dismisses with the notice whose place is to be seen. What is told meanwhile appears, and counts as read."""

    SCOPES: ClassVar[tuple[str, ...]] = ("notices", "dialog")
    BINDINGS = bindings("notices", "dialog")
    DEFAULT_CSS = """
    NoticesScreen #notice { border-top: solid $edge; }
    NoticesScreen.-ascii #notice { border-top: ascii $edge; }
    """

    def __init__(self, notices: Notices) -> None:
        super().__init__("Notices", width=_WIDTH)
        self._notices = notices
        self._by_key: dict[str, Notice] = {}
        self.list = LineTable(framed=False, id="notices")
        self.list.empty = (
            words("Nothing has been told yet."),
            words("Errors, warnings and what was done appear here, newest first.", Tone.DIM),
        )
        self.text = _Whole(framed=False, id="notice")

    def compose_body(self) -> ComposeResult:
        yield self.list
        yield self.text

    def on_mount(self) -> None:
        self.set_class(host(self).ascii_only, "-ascii")
        self._notices.on_change = self.read
        self.list.focus()
        self.read()

    def on_unmount(self) -> None:
        self._notices.on_change = None

    @on(events.Resize)
    def fit(self) -> None:
        """As high as there are notices, and as the terminal allows."""
        height = self.app.size.height
        text = min(_TEXT, max(3, height // 3))
        self.text.styles.height = text
        self.list.styles.height = max(3, min(len(self._by_key), height - text - _AROUND))

    def read(self) -> None:
        """Show what is kept now."""
        self._notices.read()
        app = host(self)
        app.draw_frame_soon()  # nothing is unread any more
        now = app.house.clock.now()
        self._by_key = {
            "\0".join((notice.tone, notice.text, notice.cause, notice.next_step, notice.pane, notice.row)): notice
            for notice in self._notices.newest_first()
        }
        rows = []
        for key, notice in self._by_key.items():
            today = notice.at.astimezone().date() == now.astimezone().date()
            told = f"{notice.at.astimezone():%H:%M:%S}" if today else moment(notice.at, now)
            times = Cell(f"{notice.times}x" if notice.times > 1 else "", Tone.INFO)
            mark = Cell(sign(notice.tone, app.look.glyphs), notice.tone)
            rows.append(Row(key, (Cell(told, Tone.DIM), mark, times, Cell(notice.text))))
        self.fit()
        self.list.set_table(Table(_COLUMNS, tuple(rows)))
        self.show_notice()

    @property
    def chosen(self) -> Notice | None:
        """The notice under the cursor."""
        return self._by_key.get(self.list.current_key or "")

    @on(LineTable.Highlighted)
    def show_notice(self) -> None:
        """The notice under the cursor, in full."""
        notice = self.chosen
        if notice is None:
            return
        self.text.show(notice)
        self.show_keys()

    def can(self, action_id: str) -> bool:
        if action_id == "notice.open":
            # Another full screen may stand over the panes: then there is no way to them from here.
            return self.chosen is not None and bool(self.chosen.pane) and len(self.app.screen_stack) == 2
        if action_id == "notice.copy":
            return self.chosen is not None
        return action_id == "dialog.close"

    def act_notice_open(self) -> None:
        self.dismiss(self.chosen)

    async def act_notice_copy(self) -> None:
        notice = self.chosen
        if notice is None:
            return
        told = f"{notice.at.isoformat(timespec='seconds')} {notice.text}"
        text = "\n".join(part for part in (told, notice.cause, notice.next_step, notice.code) if part)
        host(self).say(f"{await clipboard.copy(self.app, text)}: the notice", Tone.INFO)


class _Whole(LineText, can_focus=False):
    """One notice in full."""

    _notice: Notice | None = None

    def show(self, notice: Notice) -> None:
        """This one, from its beginning."""
        self._notice, self.top = notice, 0
        self.rewrap()

    def wrapped(self, width: int) -> list[Line]:
        notice = self._notice
        if notice is None:
            return []
        facts = [("why", cell(notice.cause)), ("next", cell(notice.next_step, Tone.INFO))]
        if notice.times > 1 and notice.first is not None:
            since = f"{notice.times} times, first at {notice.first.astimezone():%H:%M:%S}"
            facts.append(("told", Cell(since, Tone.DIM)))
        facts.append(("code", cell(notice.code, Tone.DIM)))
        rows = tuple(Row(name, (Cell(name, Tone.DIM), value)) for name, value in facts if value.text != MISSING)
        tone = notice.tone if notice.tone in (Tone.BAD, Tone.WARN) else Tone.TEXT
        return [*wrap(words(notice.text, tone), width), *fact_lines(Table((), rows), width)]
