"""The question before the cockpit is left: what becomes of the leases, and the keeper that could look after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.confirm import ConfirmScreen
from expb_tui.tui.widgets.lines import Line

if TYPE_CHECKING:
    from expb_tui.watch.bridge import Bridge


class LeaveScreen(ConfirmScreen):
    """As ``ConfirmScreen``, and true as long as it stands; a key starts the keeper where none runs."""

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog", "confirm", "leave")
    BINDINGS = bindings("confirm", "leave")

    def __init__(self, bridge: Bridge, lines: Callable[[], Sequence[Line]]) -> None:
        """``lines``: what becomes of the leases, as it is now."""
        self._bridge = bridge
        self._now = lines
        self._said = lines()
        super().__init__("Leave expb-tui?", self._said, verb="Leave")

    def on_mount(self) -> None:
        self.set_interval(1.0, self._say_anew)

    def _say_anew(self) -> None:
        lines = self._now()
        if lines != self._said:
            self._said = lines
            self.show_lines(lines)
            self.show_keys()

    def can(self, action_id: str) -> bool:
        return super().can(action_id) and (action_id != "leave.keeper" or self._bridge.may_start_keeper)

    def act_leave_keeper(self) -> None:
        self._bridge.run("start the keeper", self._bridge.start_keeper)
