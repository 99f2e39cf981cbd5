"""The frame of full screens: header, body, status and keys, the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from expb_tui.tui.actions import Action
from expb_tui.tui.panes.base import PaneParts
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.one_line import HeadLine, KeyLine, StatusLine, unread
from expb_tui.watch.pace import View

if TYPE_CHECKING:
    from expb_tui.tui.app import CockpitApp

Result = TypeVar("Result")


class FrameScreen(Acts, Screen[Result]):
    """Override ``compose_body``. The application draws header, status and keys of the screen on top."""

    SCOPES: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    FrameScreen { layout: vertical; background: $surface; overflow: hidden; }
    """

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As Textual's own, but without its repaint of the whole screen at every change of focus."""

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), repaint=False)

    def __init__(self) -> None:
        super().__init__()
        self._painted = False
        self._keys: list[Action] = []

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Textual lays a new screen out, paints it, and asks for the same paint again: that one is left out."""
        if self.stack_updates == 1 and not (self._painted or regions or layout or recompose):
            self._painted = True
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def views(self) -> list[View]:
        """What the bridge keeps up to date while this screen is on top."""
        return [node for node in self.query("*") if isinstance(node, PaneParts)]

    @on(events.ScreenResume)
    def catch_up(self) -> None:
        """On top, for the first time or again: what changed meanwhile is shown now."""
        self.cockpit.show_views(self.views())

    @property
    def cockpit(self) -> CockpitApp:
        """The application."""
        return cast("CockpitApp", self.app)

    def compose(self) -> ComposeResult:
        yield HeadLine(id="head")
        yield from self.compose_body()
        yield StatusLine(id="status")
        yield KeyLine(id="keys")

    def compose_body(self) -> ComposeResult:
        """What stands between header and status line."""
        yield from ()

    @on(events.Mount)
    def draw_frame_first(self) -> None:
        """Header, status and keys stand with the first frame."""
        self.cockpit.draw_frame()

    def show_keys(self, actions: list[Action] | None = None) -> None:
        """Draw the key line: the actions that are possible now, or these."""
        self._keys = self.cockpit.actions_now() if actions is None else actions
        self.show_unread()

    def show_unread(self) -> None:
        """Say how many notices have not been looked at; the keys stay as they are."""
        notices = self.cockpit.notices
        self.query_one("#keys", KeyLine).show(self._keys, unread(notices.unread, notices.worst_unread))
