"""Working on a task in a real terminal: $EDITOR and $PAGER get it and give it back, and a kill loses nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cockpit import PATIENCE, TerminalCockpit, environment, in_terminal, profiles_file
from tests.support.keeper import until
from tests.support.server import LocalServer

EDITOR = """\
#!{python}
import pathlib, sys
path = pathlib.Path(sys.argv[1])
text = path.read_text()
(path.parents[4] / "seen.yaml").write_text(text)
calls = path.parents[4] / "calls"
count = int(calls.read_text()) if calls.exists() else 0
calls.write_text(str(count + 1))
exec((path.parents[4] / f"edit-{{count}}.py").read_text())
path.write_text(text)
"""


def edits(folder: Path, *bodies: str) -> None:
    """What the editor does to the draft, call by call: Python that changes ``text``."""
    for count, body in enumerate(bodies):
        (folder / f"edit-{count}.py").write_text(textwrap.dedent(body))


@pytest.fixture
def environ(tmp_path: Path, server: LocalServer) -> dict[str, str]:
    profiles_file(tmp_path, server)
    editor = tmp_path / "editor"
    editor.write_text(EDITOR.format(python=sys.executable))
    editor.chmod(0o755)
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\ncat "$1"\necho "pager: secure=$LESSSECURE"\nread answer\n')
    pager.chmod(0o755)
    return environment(tmp_path, EDITOR=str(editor), PAGER=str(pager))


@pytest.fixture
def cockpit(environ: dict[str, str]) -> Iterator[TerminalCockpit]:
    with in_terminal(environ, settled="polling") as shown:
        yield shown


def claim(cockpit: TerminalCockpit, role: str) -> None:
    """Claim through the dialog; the package's screen is open afterwards."""
    cockpit.press("work.claim")
    cockpit.wait_for("OBJECTIVES", role)
    cockpit.press("list.filter")
    cockpit.wait_for("/_")
    cockpit.terminal.send(role)
    cockpit.wait_for(f"/{role}", " of ")
    cockpit.terminal.send("\r")
    cockpit.press("claim.ask")
    cockpit.wait_for("Assigned: 1 task", role)
    cockpit.press("claim.open")
    cockpit.wait_for("Package of the", role)


def test_a_draft_goes_through_the_editor_to_the_server(
    cockpit: TerminalCockpit, server: LocalServer, tmp_path: Path
) -> None:
    edits(
        tmp_path,
        # A slip first: the text comes back to the editor word for word.
        """
        text = text.replace("statement: |\\n  \\n", "statement: [unclosed\\n")
        """,
        """
        assert "statement: [unclosed" in text
        text = text.replace("statement: [unclosed\\n", "statement: |\\n  A cache lowers p95.\\n")
        text = text.replace("rationale: |\\n  \\n", "rationale: Lookups cost 22%.\\n")
        text = text.replace("plan: |\\n  \\n", "plan: |\\n  Switch it on.\\n  Replay the load.\\n")
        """,
    )
    claim(cockpit, "ideator")
    cockpit.press("package.edit")
    cockpit.wait_for("The draft cannot be read", "Line ")
    cockpit.press("dialog.accept")
    cockpit.wait_for("A cache lowers p95.", "Lookups cost 22%.", without="cannot be read")
    seen = (tmp_path / "seen.yaml").read_text()
    assert "as ideator" in seen
    assert not list((tmp_path / "state").rglob("*.yaml")), "a draft file was left behind"
    cockpit.press("task.submit")
    cockpit.wait_for("What is sent", "Replay the load.", server.address)
    cockpit.press("submit.send")
    cockpit.wait_for("The service confirmed the submission.", "hypotheses")
    cockpit.press("receipt.done")
    cockpit.wait_for("completed", "Receipts")


def test_text_of_a_task_cannot_become_a_key_of_the_draft(cockpit: TerminalCockpit, tmp_path: Path) -> None:
    edits(tmp_path, "")
    claim(cockpit, "experimenter")
    cockpit.press("package.edit")
    cockpit.wait_for("Task of the experimenter", "Answer")
    copied = tmp_path / "seen.yaml"
    until(copied.exists, bool)
    seen = until(copied.read_text, lambda text: text.endswith("\n"))
    live = [line for line in seen.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert all(line.split(":")[0].strip(" -").isidentifier() for line in live if line.strip())


def test_the_task_is_read_in_the_pager(cockpit: TerminalCockpit) -> None:
    claim(cockpit, "experimenter")
    cockpit.press("package.open")
    cockpit.wait_for("Task of the experimenter", "Fill in")
    cockpit.press("task.page")
    cockpit.wait_for("pager: secure=1", "Constraints")
    cockpit.terminal.send("\r")
    cockpit.wait_for("Task of the experimenter", "Fill in")


def _until_saved(environ: dict[str, str], words: str) -> None:
    """Until the journal holds a draft with these words, without a key that would save it."""
    (path,) = Path(environ["EXPB_TUI_STATE_DIR"]).glob("*/journal.db")
    deadline = time.monotonic() + PATIENCE
    with closing(sqlite3.connect(path)) as db:
        while not any(words in content for (content,) in db.execute("SELECT content FROM draft")):
            assert time.monotonic() < deadline, "the draft was not saved"
            time.sleep(0.05)


def test_what_was_typed_survives_a_kill(environ: dict[str, str]) -> None:
    with in_terminal(environ, columns=80, lines=24, settled="online") as cockpit:
        claim(cockpit, "ideator")
        cockpit.press("package.open")
        cockpit.wait_for("Fill in")
        cockpit.press("task.fill")
        cockpit.wait_for("\u203a Statement")
        # Bracketed paste with sequences that would steer a terminal, then typing.
        cockpit.terminal.send("\x1b[200~Half \x1b]0;evil\x07an \x1b[31midea\x1b[201~")
        cockpit.wait_for("Half an idea")
        cockpit.terminal.send(" more")
        cockpit.wait_for("Half an idea more")
        _until_saved(environ, "Half an idea more")
        os.kill(cockpit.terminal.pid, signal.SIGKILL)
    with in_terminal(environ, columns=80, lines=24, settled="online") as again:
        again.press("pane.leases")
        again.wait_for("ideator")
        again.press("lease.submit")
        again.wait_for("Fill in")
        again.press("task.fill")
        again.wait_for("Half an idea more")
