"""kill -9 in the middle of steady typing in a real terminal: what was typed is there, but for the last moment."""

from __future__ import annotations

import itertools
import os
import signal
import time

from tests.support.cockpit import in_terminal
from tests.support.drill import Drill, claim, kept

PAUSE = 0.08
"""Seconds between two keys: shorter than the pause at which a draft is written."""
SECONDS = 6.0


def test_a_draft_survives_a_kill_in_the_middle_of_a_word(drill: Drill) -> None:
    place = drill.place()
    package = claim(place).json()["resource"]
    with in_terminal(place.environ, settled="online") as cockpit:
        cockpit.press("pane.leases")
        cockpit.wait_for("ideator", "U Submit", "in the journal")
        cockpit.press("lease.submit")
        cockpit.wait_for("Fill in")
        cockpit.press("task.fill")
        cockpit.wait_for("\u203a Statement")
        words = (f"word{number} " for number in itertools.count())
        typed, seen_then = "", ""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < SECONDS:
            for char in next(words):
                cockpit.terminal.send(char)
                typed += char
                cockpit.terminal.pump(0.001)
                time.sleep(PAUSE)
            if elapsed < SECONDS / 4:
                seen_then = typed
        os.kill(cockpit.terminal.pid, signal.SIGKILL)
    (draft,) = kept(place)[1]
    assert draft.task_id == package["status"]["tasks"][0]["taskId"]
    saved = next(value for value in draft.values.values() if isinstance(value, str) and value.startswith("word0"))
    assert typed.startswith(saved.rstrip()), (typed, saved)
    assert len(saved) >= len(seen_then), (saved, seen_then)
