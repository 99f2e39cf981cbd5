"""One field of a form: its label and help, the control of its kind, and what is wrong or worth knowing below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from expb_tui.core.submissions.fields import Field, Kind
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Tone
from expb_tui.tui.widgets.controls import ChoiceLine, LineInput, PickLines, ProseArea, Tick
from expb_tui.tui.widgets.form_rows import Rows
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
    return Rows(field.columns, value or [], lambda column, held: Question(column, held, compact=True))
