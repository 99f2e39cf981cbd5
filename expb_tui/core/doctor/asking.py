"""Asking the terminal itself what it is and can do; bounded, and nothing that it answers reaches the shell."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
from collections.abc import Mapping

from expb_tui.core.doctor.model import Answers, Sight
from expb_tui.core.text import clean

_PATIENCE = 1.0
"""Seconds for all answers; a terminal at the end of a slow link needs a round trip."""
_SILENT = ("", "dumb", "linux", "cons25", "vt52", "emacs")
"""Kinds that show a question as text, or have nothing to tell."""
# XTVERSION, XTGETTCAP for ``Ms`` (how a copy is sent), and DA1, which every terminal answers, and last.
_QUESTION = b"\x1b[>0q\x1bP+q4d73\x1b\\\x1b[c"
_ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]*)c")
_NAME = re.compile(rb"\x1bP>\|([^\x1b\x07]{0,100})(?:\x1b\\|\x07)")
_COPIES = re.compile(rb"\x1bP1\+r4d73[^\x1b]*\x1b\\", re.IGNORECASE)
_CLIPBOARD = b"52"
"""Among a terminal's attributes: it takes OSC 52 (xterm's ctlseqs, DA1)."""


def look(environ: Mapping[str, str], *, ask: bool) -> Sight:
    """The terminal of a command, on standard input and output. ``ask`` it too, unless programs read what is said."""
    if any(stream is None or not stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return Sight(False)
    try:
        reading, writing = sys.stdin.fileno(), sys.stdout.fileno()
        size = os.get_terminal_size(writing)
        answers = _asked(reading, writing) if ask and _may_ask(reading, environ) else None
    except (OSError, ValueError, termios.error):
        return Sight(False)
    return Sight(True, size.columns, size.lines, answers)


def _may_ask(reading: int, environ: Mapping[str, str]) -> bool:
    """A background process would be stopped at its first read."""
    kind = environ.get("TERM", "").partition("-")[0]
    return kind not in _SILENT and os.tcgetpgrp(reading) == os.getpgrp()


def _asked(reading: int, writing: int) -> Answers | None:
    before = termios.tcgetattr(reading)
    quiet = termios.tcgetattr(reading)
    quiet[3] &= ~(termios.ICANON | termios.ECHO)
    told = b""
    try:
        termios.tcsetattr(reading, termios.TCSAFLUSH, quiet)
        os.write(writing, _QUESTION)
        deadline = time.monotonic() + _PATIENCE
        while not _ATTRIBUTES.search(told) and (left := deadline - time.monotonic()) > 0:
            if select.select([reading], [], [], left)[0]:
                piece = os.read(reading, 4096)
                if not piece:
                    break
                told += piece
    finally:
        termios.tcsetattr(reading, termios.TCSAFLUSH, before)
    return _understood(told)


def _understood(told: bytes) -> Answers | None:
    attributes = _ATTRIBUTES.search(told)
    if attributes is None:
        return None
    name = _NAME.search(told)
    copies = _CLIPBOARD in attributes[1].split(b";") or _COPIES.search(told) is not None
    return Answers(clean(name[1].decode("utf-8", "replace")) if name else "", copies)
