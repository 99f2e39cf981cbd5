"""The answer to a task: a form made for its role, or its body as YAML, saved as one types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.drafts import DraftMoved
from expb_tui.core.submissions import draft as drafts
from expb_tui.core.submissions import evidence
from expb_tui.core.submissions.fields import Form, Kind, read_number
from expb_tui.core.submissions.roles import form_for
from expb_tui.core.submissions.task_view import Section
from expb_tui.core.text import clean
from expb_tui.present.cells import Tone
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.draft_keeper import DraftKeeper
from expb_tui.tui.screens.file_notes import FileNotes
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.screens.raw_form import RawForm
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.controls import LineButton
from expb_tui.tui.widgets.form import FormView
from expb_tui.tui.widgets.form_rows import FormRow, Rows, row_around, rows_around
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.words import Words, line

if TYPE_CHECKING:
    from expb_tui.core.leases.drafts import Draft
    from expb_tui.core.leases.model import HeldTask


_SAVED = "saved as you type"
_NOT_SAVED = "draft NOT saved"
_BESIDE = "saved beside another window's draft"
_KEPT = "draft kept, read only"


class Desk(Protocol):
    """What the form's keys ask of the screen around it."""

    def review(self) -> None: ...
    def edit(self) -> None: ...
    def read_task(self) -> None: ...


class AnswerPanel(Acts, VerticalScroll, can_focus=False):
    """Give it a task with ``load``; ``values`` are always kept, whatever becomes of the screen.

    While a draft that came back from the editor cannot be read (``broken``), the form rests: two versions of one draft
    would lose one of them.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("form",)
    BINDINGS = bindings("form")
    DEFAULT_CSS = """
    AnswerPanel {
        width: 1fr; height: 1fr; background: $surface; border: round $edge; padding: 1 0 0 1;
        border-title-color: $text; border-title-background: $surface; border-title-style: none;
        border-subtitle-color: $dim; border-subtitle-background: $surface;
        scrollbar-size-vertical: 1;
    }
    AnswerPanel:focus-within { border: round $accent; border-title-color: $accent; border-title-style: bold; }
    AnswerPanel.-ascii { border: ascii $edge; }
    AnswerPanel.-ascii:focus-within { border: ascii $accent; }
    AnswerPanel #answer-rests { margin: 0 1 1 0; }
    AnswerPanel .answer--end { height: 1; margin: 0 0 1 2; }
    """

    class Unreadable(Message):
        """The draft that came back from the editor does not parse."""

        def __init__(self, error: drafts.DraftError) -> None:
            super().__init__()
            self.error = error

    class Moved(Message):
        """Another window has changed the draft: one of both versions is to be chosen."""

    def __init__(self, keeper: DraftKeeper, desk: Desk) -> None:
        super().__init__(id="task-form")
        self.border_title = "Answer"
        self.keeper = keeper
        self.broken: drafts.DraftError | None = None
        self._desk = desk
        self._form: Form | None = None
        self._view: FormView | RawForm | None = None
        self._files: FileNotes | None = None
        self._told: dict[str, str] = {}
        """What the server or the search for secrets said, by field; until the next change."""
        self._last: dict[str, Any] = {}
        self._closing = False
        self._resting = Words(widget_id="answer-rests")
        self._resting.display = False
        self._at_rest = False

    @property
    def ready(self) -> bool:
        """There is something to fill in."""
        return self._view is not None

    async def load(self, task: HeldTask, role: str, values: Mapping[str, Any], text: str | None) -> None:
        """Show the form of ``task`` with a draft; ``text`` is one that could not be read when it was saved."""
        self.set_class(host(self).ascii_only, "-ascii")
        await self.mount(self._resting)
        try:
            form = self._form = form_for(role, task.task_id, task.input)
        except ExpbError as error:
            if error.code != "unknown-role":
                raise
            self._view = RawForm(role, task.task_id, text)
            await self.mount(Words(line(f"{clean(error.what)}: {clean(error.cause)}", Tone.WARN)), self._view)
        else:
            self._files = FileNotes(form, host(self).look.glyphs, self.refresh_form)
            view = self._view = FormView(form.fields, {**form.defaults(), **values})
            self._last = view.values()
            await self.mount(view)
            if text is not None:
                self.take_text(text)
        await self.mount(
            Horizontal(
                LineButton("Review and submit", widget_id="answer-review"),
                LineButton("Open in $EDITOR", widget_id="answer-edit"),
                classes="answer--end",
            )
        )
        self.border_subtitle = _SAVED
        self.refresh_form()
        self._digest()

    async def close(self, words: Sequence[Any]) -> None:
        """There is nothing to fill in; say why."""
        await self.mount(Words(*words))

    def on_unmount(self) -> None:
        self._closing = True
        if self._files is not None:
            self._files.stop()

    def show_saved(self, saved: bool, error: ExpbError | None) -> None:
        """The keeper's news, in the lower border; it is drawn again only when it reads differently."""
        if error is not None:
            host(self).complain(error)
        if isinstance(error, DraftMoved):
            self.post_message(self.Moved())
        elif error is not None or saved:
            words = _NOT_SAVED if error is not None else self._well_kept
            if self.border_subtitle != words:
                self.border_subtitle = words

    @property
    def _well_kept(self) -> str:
        return _BESIDE if self.keeper.moved is not None else _KEPT if self._at_rest else _SAVED

    def rest(self, words: Sequence[Line]) -> None:
        """Nothing can be submitted any more, as ``words`` say: the answers can be read and not changed.

        Without words they can be changed again.
        """
        self._at_rest = bool(words)
        self._resting.set_lines(*words)
        self._resting.display = self._at_rest
        for button in self.query("#answer-review"):
            button.disabled = self._at_rest
        if self.border_subtitle != _NOT_SAVED:
            self.border_subtitle = self._well_kept
        self._rest(self.broken)
        if words:
            self.scroll_home(animate=False)

    def flush_soon(self) -> None:
        """Write what waits, beside the keys; trouble is told in the border."""

        async def flush() -> None:
            try:
                await self.keeper.flush()
            except ExpbError:
                return  # told by show_saved

        if not self._closing:
            start(self, flush, "draft", exclusive=False)

    # Values

    def values(self) -> dict[str, Any]:
        """What is filled in; empty for a body as YAML."""
        return self._view.values() if isinstance(self._view, FormView) else {}

    def problems(self) -> dict[str, str]:
        """What is missing or wrong, by field."""
        return self._form.problems(self.values()) if self._form is not None else {}

    def focus_form(self) -> None:
        """Put the focus into the first field that needs an answer, else into the first."""
        if isinstance(self._view, FormView):
            self._view.focus_first(self.problems() or None)
        elif self._view is not None:
            self._view.focus_text()

    def refresh_form(self) -> None:
        """Which fields show, what is computed, what is wrong."""
        form, view, files = self._form, self._view, self._files
        if form is None or files is None or not isinstance(view, FormView) or self._closing:
            return
        values = view.values()
        view.show(
            [one.key for one in form.visible(values)],
            form.notes(values),
            {**form.problems(values), **self._told},
            row_notes=files.of_rows(values),
            lines=files.of_fields(values),
        )

    @on(FormView.Changed)
    @on(RawForm.Changed)
    def _changed(self) -> None:
        if isinstance(self._view, RawForm):
            self.keeper.note({}, text=self._view.text)
            return
        values = self.values()
        if values != self._last:  # controls also tell of the values that they are born with
            self._last = values
            self._told = {}
            self.keeper.note(values)
            self.refresh_form()

    @on(FormView.Left)
    def _left(self, event: FormView.Left) -> None:
        if self._closing:
            return
        self.flush_soon()
        self.refresh_form()
        if event.kind in (Kind.FILE, Kind.FILES):
            self._digest()

    def _digest(self) -> None:
        files = self._files
        if files is not None and not self._closing:
            values = self.values()

            async def read() -> None:
                await files.read(values)

            start(self, read, "digest")

    def fail(self) -> None:
        """The task could not be done: only the reason is asked for."""
        if isinstance(self._view, FormView):
            self._view.set_values({**self.values(), "outcome": "failed"})
            self._changed()
            self.call_after_refresh(self._view.focus_first, {"reason": ""})
        elif self._view is not None:
            self._view.fail()
            self._view.focus_text()

    def show_problems(self, problems: Mapping[str, str], *, told: bool = False) -> None:
        """Say everything that is wrong and go to the first; ``told`` are problems by path of the body."""
        if not isinstance(self._view, FormView):
            return
        if told:
            assert self._form is not None
            problems = self._told = self._form.by_key(problems)
        self._view.touch_all()
        self.refresh_form()
        self.call_after_refresh(self._view.focus_first, problems)

    async def body(self) -> dict[str, Any] | None:
        """The submission, its files read; None where something is wrong, which the form then shows.

        Raises ``UsageError`` for a body as YAML that is none.
        """
        if isinstance(self._view, RawForm):
            return self._view.body()
        assert self._form is not None
        values = self.values()
        problems = self._form.problems(values)
        if not problems:
            try:
                values = await evidence.complete(self._form, values, folder=Path.cwd())
            except evidence.EvidenceProblem as error:
                problems = self._told = error.problems
            else:
                problems = self._told = self._form.problems(values)
        if not problems:
            return self._form.to_body(values)
        self.show_problems(problems)
        count = len(problems)
        host(self).say(
            clean(problems.get("") or f"{count} answer{'s' if count != 1 else ''} to look at before it can be sent"),
            Tone.WARN,
        )
        return None

    # As text for the editor

    def text(self, sections: Sequence[Section]) -> str:
        """The draft for the editor: the broken one word for word, else the form as commented YAML."""
        if self.broken is not None:
            return self.broken.text
        if isinstance(self._view, RawForm):
            return self._view.text
        assert self._form is not None
        values = self.values()
        for one in self._form.fields:
            number = read_number(values[one.key]) if one.kind is Kind.NUMBER else None
            if number is not None and str(number) == values[one.key]:
                values[one.key] = number  # without quotes, as a person would write it
        return drafts.render(self._form, values, sections, problems=self._told or None)

    def take_text(self, text: str) -> bool:
        """Take over what the editor left; what cannot be read is kept word for word, and the answer is False."""
        if isinstance(self._view, RawForm):
            self._view.set_text(text)
            self.keeper.note({}, text=text)
            self.flush_soon()
            return True
        assert self._form is not None
        try:
            values = drafts.parse(self._form, text)
        except drafts.DraftError as error:
            self._rest(error)
            self.keeper.note(self.values(), text=text)
            self.post_message(self.Unreadable(error))
        else:
            self._take_values(values)
            self.keeper.note(values)
        self.flush_soon()
        return self.broken is None

    def show_version(self, version: Draft) -> None:
        """Another version is the draft now."""
        if self._form is not None and version.text is None:
            self._take_values({**self._form.defaults(), **version.values})
        else:
            self.take_text(version.text or "")

    def _take_values(self, values: Mapping[str, Any]) -> None:
        self._rest(None)
        self._told = {}
        if isinstance(self._view, FormView):
            self._view.set_values(values)
        self._last = self.values()
        self.call_after_refresh(self.refresh_form)
        self._digest()

    def _rest(self, error: drafts.DraftError | None) -> None:
        self.broken = error
        if self._view is not None:
            self._view.disabled = error is not None or self._at_rest

    # Keys and buttons

    def can(self, action_id: str) -> bool:
        if action_id in ("form.review", "form.add", "form.remove") and self._at_rest:
            return False
        if action_id == "form.look":
            return not self.screen.has_class("-wide")
        if action_id == "form.add":
            return self._rows() is not None
        if action_id == "form.remove":
            return row_around(self.screen.focused) is not None
        return True

    def _rows(self) -> Rows | None:
        """The repeated field with the focus, else the only one there is."""
        return rows_around(self.screen.focused) or (
            self._view.only_rows() if isinstance(self._view, FormView) else None
        )

    def act_form_review(self) -> None:
        self._desk.review()

    def act_form_editor(self) -> None:
        self._desk.edit()

    def act_form_look(self) -> None:
        self._desk.read_task()

    def act_form_leave(self) -> None:
        self._desk.read_task()

    async def act_form_add(self) -> None:
        if (rows := self._rows()) is not None:
            await rows.add()

    async def act_form_remove(self) -> None:
        await _drop(row_around(self.screen.focused))

    @on(LineButton.Pressed)
    async def _pressed(self, event: LineButton.Pressed) -> None:
        button = event.button
        event.stop()
        if button.id == "answer-review":
            self._desk.review()
        elif button.id == "answer-edit":
            self._desk.edit()
        elif button.act == "form.add" and isinstance(button.parent, Rows):
            await button.parent.add()
        elif button.act == "form.remove":
            await _drop(row_around(button))


async def _drop(row: FormRow | None) -> None:
    if row is not None and isinstance(row.parent, Rows):
        await row.parent.drop(row)
