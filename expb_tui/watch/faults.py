"""A fault of ours in the cockpit: where it happened goes into a file, the operator gets one line."""

from __future__ import annotations

import traceback

from expb_tui import __version__
from expb_tui.core.paths import private_dir, state_dir


def kept(error: BaseException) -> str:
    """Write the traceback, which holds code and no values, into the state folder; returns where."""
    text = f"expb-tui {__version__}\n" + "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__ + "\n"
    try:
        path = private_dir(state_dir()) / "fault.txt"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
    except OSError:
        return f"{type(error).__name__}; no report could be written"
    return f"{type(error).__name__}; the report is in {path}"
