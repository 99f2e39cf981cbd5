"""Working on one task: what it asks for beside the form that answers it, saved as one types.

Two modes, told apart by the focus. In the task's text the usual reading keys and single letters work; in the form every
letter is text, and Ctrl keys review, edit and add. Where both do not fit they take turns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll

from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.submissions import draft as drafts
from expb_tui.core.submissions import evidence
from expb_tui.core.submissions.fields import Form, Kind
from expb_tui.core.submissions.roles import form_for
from expb_tui.core.submissions.task_view import Section, sections
from expb_tui.core.text import clean
from expb_tui.present import leases
from expb_tui.present import tasks as reading
from expb_tui.present.cells import Cell, Tone
from expb_tui.tui import clipboard, editor
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.draft_keeper import DraftKeeper
from expb_tui.tui.screens.host import start
from expb_tui.tui.screens.raw_form import RawForm
from expb_tui.tui.screens.submit import ReceiptScreen, SubmitScreen
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.controls import LineButton
from expb_tui.tui.widgets.form import FormRow, FormView, Rows
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.words import Words, line

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage, HeldTask
    from expb_tui.launch import House

Outcome = Literal["completed", "failed"]

_SIDE_BY_SIDE = 116
"""Columns from which the task stands beside the form."""
_READING = 96
"""Cells of a line that is comfortable to read."""


class TaskText(LineText):
    """What the task asks for."""

    SCOPES: ClassVar[tuple[str, ...]] = ("task", "list")
    BINDINGS = bindings("task")

    def __init__(self) -> None:
        super().__init__(title="Task", id="task-text")
        self.sections: list[Section] = []

    @property
    def _screen(self) -> TaskFormScreen:
        screen = self.screen
        assert isinstance(screen, TaskFormScreen)
        return screen

    def wrapped(self, width: int) -> list[Line]:
        found = reading.reading_lines(self.sections, min(width, _READING), glyphs=self.look.glyphs)
        return [(cell,) for cell in found]

    def can(self, action_id: str) -> bool:
        if action_id in ("task.fill", "task.submit", "task.fail", "task.editor"):
            return self._screen.workable
        return True

    def act_task_fill(self) -> None:
        self._screen.fill()

    def act_task_submit(self) -> None:
        self._screen.review()

    def act_task_fail(self) -> None:
        self._screen.fail()

    def act_task_editor(self) -> None:
        self._screen.edit()

    def act_task_page(self) -> None:
        self._screen.page()

    async def act_task_copy(self) -> None:
        await self._screen.copy_id()


class FormPanel(Acts, VerticalScroll, can_focus=False):
    """The frame around the form."""

    SCOPES: ClassVar[tuple[str, ...]] = ("form",)
    BINDINGS = bindings("form")
    DEFAULT_CSS = """
    FormPanel {
        width: 1fr; height: 1fr; background: $surface; border: round $edge; padding: 1 0 0 1;
        border-title-color: $text; border-title-background: $surface; border-title-style: none;
        border-subtitle-color: $dim; border-subtitle-background: $surface;
        scrollbar-size-vertical: 1;
    }
    FormPanel:focus-within { border: round $accent; border-title-color: $accent; border-title-style: bold; }
    FormPanel.-ascii { border: ascii $edge; }
    FormPanel.-ascii:focus-within { border: ascii $accent; }
    FormPanel .form--end { height: 1; margin: 0 0 1 2; }
    """

    @property
    def _screen(self) -> TaskFormScreen:
        screen = self.screen
        assert isinstance(screen, TaskFormScreen)
        return screen

    def can(self, action_id: str) -> bool:
        if action_id == "form.look":
            return not self._screen.has_class("-wide")
        if action_id == "form.add":
            return self._screen.rows_here() is not None
        if action_id == "form.remove":
            return self._screen.row_here() is not None
        return True

    def act_form_review(self) -> None:
        self._screen.review()

    def act_form_editor(self) -> None:
        self._screen.edit()

    def act_form_look(self) -> None:
        self._screen.read_task()

    async def act_form_add(self) -> None:
        if (rows := self._screen.rows_here()) is not None:
            await rows.add()

    async def act_form_remove(self) -> None:
        row = self._screen.row_here()
        if row is not None and isinstance(row.parent, Rows):
            await row.parent.drop(row)

    def act_form_leave(self) -> None:
        self._screen.read_task()


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
        FormPanel { display: none; }
        &.-wide FormPanel { display: block; }
        &.-form FormPanel { display: block; }
        &.-form TaskText { display: none; }
        &.-wide TaskText { display: block; width: 5fr; }
        &.-wide FormPanel { width: 6fr; }
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
        self._outcome = outcome
        self._then = "review" if review else "edit" if edit else ""
        self._held: HeldPackage | None = None
        self._form: Form | None = None
        self._view: FormView | RawForm | None = None
        self._text = TaskText()
        self._panel = FormPanel(id="task-form")
        self._keeper = DraftKeeper(house.desk, package_uid, task_id, self._saved)
        self._broken: drafts.DraftError | None = None
        """The draft that came back from the editor and does not parse."""
        self._server: dict[str, str] = {}
        """What the server or the search for secrets said, by field; until the next change."""
        self._digests: dict[tuple[str, str], Line] = {}
        self._stop = threading.Event()
        self._version: int | None = None
        self._submitted = False
        self._leaving = False
        self._last: dict[str, Any] = {}

    def compose_body(self) -> ComposeResult:
        with Horizontal(id="task-columns"):
            yield self._text
            yield self._panel

    # Reading and keeping

    @property
    def held_task(self) -> HeldTask | None:
        """The task, as the journal knows it."""
        return self._held.task(self._task_id) if self._held else None

    @property
    def workable(self) -> bool:
        """It can still be filled in and submitted."""
        task = self.held_task
        return task is not None and task.open and not task.submitted and self._view is not None

    async def on_mount(self) -> None:
        self._panel.set_class(self.cockpit.ascii_only, "-ascii")
        self._panel.border_title = "Answer"
        self._text.focus()
        try:
            self._held = await self._house.desk.get(self._uid)
            await self._load()
        except ExpbError as error:
            self.cockpit.complain(error)
            self.dismiss(False)
            return
        self._lay_out()
        self.set_interval(1.0, self._tick)
        await self._tick()
        if self._outcome == "failed":
            self.fail()
        elif self._then == "edit":
            self.edit()
        elif self._then == "review":
            self.review()

    async def on_unmount(self) -> None:
        self._stop.set()
        try:
            await self._keeper.flush()
        except ExpbError as error:
            self.cockpit.complain(error)

    async def _load(self) -> None:
        task = self.held_task
        if task is None or self._held is None:
            raise ExpbError("The task is not among those of this package", next_step="Go back and open it again")
        role = task.role or self._held.role
        self._text.sections = sections(role, task.input)
        self._text.title = f"Task of the {clean(role)}"
        self._text.rewrap()
        kept = await self._house.desk.draft(self._uid, self._task_id)
        values = dict(kept.values) if kept else {}
        text = kept.text if kept else None
        if task.submitted or not task.open:
            await self._panel.mount(Words(*self._closed_words(task)))
            return
        try:
            self._form = form_for(role, self._task_id, task.input)
        except ExpbError as error:
            if error.code != "unknown-role":
                raise
            self._view = RawForm(role, self._task_id, text)
            await self._panel.mount(Words(line(f"{clean(error.what)}: {clean(error.cause)}", Tone.WARN)), self._view)
        else:
            view = FormView(self._form.fields, {**self._form.defaults(), **values})
            self._last = view.values()
            self._view = view
            await self._panel.mount(view)
            if text is not None:
                await self._take_text(text)
        await self._panel.mount(
            Horizontal(
                LineButton("Review and submit", widget_id="task-review"),
                LineButton("Open in $EDITOR", widget_id="task-edit"),
                classes="form--end",
            )
        )
        self._refresh()

    def _closed_words(self, task: HeldTask) -> list[Line]:
        glyphs = self.cockpit.look.glyphs
        if task.submitted:
            return [line(f"{glyphs.ok} This task has been submitted.", Tone.OK)]
        return [line(f"{glyphs.idle} This task is {clean(task.phase)}; it takes no submission any more.", Tone.WARN)]

    def _saved(self, saved: bool, error: ExpbError | None) -> None:
        if error is not None:
            self._panel.border_subtitle = "draft NOT saved"
            self.cockpit.complain(error)
        else:
            self._panel.border_subtitle = "draft saved" if saved else "saving the draft"

    async def _tick(self) -> None:
        """The countdown, and what other processes wrote about the package."""
        version = self._house.journal.version()
        if version != self._version:
            self._version = version
            try:
                self._held = await self._house.desk.get(self._uid)
            except ExpbError as error:
                self.cockpit.complain(error)
        held = self._held
        if held is None:
            return
        left, glyphs = leases.left(held, self._house.clock), self.cockpit.look.glyphs
        self._text.state = (
            Cell(f"{left.text} left  ", leases.urgency(held, self._house.clock)),
            leases.state(held, glyphs),
        )
        self._text.update()
        self.cockpit.draw_frame()

    # Layout and focus

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self.set_class(self.size.width >= _SIDE_BY_SIDE, "-wide")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.cockpit.draw_frame()

    def fill(self) -> None:
        """Go into the form."""
        if self._broken is not None:
            self.edit()
            return
        self.add_class("-form")
        self.call_after_refresh(self._focus_form)

    def _focus_form(self) -> None:
        if isinstance(self._view, FormView):
            self._view.focus_first(dict.fromkeys(self._problems(), "") or None)
        elif self._view is not None:
            self._view.focus_text()

    def read_task(self) -> None:
        """Leave the form for the task's text; what was typed is written now."""
        self.remove_class("-form")
        self._text.focus()
        self._flush_soon()

    def _flush_soon(self) -> None:
        async def flush() -> None:
            try:
                await self._keeper.flush()
            except ExpbError:
                return  # already told by _saved

        start(self, flush, "draft", exclusive=False)

    async def act_dialog_close(self) -> None:
        try:
            await self._keeper.flush()
        except ExpbError as error:
            self.cockpit.complain(error)
            return  # leaving now would lose what was typed
        self._leaving = True
        self.dismiss(self._submitted)

    def can(self, action_id: str) -> bool:
        return action_id == "dialog.close"

    def rows_here(self) -> Rows | None:
        """The repeated field with the focus, else the only visible one."""
        if not isinstance(self._view, FormView):
            return None
        node: Any = self.focused
        while node is not None and not isinstance(node, Rows):
            node = node.parent
        if node is not None:
            return node
        lists = [one.control for one in self._view.questions.values() if one.display and isinstance(one.control, Rows)]
        return lists[0] if lists else None

    def row_here(self) -> FormRow | None:
        """The entry with the focus."""
        node: Any = self.focused
        while node is not None and not isinstance(node, FormRow):
            node = node.parent
        return node

    # Filling in

    def _values(self) -> dict[str, Any]:
        return self._view.values() if isinstance(self._view, FormView) else {}

    def _problems(self) -> dict[str, str]:
        return self._form.problems(self._values()) if self._form is not None else {}

    def _refresh(self) -> None:
        """Which fields show, what is computed, what is wrong."""
        if self._form is None or not isinstance(self._view, FormView):
            return
        values = self._values()
        visible = [one.key for one in self._form.visible(values)]
        problems = {**self._form.problems(values), **self._server}
        notes = self._form.notes(values)
        self._view.show(visible, notes, problems, row_notes=self._row_notes(values), lines=self._file_lines(values))

    @on(FormView.Changed)
    @on(RawForm.Changed)
    def _changed(self) -> None:
        if isinstance(self._view, RawForm):
            self._keeper.note({}, text=self._view.text)
            return
        values = self._values()
        if values != self._last:  # controls also tell of the values that they are born with
            self._last = values
            self._server = {}
            self._keeper.note(values)
            self._refresh()

    @on(FormView.Left)
    def _left(self, event: FormView.Left) -> None:
        if self._leaving or not self.is_current:
            return
        self._flush_soon()
        self._refresh()
        if event.kind in (Kind.FILE, Kind.FILES):
            start(self, self._digest, "digest")

    # Evidence

    def _paths(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Every file that the form names: field key and path."""
        assert self._form is not None
        found: list[tuple[str, str]] = []
        for one in self._form.visible(values):
            value = values.get(one.key)
            if one.kind is Kind.FILE and value:
                found.append((one.key, str(value)))
            elif one.kind is Kind.FILES:
                found += [(one.key, str(row["path"])) for row in value or () if row.get("path")]
        return found

    async def _digest(self) -> None:
        """Read the named files, so that their digests stand beside them before anything is sent."""
        assert self._form is not None
        glyphs = self.cockpit.look.glyphs
        for key, path in self._paths(self._values()):
            if (key, path) in self._digests and self._digests[key, path][0].tone is not Tone.BAD:
                continue
            self._digests[key, path] = (Cell("reading the file", Tone.DIM),)
            self._refresh()
            try:
                facts = await asyncio.to_thread(evidence.facts_of, path, folder=Path.cwd(), stop=self._stop)
            except UsageError as error:
                self._digests[key, path] = (Cell(f"{glyphs.bad} {clean(error.lines()[0])}", Tone.BAD),)
            else:
                self._digests[key, path] = (
                    Cell(f"{glyphs.ok} {facts.size:,} bytes, {clean(facts.media_type)}, sha256 ", Tone.OK),
                    Cell(facts.sha256, Tone.DIM),
                )
            self._refresh()

    def _row_notes(self, values: Mapping[str, Any]) -> dict[str, list[Line]]:
        assert self._form is not None
        return {
            one.key: [self._digests.get((one.key, str(row.get("path") or "")), ()) for row in values.get(one.key) or ()]
            for one in self._form.fields
            if one.kind is Kind.FILES
        }

    def _file_lines(self, values: Mapping[str, Any]) -> dict[str, Line]:
        assert self._form is not None
        return {
            one.key: found
            for one in self._form.fields
            if one.kind is Kind.FILE and (found := self._digests.get((one.key, str(values.get(one.key) or "")), ()))
        }

    @on(LineButton.Pressed)
    async def _pressed(self, event: LineButton.Pressed) -> None:
        button = event.button
        if button.id == "task-review":
            self.review()
        elif button.id == "task-edit":
            self.edit()
        elif button.act == "form.add":
            if isinstance(button.parent, Rows):
                await button.parent.add()
        elif button.act == "form.remove" and isinstance(button.parent, FormRow):
            row = button.parent
            if isinstance(row.parent, Rows):
                await row.parent.drop(row)

    # The editor

    def edit(self) -> None:
        """The same draft as commented YAML in $EDITOR."""
        if self.workable:
            start(self, self._edit, "editor")

    async def _edit(self) -> None:
        try:
            await self._keeper.flush()
            if isinstance(self._view, RawForm):
                text = await editor.edit(self.app, self._view.text, name=self._file_name(), configured=self._editor())
                self._view.set_text(text)
                self._changed()
                await self._keeper.flush()
                return
            assert self._form is not None
            before = (
                self._broken.text
                if self._broken
                else drafts.render(self._form, self._values(), self._text.sections, problems=self._server or None)
            )
            text = await editor.edit(self.app, before, name=self._file_name(), configured=self._editor())
        except ExpbError as error:
            self.cockpit.complain(error)
            return
        await self._take_text(text)

    def _file_name(self) -> str:
        return editor.file_name(self._task_id, ".yaml")

    def _editor(self) -> str | None:
        return self._house.settings.editor or None

    async def _take_text(self, text: str) -> None:
        """Take over what the editor left; where it does not parse it is kept word for word and said where."""
        assert self._form is not None
        try:
            values = drafts.parse(self._form, text)
        except drafts.DraftError as error:
            self._set_broken(error)
            self._keeper.note(self._values(), text=text)
            try:
                await self._keeper.flush()
            except ExpbError:
                return  # already told by _saved
            self._ask_about_broken(error)
            return
        self._set_broken(None)
        self._server = {}
        if isinstance(self._view, FormView):
            self._view.set_values(values)
        self._last = self._values()
        self._keeper.note(values)
        self._flush_soon()
        self.call_after_refresh(self._refresh)

    def _set_broken(self, error: drafts.DraftError | None) -> None:
        """While the text cannot be read the form rests: two versions of one draft would lose one of them."""
        self._broken = error
        if self._view is not None:
            self._view.disabled = error is not None

    def _ask_about_broken(self, error: drafts.DraftError) -> None:
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
        if isinstance(self._view, FormView) and self.workable:
            self._view.set_values({**self._values(), "outcome": "failed"})
            self._changed()
            self.add_class("-form")
            self.call_after_refresh(self._view.focus_first, {"reason": ""})
        elif isinstance(self._view, RawForm):
            self._view.fail()
            self.fill()

    def review(self) -> None:
        """Show what would be sent, if it can be sent."""
        if self.workable:
            start(self, self._review, "review")

    async def _review(self) -> None:
        if self._broken is not None:
            self._ask_about_broken(self._broken)
            return
        try:
            await self._keeper.flush()
            body = self._view.body() if isinstance(self._view, RawForm) else await self._body()
        except UsageError as error:
            self.cockpit.complain(error)
            return
        except ExpbError as error:
            self.cockpit.complain(error)
            return
        if body is None:
            return
        held = self._held
        assert held is not None
        screen = SubmitScreen(self._house, package_uid=self._uid, body=body)
        result = await self.app.push_screen_wait(screen)
        if result is not None:
            self._submitted = True
            await self._keeper.drop()
            await self.cockpit.bridge.leases_changed()
            await self.app.push_screen_wait(ReceiptScreen(result, fresh=True))
            self._leaving = True
            self.dismiss(True)
        elif screen.problems:
            self._server = self._form.by_key(screen.problems) if self._form is not None else {}
            self._show_problems(self._server)

    async def _body(self) -> dict[str, Any] | None:
        """The submission, its files read; None where something is wrong, which the form then shows."""
        assert self._form is not None
        values = self._values()
        problems = self._form.problems(values)
        if not problems:
            try:
                values = await evidence.complete(self._form, values, folder=Path.cwd())
            except evidence.EvidenceProblem as error:
                problems = self._server = error.problems
            else:
                problems = self._server = self._form.problems(values)
        if not problems:
            return self._form.to_body(values)
        self._show_problems(problems)
        return None

    def _show_problems(self, problems: Mapping[str, str]) -> None:
        if not isinstance(self._view, FormView) or not problems:
            return
        self._view.touch_all()
        self._refresh()
        self.add_class("-form")
        count = len(problems)
        general = problems.get("")
        self.cockpit.say(
            clean(general)
            if general
            else f"{count} answer{'s' if count != 1 else ''} to look at before this can be sent",
            Tone.WARN,
        )
        self.call_after_refresh(self._view.focus_first, problems)

    # Reading elsewhere

    def page(self) -> None:
        """The task in $PAGER."""
        text = "\n".join(cell.text for cell in reading.reading_lines(self._text.sections, _READING))

        async def show() -> None:
            try:
                await editor.page(
                    self.app, text, name=f"task-{self._task_id}", configured=self._house.settings.pager or None
                )
            except ExpbError as error:
                self.cockpit.complain(error)

        start(self, show, "editor")

    async def copy_id(self) -> None:
        """The task's id to the operator's clipboard."""
        try:
            self.cockpit.say(f"{await clipboard.copy(self.app, self._task_id)}: {clean(self._task_id)}")
        except ExpbError as error:
            self.cockpit.complain(error)
