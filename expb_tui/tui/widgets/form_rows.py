"""Fields that repeat: a list of small forms, with a button to add one and one in each to take it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.message import Message

from expb_tui.core.submissions.fields import Field, Kind
from expb_tui.tui.widgets.controls import LineButton
from expb_tui.tui.widgets.lines import Line

if TYPE_CHECKING:
    from expb_tui.tui.widgets.question import Question


class Rows(Vertical):
    """A list of small forms, for fields that repeat."""

    DEFAULT_CSS = """
    Rows { width: 1fr; height: auto; padding: 0 0 0 2; }
    Rows > .rows--row { width: 1fr; height: auto; padding: 0 0 0 2; margin: 0 0 1 0; }
    Rows Question { margin: 0; }
    Rows ProseArea { min-height: 1; }
    """

    class Edited(Message):
        """An entry was added or taken out."""

    def __init__(
        self, columns: Sequence[Field], values: Sequence[Mapping[str, Any]], ask: Callable[[Field, Any], Question]
    ) -> None:
        super().__init__()
        self._ask = ask
        self._columns = columns
        self._initial = [dict(row) for row in values]
        self._add = LineButton("Add one", action="form.add")

    def compose(self) -> ComposeResult:
        for row in self._initial:
            yield self._row(row)
        yield self._add

    def _row(self, row: Mapping[str, Any]) -> FormRow:
        return FormRow(self._columns, row, self._ask)

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
        self.post_message(self.Edited())

    async def drop(self, row: FormRow) -> None:
        """Take a row away."""
        self._add.focus()
        await row.remove()
        self.post_message(self.Edited())

    def say(self, notes: Sequence[Line]) -> None:
        """Computed lines by row, in order."""
        for index, row in enumerate(self.rows):
            row.say(notes[index] if index < len(notes) else ())


class FormRow(Vertical):
    """One row of :class:`Rows`."""

    def __init__(
        self, columns: Sequence[Field], values: Mapping[str, Any], ask: Callable[[Field, Any], Question]
    ) -> None:
        super().__init__(classes="rows--row")
        self._columns = columns
        self._extra = {key: value for key, value in values.items() if key not in {column.key for column in columns}}
        self.questions = [ask(column, values.get(column.key)) for column in columns]

    def compose(self) -> ComposeResult:
        yield from self.questions
        yield LineButton("Remove this one", action="form.remove")

    def on_mount(self) -> None:
        self._show_visible()

    def _show_visible(self) -> None:
        values = self.values()
        for question in self.questions:
            question.display = shows(question.field, values)

    def on_question_edited(self) -> None:
        """Another answer may bring other fields to light."""
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
