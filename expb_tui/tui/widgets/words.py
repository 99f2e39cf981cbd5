"""Text that takes the height it needs: toned pieces, wrapped with a hanging indent; addresses are real links."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.tui.widgets.lines import Line, Pen, width_of, wrap
from expb_tui.tui.widgets.look import look_of

_ADDRESS = re.compile(r"https?://[!-~]+\Z")


class Words(Widget):
    """Cleaned cells in, lines out. A cell of the link tone that is an http(s) address becomes an OSC 8 link to it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Words { width: 1fr; height: auto; background: $surface; }
    """

    def __init__(
        self, *lines: Line, on: str = "surface", indent: int = 0, centred: bool = False, widget_id: str | None = None
    ) -> None:
        super().__init__(id=widget_id)
        self._lines: tuple[Line, ...] = lines
        self._on = on
        self._indent = indent
        self._centred = centred
        self._wrapped: tuple[int, list[tuple[Line, dict[int, str]]]] = (-1, [])

    @property
    def lines(self) -> tuple[Line, ...]:
        """What is shown, not wrapped."""
        return self._lines

    def set_lines(self, *lines: Line) -> None:
        """Show other lines; the layout changes only where their number does."""
        if lines == self._lines:
            return
        before = len(self._broken(self.content_size.width)) if self.is_mounted else 0
        self._lines = lines
        self._wrapped = (-1, [])
        if self.is_mounted:
            self.refresh(layout=len(self._broken(self.content_size.width)) != before)

    def _broken(self, width: int) -> list[tuple[Line, dict[int, str]]]:
        """Wrapped lines, each with the target of every piece that is (a part of) a link."""
        if self._wrapped[0] != width:
            out: list[tuple[Line, dict[int, str]]] = []
            for line in self._lines:
                targets = [text for text, tone in line if tone == Tone.LINK and _ADDRESS.match(text)]
                for part in wrap(line, max(1, width), indent=self._indent):
                    found = {
                        index: target
                        for index, (text, tone) in enumerate(part)
                        if tone == Tone.LINK and text.strip()
                        for target in targets
                        if text.strip() in target
                    }
                    out.append((part, found))
            self._wrapped = (width, out)
        return self._wrapped[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._broken(width))

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return max((sum(width_of(text) for text, _ in line) for line in self._lines), default=0)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        palette = look_of(self).palette
        blank = palette.style("text", self._on)
        lines = self._broken(width)
        pen = Pen()
        if y < len(lines):
            line, targets = lines[y]
            if self._centred:
                pen.fill(max(0, (width - sum(width_of(text) for text, _ in line)) // 2), blank)
            for index, (text, tone) in enumerate(line):
                style = palette.style(tone, self._on)
                if target := targets.get(index):
                    style = style + Style(link=target)
                pen.put(text, style)
        return pen.strip(width, blank)


def line(text: str, tone: Tone = Tone.TEXT) -> Line:
    """A line of one piece."""
    return (Cell(text, tone),)


def error_lines(error: ExpbError, glyphs: Glyphs) -> tuple[Line, ...]:
    """An error as lines: what and why in the bad tone, then the next step."""
    first, *rest = error.lines()
    return (line(f"{glyphs.bad} {clean(first)}", Tone.BAD), *(line(f"  {clean(text)}") for text in rest))


def facts_lines(pairs: Sequence[tuple[str, Cell]]) -> tuple[Line, ...]:
    """Labels and values, one pair a line, the values under each other."""
    room = max((len(label) for label, _ in pairs), default=0)
    return tuple((Cell(f"{label:<{room}}  ", Tone.DIM), value) for label, value in pairs)
