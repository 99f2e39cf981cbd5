"""Help that is written, not listed: what a place shows, how to read it, what one does next; then its keys."""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual.app import ComposeResult

from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.tui.actions import ACTIONS, SCOPES, Action, Keymap
from expb_tui.tui.screens.help_texts import HELP, Help
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, width_of, words, wrap

_LEAST = 30
"""Cells that the words beside a key need; with less room they stand below it."""
_TERM = 16
"""Cells for the words that are explained; longer ones take a line of their own."""
_PROSE = 88
"""Cells beyond which a line of prose is hard to follow."""
_COLOURS = {"amber": Tone.WARN, "red": Tone.BAD}
_MARK = re.compile(r"\{(sign:)?([a-z_.]+)\}")


class HelpScreen(Dialog[None]):
    """``scopes`` are those at the focus, innermost first."""

    def __init__(self, scopes: Iterable[str], keymap: Keymap, glyphs: Glyphs) -> None:
        super().__init__("Help", width=104, tall=True)
        self._text = HelpText([*dict.fromkeys(scopes), "global"], keymap, glyphs)

    def compose_body(self) -> ComposeResult:
        yield self._text


class HelpText(LineText):
    """Prose and keys of each scope, in the order given."""

    def __init__(self, scopes: Iterable[str], keymap: Keymap, glyphs: Glyphs) -> None:
        super().__init__(framed=False, id="help")
        self._scopes = tuple(dict.fromkeys(scopes))
        self._keymap = keymap
        self._glyphs = glyphs

    def wrapped(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for scope in self._scopes:
            actions = [action for action in ACTIONS if action.scope == scope]
            if not actions:
                continue
            if lines:
                lines += [(), ()]
            title = SCOPES[scope]
            rule = self.look.frame.horizontal * max(0, width - width_of(title) - 1)
            lines.append((Cell(f"{title} ", Tone.ACCENT), Cell(rule, Tone.DIM)))
            lines += self._prose(HELP[scope], min(width, _PROSE))
            lines += [(), words("Keys", Tone.INFO), *self._keys(actions, width)]
        return lines

    def _prose(self, help_: Help, width: int) -> list[Line]:
        lines: list[Line] = []
        for paragraph in help_.shows:
            lines += [(), *wrap(self._line(paragraph), width)]
        if help_.reading:
            lines += [(), words("How to read it", Tone.INFO)]
            for term, meaning in help_.reading:
                tone = _COLOURS.get(term, Tone.ACCENT)
                lines += self._explained(self._line(term, tone), self._line(meaning), width)
        if help_.next:
            lines += [(), words("What one does next", Tone.INFO)]
            for paragraph in help_.next:
                lines += [(Cell("  "), *line) for line in wrap(self._line(paragraph), width - 2)]
        return lines

    def _explained(self, term: Line, meaning: Line, width: int) -> list[Line]:
        size = sum(width_of(cell.text) for cell in term)
        rows = wrap(meaning, max(8, width - _TERM - 2))
        pad = Cell(" " * (_TERM + 2))
        if size >= _TERM:
            return [(Cell("  "), *term), *((pad, *row) for row in rows)]
        first = (Cell("  "), *term, Cell(" " * (_TERM - size)), *rows[0])
        return [first, *((pad, *row) for row in rows[1:])]

    def _line(self, text: str, tone: Tone = Tone.TEXT) -> Line:
        """The text with keys and signs as they are now."""
        cells: list[Cell] = []
        done = 0
        for found in _MARK.finditer(text):
            cells.append(Cell(text[done : found.start()], tone))
            if found[1]:
                cells.append(Cell(getattr(self._glyphs, found[2]), tone))
            else:
                cells.append(Cell(self._keymap.shown(found[2]), Tone.ACCENT))
            done = found.end()
        cells.append(Cell(text[done:], tone))
        return tuple(cell for cell in cells if cell.text)

    def _keys(self, actions: list[Action], width: int) -> list[Line]:
        keys = {action.id: " ".join(self._keymap.show(action.id)) for action in actions}
        room = max(map(width_of, keys.values())) + 4
        label = max(width_of(action.label) for action in actions) + 2
        lines: list[Line] = []
        for action in actions:
            head: Line = (Cell(f"  {keys[action.id]:<{room - 2}}", Tone.ACCENT), Cell(f"{action.label:<{label}}"))
            asks = " Asks first." if action.dangerous else ""
            help_: Line = (Cell(f"{action.help}{asks} ", Tone.TEXT), Cell(action.id, Tone.DIM))
            if width < room + label + _LEAST:
                lines += [head, *[(Cell(" " * 4), *line) for line in wrap(help_, width - 4)]]
                continue
            first, *rest = wrap(help_, width - room - label)
            lines += [(*head, *first), *((Cell(" " * (room + label)), *row) for row in rest)]
        return lines
