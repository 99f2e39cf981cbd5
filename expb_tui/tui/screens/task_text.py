"""What a task asks for, beside its form: the text, how long its lease lasts, and what is over where it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.submissions.task_view import Section
from expb_tui.present import leases
from expb_tui.present import tasks as reading
from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import PaneParts
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, fitted
from expb_tui.tui.widgets.words import line
from expb_tui.watch.losses import Ending

if TYPE_CHECKING:
    from expb_tui.tui.screens.task_form import TaskFormScreen

READING = 96
"""Cells of a line that is comfortable to read."""


def loss_lines(gone: Ending, glyphs: Glyphs) -> list[Line]:
    """What is over, why, and that nothing typed is lost."""
    lines: list[Line] = [line(f"{glyphs.bad} {gone.what}.", Tone.BAD)]
    if gone.why:
        lines.append(line(f"  {gone.why}", Tone.WARN))
    lines.append(line("  Nothing can be submitted for it. What you typed is kept on this host; the editor opens it."))
    if gone.next_step:
        lines.append(line(f"  {gone.next_step}", Tone.INFO))
    return lines


class TaskText(PaneParts, LineText):
    """What the task asks for, and how long its lease lasts."""

    SCOPES: ClassVar[tuple[str, ...]] = ("task", "list")
    BINDINGS = bindings("task")
    topics = frozenset({"leases"})

    def __init__(self, desk: TaskFormScreen) -> None:
        super().__init__(title="Task", id="task-text")
        self.sections: list[Section] = []
        self._desk = desk

    def present(self) -> float | None:
        held = self._desk.held
        if held is None:
            return None
        self._desk.follow_lease(held)
        left = leases.left(held, self.clock)
        words = f"{left.text} left  " if held.renewable or held.usable else ""
        self.state = (
            *((Cell(words, leases.urgency(held, self.clock, self.bridge.keeper.keeping(held))),) if words else ()),
            leases.state(held, self.glyphs),
        )
        self.update()
        return left.next_change

    def wrapped(self, width: int) -> list[Line]:
        width = min(width, READING)
        # Where the answer stands beside the task, it says so itself.
        gone = self._desk.gone if not self._desk.has_class("-wide") else None
        lead = [*loss_lines(gone, self.look.glyphs), ()] if gone is not None else []
        return fitted([*lead, *reading.toned_lines(self.sections, width, glyphs=self.look.glyphs)], width)

    def can(self, action_id: str) -> bool:
        if action_id == "task.editor":
            return self._desk.has_form
        if action_id in ("task.submit", "task.fail"):
            return self._desk.sendable
        if action_id == "task.versions":
            return self._desk.workable and self._desk.has_versions
        return self._desk.workable or action_id != "task.fill"

    def act_task_fill(self) -> None:
        self._desk.fill()

    def act_task_submit(self) -> None:
        self._desk.review()

    def act_task_fail(self) -> None:
        self._desk.fail()

    def act_task_editor(self) -> None:
        self._desk.edit()

    def act_task_page(self) -> None:
        self._desk.page()

    def act_task_versions(self) -> None:
        self._desk.choose_draft(asked=True)

    async def act_task_back(self) -> None:
        await self._desk.act_dialog_close()

    async def act_task_copy(self) -> None:
        await self._desk.copy_id()
