"""Controls of forms: quiet cursors, filtered typing, arrow keys that go on to the next control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from expb_tui.core.text import typed
from expb_tui.present.cells import ASCII
from expb_tui.tui.widgets.lines import fit, width_of
from expb_tui.tui.widgets.look import look_of


class LineInput(Input):
    """One line. Up, Down and Enter go to the neighbouring controls; nothing blinks; pasted sequences are filtered.

    An edge shows its place, because not every theme has a ground for fields.
    """

    DEFAULT_CSS = """
    LineInput {
        width: 1fr; height: 1; border: none; border-left: solid $edge; padding: 0 1 0 0;
        background: $panel; color: $text;
    }
    LineInput:focus {
        border: none; border-left: solid $accent; background: $panel; background-tint: $panel 0%;
    }
    LineInput.-ascii { border-left: ascii $edge; }
    LineInput.-ascii:focus { border-left: ascii $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Previous field", show=False),
        Binding("down", "app.focus_next", "Next field", show=False),
    ]

    def __init__(
        self, value: str = "", *, placeholder: str = "", password: bool = False, widget_id: str | None = None
    ) -> None:
        super().__init__(value, placeholder=placeholder, password=password, select_on_focus=False, id=widget_id)
        self.cursor_blink = False

    def on_mount(self) -> None:
        self.set_class(look_of(self).glyphs is ASCII, "-ascii")

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if text := typed(event.text).strip():
            self.replace(text, *self.selection)

    def watch_value(self, value: str) -> None:
        # A terminal that mangles mouse reports types them; only whole reports are taken out.
        plain = typed(value)
        if plain != value:
            self.value = plain


class ProseArea(TextArea):
    """Several lines that grow with their text. Up in the first and Down in the last line go to the neighbours."""

    DEFAULT_CSS = """
    ProseArea {
        width: 1fr; height: auto; min-height: 3; max-height: 12; border: none; border-left: solid $edge;
        padding: 0 1 0 0; background: $panel; color: $text;
    }
    ProseArea:focus { border: none; border-left: solid $accent; }
    ProseArea.-ascii { border-left: ascii $edge; }
    ProseArea.-ascii:focus { border-left: ascii $accent; }
    """

    def __init__(self, text: str = "", *, widget_id: str | None = None) -> None:
        super().__init__(
            text,
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            id=widget_id,
        )
        self.cursor_blink = False

    def on_mount(self) -> None:
        self.set_class(look_of(self).glyphs is ASCII, "-ascii")

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        if not self.read_only and (
            result := self._replace_via_keyboard(typed(event.text, multiline=True), *self.selection)
        ):
            self.move_cursor(result.end_location)

    @property
    def _row(self) -> int:
        """The line on the screen, wrapped ones counted, that the cursor is in."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and self._row == 0:
            self.screen.focus_previous()
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self._row == self.wrapped_document.height - 1:
            self.screen.focus_next()
        else:
            super().action_cursor_down(select)


class ChoiceLine(Widget, can_focus=True):
    """One of a few words, chosen with the arrow keys, Space or the word's first letter; its help stands below."""

    DEFAULT_CSS = """
    ChoiceLine { width: 1fr; height: auto; background: $panel; color: $text; padding: 0 1; }
    ChoiceLine > .choice-line--chosen { color: $accent; text-style: bold; }
    ChoiceLine > .choice-line--cursor { color: $cursor-text; background: $cursor; text-style: bold; }
    ChoiceLine > .choice-line--help { color: $dim; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"choice-line--chosen", "choice-line--cursor", "choice-line--help"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Previous choice", show=False),
        Binding("right,l,space", "step(1)", "Next choice", show=False),
        Binding("up,k", "app.focus_previous", "Previous field", show=False),
        Binding("down,j,enter", "app.focus_next", "Next field", show=False),
    ]
    value: reactive[str] = reactive("", repaint=False)

    class Changed(Message):
        """Another word was chosen."""

    def __init__(self, choices: Sequence[tuple[str, str, str]], value: str = "") -> None:
        super().__init__()
        self._choices = tuple(choices)
        self.set_reactive(ChoiceLine.value, value)

    def watch_value(self) -> None:
        self.post_message(self.Changed())
        self.refresh(layout=True)

    def _index(self) -> int:
        return next((index for index, choice in enumerate(self._choices) if choice[0] == self.value), -1)

    def action_step(self, by: int) -> None:
        index = self._index()
        start = index if index >= 0 else -1 if by > 0 else len(self._choices)
        index = (start + by) % len(self._choices)
        self.value = self._choices[index][0]

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character.isdecimal() and 0 < int(event.character) <= len(self._choices):
            self.value = self._choices[int(event.character) - 1][0]
            event.stop()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _words(self, width: int) -> list[list[tuple[int, str]]]:
        """The choices wrapped to lines: index and text of each."""
        mark = look_of(self).glyphs.ok
        lines: list[list[tuple[int, str]]] = [[]]
        used = 0
        for index, (value, label, _) in enumerate(self._choices):
            word = f"({mark if value == self.value else ' '}) {label}"
            if lines[-1] and used + width_of(word) + 2 > width:
                lines.append([])
                used = 0
            lines[-1].append((index, word))
            used += width_of(word) + 2
        return lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._words(width)) + (1 if any(choice[2] for choice in self._choices) else 0)

    def on_click(self, event: events.Click) -> None:
        row, column = event.y - self.gutter.top, event.x - self.gutter.left
        lines = self._words(self.content_size.width)
        if 0 <= row < len(lines):
            start = 0
            for index, word in lines[row]:
                if start <= column < start + width_of(word):
                    self.value = self._choices[index][0]
                start += width_of(word) + 2

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        base = self.rich_style
        lines = self._words(width)
        segments: list[Segment] = []
        if y < len(lines):
            for index, word in lines[y]:
                style = base
                if self._choices[index][0] == self.value:
                    part = "choice-line--cursor" if self.has_focus else "choice-line--chosen"
                    style = base + self.get_component_rich_style(part, partial=True)
                segments += [Segment(word, style), Segment("  ", base)]
        elif (chosen := self._index()) >= 0:
            help_style = base + self.get_component_rich_style("choice-line--help", partial=True)
            segments = [Segment(self._choices[chosen][2], help_style)]
        return Strip(segments).adjust_cell_length(width, base)


class PickLines(Widget, can_focus=True):
    """Any of several lines, turned with Space; the arrow keys move inside and then on to the next control."""

    DEFAULT_CSS = """
    PickLines { width: 1fr; height: auto; background: $panel; color: $text; padding: 0 1; }
    PickLines > .pick-lines--cursor { color: $cursor-text; background: $cursor; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"pick-lines--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Previous line", show=False),
        Binding("down,j", "step(1)", "Next line", show=False),
        Binding("space,x", "turn", "Pick or leave out", show=False),
        Binding("enter", "app.focus_next", "Next field", show=False),
    ]

    class Changed(Message):
        """A line was picked or left out."""

    def __init__(self, choices: Sequence[tuple[str, str]], picked: Sequence[str] = ()) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._picked: list[str] = list(picked)
        self._at = 0

    @property
    def offered(self) -> list[str]:
        """The values of all lines."""
        return [value for value, _ in self._choices]

    @property
    def value(self) -> list[str]:
        """The picked values in the order of the lines; values that are not on offer stay, at the end."""
        offered = self.offered
        chosen = set(self._picked)
        return [value for value in offered if value in chosen] + [v for v in self._picked if v not in offered]

    @value.setter
    def value(self, picked: Sequence[str]) -> None:
        self._picked = list(picked)
        self.refresh()

    def action_step(self, by: int) -> None:
        if not 0 <= self._at + by < len(self._choices):
            if by > 0:
                self.screen.focus_next()
            else:
                self.screen.focus_previous()
            return
        self._at += by
        self.refresh()

    def action_turn(self) -> None:
        self._turn(self._at)

    def _turn(self, index: int) -> None:
        value = self._choices[index][0]
        if value in self._picked:
            self._picked.remove(value)
        else:
            self._picked.append(value)
        self.refresh()
        self.post_message(self.Changed())

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        row = event.y - self.gutter.top
        if 0 <= row < len(self._choices):
            self._at = row
            self._turn(row)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._choices)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        style = self.rich_style
        if y >= len(self._choices):
            return Strip.blank(width, style)
        value, label = self._choices[y]
        if self.has_focus and y == self._at:
            style = style + self.get_component_rich_style("pick-lines--cursor", partial=True)
        glyphs = look_of(self).glyphs
        text = fit(f"[{glyphs.ok if value in self._picked else ' '}] {label}", width, glyphs.more)
        return Strip([Segment(text, style)])


class Tick(Widget, can_focus=True):
    """Yes or no, turned with Space."""

    DEFAULT_CSS = """
    Tick { width: 1fr; height: 1; background: $panel; color: $text; padding: 0 1; }
    Tick:focus { background: $cursor; color: $cursor-text; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,left,right,h,l", "turn", "Yes or no", show=False),
        Binding("up,k", "app.focus_previous", "Previous field", show=False),
        Binding("down,j,enter", "app.focus_next", "Next field", show=False),
    ]
    value: reactive[bool] = reactive(False)

    class Changed(Message):
        """It was turned."""

    def __init__(self, value: bool = False, *, yes: str = "yes", no: str = "no") -> None:
        super().__init__()
        self._words = (no, yes)
        self.set_reactive(Tick.value, value)

    def watch_value(self) -> None:
        self.post_message(self.Changed())

    def action_turn(self) -> None:
        self.value = not self.value

    def on_click(self) -> None:
        self.action_turn()

    def render_line(self, y: int) -> Strip:
        text = f"[{look_of(self).glyphs.ok if self.value else ' '}] {self._words[self.value]}"
        return Strip([Segment(text, self.rich_style)]).adjust_cell_length(self.content_size.width, self.rich_style)


class LineButton(Widget, can_focus=True):
    """A word that does something on Enter or a click; it calls ``act`` of the screen with an action's id."""

    DEFAULT_CSS = """
    LineButton { width: auto; height: 1; color: $link; padding: 0 1; margin: 0 1 0 0; }
    LineButton:focus { background: $cursor; color: $cursor-text; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "press", "Do it", show=False),
        Binding("up,left,k,h", "app.focus_previous", "Previous field", show=False),
        Binding("down,right,j,l", "app.focus_next", "Next field", show=False),
    ]

    class Pressed(Message):
        """The operator chose it."""

        def __init__(self, button: LineButton) -> None:
            super().__init__()
            self.button = button

        @property
        def control(self) -> LineButton:
            return self.button

    def __init__(self, words: str, *, action: str = "", widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self.words = words
        self.act = action

    def action_press(self) -> None:
        self.post_message(self.Pressed(self))

    def on_click(self) -> None:
        self.action_press()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return len(self.words) + 4

    def render_line(self, y: int) -> Strip:
        style = self.rich_style + Style(underline=False)
        return Strip([Segment(f"[ {self.words} ]", style)]).adjust_cell_length(self.content_size.width, style)
