"""Forms made from a description: one block a question, messages at the field, values as plain data.

The description is ``core.submissions.fields``; this module and its parts know its kinds and no words of any role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from expb_tui.core.submissions.fields import Field, Kind
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Tone
from expb_tui.tui.widgets.form_rows import Rows
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.question import Question
from expb_tui.tui.widgets.words import Words


class FormView(Vertical):
    """All questions of a form. Posts :class:`Changed` when the operator edits, and :class:`Left` on leaving a field."""

    DEFAULT_CSS = """
    FormView { width: 1fr; height: auto; max-width: 100; }
    FormView > .form--group { padding: 0 1; margin: 0 0 1 0; }
    """

    class Changed(Message):
        """Some value is another one."""

    class Left(Message):
        """The operator left a field; ``kind`` is that field's."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self, fields: Sequence[Field], values: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields
        self.questions = {field.key: Question(field, values.get(field.key)) for field in fields}
        self._headings: dict[str, Words] = {}

    def compose(self) -> ComposeResult:
        group = ""
        for field in self._fields:
            if field.group and field.group != group:
                heading = Words((Cell(clean(field.group), Tone.ACCENT),))
                heading.add_class("form--group")
                self._headings[field.group] = heading
                yield heading
            group = field.group
            yield self.questions[field.key]

    def values(self) -> dict[str, Any]:
        """Every field's value, hidden ones too: a draft loses nothing when an answer is changed and changed back."""
        return {key: question.value for key, question in self.questions.items()}

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Show other values, as after an edit elsewhere."""
        for key, question in self.questions.items():
            question.set_value(values.get(key))

    def show(
        self,
        visible: Sequence[str],
        notes: Mapping[str, str],
        problems: Mapping[str, str],
        *,
        row_notes: Mapping[str, Sequence[Line]] | None = None,
        lines: Mapping[str, Line] | None = None,
    ) -> None:
        """Show these fields with notes and problems by key.

        ``row_notes`` are computed lines of the rows of a repeated field, ``lines`` of single fields.
        """
        shown = set(visible)
        groups: set[str] = set()
        for key, question in self.questions.items():
            question.display = key in shown
            if key in shown:
                groups.add(question.field.group)
            question.say(notes.get(key, ""), problems.get(key, ""), (lines or {}).get(key, ()))
            if isinstance(question.control, Rows):
                question.control.say((row_notes or {}).get(key, ()))
        for group, heading in self._headings.items():
            heading.display = group in groups

    def touch_all(self) -> None:
        """From now on every field says what is wrong."""
        for question in self.query(Question):
            question.touched = True

    def focus_first(self, problems: Mapping[str, str] | None = None) -> None:
        """Put the focus into the first visible field, or into the first that has a problem."""
        for key, question in self.questions.items():
            if question.display and (problems is None or key in problems):
                question.focus_control()
                return

    def only_rows(self) -> Rows | None:
        """The first visible field that repeats."""
        found = (one.control for one in self.questions.values() if one.display and isinstance(one.control, Rows))
        return next(found, None)

    @on(Question.Edited)
    @on(Rows.Edited)
    def _edited(self, event: Question.Edited | Rows.Edited) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Question.Left)
    def _left(self, event: Question.Left) -> None:
        event.stop()
        self.post_message(self.Left(event.question.field.kind))
