"""What the cursor of the left-hand panes is on, in full: a profile, or a role with its work."""

from __future__ import annotations

from collections.abc import Callable

from expb_tui.present.cells import Tone
from expb_tui.tui.panes.base import PaneParts, Preview, TablePane, preview_lines, sentence
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line


class DetailsPane(PaneParts, LineText, can_focus=False):
    """It follows the cursor at the bridge's pace, so that a held key does not lay out every row that it passes."""

    topics = frozenset({"profiles", "work", "link", "leases", "selection"})

    def __init__(self, subject: Callable[[], TablePane]) -> None:
        super().__init__(title="Details", id="details-pane")
        self.empty = (sentence(("What the cursor is on is shown here.", Tone.DIM)),)
        self._subject = subject
        self._shown: Preview | None = None

    def present(self) -> float | None:
        before, self._shown = self._shown, self._subject().preview()
        if before == self._shown:
            return self._shown.next_change if self._shown else None
        self.title = self._shown.title if self._shown else self._subject().title
        if before is None or self._shown is None or before.title != self._shown.title:
            self.top = 0
        if self.size:
            self.rewrap()
        else:
            self._body_for = None  # it is laid out when it is seen
        return self._shown.next_change if self._shown else None

    def wrapped(self, width: int) -> list[Line]:
        return preview_lines(self._shown, width) if self._shown is not None else []
