"""What is known of terminal programs: who takes copies (OSC 52) and links (OSC 8), and what to switch on there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Known(NamedTuple):
    """A terminal program. None means that it depends, or that nobody knows."""

    title: str
    copies: bool | None
    links: bool | None
    mend: str = ""
    """Where copying can be switched on, in words."""


_ITERM = "iTerm2: Settings > General > Selection > tick 'Applications in terminal may access clipboard'"
_XTERM = "xterm -xrm 'XTerm*disallowedWindowOps: 20,21,SetXprop'"
_KNOWN: tuple[tuple[str, Known], ...] = (
    ("kitty", Known("kitty", True, True)),
    ("wezterm", Known("WezTerm", True, True)),
    ("ghostty", Known("Ghostty", True, True)),
    ("foot", Known("foot", True, True)),
    ("alacritty", Known("Alacritty", True, True)),
    ("contour", Known("Contour", True, True)),
    ("rio", Known("Rio", True, True)),
    ("iterm", Known("iTerm2", None, True, _ITERM)),
    ("windows terminal", Known("Windows Terminal", True, True)),
    ("vscode", Known("VS Code", True, True)),
    ("mintty", Known("mintty", None, True, "mintty: Options > Selection > tick 'Allow setting selection'")),
    ("konsole", Known("Konsole", None, True)),
    ("vte", Known("a terminal made with VTE, such as GNOME Terminal", False, True)),
    ("apple_terminal", Known("Terminal.app", False, False)),
    ("jetbrains", Known("the terminal of a JetBrains IDE", None, True)),
    ("rxvt", Known("urxvt", False, False)),
    ("xterm.js", Known("a terminal made with xterm.js", None, True)),
    ("xterm", Known("xterm", None, False, _XTERM)),
    ("linux", Known("the Linux console", False, False)),
)
"""By a word of what it calls itself. Sources: the terminals' own manuals and change logs."""
_VERSION = re.compile(r"[\d.]+")


def named_by(environ: Mapping[str, str]) -> str:
    """What the environment says the terminal is; empty where it says nothing that can be trusted.

    ``TERM=xterm…`` is what every other terminal calls itself, too.
    """
    for variable, name in (
        ("KITTY_WINDOW_ID", "kitty"),
        ("WEZTERM_PANE", "WezTerm"),
        ("GHOSTTY_RESOURCES_DIR", "ghostty"),
        ("ALACRITTY_WINDOW_ID", "Alacritty"),
        ("WT_SESSION", "Windows Terminal"),
        ("KONSOLE_VERSION", "Konsole"),
        ("VTE_VERSION", "VTE"),
    ):
        if environ.get(variable):
            return name
    if environ.get("TERM_PROGRAM") not in (None, "", "tmux", "screen"):
        return " ".join(filter(None, (environ["TERM_PROGRAM"], environ.get("TERM_PROGRAM_VERSION"))))
    if environ.get("LC_TERMINAL"):  # iTerm2 sends it along through ssh
        return environ["LC_TERMINAL"]
    if "jetbrains" in environ.get("TERMINAL_EMULATOR", "").lower():
        return "JetBrains"
    kind = environ.get("TERM", "")
    return next(
        (word for word in ("kitty", "ghostty", "foot", "alacritty", "contour", "rxvt", "linux") if word in kind), ""
    )


def known(name: str) -> Known | None:
    """The terminal that calls itself so, whatever its version; None where nothing is known of it."""
    lowered = name.lower()
    return next((found for word, found in _KNOWN if word in lowered), None)


def version(text: str) -> tuple[int, ...]:
    """The first number with dots in a text: ``tmux 3.3a`` is (3, 3); empty where there is none."""
    match = _VERSION.search(text)
    return tuple(int(part) for part in match[0].split(".") if part) if match else ()
