"""The short way from a dialog to the application that it stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from expb_tui.tui.app import CockpitApp


def host(node: Any) -> CockpitApp:
    """The application of a widget or screen."""
    return cast("CockpitApp", node.app)
