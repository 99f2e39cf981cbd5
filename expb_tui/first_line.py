"""One truthful line on the alternate screen while the cockpit is imported, and the terminal restored if that fails."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from expb_tui import __version__
from expb_tui.core.text import clean, in_ascii, wants_ascii

_OPEN = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H"
_CLOSE = "\r\x1b[2K\x1b[?25h\x1b[?1049l"
"""The line is wiped too: some terminals have no alternate screen."""
DEMO_WORDS = ("demo", "starting a local server")
_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def words(profile: str | None) -> str:
    """``expb-tui 0.1.0 · profile researcher @ bench.example · opening…``, from the profile file and nothing else."""
    from expb_tui.core.errors import ExpbError
    from expb_tui.core.profiles.store import ProfileStore

    if profile is None and (os.environ.get("EXPBENCH_AGENT_TOKEN") or os.environ.get("EXPBENCH_AGENT_TOKEN_FILE")):
        return joined("agent token from the environment", "opening")
    try:
        profiles = ProfileStore().read()
    except ExpbError:
        return joined("the profile file cannot be read", "opening")
    name = profile or profiles.default
    found = profiles.by_name.get(name) if name else None
    if found is not None:
        host = found.endpoint.partition("://")[2] or found.endpoint
        return joined(f"profile {clean(found.name)} @ {clean(host)}", "opening")
    return joined("no profile" if name is None else f"no profile named {clean(name)}", "opening")


def joined(*parts: str) -> str:
    """The program and ``parts`` as one line, in the characters that the terminal can show."""
    fancy = (sys.stdout.encoding or "").lower().startswith("utf") and not wants_ascii(os.environ)
    if not fancy:
        return in_ascii(" - ".join((f"expb-tui {__version__}", *parts)))
    return " · ".join((f"expb-tui {__version__}", *parts)) + "…"


class FirstLine:
    """The line is on the screen from ``show`` until ``hand_over`` (the cockpit paints over it) or ``restore``."""

    def __init__(self) -> None:
        self._up = True
        self._handlers = {number: signal.signal(number, self._end) for number in _FATAL}
        self._handlers[signal.SIGINT] = signal.default_int_handler

    @classmethod
    def show(cls, profile: str | None) -> FirstLine:
        """Put the line on the screen, before anything heavy is imported."""
        return cls._paint(words(profile))

    @classmethod
    def show_words(cls, *parts: str) -> FirstLine:
        """Like ``show``, with other words."""
        return cls._paint(joined(*parts))

    @classmethod
    def _paint(cls, text: str) -> FirstLine:
        line = cls()
        width = 80
        with suppress(OSError):
            width = os.get_terminal_size(1).columns or width
        _write(f"{_OPEN} {text[: max(1, width - 1)]}")
        return line

    def hand_over(self) -> None:
        """The cockpit handles signals and the screen from here on."""
        self._up = False
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._end:  # the cockpit may handle it by now
                signal.signal(number, handler)

    def restore(self) -> None:
        """Back to the screen as it was, unless the cockpit has taken over."""
        if not self._up:
            return
        self.hand_over()
        _write(_CLOSE)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        # An import under way cannot be unwound cleanly (Python 3.11 turns what is raised into a RuntimeError).
        _write(_CLOSE)
        os._exit(128 + number)


def _write(text: str) -> None:
    """Past Python's buffer: what a terminal that is gone does not take would fail again at the end, with code 120."""
    with suppress(OSError):
        os.write(1, text.encode(sys.stdout.encoding or "ascii", "replace"))
