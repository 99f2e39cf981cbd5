"""A lease is lost while $EDITOR has the terminal: it rings there, without drawing, and is told of afterwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from expb_tui.core.leases.journal import Journal
from tests.support.cockpit import environment, in_terminal, profiles_file
from tests.support.server import LocalServer

EDITOR = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
print("EDITING", end="", flush=True)
(folder / "open").touch()
while not (folder / "close").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def folder(tmp_path: Path, server: LocalServer) -> Path:
    profiles_file(tmp_path, server)
    return tmp_path


def lose(folder: Path) -> None:
    """Another process finds that the only lease is lost."""

    async def mark() -> None:
        journal = Journal(folder / "state" / "host-one" / "journal.db")
        try:
            (row,) = await journal.packages()
            await journal.lose(row.id, "lease-conflict", "somebody else holds it now", token=row.token)
        finally:
            await journal.aclose()

    asyncio.run(mark())


def test_a_loss_rings_in_the_editor_and_is_told_when_it_is_left(folder: Path) -> None:
    script = folder / "editor.py"
    script.write_text(EDITOR)
    environ = environment(
        folder, EXPB_TUI_MACHINE_ID="host-one", EDITOR=f"{sys.executable} {script} {folder}", PYTHONUNBUFFERED="1"
    )
    with in_terminal(environ) as cockpit:
        cockpit.wait_for("online", "checkout-latency")
        cockpit.press("work.claim")
        cockpit.wait_for("OBJECTIVES", "experimenter")
        cockpit.press("claim.ask")
        cockpit.wait_for("Assigned: 1 task")
        cockpit.press("claim.open")
        cockpit.wait_for("Package of the")
        cockpit.press("package.edit")
        cockpit.wait_for("EDITING")
        before = len(cockpit.terminal.output)
        lose(folder)
        for _ in range(400):
            cockpit.terminal.pump()
            if b"\a" in cockpit.terminal.output[before:]:
                break
        assert bytes(cockpit.terminal.output[before:]).replace(b"\a", b"") == b"", "nothing is drawn over the editor"
        assert cockpit.terminal.output[before:].count(b"\a") == 1
        (folder / "close").touch()
        cockpit.wait_for("1 lease lost", "The lease of this package is lost", "somebody else holds it now")
