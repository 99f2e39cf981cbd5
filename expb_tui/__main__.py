"""``expb-tui``: without a command the cockpit, otherwise the command tree."""

from __future__ import annotations

import sys
from typing import NoReturn

_ANSWERED_WITH_TEXT = {"-h", "--help", "--version"}


def main() -> NoReturn:
    """The console script."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        # While modules are imported, before the command tree says it in words.
        sys.exit(130)


def _run() -> int:
    """Before the cockpit one line is shown, ahead of every import that takes long."""
    from expb_tui.cli.options import scan

    found = scan(sys.argv[1:])
    line = None
    if not found.words and not _ANSWERED_WITH_TEXT.intersection(found.flags):
        from expb_tui.launch import terminal_here

        if terminal_here():
            from expb_tui.first_line import FirstLine

            line = FirstLine.show(found.options.get("profile"))
    from expb_tui.cli.tree import run

    return run(sys.argv[1:], line)


if __name__ == "__main__":
    main()
