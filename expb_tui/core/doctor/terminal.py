"""The terminal itself: kind, size, colours, characters, mouse, links, and the way that a copy takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.core.doctor.terminals import known, named_by
from expb_tui.core.text import lacks_signs, speaks_ascii_only

_SMALLEST = (80, 24)
_TERMINFO = ("/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/local/share/terminfo")
"""Where Debian and others look; a user's own come first (man 5 terminfo)."""
_OFF_OVER_SSH = "off over SSH, so that the terminal's own selection works"


def terminal(here: Circumstances) -> list[Finding]:
    """What the cockpit finds in the terminal that this process has."""
    return [finding for part in _PARTS for finding in part(here)]


def _kind(here: Circumstances) -> Iterator[Finding]:
    kind = here.environ.get("TERM", "")
    if not here.sight.present:
        says = "there is none on input and output; the commands work, the cockpit does not"
        yield Finding("terminal.kind", State.UNKNOWN, says, "Run it in a terminal: expb-tui doctor")
        return
    if kind in ("", "dumb"):
        says = f"TERM is {kind or 'not set'}: a cursor cannot be moved, so the plain mode is shown"
        yield Finding("terminal.kind", State.WARN, says, "export TERM=xterm-256color")
        return
    name = (here.sight.answers and here.sight.answers.name) or named_by(here.environ)
    says = f"{name}, TERM={kind}" if name else f"TERM={kind}"
    if _described(kind, here.environ):
        yield Finding("terminal.kind", State.OK, says)
    else:
        says += ", which this host does not know: editor and pager may draw wrongly"
        mend = "export TERM=xterm-256color"
        if _remote(here.environ):
            mend += f"  (or, where your terminal runs: infocmp -x {shlex.quote(kind)} | ssh THIS-HOST tic -x -)"
        yield Finding("terminal.kind", State.WARN, says, mend)


def _described(kind: str, environ: Mapping[str, str]) -> bool:
    """Whether the terminal's description is installed. Source: man 5 terminfo, *fetching compiled descriptions*."""
    named = [environ.get("TERMINFO", ""), *environ.get("TERMINFO_DIRS", "").split(":")]
    home = environ.get("HOME")
    folders = [*filter(None, named), *([f"{home}/.terminfo"] if home else []), *_TERMINFO]
    existing = [Path(folder) for folder in folders if Path(folder).is_dir()]
    if not existing or "/" in kind:
        return "/" not in kind  # another way of keeping them, or none: nothing can be said
    return any((folder / first / kind).exists() for folder in existing for first in (kind[0], f"{ord(kind[0]):x}"))


def _size(here: Circumstances) -> Iterator[Finding]:
    sight = here.sight
    if not sight.present:
        return
    says = f"{sight.columns} x {sight.lines}"
    if sight.columns <= 0 or sight.lines <= 0:
        yield Finding("terminal.size", State.WARN, "it does not tell its size", "stty cols 120 rows 40")
    elif sight.columns < _SMALLEST[0] or sight.lines < _SMALLEST[1]:
        says += "; columns are left out and panes are narrow"
        yield Finding("terminal.size", State.WARN, says, "Make the window at least 80 x 24")
    else:
        yield Finding("terminal.size", State.OK, says)


def _colours(here: Circumstances) -> Iterator[Finding]:
    environ = here.environ
    if not here.sight.present:
        return
    if environ.get("NO_COLOR"):
        yield Finding("terminal.colours", State.OK, "none, as NO_COLOR asks; meaning never depends on colour")
    elif environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        yield Finding("terminal.colours", State.OK, "16 million (COLORTERM)")
    elif "256" in environ.get("TERM", ""):
        says = "256; where the terminal shows more, COLORTERM says so (ssh does not send it along)"
        yield Finding("terminal.colours", State.OK, says, "export COLORTERM=truecolor")
    else:
        says = "the terminal's own 16: neither TERM nor COLORTERM speaks of more"
        yield Finding("terminal.colours", State.WARN, says, "export COLORTERM=truecolor")


def _characters(here: Circumstances) -> Iterator[Finding]:
    if speaks_ascii_only(here.environ):
        says = "ASCII: the locale names no UTF-8, so signs and borders are drawn with ASCII"
        yield Finding("terminal.characters", State.WARN, says, "export LC_ALL=C.UTF-8")
    elif lacks_signs(here.environ):
        says = f"ASCII: a terminal of the kind {here.environ['TERM']} has few signs beyond it"
        yield Finding("terminal.characters", State.OK, says)
    elif here.settings is not None and here.settings.icons == "ascii":
        yield Finding("terminal.characters", State.OK, f"ASCII, as {here.settings.source('icons')} asks")
    else:
        yield Finding("terminal.characters", State.OK, "UTF-8")


def _mouse(here: Circumstances) -> Iterator[Finding]:
    if here.settings is None or not here.sight.present:
        return
    wish = here.settings.mouse
    if wish == "auto":
        says = f"{_OFF_OVER_SSH}; EXPB_TUI_MOUSE=on switches it on" if _remote(here.environ) else "on"
    else:
        says = f"{wish}, as {here.settings.source('mouse')} asks"
    yield Finding("terminal.mouse", State.OK, says)


def _links(here: Circumstances) -> Iterator[Finding]:
    if not here.sight.present or here.environ.get("TMUX") or here.environ.get("STY"):
        return  # those decide it, and are examined on their own
    found = known(_name(here))
    if found is not None and found.links:
        yield Finding("terminal.links", State.OK, f"{found.title} opens addresses (OSC 8)")
    elif found is not None:
        yield Finding("terminal.links", State.OK, f"{found.title} opens no links; addresses are shown in full")
    else:
        says = "whether it opens links (OSC 8) is not known; addresses are shown in full"
        yield Finding("terminal.links", State.UNKNOWN, says)


def clipboard(here: Circumstances) -> list[Finding]:
    """How a copy reaches the operator's clipboard outside tmux and screen, which are examined on their own."""
    if not here.sight.present or here.environ.get("TMUX") or here.environ.get("STY"):
        return []
    if here.settings is not None and here.settings.clipboard == "tmux":
        says = f"copies go through tmux only ({here.settings.source('clipboard')}), and this is no tmux"
        return [Finding("clipboard.route", State.BAD, says, 'clipboard = "auto" in config.toml')]
    return [by_terminal(_name(here), answered=bool(here.sight.answers and here.sight.answers.takes_copies))]


def by_terminal(program: str, *, answered: bool = False, through: str = "OSC 52") -> Finding:
    """What becomes of a copy that the terminal called ``program`` gets ``through`` something."""
    name = "clipboard.route"
    found = known(program)
    title = found.title if found is not None else "the terminal"
    if answered or (found is not None and found.copies):
        return Finding(name, State.OK, f"{through} to {title}, which takes it")
    if found is not None and found.copies is False:
        says = f"{through} to {title}, which ignores it; what is copied stays on the screen to be selected"
        return Finding(name, State.WARN, says, "Select it with the mouse, or use a terminal that takes OSC 52")
    says = f"{through} to {title}; whether it is taken is not known, so what is copied stays on the screen"
    return Finding(name, State.UNKNOWN, says, found.mend if found is not None else "")


def _name(here: Circumstances) -> str:
    return (here.sight.answers and here.sight.answers.name) or named_by(here.environ)


def _remote(environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


_PARTS = (_kind, _size, _colours, _characters, _mouse, _links)
