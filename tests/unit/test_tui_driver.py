"""What comes from the terminal in one read."""

from __future__ import annotations

from textual import events
from textual._xterm_parser import XTermParser

from expb_tui.tui.driver import merged

DOWN, UP = "\x1b[<65;10;10M", "\x1b[<64;10;10M"


def test_many_notches_of_the_wheel_in_one_read_are_one_movement() -> None:
    found = list(merged(XTermParser().feed(DOWN * 20 + "j" + DOWN + UP * 5)))
    kinds = [type(message) for message in found]
    assert kinds.count(events.MouseScrollDown) == 3 + 1
    assert kinds.count(events.MouseScrollUp) == 3
    assert kinds.count(events.Key) == 1
