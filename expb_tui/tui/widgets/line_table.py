"""The table behind every list: rows of cells, a cursor, marks, sorting and a live filter.

It draws by lines (``LinePanel``), so ten thousand rows cost what the visible ones cost. A held key that leaves the page
jumps half a page, which keeps a slow link from falling behind. A change in the first columns repaints only those.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.message import Message

from expb_tui.present.cells import Cell, Row, Table, Tone
from expb_tui.tui.widgets.columns import Shape, arranged, gap_before, holds, natural_widths, shape
from expb_tui.tui.widgets.line_panel import LinePanel
from expb_tui.tui.widgets.lines import Line, Pen, fit, put_matches, width_of

GUTTER = 2
"""Cells before the first column: the sign of cursor or mark, and a space."""
NO_ROWS = Table((), ())
_UNDERLINE = Style(underline=True)


class ViewState(NamedTuple):
    """How a person looks at a table: what can be lost by a key and had again by ``restore``."""

    filter: str
    words: tuple[str, ...]
    marks: frozenset[str]
    sorted_by: tuple[int, bool] | None


class LineTable(LinePanel):
    """Give it a ``Table``; it keeps the cursor on the same row by key, and marks too.

    Posts ``Highlighted`` when another row is under the cursor, by key press or by new data.
    """

    class Highlighted(Message):
        """``key`` is None where there is no row."""

        def __init__(self, table: LineTable, key: str | None) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LineTable:
            """For ``@on`` with a selector."""
            return self.table

    def __init__(
        self,
        table: Table = NO_ROWS,
        *,
        number: str = "",
        title: str = "",
        framed: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(number=number, title=title, framed=framed, id=id, classes=classes)
        self.cursor = 0
        self.marks: frozenset[str] = frozenset()
        self.filter = ""
        self.typing = False
        """Whether keys go into the filter."""
        self.sorted_by: tuple[int, bool] | None = None
        """Column and whether descending; None for the order that the rows came in."""
        self._words: tuple[str, ...] = ()
        """Those of the last filter: they are highlighted and stepped through after it is gone."""
        self._range_from: int | None = None
        self._skip = 0
        self._table = table
        self._view: tuple[Row, ...] = table.rows
        self._shape = Shape((), (), False, ())
        self._shape_for: Hashable = None
        self._natural: list[int] = []

    # Content

    @property
    def table(self) -> Table:
        """What was given last, unfiltered."""
        return self._table

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as shown: filtered and sorted."""
        return self._view

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self._view[self.cursor] if 0 <= self.cursor < len(self._view) else None

    @property
    def current_key(self) -> str | None:
        """Its key."""
        row = self.current
        return row.key if row else None

    @property
    def chosen_keys(self) -> tuple[str, ...]:
        """What an action is about: the marked rows in the order shown, else the row under the cursor."""
        marked = tuple(row.key for row in self._view if row.key in self.marks)
        return marked or ((self.current_key,) if self.current_key is not None else ())

    def set_table(self, table: Table) -> None:
        """Show ``table``; equal rows are not drawn again."""
        if table == self._table:
            return
        before = self.current_key
        if table.columns != self._table.columns:
            self._natural = []
            self.sorted_by = None
        self._table = table
        if self.marks:
            self.marks &= {row.key for row in table.rows}
        self._arrange(keep=before)

    def select(self, key: str) -> bool:
        """Put the cursor on the row of that key, if it is shown."""
        for index, row in enumerate(self._view):
            if row.key == key:
                self.move(index - self.cursor)
                return True
        return False

    def view_state(self) -> ViewState:
        """Filter, marks and order as they are now."""
        return ViewState(self.filter, self._words, self.marks, self.sorted_by)

    def restore(self, state: ViewState) -> None:
        """Look at the table as before; marks of rows that are gone stay gone."""
        self.filter, self._words, marks, self.sorted_by = state
        self.marks = marks & {row.key for row in self._table.rows}
        self._arrange(keep=self.current_key)

    def notes(self) -> tuple[Line, ...]:
        """A filter that hides every row says so, instead of what an empty table says."""
        if self._view or not self._table.rows:
            return super().notes()
        return (
            (Cell("No row contains "), Cell(self.filter, Tone.ACCENT), Cell(".")),
            (Cell("Esc shows all again; Backspace takes a letter back while you type.", Tone.DIM),),
        )

    def _arrange(self, keep: str | None) -> None:
        """Filter and sort, keep the cursor on the row ``keep`` where it is still there."""
        before = self.current_key
        rows = arranged(self._table.rows, self.filter, self.sorted_by)
        if [row.key for row in rows] != [row.key for row in self._view]:
            self._natural = []
        self._view = rows
        self._shape_for = None
        if keep is not None:
            for index, row in enumerate(self._view):
                if row.key == keep:
                    self.cursor = index
                    break
        self.cursor = max(0, min(self.cursor, len(self._view) - 1))
        self._follow()
        self.update()
        if self.current_key != before:
            self._tell()

    def _tell(self) -> None:
        if self.is_mounted:
            self.post_message(self.Highlighted(self, self.current_key))

    # Drawing

    def _shape_now(self) -> Shape:
        key = (id(self._view), self.inner_width, self._skip)
        if self._shape_for != key:
            columns = self._table.columns
            self._natural = natural_widths(columns, self._view, self._natural)
            if self.sorted_by is not None:  # room for the sign beside the title
                place = self.sorted_by[0]
                self._natural[place] = max(self._natural[place], width_of(columns[place].title) + 1)
            self._shape = shape(columns, self._natural, self.inner_width - GUTTER - 1, self._skip)
            self._shape_for = key
        return self._shape

    def body_length(self) -> int:
        return len(self._view)

    def head_key(self) -> Hashable:
        if not self._view or not any(column.title for column in self._table.columns) or self.size.height < 5:
            return None
        return (self._shape_now(), self.sorted_by)

    def body_key(self, index: int) -> Hashable:
        row = self._view[index]
        return (row.key, row.cells, index == self.cursor, row.key in self.marks, self._words, self._shape_now())

    def changed_width(self, old: Hashable, new: Hashable) -> int:
        """Up to the last cell that differs, where only cells of one row differ."""
        full = self.size.width
        if not (isinstance(old, tuple) and isinstance(new, tuple) and old[0] == new[0] == "body" and old[2] == new[2]):
            return full
        (old_key, old_cells, *old_rest), (new_key, new_cells, *new_rest) = old[1], new[1]
        if old_key != new_key or old_rest != new_rest:
            return full
        last = position = (1 if self.framed else 0) + GUTTER
        current = self._shape_now()
        for place, index in enumerate(current.shown):
            position += gap_before(current.columns, current.shown[:place]) + current.widths[index]
            if old_cells[index] != new_cells[index]:
                last = position
        return last

    def draw_head(self, pen: Pen, width: int) -> None:
        palette, frame, glyphs = self.look.palette, self.look.frame, self.look.glyphs
        style = palette.style("dim")
        current = self._shape_now()
        end = pen.used + width - (1 if current.overflow else 0)
        pen.put(" " * GUTTER, style, GUTTER)
        for place, index in enumerate(current.shown):
            column = current.columns[index]
            sign = ""
            if self.sorted_by is not None and self.sorted_by[0] == index:
                sign = frame.descending if self.sorted_by[1] else frame.ascending
            pen.put(" " * min(gap_before(current.columns, current.shown[:place]), end - pen.used), style)
            size = min(current.widths[index], end - pen.used)
            title = column.title if width_of(column.title) < size else column.title[: size - len(sign)]
            pen.put(fit(title + sign, size, glyphs.more, right=column.align == "right"), style)
            if pen.used >= end:
                break
        if current.overflow:
            pen.fill(end, style).put(glyphs.arrow, palette.style("accent"), 1)

    def draw_body(self, pen: Pen, index: int, width: int) -> None:
        look = self.look
        palette, glyphs = look.palette, look.glyphs
        row = self._view[index]
        selected, marked = index == self.cursor, row.key in self.marks
        on = ("cursor" if self.has_focus else "rest") if selected else "surface"
        end = pen.used + width
        sign = "*" if marked else (glyphs.arrow if selected else " ")
        pen.put(sign + " ", palette.style("mark" if marked else "accent", on), GUTTER)
        current = self._shape_now()
        plain = before = palette.style("text", on)
        for place, number in enumerate(current.shown):
            pen.put(" " * min(gap_before(current.columns, current.shown[:place]), end - pen.used), before)
            size = min(current.widths[number], max(0, end - pen.used))
            cell = row.cells[number]
            text = fit(cell.text, size, glyphs.more, right=current.columns[number].align == "right")
            style = palette.style("mark" if marked and number == 0 else cell.tone, on)
            if any(word in text.lower() for word in self._words):
                put_matches(pen, text, self._words, style, palette.style("mark", on, bold=True) + _UNDERLINE)
            else:
                pen.put(text, style, size)
            # Spaces look alike in every tone, and a change of style costs twenty bytes on the line.
            before = plain if style.underline else style
            if pen.used >= end:
                break
        pen.fill(end, plain)

    def foot(self) -> Line:
        parts: list[Cell] = []
        if self.typing:
            parts = [Cell("/", Tone.ACCENT), Cell(self.filter + "_", Tone.TEXT)]
        elif self.filter:
            parts = [Cell("/", Tone.ACCENT), Cell(self.filter, Tone.TEXT)]
        if parts:
            parts.append(Cell(f"  {len(self._view)} of {len(self._table.rows)}", Tone.DIM))
        if self.marks:
            parts.append(Cell(("  " if parts else "") + f"{len(self.marks)} marked", Tone.ACCENT))
        if self._range_from is not None:
            parts.append(Cell("  range", Tone.ACCENT))
        return tuple(parts)

    # Moving

    def _follow(self) -> None:
        """Bring the cursor into sight; a step over the edge jumps half a page."""
        page = self.page
        if self.cursor < self.top or self.cursor >= self.top + page:
            step = self.cursor - page // 2
            if self.cursor == len(self._view) - 1 or self.cursor == 0:
                step = self.cursor
            self.top = step
        self.top = max(0, min(self.top, len(self._view) - page))

    def move(self, lines: int) -> None:
        if not self._view:
            return
        before = self.cursor
        self.cursor = max(0, min(self.cursor + lines, len(self._view) - 1))
        self._follow()
        self.update()
        if self.cursor != before:
            self._tell()

    def wheel(self, lines: int) -> None:
        self.move(lines)

    def resized(self) -> None:
        self._follow()

    def on_click(self, event: events.Click) -> None:
        """A click selects; what a double click opens is the pane's Enter."""
        index = self.top + event.y - self._above()
        if 0 <= index < len(self._view):
            self.move(index - self.cursor)

    def act_list_left(self) -> None:
        self._skip = max(0, self._skip - 1)
        self.update()

    def act_list_right(self) -> None:
        if self._shape_now().overflow:
            self._skip += 1
            self.update()

    # Marks

    def act_list_mark(self) -> None:
        row = self.current
        if row is None:
            return
        self.marks = self.marks ^ {row.key}
        if self.cursor + 1 < len(self._view):
            self.move(1)
        self.update()

    def act_list_range(self) -> None:
        if not self._view:
            return
        if self._range_from is None:
            self._range_from = self.cursor
        else:
            first, last = sorted((self._range_from, self.cursor))
            self.marks |= {row.key for row in self._view[first : last + 1]}
            self._range_from = None
        self.update()

    # Sorting

    def _sort(self, step: int) -> None:
        count = len(self._table.columns)
        if not count:
            return
        place = self.sorted_by[0] + step if self.sorted_by is not None else (0 if step > 0 else count - 1)
        self.sorted_by = (place, False) if 0 <= place < count else None
        self._arrange(keep=self.current_key)

    def act_list_sort_left(self) -> None:
        self._sort(-1)

    def act_list_sort_right(self) -> None:
        self._sort(1)

    def act_list_sort_flip(self) -> None:
        column, descending = self.sorted_by or (0, False)
        self.sorted_by = (column, not descending)
        self._arrange(keep=self.current_key)

    # Filter

    def can(self, action_id: str) -> bool:
        return not self.typing

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """While a filter is typed, every key that ``take_key`` understands is text."""
        return self.typing and (_printable(character) or key in _TYPING_KEYS)

    def act_list_filter(self) -> None:
        self.typing = True
        self._range_from = None
        self.update()

    def take_key(self, key: str, character: str | None) -> bool:
        """Keys of the filter line."""
        if not self.typing:
            return False
        if key in ("enter", "escape"):
            self.typing = False
            self.set_filter(self.filter if key == "enter" else "")
        elif key in ("up", "down"):
            self.move(-1 if key == "up" else 1)
        elif key == "backspace":
            self.set_filter(self.filter[:-1])
        elif key == "ctrl+u":
            self.set_filter("")
        elif key == "ctrl+w":
            self.set_filter(self.filter.rstrip().rpartition(" ")[0])
        elif _printable(character):
            self.set_filter(self.filter + (character or ""))
        else:
            return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text goes into the filter, one line of it."""
        if self.typing:
            event.stop()
            self.set_filter(self.filter + "".join(char for char in event.text if char.isprintable()))

    def set_filter(self, text: str) -> None:
        """Show only rows that contain ``text``; the last one stays for next and previous match."""
        self.filter = text
        if text:
            self._words = tuple(text.lower().split())
        self._arrange(keep=self.current_key)
        self.update()

    def _jump(self, step: int) -> None:
        count = len(self._view)
        if not count or not self._words:
            return
        for distance in range(1, count + 1):
            index = (self.cursor + step * distance) % count
            if holds(self._view[index], self._words):
                self.move(index - self.cursor)
                return

    def act_list_next(self) -> None:
        self._jump(1)

    def act_list_previous(self) -> None:
        self._jump(-1)

    def back(self) -> bool:
        """Undo the last thing that narrows the view: range, filter, marks, highlights. False where there is none."""
        if self._range_from is not None:
            self._range_from = None
        elif self.filter or self._words:
            self.filter, self._words = "", ()
            self._arrange(keep=self.current_key)
        elif self.marks:
            self.marks = frozenset()
        else:
            return False
        self.update()
        return True


_TYPING_KEYS = frozenset({"enter", "escape", "up", "down", "backspace", "ctrl+u", "ctrl+w"})


def _printable(character: str | None) -> bool:
    return character is not None and character.isprintable()
