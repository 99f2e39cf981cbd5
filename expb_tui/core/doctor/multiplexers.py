"""tmux and GNU screen, which stand between us and the terminal: what they pass on, and what to set in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import NamedTuple

from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.core.doctor.terminal import by_terminal
from expb_tui.core.doctor.terminals import known, version
from expb_tui.core.secret import environ_for_helpers

_LIMIT = 2.0
"""Seconds that one question may take."""
_PLAIN = re.compile(r"[A-Za-z0-9._+-]{1,60}\Z")
_SLOW_ESCAPE = 100
"""Milliseconds; above it, Esc feels broken."""
_LOAD_BUFFER = (3, 2)
"""The first tmux whose load-buffer -w hands a text on to the terminal."""
_HYPERLINKS = (3, 4)
_STILL = (3, 5)
"""The first tmux that does not flicker while a program repaints (tmux/tmux issue 5470)."""


class _Told(NamedTuple):
    """One answer of ``tmux display-message``; a field is empty where this tmux does not know it."""

    set_clipboard: str
    escape_time: str
    passthrough: str
    default_terminal: str
    outer: str
    """``TERM`` of the terminal that is attached."""
    features: str
    version: str
    calls_itself: str


_ASKED = (
    "#{set-clipboard}|#{escape-time}|#{allow-passthrough}|#{default-terminal}|#{client_termname}|"
    "#{client_termfeatures}|#{version}|#{client_termtype}"
)


def tmux(here: Circumstances) -> list[Finding]:
    """Nothing outside tmux."""
    if not here.environ.get("TMUX"):
        return []
    told = _ask_tmux(here)
    if told is None:
        says = "TMUX is set, but tmux does not answer: how copies and Esc fare is not known"
        return [Finding("tmux.version", State.UNKNOWN, says, "tmux display-message -p '#{version}'")]
    number = version(told.version)
    return [
        *_version(told, number),
        *_escape_time(told),
        *_default_terminal(told),
        *_set_clipboard(told),
        *_passthrough(told),
        *_links(told, number),
        _copies(here, told, number),
    ]


def _ask(here: Circumstances, name: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """The operator's own program with our own words; None where there is none or it does not answer in time."""
    program = shutil.which(name, path=here.environ.get("PATH"))
    if program is None:
        return None
    try:
        return subprocess.run(  # noqa: S603 - see above
            [program, *words],
            env=environ_for_helpers(here.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _ask_tmux(here: Circumstances) -> _Told | None:
    done = _ask(here, "tmux", "display-message", "-p", _ASKED)
    if done is None or done.returncode != 0:
        return None
    fields = done.stdout.rstrip("\n").split("|", len(_Told._fields) - 1)
    return _Told(*fields) if len(fields) == len(_Told._fields) else None


def _line(words: str) -> str:
    """What sets an option now and for good."""
    return f"tmux {words}; echo '{words}' >>~/.tmux.conf"


def _version(told: _Told, number: tuple[int, ...]) -> list[Finding]:
    if number and number < _LOAD_BUFFER:
        says = f"{told.version}: it cannot hand a copy to the terminal by itself (3.2 can)"
        return [Finding("tmux.version", State.WARN, says, "Install tmux 3.2 or newer")]
    still = "" if not number or number >= _STILL else "; 3.5 flickers less"
    return [Finding("tmux.version", State.OK, f"{told.version or 'not told'}{still}")]


def _escape_time(told: _Told) -> list[Finding]:
    if not told.escape_time.isdecimal():
        return []
    wait = int(told.escape_time)
    if wait > _SLOW_ESCAPE:
        says = f"Esc reaches the cockpit {wait} ms late"
        return [Finding("tmux.escape-time", State.WARN, says, _line("set -s escape-time 20"))]
    return [Finding("tmux.escape-time", State.OK, f"{wait} ms")]


def _default_terminal(told: _Told) -> list[Finding]:
    if not told.default_terminal:
        return []
    if "256" not in told.default_terminal and "direct" not in told.default_terminal:
        says = f"{told.default_terminal}: programs in it think that there are few colours (new windows only)"
        return [
            Finding("tmux.default-terminal", State.WARN, says, _line("set -g default-terminal tmux-256color")),
        ]
    return [Finding("tmux.default-terminal", State.OK, told.default_terminal)]


def _set_clipboard(told: _Told) -> list[Finding]:
    name = "tmux.set-clipboard"
    if not told.set_clipboard:
        return []
    if told.set_clipboard == "off":
        says = "off: the cockpit's copies go by load-buffer -w all the same, but tmux's own and an editor's do not"
        return [Finding(name, State.WARN, says, _line("set -s set-clipboard on"))]
    who = "and so may programs in it" if told.set_clipboard == "on" else "programs in it, such as an editor, may not"
    return [Finding(name, State.OK, f"{told.set_clipboard}: tmux may set the terminal's clipboard, {who}")]


def _passthrough(told: _Told) -> list[Finding]:
    if not told.passthrough:
        return []
    word = {"0": "off", "1": "on"}.get(told.passthrough, told.passthrough)
    says = f"{word}; only copies in a tmux older than 3.2 go that way"
    return [Finding("tmux.allow-passthrough", State.OK, says)]


def _links(told: _Told, number: tuple[int, ...]) -> list[Finding]:
    name = "tmux.links"
    if number and number < _HYPERLINKS:
        return [
            Finding(name, State.OK, f"tmux {told.version} drops links (3.4 keeps them); addresses are shown in full")
        ]
    found = known(told.calls_itself)
    if "hyperlinks" in told.features:
        return [Finding(name, State.OK, "passed on (OSC 8)")]
    if found is not None and found.links and _PLAIN.match(told.outer):
        says = f"{found.title} opens links, but tmux does not know it; addresses are shown in full"
        return [Finding(name, State.WARN, says, _line(f"set -as terminal-features ,{told.outer}:hyperlinks"))]
    return [Finding(name, State.OK, "not passed on; addresses are shown in full")]


def _copies(here: Circumstances, told: _Told, number: tuple[int, ...]) -> Finding:
    name = told.calls_itself or told.outer
    direct = here.settings is not None and here.settings.clipboard == "osc52"
    if direct or (number and number < _LOAD_BUFFER):
        if told.set_clipboard == "on":
            return by_terminal(name, through="OSC 52 through tmux")
        why = "clipboard = osc52 is set" if direct else "it is too old for load-buffer -w"
        says = f"tmux keeps copies to itself: {why}, and set-clipboard is not on"
        return Finding("clipboard.route", State.WARN, says, _line("set -s set-clipboard on"))
    if told.outer and "clipboard" not in told.features.split(",") and _PLAIN.match(told.outer):
        says = f"tmux keeps copies to itself: it does not know that {told.outer} has a clipboard"
        return Finding("clipboard.route", State.WARN, says, _line(f"set -as terminal-features ,{told.outer}:clipboard"))
    return by_terminal("" if name.startswith("xterm") else name, through="tmux load-buffer -w, which sends OSC 52")


def screen(here: Circumstances) -> list[Finding]:
    """Nothing outside GNU screen."""
    if not here.environ.get("STY") or here.environ.get("TMUX"):
        return []
    return [_screen_version(here), *_screen_kind(here), _screen_copies()]


def _screen_version(here: Circumstances) -> Finding:
    done = _ask(here, "screen", "-v")  # exits with 1 in some versions, answer and all
    number = version(done.stdout if done else "")
    if not number:
        return Finding("screen.version", State.UNKNOWN, "STY is set, but screen does not answer", "screen -v")
    words = ".".join(map(str, number))
    less = "" if number >= (5,) else "; fixed colours are shown in the nearest of 256 (5.0 knows all)"
    return Finding("screen.version", State.OK, f"{words}{less}")


def _screen_kind(here: Circumstances) -> list[Finding]:
    kind = here.environ.get("TERM", "")
    if kind.startswith("screen") and "256" not in kind:
        says = f"{kind}: programs in it think that there are few colours (new windows only)"
        return [Finding("screen.term", State.WARN, says, "echo 'term screen-256color' >>~/.screenrc")]
    return [Finding("screen.term", State.OK, kind)] if kind else []


def _screen_copies() -> Finding:
    says = "OSC 52 in short pieces through screen; whether the terminal takes it is not known"
    return Finding("clipboard.route", State.UNKNOWN, f"{says}, so what is copied stays on the screen")
