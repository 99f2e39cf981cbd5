"""A fault outside any call is told by kind and place: what Python would print of it holds its text."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import asyncio, gc, threading
from expb_tui.cli import diagnostics
from expb_tui.core import faults

faults.tell_places(diagnostics.fault)
PLANTED = "planted-0123456789"

class Falls:
    def __del__(self):
        raise KeyError(PLANTED)

def fail():
    raise LookupError(PLANTED)

async def forgotten():
    raise OSError(PLANTED)

async def main():
    {what}
    await asyncio.sleep(0.05)
    gc.collect()

faults.run(main())
"""


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("Falls()", "KeyError"),
        ("threading.Thread(target=fail).start()", "LookupError"),
        ("asyncio.ensure_future(forgotten())", "OSError"),
        ("asyncio.get_running_loop().call_soon(fail)", "LookupError"),
    ],
)
def test_a_fault_is_told_without_its_text(what: str, kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT.format(what=what)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr == f"expb-tui: warning: internal error: {kind}\n"
