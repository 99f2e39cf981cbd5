"""An application that paints through a ``Painter``, one frame at a time: never a queue of frames behind a slow link.

While the terminal has not taken the last frame, newer ones are not sent; when it has, the difference to the newest is.
Between us and a distant terminal are buffers that take everything at once, so frames are also held to a budget of bytes
a second, which a slow link still carries: a held key never runs ahead of it. What a person does key by key stays below.
Textual would queue thirty frames. It is pinned, because this replaces its one way to the terminal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from rich.color import ColorSystem
from textual import events
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import CompositorUpdate
from textual.app import App

from expb_tui.tui.painter import Painter, place

if TYPE_CHECKING:
    from textual.screen import Screen

RATE = 44_000.0
"""Bytes a second that go on for longer: two thirds of 512 kbit/s."""
_BURST = 8_192.0
"""Bytes that may go at once: a whole screen, or two pages of a list."""
_LONGEST = 0.1
"""Seconds that a frame may be held back, however large the one before it was."""

Result = TypeVar("Result")


class PaintedApp(App[Result]):
    """Its driver says with ``busy`` whether the terminal still has to take something, and then calls ``send_frame``."""

    def __init__(self, **options: Any) -> None:
        self._painter = Painter()
        self.frame_waits = False
        """Read by the driver's writer thread: call ``send_frame`` when the terminal has taken everything."""
        self._budget, self._budget_at = _BURST, 0.0
        self._later: asyncio.TimerHandle | None = None
        super().__init__(**options)

    def has_screen(self) -> None:
        """The driver has got the terminal, for the first time or again: nothing of ours is on it."""
        self._painter.forget()

    def draw_all(self) -> None:
        """Draw every cell again: the terminal shows something else than what was sent to it."""
        self._painter.forget()
        self.refresh(repaint=True, layout=True)

    async def on_event(self, event: events.Event) -> None:
        """A terminal of another size shows something else; of the same size it may, and Textual draws nothing then."""
        if isinstance(event, events.Resize):
            self._painter.resized(event.size)
            self.call_later(self.send_frame)
        await super().on_event(event)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Textual's one way to the terminal."""
        driver = self._driver
        ours = isinstance(renderable, CompositorUpdate) and driver is not None and not driver.is_inline
        if not ours or self._batch_count or not self._running or self._closed or self.is_headless:
            super()._display(screen, renderable)
            return
        try:
            colors = self.console._color_system or ColorSystem.TRUECOLOR
            if not self._painter.take(renderable, colors):
                self._painter.take(screen._compositor.render_full_update(), colors)
        except Exception as error:  # as Textual does: a fault of a widget ends the application in good order
            self._handle_exception(error)
        else:
            self.send_frame()

    def send_frame(self) -> None:
        """Send what differs; where the terminal is busy, or had too much of late, once it has caught up."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        driver = self._driver
        if driver is None or not self._running or self._closed or self._batch_count:
            return
        self.frame_waits = True  # before the question, so that the writer thread cannot miss it
        if getattr(driver, "busy", False):
            return
        self.frame_waits = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._budget = min(_BURST, self._budget + (now - self._budget_at) * RATE)
        self._budget_at = now
        if self._budget < 0:
            self._later = loop.call_later(-self._budget / RATE, self.send_frame)
            return
        frame = self._painter.frame()
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        if frame or cursor != self._previous_cursor_position:
            begin, end = (SYNC_START, SYNC_END) if self._sync_available else ("", "")
            driver.write(f"{begin}{frame}{place(*cursor)}{end}")
        self._previous_cursor_position = cursor
        self._budget = max(self._budget - len(frame.encode()), -RATE * _LONGEST)
