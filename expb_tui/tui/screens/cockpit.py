"""The cockpit: four panes, laid out by the size of the terminal and the screen mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from expb_tui.tui.panes.leases import LeasesPane
from expb_tui.tui.panes.package import PackagePane
from expb_tui.tui.panes.profiles import ProfilesPane
from expb_tui.tui.panes.work import WorkPane
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.one_line import TabLine

NARROW, LOW = 100, 28
"""Columns and lines below which one pane is shown at a time."""
MODES = ("normal", "half", "full")
PANES = ("profiles", "work", "leases", "package")
_LEFT = ("profiles", "work")
_COLUMNS = {"profiles": "left", "work": "left", "leases": "right", "package": "right"}
_LEAST = 7
"""Lines that a pane keeps beside one that has been given more room."""


class CockpitScreen(FrameScreen[None]):
    """Profiles and work at the left, leases over the selected package at the right; one at a time where it is small."""

    SCOPES: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    CockpitScreen {
        #tabs { display: none; }
        &.-single #tabs { display: block; }
        #body { height: 1fr; width: 1fr; }
        #left, #right { height: 1fr; width: 1fr; }
    }
    """
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.mode = "normal"
        self.profiles = ProfilesPane()
        self.work = WorkPane()
        self.leases = LeasesPane()
        self.package = PackagePane()
        self._active = "profiles"

    def compose_body(self) -> ComposeResult:
        yield TabLine([(name, f"{place} {name.title()}") for place, name in enumerate(PANES, 1)], id="tabs")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield self.profiles
                yield self.work
            with Vertical(id="right"):
                yield self.leases
                yield self.package

    @property
    def panes(self) -> Sequence[ProfilesPane | WorkPane | LeasesPane | PackagePane]:
        """In the order of their numbers."""
        return (self.profiles, self.work, self.leases, self.package)

    def pane(self, name: str) -> ProfilesPane | WorkPane | LeasesPane | PackagePane:
        """The pane of that name."""
        return self.panes[PANES.index(name)]

    @property
    def active(self) -> ProfilesPane | WorkPane | LeasesPane | PackagePane:
        """The pane that has, or had last, the focus."""
        return self.pane(self._active)

    @property
    def single(self) -> bool:
        """Whether one pane is shown at a time because the terminal is small."""
        width, height = self.app.size
        return width < NARROW or height < LOW

    def on_mount(self) -> None:
        for pane in self.panes:
            pane.present()
        self.lay_out()
        self.active.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out anew; Textual repaints once afterwards."""
        self.lay_out()

    def go(self, name: str) -> None:
        """Show and focus a pane."""
        self._active = name
        self.lay_out()
        self.pane(name).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The active pane is the one with the focus, however it got it."""
        name = event.widget.id or ""
        if name in PANES and name != self._active:
            self._active = name
            if self.single or self.mode != "normal":
                self.lay_out()
        if name in PANES:
            self.query_one("#tabs", TabLine).show(name)
        self.cockpit.draw_frame()

    def lay_out(self) -> None:
        """Give every pane its place: by size, mode and which one is active."""
        single, active = self.single, self._active
        alone = single or self.mode == "full"
        self.set_class(single, "-single")
        left, right = self.query_one("#left"), self.query_one("#right")
        left.display = not alone or active in _LEFT
        right.display = not alone or active not in _LEFT
        for pane in self.panes:
            pane.display = not alone or pane.id == active
        width, height = self.app.size
        half = self.mode == "half" and not alone
        if alone:
            _size(left, width="1fr")
            _size(right, width="1fr")
            _size(self.active, height="1fr")
            return
        narrow = max(36, width * 2 // 5 if width < 160 else 64)
        if half:
            narrow = width // 4 if active not in _LEFT else width * 3 // 5
        _size(left, width=narrow)
        _size(right, width="1fr")
        body = height - 3
        for upper, lower in ((self.profiles, self.work), (self.leases, self.package)):
            if half and active in (upper.id, lower.id):
                rest = lower if active == upper.id else upper
                _size(self.active, height="1fr")
                _size(rest, height=_LEAST)
            else:
                share = body // 3 if upper is self.profiles else max(_LEAST, body * 2 // 5)
                wanted = upper.body_length() + 4
                _size(upper, height=max(_LEAST, min(share, wanted) if upper is self.profiles else share))
                _size(lower, height="1fr")
        self.query_one("#tabs", TabLine).show(active)

    @on(LineTable.Highlighted, "#leases")
    def follow_lease(self, message: LineTable.Highlighted) -> None:
        """The package pane shows what the cursor of the leases is on."""
        self.package.follow(message.key)
        self.cockpit.draw_frame()

    @on(LineTable.Highlighted)
    def follow_row(self) -> None:
        """Another row: other actions may be possible."""
        self.cockpit.draw_frame()

    @on(TabLine.Chosen)
    def go_to_tab(self, message: TabLine.Chosen) -> None:
        """A tab was clicked."""
        self.go(message.key)

    # Modes

    def set_mode(self, mode: str) -> None:
        """``normal``, ``half`` (the active pane has most of the room) or ``full``."""
        self.mode = mode
        self.lay_out()

    def step_mode(self, step: int) -> None:
        """The next or previous mode."""
        place = MODES.index(self.mode) + step
        if 0 <= place < len(MODES):
            self.set_mode(MODES[place])

    def back(self) -> bool:
        """Undo what narrows the active pane, then leave the screen mode; False where there is nothing to undo."""
        if self.active.back():
            return True
        if self.mode != "normal":
            self.set_mode("normal")
            return True
        return False


def _size(widget: Widget, *, width: int | str | None = None, height: int | str | None = None) -> None:
    """Set what differs; an equal value would cost a layout."""
    if width is not None:
        widget.styles.width = width
    if height is not None:
        widget.styles.height = height
