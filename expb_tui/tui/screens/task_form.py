"""Working on one task: what it asks for beside the form that answers it.

Two modes, told apart by the focus. In the task's text the usual reading keys and single letters work; in the form every
letter is text, and Ctrl keys review, edit and add. Where both do not fit they take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal

from expb_tui.core import programs
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.submissions import draft as drafts
from expb_tui.core.submissions.task_view import sections
from expb_tui.core.text import clean
from expb_tui.present import tasks as reading
from expb_tui.present.cells import Tone
from expb_tui.tui import clipboard, editor
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.answer import AnswerPanel
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.draft_keeper import DraftKeeper
from expb_tui.tui.screens.host import start
from expb_tui.tui.screens.submit import ReceiptScreen, SubmitScreen
from expb_tui.tui.screens.task_text import READING, TaskText, loss_lines
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.words import line
from expb_tui.watch.losses import Ending, ending

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage, HeldTask
    from expb_tui.launch import House

Outcome = Literal["completed", "failed"]

_SIDE_BY_SIDE = 116
"""Columns from which the task stands beside the form."""


class TaskFormScreen(FrameScreen[bool]):
    """Dismisses with True once the server has confirmed a submission, otherwise False; drafts stay.

    ``outcome`` is set beforehand where the operator has already said that the task failed; ``edit`` goes on to the
    editor and ``review`` to the question, or to the first answer that is missing.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog",)
    BINDINGS = bindings("dialog")
    AUTO_FOCUS = None
    DEFAULT_CSS = """
    TaskFormScreen {
        #task-columns { width: 1fr; height: 1fr; }
        TaskText { width: 1fr; max-width: 100; }
        AnswerPanel { display: none; }
        &.-wide AnswerPanel { display: block; }
        &.-form AnswerPanel { display: block; }
        &.-form TaskText { display: none; }
        &.-wide TaskText { display: block; width: 5fr; }
        &.-wide AnswerPanel { width: 6fr; }
    }
    """

    def __init__(
        self,
        house: House,
        *,
        package_uid: str,
        task_id: str,
        outcome: Outcome | None = None,
        edit: bool = False,
        review: bool = False,
    ) -> None:
        super().__init__()
        self._house = house
        self._uid = package_uid
        self._task_id = task_id
        self._first = self.fail if outcome == "failed" else self.edit if edit else self.review if review else None
        self._held: HeldPackage | None = None
        self._text = TaskText(self)
        self._keeper = DraftKeeper(
            house.desk, package_uid, task_id, lambda saved, error: self._panel.show_saved(saved, error)
        )
        self._panel = AnswerPanel(self._keeper, self)
        self._submitted = False
        self._choosing = False
        self.has_versions = False
        """There is more than one version of the draft."""
        self.gone: Ending | None = None
        """Why no work on it is of use any more; what was typed is kept."""

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="task-columns"):
            yield self._text
            yield self._panel

    @property
    def held(self) -> HeldPackage | None:
        """The package, as the bridge knows it; what ended long ago as it was read here."""
        found = (item for item in self.cockpit.bridge.held or () if item.uid == self._uid)
        return next(found, self._held)

    @property
    def held_task(self) -> HeldTask | None:
        """The task, as the journal knows it."""
        held = self.held
        return held.task(self._task_id) if held else None

    @property
    def has_form(self) -> bool:
        """There are answers: to be filled in, or a draft of them that is kept."""
        task = self.held_task
        return task is not None and not task.submitted and self._panel.ready

    @property
    def workable(self) -> bool:
        """It can still be filled in."""
        return self.has_form and self.gone is None

    @property
    def sendable(self) -> bool:
        """It can be submitted now."""
        return self.workable and self.held is not None and self.held.usable

    # Life

    async def on_mount(self) -> None:
        self._lay_out()
        self._text.focus()
        try:
            self._held = await self._house.desk.get(self._uid)
            await self._load(self._held)
        except ExpbError as error:
            self.cockpit.complain(error)
            self.dismiss(False)
            return
        self._text.present()
        self.cockpit.draw_frame()
        if self.workable:
            self.choose_draft(then=self._first)
        elif self._first is not None:
            self._first()

    async def on_unmount(self) -> None:
        try:
            await self._keeper.flush()
        except ExpbError as error:
            self.cockpit.complain(error)

    async def _load(self, held: HeldPackage) -> None:
        task = held.task(self._task_id)
        if task is None:
            raise ExpbError("The task is not among those of this package", next_step="Go back and open it again")
        role = task.role or held.role
        self._text.sections = sections(role, task.input)
        self._text.title = f"Task of the {clean(role)}"
        self._text.rewrap()
        glyphs = self.cockpit.look.glyphs
        if task.submitted:
            await self._panel.close([line(f"{glyphs.ok} This task has been submitted.", Tone.OK)])
            return
        kept = self._keeper.base = await self._house.desk.draft(self._uid, self._task_id)
        if not task.open and kept is None:
            words = f"{glyphs.idle} This task is {clean(task.phase)}; it takes no submission any more."
            await self._panel.close([line(words, Tone.WARN)])
        else:
            await self._panel.load(task, role, kept.values if kept else {}, kept.text if kept else None)
        self.follow_lease(held)

    def follow_lease(self, held: HeldPackage) -> None:
        """A lease that is gone stops the work on it at once: the form rests, and what was typed is kept."""
        task = held.task(self._task_id)
        gone = None if task is None or task.submitted or self._submitted else ending(held)
        if gone is None and task is not None and not (task.open or task.submitted):
            gone = Ending(f"This task is {clean(task.phase)}", "it takes no submission any more", "")
        if gone == self.gone or not self._panel.ready:
            return
        self.gone = gone
        self._panel.rest(loss_lines(gone, self.cockpit.look.glyphs) if gone is not None else ())
        if gone is not None:
            self._panel.flush_soon()
            self.remove_class("-form")
            self._text.focus()
        self._text.rewrap()
        self.cockpit.draw_frame_soon()

    # Layout and focus

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self.set_class(self.app.size.width >= _SIDE_BY_SIDE, "-wide")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.cockpit.draw_frame()

    def fill(self) -> None:
        """Go into the form, or into the editor where only it can show the draft."""
        if self._panel.broken is not None:
            self.edit()
            return
        if not self.workable:
            return
        self.add_class("-form")
        self.call_after_refresh(self._panel.focus_form)

    def read_task(self) -> None:
        """Leave the form for the task's text; what was typed is written now."""
        self.remove_class("-form")
        self._text.focus()
        self._panel.flush_soon()

    def can(self, action_id: str) -> bool:
        return action_id == "dialog.close" and (self.focused is None or self._panel not in self.focused.ancestors)

    async def act_dialog_close(self) -> None:
        try:
            await self._keeper.flush()
        except ExpbError:
            return  # told already; leaving now would lose what was typed
        self.dismiss(self._submitted)

    # Versions of the draft

    @on(AnswerPanel.Moved)
    def _moved(self) -> None:
        self.choose_draft()

    def choose_draft(self, *, asked: bool = False, then: Callable[[], None] | None = None) -> None:
        """Ask which version of the draft goes on, where there are several worth asking about; ``then`` go on."""
        from expb_tui.tui.screens import draft_versions

        async def ask() -> None:
            if self._choosing:
                return
            self._choosing = True
            try:
                version = await draft_versions.choose(self.cockpit, self._keeper, asked=asked)
                self.has_versions = bool((await self._keeper.versions())[1])
            finally:
                self._choosing = False
            if version is not None:
                self._panel.show_version(version)
                await self.cockpit.bridge.leases_changed()
            if then is not None:
                then()

        start(self, ask, "versions", exclusive=False)

    # The editor

    def edit(self) -> None:
        """The same draft as commented YAML in $EDITOR."""
        if self.has_form:
            start(self, self._edit, "editor")

    async def _edit(self) -> None:
        await self._keeper.flush()
        text = await editor.edit(
            self.app,
            self._panel.text(self._text.sections),
            name=programs.file_name(self._task_id, ".yaml"),
            configured=self._house.settings.editor or None,
        )
        if self._panel.take_text(text):
            self.cockpit.say("The draft is taken over from the editor")

    @on(AnswerPanel.Unreadable)
    def _unreadable(self, event: AnswerPanel.Unreadable) -> None:
        self._ask_about(event.error)

    def _ask_about(self, error: drafts.DraftError) -> None:
        from expb_tui.tui.screens.confirm import ConfirmScreen

        lines: list[Line] = [
            line(f"Line {error.line}, column {error.column}: {clean(error.message)}", Tone.BAD),
            (),
            line("What you wrote is kept word for word. The form shows it once it can be read."),
        ]

        def answered(yes: bool | None) -> None:
            if yes:
                self.edit()

        self.app.push_screen(ConfirmScreen("The draft cannot be read", lines, verb="Open the editor again"), answered)

    # Submitting

    def fail(self) -> None:
        """The task could not be done: the form asks for the reason only."""
        if self.sendable:
            self.add_class("-form")
            self._panel.fail()

    def review(self) -> None:
        """Show what would be sent, if it can be sent."""
        if self.sendable:
            start(self, self._review, "review")
        elif self.gone is None and (held := self.held) is not None:
            self.cockpit.say(f"It cannot be submitted: {clean(held.reason or held.word)}", Tone.WARN)

    async def _review(self) -> None:
        if self._panel.broken is not None:
            self._ask_about(self._panel.broken)
            return
        await self._keeper.flush()
        try:
            body = await self._panel.body()
        except UsageError:
            self.fill()
            raise
        if body is None:
            self.add_class("-form")
            return
        screen = SubmitScreen(self._house, package_uid=self._uid, body=body)
        receipt = await self.app.push_screen_wait(screen)
        if receipt is not None:
            self._submitted = True
            self.cockpit.say(f"Submitted: {clean(receipt.record_kind)} {clean(receipt.record_id)}".rstrip(": "))
            await self._keeper.drop()
            await self.cockpit.bridge.leases_changed()
            await self.app.push_screen_wait(ReceiptScreen(receipt, fresh=True))
            self.dismiss(True)
        elif screen.problems:
            self.add_class("-form")
            self._panel.show_problems(screen.problems, told=True)

    # Reading elsewhere

    def page(self) -> None:
        """The task in $PAGER."""
        text = "\n".join(cell.text for cell in reading.reading_lines(self._text.sections, READING))

        async def show() -> None:
            await editor.page(
                self.app, text, name=f"task-{self._task_id}", configured=self._house.settings.pager or None
            )

        start(self, show, "editor")

    async def copy_id(self) -> None:
        """The task's id to the operator's clipboard."""
        try:
            self.cockpit.say(f"{await clipboard.copy(self.app, self._task_id)}: {clean(self._task_id)}")
        except ExpbError as error:
            self.cockpit.complain(error)
