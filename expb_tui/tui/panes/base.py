"""What panes have in common: the bridge, its topics, and the shape of a table with a count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Table, Tone
from expb_tui.present.times import moment
from expb_tui.tui.actions import Action, bindings
from expb_tui.tui.widgets.facts import fact_lines
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.lines import Line, hung, words
from expb_tui.watch.bridge import Bridge

if TYPE_CHECKING:
    from expb_tui.launch import House
    from expb_tui.tui.app import CockpitApp


_READING = 96
"""Cells beyond which a line of prose is hard to follow."""


class Copyable(NamedTuple):
    """Something of a row that can be copied: an id, a command, an address."""

    label: str
    text: str


class PaneParts:
    """Mixin for panes: short ways to the application's parts."""

    topics: ClassVar[frozenset[str]] = frozenset()

    @property
    def cockpit(self) -> CockpitApp:
        """The application."""
        return cast("CockpitApp", self.app)  # type: ignore[attr-defined]  # mixed into widgets only

    @property
    def bridge(self) -> Bridge:
        """What is known."""
        return self.cockpit.bridge

    @property
    def house(self) -> House:
        """The core."""
        return self.cockpit.house

    @property
    def clock(self) -> Clock:
        """The house's clock."""
        return self.house.clock

    @property
    def glyphs(self) -> Glyphs:
        """Signs in force."""
        return self.cockpit.look.glyphs

    def present(self) -> float | None:
        """Show what the bridge knows; returns the seconds until the picture changes by itself."""
        raise NotImplementedError

    def copyables(self) -> list[Copyable]:
        """What the copy menu offers for the row under the cursor."""
        return []

    def to_copy(self) -> list[Copyable]:
        """The whole copy menu."""
        return self.copyables()

    def menu_title(self) -> str:
        """What the menu of this pane is about."""
        return str(self.title)  # type: ignore[attr-defined]  # mixed into widgets only

    def key(self, action_id: str) -> str:
        """The key of an action, for sentences on the screen."""
        return self.cockpit.keymap.shown(action_id)


class Preview(NamedTuple):
    """What the details pane shows of the row under a table's cursor; ``title`` is clean."""

    title: str
    facts: Table
    notes: tuple[Line, ...] = ()
    """Below the facts: what they mean, and which key is next."""
    next_change: float | None = None
    """Seconds until it reads differently by itself."""


def preview_lines(preview: Preview, width: int) -> list[Line]:
    """Facts, then what is to be said, in lines of at most ``width`` cells."""
    lines = fact_lines(preview.facts, width)
    if lines and preview.notes:
        lines.append(())
    for line in preview.notes:
        lines += hung(line, min(width, _READING))
    return lines


class TablePane(PaneParts, LineTable):
    """A pane that is a table."""

    SCOPES: ClassVar[tuple[str, ...]] = ("list",)
    BINDINGS = bindings()
    BULK: ClassVar[frozenset[str]] = frozenset()
    """Actions that are about every marked row; their labels say how many."""
    _first: tuple[Line, ...] = ()

    def count(self, noun: str, *more: Cell) -> Line:
        """The state at the right end of the border: a count and what else is to be said."""
        pieces = [Cell(noun, Tone.DIM)]
        for cell in more:
            pieces += [Cell("  ", Tone.DIM), cell]
        return tuple(pieces)

    def can(self, action_id: str) -> bool:
        if action_id == "list.filter" and not self.table.rows:
            return False  # there is nothing to narrow
        return super().can(action_id)

    def preview(self) -> Preview | None:
        """Details of the row under the cursor, laid out for the pane beside; None where there are none."""
        return None

    def say_below(self, *first: Line) -> None:
        """Below the rows: what is said first, and the row's details where no room beside the table shows them."""
        self._first = first
        preview = None if self.cockpit.cockpit_screen.previews else self.preview()
        about = tuple(preview_lines(preview, max(1, self.inner_width - 2))) if preview is not None else ()
        self.tail = (*first, *(((),) if first and about else ()), *about)
        self.update()

    def resized(self) -> None:
        super().resized()
        self.say_below(*self._first)

    def to_copy(self) -> list[Copyable]:
        chosen = self.chosen_keys
        if len(chosen) < 2:
            return self.copyables()
        return [Copyable(f"{len(chosen)} marked", "\n".join(clean(key) for key in chosen)), *self.copyables()]

    def menu_title(self) -> str:
        marked = len(self.chosen_keys)
        preview = self.preview() if marked == 1 else None
        return preview.title if preview is not None else f"{self.title}: {marked} marked" if marked else self.title

    def actions_here(self) -> list[Action]:
        marked = len(self.chosen_keys)
        return [
            action._replace(label=f"{action.label} {marked}") if marked > 1 and action.id in self.BULK else action
            for action in super().actions_here()
        ]

    def act_list_mark(self) -> None:
        super().act_list_mark()
        self.cockpit.draw_frame_soon()

    def act_list_range(self) -> None:
        super().act_list_range()
        self.cockpit.draw_frame_soon()

    def back(self) -> bool:
        """As the table's own; what was narrowed or marked can be had again with undo."""
        before = self.view_state()
        if not super().back():
            return False
        done = "the filter was cleared" if before.filter else "the marks were cleared" if before.marks else ""
        if done and before != self.view_state():

            async def again() -> None:
                self.restore(before)

            self.cockpit.undo.push(f"{done} in {self.title.lower()}", again)
        return True


def invitation(
    title: str, *keys: tuple[str, str], tone: Tone = Tone.TEXT, more: Sequence[str] = ()
) -> tuple[Line, ...]:
    """An empty pane: what it would show, why it does not, and the keys that change that, in a column."""
    lines: list[Line] = [words(title, tone), *(words(text, Tone.DIM) for text in more)]
    if keys:
        lines.append(())
    return (*lines, *key_lines(*keys))


def key_lines(*keys: tuple[str, str]) -> tuple[Line, ...]:
    """Keys in a column, each with what it does."""
    room = max((len(key) for key, _ in keys), default=0)
    return tuple((Cell(f"  {key:>{room}}", Tone.ACCENT), Cell(f"  {text}")) for key, text in keys)


def stale_note(rows: str, at: datetime | None, now: datetime, why: ExpbError | None, then: str) -> tuple[Line, ...]:
    """Below rows that may no longer be true: as of when they are, why, and what happens next."""
    since = f"as they were at {moment(at, now)}" if at is not None else "not up to date"
    lines: list[Line] = [words(f"{rows} are {since}.", Tone.WARN)]
    if why is not None:
        lines.append(words(clean(why.what) + (f": {clean(why.cause)}" if why.cause else "")))
        if why.next_step:
            lines.append(words(clean(why.next_step), Tone.INFO))
    lines.append(words(then, Tone.DIM))
    return tuple(lines)


def sentence(*parts: str | tuple[str, Tone]) -> Line:
    """A line of plain and toned pieces; texts from outside must be clean already."""
    return tuple(Cell(part) if isinstance(part, str) else Cell(part[0], part[1]) for part in parts)


def error_lines(error: ExpbError) -> tuple[Line, ...]:
    """What, why and what to do, for an empty pane."""
    lines: list[Line] = [(Cell(clean(error.what), Tone.BAD),)]
    if error.cause:
        lines.append((Cell(clean(error.cause)),))
    if error.next_step:
        lines += [(), (Cell(clean(error.next_step), Tone.INFO),)]
    return tuple(lines)


def ordered(table: Table, *first: str) -> Table:
    """The same table with the columns of these titles first: those that must be seen where there is little room."""
    titles = [column.title for column in table.columns]
    order = [titles.index(title) for title in first]
    order += [index for index in range(len(titles)) if index not in order]
    return Table(
        tuple(table.columns[index] for index in order),
        tuple(row._replace(cells=tuple(row.cells[index] for index in order)) for row in table.rows),
        table.footer,
    )
