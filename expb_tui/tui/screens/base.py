"""The frame of full screens: header, body, status and keys, the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen

from expb_tui.tui.actions import Action
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.one_line import HeadLine, KeyLine, StatusLine, unread

if TYPE_CHECKING:
    from expb_tui.tui.app import CockpitApp

Result = TypeVar("Result")


class FrameScreen(Acts, Screen[Result]):
    """Override ``compose_body``. The application draws header, status and keys of the screen on top."""

    SCOPES: ClassVar[tuple[str, ...]] = ()
    DEFAULT_CSS = """
    FrameScreen { layout: vertical; background: $surface; overflow: hidden; }
    """

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
        notices = self.cockpit.notices
        shown = self.cockpit.actions_now() if actions is None else actions
        self.query_one("#keys", KeyLine).show(shown, unread(notices.unread, notices.worst_unread))
