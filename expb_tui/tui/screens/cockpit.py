"""The cockpit: four panes, laid out by the size of the terminal and the screen mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Region, Size

from expb_tui.tui.panes.base import TablePane
from expb_tui.tui.panes.details import DetailsPane
from expb_tui.tui.panes.leases import LeasesPane
from expb_tui.tui.panes.package import PackagePane
from expb_tui.tui.panes.profiles import ProfilesPane
from expb_tui.tui.panes.work import WorkPane
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.plan import MODES, PANES, PlannedLayout, State, plan, single
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.one_line import TabLine


class CockpitScreen(FrameScreen[None], inherit_bindings=False):
    """Profiles and work at the left, leases over the selected package at the right; one at a time where it is small."""

    SCOPES: ClassVar[tuple[str, ...]] = ()
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.mode = "normal"
        self.profiles = ProfilesPane()
        self.work = WorkPane()
        self.leases = LeasesPane()
        self.package = PackagePane()
        self.details = DetailsPane(self._subject)
        self._active = "profiles"
        self._planned = self._state()
        self._layout = PlannedLayout(self._regions)

    @property
    def layout(self) -> PlannedLayout:
        """Our own layout in place of the one that styles would choose."""
        return self._layout

    def compose_body(self) -> ComposeResult:
        yield TabLine([(name, f"{place} {name.title()}") for place, name in enumerate(PANES, 1)], id="tabs")
        yield from self.panes
        yield self.details

    @property
    def panes(self) -> Sequence[ProfilesPane | WorkPane | LeasesPane | PackagePane]:
        """In the order of their numbers."""
        return (self.profiles, self.work, self.leases, self.package)

    def pane(self, name: str) -> ProfilesPane | WorkPane | LeasesPane | PackagePane:
        """The pane of that name."""
        return self.panes[PANES.index(name)]

    def _subject(self) -> TablePane:
        return self.work if self._active == "work" else self.profiles

    @property
    def previews(self) -> bool:
        """Whether there is room to show what the cursor of the left-hand panes is on."""
        return not single(self.app.size) and self.mode != "full"

    @property
    def active(self) -> ProfilesPane | WorkPane | LeasesPane | PackagePane:
        """The pane that has, or had last, the focus."""
        return self.pane(self._active)

    def on_mount(self) -> None:
        for pane in (*self.panes, self.details):
            pane.present()
        self._planned = self._state()
        self.active.focus()

    def go(self, name: str) -> None:
        """Show and focus a pane."""
        self._activate(name)
        self.set_focus(self.pane(name), scroll_visible=False)  # at once: the next key is for the new pane

    def go_to(self, name: str, row: str) -> None:
        """Show and focus a pane, with the cursor on a row where it is still there."""
        self.go(name)
        pane = self.pane(name)
        if row and isinstance(pane, TablePane) and not pane.select(row) and pane.filter:
            pane.set_filter("")
            pane.select(row)

    def _activate(self, name: str) -> None:
        self._active = name
        self.details.present()
        self.lay_out()

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        """The active pane is the one with the focus, however it got it."""
        # Not the event's: keys that came in one read may have moved the focus on meanwhile.
        name = (self.focused.id if self.focused else None) or ""
        if name in PANES and name != self._active:
            self._activate(name)
        if name in PANES:
            self.query_one("#tabs", TabLine).show(name)
        self.cockpit.draw_keys_soon()

    def lay_out(self) -> None:
        """Ask for a new layout where mode, active pane or what the profiles have to say call for one."""
        state = self._state()
        if plan(self.app.size, state) != plan(self.app.size, self._planned):
            self._clear_arrangement_cache()  # Textual keeps an arrangement by size alone
            self.refresh(layout=True)
        self._planned = state

    def _state(self) -> State:
        telling = self.cockpit.bridge.profiles_problem is not None
        return State(self.mode, self._active, self.profiles.wanted(), telling)

    def _regions(self, size: Size) -> dict[str, Region]:
        return plan(size, self._state())

    @on(LineTable.Highlighted, "#leases")
    def follow_lease(self, message: LineTable.Highlighted) -> None:
        """The package pane shows what the cursor of the leases is on."""
        self.package.follow(message.key)
        self.cockpit.draw_keys_soon()

    @on(LineTable.Highlighted)
    def follow_row(self) -> None:
        """Another row: other actions may be possible, and other details are shown."""
        self.cockpit.bridge.mark("selection")
        self.cockpit.draw_keys_soon()

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
