"""Forms made from a description: one block a question, messages at the field, values as plain data.

The description is ``core.submissions.fields``; this module knows its kinds and no words of any role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.message import Message
from textual.widget import Widget

from expb_tui.core.submissions.fields import Field, Kind
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Tone
from expb_tui.tui.widgets.controls import ChoiceLine, LineButton, LineInput, PickLines, ProseArea, Tick
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.look import look_of
from expb_tui.tui.widgets.words import Words

LIST_INDENT = "  "
"""What starts a line that continues the item above it, in a list typed one item a line."""


def list_text(items: Sequence[str]) -> str:
    """Items as lines; line feeds inside an item become indented continuations."""
    return "\n".join(item.replace("\n", "\n" + LIST_INDENT) for item in items)


def text_list(text: str) -> list[str]:
    """The items of :func:`list_text`; empty lines are no items."""
    items: list[str] = []
    for line in text.split("\n"):
        if line.startswith(LIST_INDENT) and items:
            items[-1] += "\n" + line[len(LIST_INDENT) :]
        elif line.strip():
            items.append(line.strip())
    return [item.rstrip() for item in items]


class Question(Vertical):
    """One field: label, help, control, and what is wrong or worth knowing below it."""

    DEFAULT_CSS = """
    Question { width: 1fr; height: auto; padding: 0 1 0 0; margin: 0 0 1 0; }
    Question > Words { padding: 0 1; }
    Question > .question--below { display: none; padding: 0 1 0 3; }
    Question.-said > .question--below { display: block; }
    Question > ProseArea, Question > LineInput, Question > ChoiceLine, Question > PickLines, Question > Tick {
        margin: 0 0 0 2;
    }
    """

    class Edited(Message):
        """A value was changed by the operator."""

    class Left(Message):
        """The focus left the control."""

        def __init__(self, question: Question) -> None:
            super().__init__()
            self.question = question

    def __init__(self, field: Field, value: Any, *, compact: bool = False) -> None:
        super().__init__()
        self.field = field
        self._compact = compact
        """Its help is shown only while the focus is in it."""
        self.touched = False
        """The operator has been here, so what is wrong may be said."""
        self._marked = False
        self.control = _control(field, value)
        self._label = Words(indent=2)
        self._below = Words(indent=2)
        self._below.add_class("question--below")

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.control
        yield self._below

    def on_mount(self) -> None:
        self._label.set_lines(self._label_line())

    def _label_line(self) -> Line:
        field = self.field
        sign = look_of(self).glyphs.arrow if self._marked else " "
        label = Cell(f"{sign} {clean(field.label)}", Tone.ACCENT if self._marked else Tone.TEXT)
        parts = [clean(field.help)] if field.help and (self._marked or not self._compact) else []
        if field.required:
            parts.insert(0, "required")
        said = not field.unit or field.label.endswith(field.unit)
        unit = [] if said else [Cell(f"  in {clean(field.unit)}", Tone.INFO)]
        return (label, *unit, Cell("  " + ". ".join(parts), Tone.DIM)) if parts else (label, *unit)

    def mark(self, marked: bool) -> None:
        """Show that the focus is here, by a sign and not by colour alone."""
        if marked != self._marked:
            self._marked = marked
            self._label.set_lines(self._label_line())

    @property
    def value(self) -> Any:
        """The field's value in the form's terms."""
        control = self.control
        if isinstance(control, LineInput):
            return control.value
        if isinstance(control, ProseArea):
            return text_list(control.text) if self.field.kind == Kind.LIST else control.text
        if isinstance(control, ChoiceLine):
            return control.value
        if isinstance(control, (Tick, PickLines)):
            return control.value
        assert isinstance(control, Rows)
        return control.values()

    def set_value(self, value: Any) -> None:
        """Show another value without saying that the operator typed it."""
        control = self.control
        with self.prevent(LineInput.Changed, ProseArea.Changed, ChoiceLine.Changed, Tick.Changed):
            if isinstance(control, LineInput):
                control.value = _line(value)
            elif isinstance(control, ProseArea):
                text = list_text([str(item) for item in value or ()]) if self.field.kind == Kind.LIST else value or ""
                if control.text != text:
                    control.load_text(text)
            elif isinstance(control, ChoiceLine):
                control.value = value or ""
            elif isinstance(control, PickLines):
                control.value = [str(item) for item in value or ()]
            elif isinstance(control, Tick):
                control.value = bool(value)
            else:
                assert isinstance(control, Rows)
                control.set_values(value or [])

    def say(self, note: str, problem: str, extra: Line = ()) -> None:
        """Show a computed note, and what is wrong; empty for neither. Only a touched field says what is wrong.

        ``extra`` is a computed line that stands in any case, such as the digest of a file.
        """
        glyphs = look_of(self).glyphs
        lines: list[Line] = []
        if problem and self.touched:
            lines.append((Cell(f"{glyphs.bad} {clean(problem)}", Tone.BAD),))
        elif note:
            negative = note.startswith("not ")
            sign, tone = (glyphs.warn, Tone.WARN) if negative else (glyphs.ok, Tone.OK)
            lines.append((Cell(f"{sign} {clean(note)}", tone),))
        if extra:
            lines.append(extra)
        self._below.set_lines(*lines)
        self.set_class(bool(lines), "-said")

    def focus_control(self) -> None:
        """Put the focus into the control; of a repeated field, into its first row or its button."""
        if isinstance(self.control, Rows):
            self.control.focus_first()
        else:
            self.control.focus()

    @on(LineInput.Changed)
    @on(ProseArea.Changed)
    @on(PickLines.Changed)
    @on(ChoiceLine.Changed)
    @on(Tick.Changed)
    def _edited(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Edited())

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.mark(True)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        self.mark(False)
        self.touched = True
        self.post_message(self.Left(self))


class Rows(Vertical):
    """A list of small forms, for fields that repeat."""

    DEFAULT_CSS = """
    Rows { width: 1fr; height: auto; padding: 0 0 0 2; }
    Rows > .rows--row { width: 1fr; height: auto; padding: 0 0 0 2; margin: 0 0 1 0; }
    Rows Question { margin: 0; }
    Rows ProseArea { min-height: 1; }
    """

    def __init__(self, columns: Sequence[Field], values: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._columns = columns
        self._initial = [dict(row) for row in values]
        self._add = LineButton("Add one", action="form.add")

    def compose(self) -> ComposeResult:
        for row in self._initial:
            yield self._row(row)
        yield self._add

    def _row(self, row: Mapping[str, Any]) -> FormRow:
        return FormRow(self._columns, row)

    @property
    def rows(self) -> list[FormRow]:
        """The rows in order."""
        return [child for child in self.children if isinstance(child, FormRow)]

    def values(self) -> list[dict[str, Any]]:
        """The rows as data, before they are mounted too."""
        return [row.values() for row in self.rows] if self.is_mounted else self._initial

    def set_values(self, values: Sequence[Mapping[str, Any]]) -> None:
        """Show other rows: as many as fit are refilled, the rest is added or taken away."""
        rows = self.rows
        for row, value in zip(rows, values, strict=False):
            row.set_values(value)
        for row in rows[len(values) :]:
            row.remove()
        if len(values) > len(rows):
            self.mount_all([self._row(value) for value in values[len(rows) :]], before=self._add)

    def focus_first(self) -> None:
        """Put the focus into the first row, or on the button where there is none."""
        if self.rows:
            self.rows[0].focus_first()
        else:
            self._add.focus()

    async def add(self) -> None:
        """A new empty row, with the focus in it."""
        row = self._row({column.key: column.default for column in self._columns if column.default is not None})
        await self.mount(row, before=self._add)
        row.focus_first()
        self.post_message(Question.Edited())

    async def drop(self, row: FormRow) -> None:
        """Take a row away."""
        self._add.focus()
        await row.remove()
        self.post_message(Question.Edited())

    def say(self, notes: Sequence[Line]) -> None:
        """Computed lines by row, in order."""
        for index, row in enumerate(self.rows):
            row.say(notes[index] if index < len(notes) else ())


class FormRow(Vertical):
    """One row of :class:`Rows`."""

    def __init__(self, columns: Sequence[Field], values: Mapping[str, Any]) -> None:
        super().__init__(classes="rows--row")
        self._columns = columns
        self._extra = {key: value for key, value in values.items() if key not in {column.key for column in columns}}
        self.questions = [Question(column, values.get(column.key), compact=True) for column in columns]

    def compose(self) -> ComposeResult:
        yield from self.questions
        yield LineButton("Remove this one", action="form.remove")

    def on_mount(self) -> None:
        self._show_visible()

    def _show_visible(self) -> None:
        values = self.values()
        for question in self.questions:
            question.display = shows(question.field, values)

    @on(Question.Edited)
    def _edited(self) -> None:
        self._show_visible()

    def focus_first(self) -> None:
        """Put the focus into the first control."""
        self.questions[0].control.focus()

    def values(self) -> dict[str, Any]:
        """The row as data; keys that the form does not know are kept."""
        return {question.field.key: question.value for question in self.questions} | self._extra

    def set_values(self, values: Mapping[str, Any]) -> None:
        """Show other values."""
        self._extra = {
            key: value for key, value in values.items() if key not in {column.key for column in self._columns}
        }
        for question in self.questions:
            question.set_value(values.get(question.field.key))
        self._show_visible()

    def say(self, note: Line) -> None:
        """A computed line for the row: below the file that it is about, else below the first field."""
        files = [question for question in self.questions if question.field.kind == Kind.FILE]
        (files or self.questions)[0].say("", "", note)


def shows(field: Field, values: Mapping[str, Any]) -> bool:
    """Whether all conditions of a field hold."""
    return all(str(values.get(condition.key)) in condition.values for condition in field.visible_when)


def _line(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _control(field: Field, value: Any) -> Widget:
    kind = field.kind
    if kind in (Kind.TEXT, Kind.NUMBER, Kind.FILE):
        return LineInput(_line(value))
    if kind == Kind.PROSE:
        return ProseArea(value or "")
    if kind == Kind.LIST and field.choices:
        return PickLines(
            [(choice.value, clean(choice.label)) for choice in field.choices], [str(item) for item in value or ()]
        )
    if kind == Kind.LIST:
        return ProseArea(list_text([str(item) for item in value or ()]))
    if kind == Kind.CHOICE:
        return ChoiceLine(
            [(choice.value, clean(choice.label), clean(choice.help)) for choice in field.choices],
            value or "",
        )
    if kind == Kind.BOOL:
        return Tick(bool(value))
    return Rows(field.columns, value or [])


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
    def _edited(self, event: Question.Edited) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Question.Left)
    def _left(self, event: Question.Left) -> None:
        event.stop()
        self.post_message(self.Left(event.question.field.kind))


def row_around(node: DOMNode | None) -> FormRow | None:
    """The entry of a repeated field that ``node`` stands in."""
    while node is not None and not isinstance(node, FormRow):
        node = node.parent
    return node


def rows_around(node: DOMNode | None) -> Rows | None:
    """The repeated field that ``node`` stands in."""
    while node is not None and not isinstance(node, Rows):
        node = node.parent
    return node
