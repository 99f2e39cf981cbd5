"""Copying from the cockpit: its terminal is the way out."""

from __future__ import annotations

from typing import Any

from textual.app import App

from expb_tui.core import clipboard


async def copy(app: App[Any], text: str) -> str:
    """Send ``text`` as the setting ``clipboard`` says; see ``core.clipboard.send`` for words and errors."""
    driver = app._driver  # Textual's own copy_to_clipboard writes there too; it has no public name
    settings = app.house.settings  # type: ignore[attr-defined]  # the cockpit is the only application
    return await clipboard.send(text, driver.write if driver is not None else lambda _: None, settings.clipboard)
