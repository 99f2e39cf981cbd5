"""Where the panes stand: one pure function of size, screen mode and what is active, and the layout that applies it.

A layout of our own instead of nested containers and styles: those repaint the screen several times at the start and at
each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement

if TYPE_CHECKING:
    from textual.widget import Widget

PANES = ("profiles", "work", "leases", "package")
LEFT = ("profiles", "work")
MODES = ("normal", "half", "full")
NARROW, LOW = 100, 28
"""Columns and lines below which one pane is shown at a time."""
_LEAST = 7
"""Lines that a pane keeps beside one that has been given more room."""
_TABS_FROM, _STATUS_FROM = 8, 6
"""Lines of a terminal below which the tabs, then the status line too, give way to a row of the pane."""


class State(NamedTuple):
    """All that the plan depends on, beside the size."""

    mode: str
    active: str
    profiles: int
    """How many lines the profiles pane wants; it takes no more than it needs."""
    telling: bool = False
    """Whether it says what is wrong with the profiles, which must be seen to the end."""


def single(size: Size) -> bool:
    """Whether one pane is shown at a time because the terminal is small."""
    return size.width < NARROW or size.height < LOW


def plan(size: Size, state: State) -> dict[str, Region]:
    """The region of each widget by its id; what is missing is not shown."""
    width, height = size
    regions = {"head": Region(0, 0, width, 1)}
    top = 1
    if single(size) and height >= _TABS_FROM:
        regions["tabs"] = Region(0, 1, width, 1)
        top = 2
    below = 2 if height >= _STATUS_FROM else 1
    body = max(1, height - top - below)
    if below == 2:
        regions["status"] = Region(0, top + body, width, 1)
    regions["keys"] = Region(0, top + body + below - 1, width, 1)
    if single(size) or state.mode == "full":
        regions[state.active] = Region(0, top, width, body)
        return regions
    half = state.mode == "half"
    left = max(36, width * 2 // 5 if width < 160 else 60)
    if half:
        left = width * 3 // 5 if state.active in LEFT else width // 4
    for column, upper, lower in (
        (Region(0, top, left, body), *LEFT),
        (Region(left, top, width - left, body), *PANES[2:]),
    ):
        if half and state.active in (upper, lower):
            share = body - _LEAST if state.active == upper else _LEAST
        elif upper == "profiles":
            most = body - _LEAST if state.telling else body * 2 // 5
            share = max(_LEAST, min(most, state.profiles + 4))
        else:
            share = body * 2 // 5
        regions[upper], regions[lower] = column.split_horizontal(share)
    if state.active in LEFT:
        regions["details-pane"] = regions.pop("package")
    return regions


class PlannedLayout(Layout):
    """Puts the children of a screen where the plan says."""

    name = "planned"

    def __init__(self, regions: Callable[[Size], Mapping[str, Region]]) -> None:
        self._regions = regions

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Called by Textual when the size or the screen's layout changes."""
        regions = self._regions(size)
        return [
            WidgetPlacement(region, NULL_OFFSET, Spacing(), child)
            for child in children
            if (region := regions.get(child.id or "")) is not None
        ]
