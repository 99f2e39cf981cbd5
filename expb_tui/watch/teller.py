"""What the bridge asks of the face that it works for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from expb_tui.present.cells import Tone

if TYPE_CHECKING:
    from expb_tui.core.errors import ExpbError
    from expb_tui.watch.notices import Notice


class Teller(Protocol):
    """What the bridge asks of the application."""

    @property
    def covered(self) -> bool:
        """A dialog stands over the panes: nothing is repainted."""
        ...

    def say(self, text: str, tone: Tone = Tone.OK) -> None:
        """Tell the operator."""
        ...

    def complain(self, error: ExpbError) -> None:
        """Tell the operator what failed."""
        ...

    def tell(self, notice: Notice) -> None:
        """Keep a notice and show it."""
        ...

    def alarm(self, notice: Notice) -> None:
        """Tell what must not be missed: with a bell, and into an editor too."""
        ...

    def crashed(self, error: BaseException, doing: str) -> None:
        """Tell the operator of a fault of ours."""
        ...
