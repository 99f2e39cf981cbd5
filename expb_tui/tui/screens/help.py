"""Help that is written, not listed: what a pane is for and how to read it, then its keys from the registry."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult

from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.tui.actions import ACTIONS, SCOPES, Action, Keymap
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, words, wrap

PROSE: dict[str, tuple[str, ...]] = {
    "profiles": (
        "A profile is a saved credential for one service: a user's session, or an agent identity's token. They are "
        "the profiles of expbctl, in the same file, and changes that it makes appear here by themselves.",
        "The cockpit acts as one of them, marked {live}; the star is the default that commands use. Choosing one "
        "with Enter makes it both. A user administers, an agent does the work: panes 2 and 3 need an agent.",
        "Credentials are in the system keyring where a secure one works, otherwise in a file that only you can read; "
        "the details say which. They are never shown. Signing out names the leases that would be stranded first.",
    ),
    "work": (
        "What the service would give to this agent now, by project and role. An offer reserves nothing: claiming is "
        "a request of its own, and the answer may be empty when somebody else was quicker.",
        "The right end of the border says how old this is and how it is kept fresh: by live events where a user "
        "profile of the same account is signed in, else by asking every few seconds.",
        "No work is a normal state. A row without work is explained below the table: the project may not be active, "
        "no objective may be active, the role may be disabled, work may wait for a review, a hold or a limit may "
        "stop it. Causes that this credential cannot see are named as such.",
    ),
    "leases": (
        "Every work package that this host holds, whoever claimed it. The first column is the time left: minutes "
        "until two are left, then seconds. The bar is the share of the lease that is left. ENDS is the absolute "
        "end, beyond which no renewal goes.",
        "While the cockpit is open it renews each lease when a third of it is left. R renews now. D gives a package "
        "back, and its open tasks go to others.",
        "'token lost' means that the service assigned the package but the answer with its token never arrived: it "
        "cannot be renewed or submitted from here. 'no credential' means that the profile it was claimed with is "
        "signed out, gone, or points elsewhere; nothing is sent for it until that is mended.",
    ),
    "package": (
        "The package under the cursor of the leases: its facts, its tasks, and what the chosen task asks for. It "
        "is read from this host's journal at once, and from the service a moment later.",
        "Enter opens the package with its forms. Every task takes one submission: completed with the role's "
        "output, or failed with a reason. Only the service's confirmation makes it submitted.",
    ),
    "global": (
        "The dim word at the end of each line is the action's id: write it under [keys] in config.toml to give the "
        "action another key.",
        "Lower-case keys never change anything on the server. Upper-case keys that do ask first and name their "
        "target; started with --read-only, the cockpit hides them.",
        "Everything can also be found by name with the palette, and by row with the menu.",
    ),
}


_KEYS, _LABEL = 18, 22


class HelpScreen(Dialog[None]):
    """``scopes`` are those at the focus, innermost first."""

    def __init__(self, scopes: Iterable[str], keymap: Keymap, glyphs: Glyphs) -> None:
        super().__init__("Help", width=100, tall=True)
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
                lines.append(())
            lines.append(words(SCOPES[scope], Tone.ACCENT))
            for paragraph in PROSE.get(scope, ()):
                lines += [*wrap(words(paragraph.format(live=self._glyphs.live)), width), ()]
            for action in actions:
                lines += self._action_lines(action, width)
        return lines

    def _action_lines(self, action: Action, width: int) -> list[Line]:
        keys = " ".join(self._keymap.show(action.id))
        head: Line = (Cell(f"  {keys:<{_KEYS - 2}}", Tone.ACCENT), Cell(f"{action.label:<{_LABEL}}"))
        asks = " Asks first." if action.dangerous else ""
        help_: Line = (Cell(f"{action.help}{asks} ", Tone.TEXT), Cell(action.id, Tone.DIM))
        if width < _KEYS + _LABEL + 30:
            return [head, *[(Cell(" " * 4), *line) for line in wrap(help_, width - 4)]]
        rows = wrap(help_, width - _KEYS - _LABEL)
        return [
            ((*head, *row) if not place else (Cell(" " * (_KEYS + _LABEL)), *row)) for place, row in enumerate(rows)
        ]
