"""What the screens ask of the application that they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from expb_tui.core.errors import ExpbError
from expb_tui.present.cells import Tone
from expb_tui.tui.widgets.look import Look

if TYPE_CHECKING:
    from expb_tui.launch import House
    from expb_tui.tui.bridge import Bridge


class Host(Protocol):
    """The cockpit, or a test's small application."""

    house: House
    look: Look
    ascii_only: bool
    read_only: bool
    bridge: Bridge

    def say(self, text: str, tone: Tone = Tone.OK) -> None:
        """Tell the operator in the status line and the list of notices."""
        ...

    def complain(self, error: ExpbError) -> None:
        """Tell the operator what failed, why, and what to do."""
        ...


def host(node: Any) -> Host:
    """The application of a widget or screen."""
    return cast(Host, node.app)
