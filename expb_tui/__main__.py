"""``expb-tui``: without a command the cockpit, otherwise the command tree."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The console script."""
    from expb_tui.cli.tree import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
