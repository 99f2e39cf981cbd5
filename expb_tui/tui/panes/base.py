"""What panes have in common: the bridge, its topics, and the shape of a table with a count."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Table, Tone
from expb_tui.tui.actions import bindings
from expb_tui.tui.bridge import Bridge
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.lines import Line

if TYPE_CHECKING:
    from expb_tui.launch import House
    from expb_tui.tui.app import CockpitApp


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

    def key(self, action_id: str) -> str:
        """The key of an action, for sentences on the screen."""
        return self.cockpit.keymap.shown(action_id)


class TablePane(PaneParts, LineTable):
    """A pane that is a table."""

    SCOPES: ClassVar[tuple[str, ...]] = ("list",)
    BINDINGS = bindings()

    def count(self, noun: str, *more: Cell) -> Line:
        """The state at the right end of the border: a count and what else is to be said."""
        pieces = [Cell(noun, Tone.DIM)]
        for cell in more:
            pieces += [Cell("  ", Tone.DIM), cell]
        return tuple(pieces)


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


def plural(count: int, noun: str) -> str:
    """``1 lease``, ``2 leases``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
