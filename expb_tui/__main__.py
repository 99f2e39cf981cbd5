"""``expb-tui``: without a command the cockpit, otherwise the command tree."""

from __future__ import annotations

import gc
import signal
import sys
from typing import NoReturn

_ANSWERED_WITH_TEXT = {"-h", "--help", "--version", "--headless", "--plain"}


def main() -> NoReturn:
    """The console script. Before the cockpit one line is shown, ahead of every import that takes long."""
    # Modules make thousands of objects and no garbage; together with the freeze at the end this is a fifth of --help.
    gc.disable()
    # An interrupt cannot unwind an import cleanly; until the command tree can say it in words it just ends us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from expb_tui.cli.options import scan
    from expb_tui.core.secret import leave_no_core_file

    leave_no_core_file()
    found = scan(sys.argv[1:])
    line = None
    demo = found.words[:1] == ["demo"]
    if (demo or not found.words) and not _ANSWERED_WITH_TEXT.intersection(found.flags):
        from expb_tui.launch import terminal_here

        if terminal_here():
            from expb_tui.first_line import DEMO_WORDS, FirstLine

            line = FirstLine.show_words(*DEMO_WORDS) if demo else FirstLine.show(found.options.get("profile"))
    from expb_tui.cli.tree import run

    if line is None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:], line)
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
