"""The table behind every list: rows of cells, a cursor, marks, sorting and a live filter.

It draws by lines (``LinePanel``), so ten thousand rows cost what the visible ones cost. A held key that leaves the page
jumps half a page, which keeps a slow link from falling behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual import events
from textual.message import Message

from expb_tui.present.cells import Cell, Row, Table, Tone
from expb_tui.tui.widgets.arrangement import NO_ROWS, Arrangement, Order, ViewState
from expb_tui.tui.widgets.columns import Shape, shape
from expb_tui.tui.widgets.line_panel import LinePanel
from expb_tui.tui.widgets.lines import Line, Pen, fit_end, width_of
from expb_tui.tui.widgets.table_lines import GUTTER, draw_row, draw_titles, order_sign

_FOOT, _FILTER_LEAST = 12, 8
"""Cells of the lower border beside a filter (its sign, the corners, a short word), and those that it always has."""


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
        self.typing = False
        """Whether keys go into the filter."""
        self._arrangement = Arrangement(table)
        self._range_from: int | None = None
        self._placed = False
        """Whether anybody has put the cursor where it is."""
        self._skip = 0
        self._shape = Shape((), (), False, ())
        self._shape_for: Hashable = None

    # Content

    @property
    def table(self) -> Table:
        """What was given last, unfiltered."""
        return self._arrangement.table

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as shown: filtered and sorted."""
        return self._arrangement.rows

    @property
    def filter(self) -> str:
        """What rows must contain to be shown."""
        return self._arrangement.filter

    @property
    def sorted_by(self) -> Order | None:
        """None for the order that the rows came in."""
        return self._arrangement.sorted_by

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    @property
    def current_key(self) -> str | None:
        """Its key."""
        row = self.current
        return row.key if row else None

    @property
    def chosen_keys(self) -> tuple[str, ...]:
        """What an action is about: the marked rows in the order shown, else the row under the cursor."""
        marks = self._marks_now()
        marked = tuple(row.key for row in self.rows if row.key in marks) if marks else ()
        return marked or ((self.current_key,) if self.current_key is not None else ())

    def set_table(self, table: Table) -> None:
        """Show ``table``; equal rows are not drawn again.

        The rows in sight stay in sight: the cursor's own may leave it when the order changes, for others must not be
        carried off with it.
        """
        if table == self.table:
            return
        before, seen = self.current_key, [row.key for row in self.rows[self.top : self.top + self.page]]
        if self.marks:
            self.marks &= {row.key for row in table.rows}
        self._arrangement.show(table)
        self._arranged(before, seen)

    def select(self, key: str) -> bool:
        """Put the cursor on the row of that key, if it is shown."""
        place = self._arrangement.place_of(key, self.cursor)
        if place is None:
            return False
        self._go(place)
        return True

    def view_state(self) -> ViewState:
        """Filter, marks and order as they are now."""
        return ViewState(self.filter, self._arrangement.words, self.marks, self.sorted_by)

    def restore(self, state: ViewState) -> None:
        """Look at the table as before; marks of rows that are gone stay gone."""
        keep, view = self.current_key, self._arrangement
        view.filter, view.words, marks, view.sorted_by = state
        self.marks = marks & {row.key for row in self.table.rows}
        view.arrange()
        self._arranged(keep)

    def notes(self) -> tuple[Line, ...]:
        """A filter that hides every row says so, instead of what an empty table says."""
        if self.rows or not self.table.rows:
            return super().notes()
        return (
            (Cell("No row contains "), Cell(self.filter, Tone.ACCENT), Cell(".")),
            (Cell("Esc shows all again; Backspace takes a letter back while you type.", Tone.DIM),),
        )

    def _arranged(self, keep: str | None, seen: Sequence[str] = ()) -> None:
        """Other rows are shown, or in another order: the cursor stays on the row ``keep`` where it is still there.

        ``seen``: the rows that were in sight and are to stay there; without, the cursor is brought into sight.
        """
        self._shape_for = None
        place = None if keep is None else self._arrangement.place_of(keep, self.cursor)
        if place is not None:
            self.cursor = place
        self.cursor = max(0, min(self.cursor, len(self.rows) - 1))
        if seen:
            self.top = max(0, min(self._arrangement.steady(seen, self.top), len(self.rows) - self.page))
            if not self._placed and self.cursor != self._in_sight:
                self.cursor = self.top
        else:
            self._follow()
        self.update()
        if self.current_key != keep:
            self._tell()

    def _tell(self) -> None:
        if self.is_mounted:
            self.post_message(self.Highlighted(self, self.current_key))

    # Drawing

    def _shape_now(self) -> Shape:
        key = (id(self.rows), self.inner_width, self._skip)
        if self._shape_for != key:
            columns, needs = self.table.columns, list(self._arrangement.widths())
            if self.sorted_by is not None:  # room for the sign beside the title
                place = self.sorted_by.column
                needs[place] = max(needs[place], width_of(columns[place].title) + 1)
            self._shape = shape(columns, needs, self.inner_width - GUTTER - 1, self._skip)
            self._shape_for = key
        return self._shape

    def body_length(self) -> int:
        return len(self.rows)

    def head_key(self) -> Hashable:
        if not self.rows or not any(column.title for column in self.table.columns) or self.size.height < 5:
            return None
        return (self._shape_now(), self.sorted_by)

    def body_key(self, index: int) -> Hashable:
        row = self.rows[index]
        return (
            row.key, row.cells, index == self.cursor, self._is_marked(index), self._arrangement.words,
            self._shape_now(),
        )  # fmt: skip

    def draw_head(self, pen: Pen, width: int) -> None:
        draw_titles(pen, width, self.look, self._shape_now(), self.sorted_by)

    def draw_body(self, pen: Pen, index: int, width: int) -> None:
        on = "surface" if index != self.cursor else "cursor" if self.has_focus else "rest"
        marked, words = self._is_marked(index), self._arrangement.words
        draw_row(pen, width, self.look, self._shape_now(), self.rows[index], on=on, marked=marked, words=words)

    def place(self) -> str:
        return f"{self.cursor + 1} of {len(self.rows)}" if len(self.rows) > self.page else ""

    def foot(self) -> Line:
        parts: list[Cell] = []
        if self.typing or self.filter:
            count = f"  {len(self.rows)} of {len(self.table.rows)}"
            text = self.filter + ("_" if self.typing else "")
            room = max(_FILTER_LEAST, self.inner_width - len(count) - _FOOT)
            parts = [Cell("/", Tone.ACCENT), Cell(fit_end(text, room, self.look.glyphs.more)), Cell(count, Tone.DIM)]
        if marks := self._marks_now():
            parts.append(Cell(("  " if parts else "") + f"{len(marks)} marked", Tone.ACCENT))
        if self._range_from is not None:
            parts.append(Cell("  range", Tone.ACCENT))
        if self.sorted_by is not None and self.sorted_by.column not in self._shape_now().shown:
            title = self.table.columns[self.sorted_by.column].title
            sign = order_sign(self.look, self.sorted_by)
            parts.append(Cell(("  " if parts else "") + f"by {title} {sign}", Tone.DIM))
        return tuple(parts)

    # Moving

    @property
    def _in_sight(self) -> int:
        """The place in sight that is nearest to the cursor, which data may have carried out of it."""
        return max(0, min(max(self.top, min(self.cursor, self.top + self.page - 1)), len(self.rows) - 1))

    def _follow(self) -> None:
        """Bring the cursor into sight; a step over the edge jumps half a page."""
        page = self.page
        if self.cursor < self.top or self.cursor >= self.top + page:
            step = self.cursor - page // 2
            if self.cursor == len(self.rows) - 1 or self.cursor == 0:
                step = self.cursor
            self.top = step
        self.top = max(0, min(self.top, len(self.rows) - page))

    def move(self, lines: int) -> None:
        self._go(self._in_sight + lines)

    def _go(self, place: int) -> None:
        if not self.rows:
            return
        before, self._placed = self.cursor, True
        self.cursor = max(0, min(place, len(self.rows) - 1))
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
        if 0 <= index < len(self.rows):
            self._go(index)

    def act_list_left(self) -> None:
        self._skip = max(0, self._skip - 1)
        self.update()

    def act_list_right(self) -> None:
        if self._shape_now().overflow:
            self._skip += 1
            self.update()

    # Marks

    def _range(self) -> range:
        """The rows that the open range would mark."""
        if self._range_from is None:
            return range(0)
        first, last = sorted((self._range_from, self.cursor))
        return range(first, min(last + 1, len(self.rows)))

    def _is_marked(self, index: int) -> bool:
        return self.rows[index].key in self.marks or index in self._range()

    def _marks_now(self) -> frozenset[str]:
        """The marks, with those of the open range."""
        return self.marks | {self.rows[index].key for index in self._range()}

    def act_list_mark(self) -> None:
        row = self.current
        if row is None:
            return
        self.marks = self.marks ^ {row.key}
        if self.cursor + 1 < len(self.rows):
            self.move(1)
        self.update()

    def act_list_range(self) -> None:
        if not self.rows:
            return
        if self._range_from is None:
            self._range_from = self.cursor
        else:
            self.marks = self._marks_now()
            self._range_from = None
        self.update()

    # Sorting

    def _sort(self, by: Order | None) -> None:
        keep = self.current_key
        self._range_from = None
        self._arrangement.sort(by)
        self._arranged(keep)

    def _sort_beside(self, step: int) -> None:
        count = len(self.table.columns)
        place = self.sorted_by.column + step if self.sorted_by is not None else (0 if step > 0 else count - 1)
        self._sort(Order(place) if 0 <= place < count else None)

    def act_list_sort_left(self) -> None:
        self._sort_beside(-1)

    def act_list_sort_right(self) -> None:
        self._sort_beside(1)

    def act_list_sort_flip(self) -> None:
        if self.table.columns:
            column, descending = self.sorted_by or (0, False)
            self._sort(Order(column, not descending))

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
        keep = self.current_key
        self._arrangement.set_filter(text)
        self._arranged(keep)

    def _jump(self, step: int) -> None:
        place = self._arrangement.match(self.cursor, step)
        if place is not None:
            self._go(place)

    def act_list_next(self) -> None:
        self._jump(1)

    def act_list_previous(self) -> None:
        self._jump(-1)

    def back(self) -> bool:
        """Undo the last thing that narrows the view: range, filter, marks, highlights. False where there is none."""
        if self._range_from is not None:
            self._range_from = None
        elif self.filter or self._arrangement.words:
            keep, self._arrangement.words = self.current_key, ()
            self._arrangement.set_filter("")
            self._arranged(keep)
        elif self.marks:
            self.marks = frozenset()
        else:
            return False
        self.update()
        return True


_TYPING_KEYS = frozenset({"enter", "escape", "up", "down", "backspace", "ctrl+u", "ctrl+w"})


def _printable(character: str | None) -> bool:
    return character is not None and character.isprintable()
