"""The line-by-line mode in a real terminal, against the real server: everything by typed lines, nothing but lines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from expb_tui.core.api.failures import ApiProblem
from expb_tui.plain.session import PlainSession
from expb_tui.plain.voice import Voice
from expb_tui.present.cells import Tone
from expb_tui.watch.notices import of_renewal
from tests.support.cockpit import PROGRAM, environment, house_in, profiles_file
from tests.support.held import held
from tests.support.server import LocalServer
from tests.support.terminal import Terminal, terminal

_STEERING = re.compile(rb"[\x00-\x06\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Controls other than bell, tab, line feed, carriage return (the terminal's own, before a line feed)."""


@pytest.fixture
def environ(tmp_path: Path, server: LocalServer) -> dict[str, str]:
    profiles_file(tmp_path, server)
    return environment(tmp_path, TERM="dumb", LC_ALL="C", COLORTERM="", EDITOR="false")


@contextmanager
def plain(environ: Mapping[str, str], *arguments: str) -> Iterator[Terminal]:
    """A session in a terminal as wide as its lines; the end of the block asserts that it wrote nothing but lines."""
    with terminal([PROGRAM, *arguments], columns=320, lines=70, environ=environ) as shown:
        shown.wait_for("plain mode", "The service answers.", "This host holds")
        yield shown
        found = _STEERING.search(bytes(shown.output))
        assert found is None, bytes(shown.output)[max(0, found.start() - 40) : found.end() + 40]


def _claim(shown: Terminal, role: str = "ideator") -> None:
    shown.send(f"claim {role}\n")
    shown.wait_for(f"Claim one task as {role} in checkout-latency", "Type yes.")
    shown.send("yes\n")
    shown.wait_for("Claimed: lease 1")


def _editor(folder: Path, *bodies: str) -> str:
    """An editor that reads a line from the terminal and replaces the draft by each of ``bodies`` in turn."""
    for count, body in enumerate(bodies):
        (folder / f"body-{count}").write_text(body)
    path = folder / "editor"
    path.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\n"
        f"folder = pathlib.Path({str(folder)!r})\ncount = folder / 'count'\n"
        "number = int(count.read_text()) if count.exists() else 0\ncount.write_text(str(number + 1))\n"
        "(folder / f'seen-{number}').write_text(open(sys.argv[1]).read())\n"
        "print('in the editor; type a line', flush=True)\nprint('editor heard', sys.stdin.readline())\n"
        "open(sys.argv[1], 'w').write((folder / f'body-{number}').read_text())\n"
    )
    path.chmod(0o755)
    return str(path)


def test_the_whole_work_loop_by_typed_lines(environ: dict[str, str], tmp_path: Path, server: LocalServer) -> None:
    good = "outcome: completed\nstatement: A cache lowers p95.\nrationale: Lookups cost 22%.\nplan: Replay it.\n"
    environ["EDITOR"] = _editor(tmp_path, "statement: [unclosed\n", "outcome: completed\n", good)
    with plain(environ) as shown:
        shown.send("work\n")
        shown.wait_for("ideator in checkout-latency: 1 open.")
        _claim(shown)
        shown.send("renew 1\n")
        shown.wait_for("Lease 1 is renewed: 14 minutes left.")
        shown.send("keep 1 off\n")
        shown.wait_for("Lease 1: keeping is off.")
        shown.send("keep 1\n")
        shown.wait_for("Lease 1: renewed by this session.")
        shown.send("show 1\n")
        shown.wait_for("Instructions:", "Baseline: 455 ms", "Task 1 of 1: open")
        shown.send("submit 1\n")
        shown.wait_for("in the editor; type a line")
        # What is typed belongs to the editor while it has the terminal.
        shown.send("for the editor\n")
        shown.wait_for("editor heard for the editor", "The draft, line 2", "Open it in the editor again? Type yes.")
        shown.send("yes\nnext\n")
        shown.wait_for("editor heard next", "answers to look at", "Statement:")
        assert "statement: [unclosed" in (tmp_path / "seen-1").read_text()
        shown.send("yes\nlast\n")
        shown.wait_for("statement: A cache lowers p95.", "Send this for lease 1, ideator in checkout-latency")
        shown.send("yes\n")
        shown.wait_for(
            "Submitted and confirmed, completed as hypotheses", "1 of 1 task submitted, the lease is completed."
        )
        shown.send("receipts\n")
        shown.wait_for("ago: ideator in checkout-latency, completed, hypotheses")
        shown.send("quit\n")
        assert shown.wait_end() == 0
    assert not list((tmp_path / "state").rglob("*.yaml"))


def test_a_body_from_a_file_a_failure_and_a_release_are_asked_for(environ: dict[str, str], tmp_path: Path) -> None:
    with plain(environ) as shown:
        _claim(shown)
        shown.send("release 1\nno\n")
        shown.wait_for(
            "Release lease 1, ideator in checkout-latency, 0 of 1 task submitted? Type yes.", "Nothing was done."
        )
        (tmp_path / "body.json").write_text(json.dumps({"outcome": "completed", "output": {"hypothesis": {}}}))
        shown.send(f"submit 1 {tmp_path}/body.json\n")
        shown.wait_for("The submission is not complete: output.hypothesis.objectiveId")
        shown.send("submit 1 /no/such/file\n")
        shown.wait_for("/no/such/file cannot be read: No such file or directory.")
        shown.send("fail 1\n")
        shown.wait_for("Say why the task failed.")
        shown.send("fail 1 the rig is \u00fcbel\nno\n")
        shown.wait_for("Report the task as failed for lease 1")
        shown.send("release 1\nyes\n")
        shown.wait_for("Lease 1 is released; its open tasks return to the queue.")
        shown.send("list\n")
        shown.wait_for("1. ideator in checkout-latency: released")
        shown.send("nonsense\n")
        shown.wait_for("There is no command nonsense.")
        shown.send("\x04")
        assert shown.wait_end() == 0


def test_a_draft_is_offered_when_the_task_comes_again(environ: dict[str, str], tmp_path: Path) -> None:
    environ["EDITOR"] = _editor(tmp_path, "statement: A cache lowers p95.\n", "statement: A cache lowers p95.\n")
    with plain(environ) as shown:
        _claim(shown)
        shown.send("submit 1\n")
        shown.wait_for("in the editor; type a line")
        shown.send("first\n")
        shown.wait_for("The draft is saved; 1 answer to look at", "Open it in the editor again? Type yes.")
        shown.send("no\nrelease 1\nyes\n")
        shown.wait_for("Lease 1 is released")
        shown.send("claim ideator\nyes\n")
        shown.wait_for("Claimed: lease 2")
        shown.send("show 2\nsubmit 2\n")
        shown.wait_for("with an unsent draft of when it was held before", "Go on from it? Type yes")
        shown.send("yes\n")
        shown.wait_for("in the editor; type a line")
        shown.send("second\n")
        shown.wait_for("editor heard second")
        assert "statement: A cache lowers p95." in (tmp_path / "seen-1").read_text()


def test_what_others_do_is_announced_and_leaving_says_what_ends(environ: dict[str, str], server: LocalServer) -> None:
    with plain(environ) as shown:
        done = subprocess.run(
            [PROGRAM, "agent", "work", "request", "--role", "experimenter", "-o", "json"],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        uid = json.loads(done.stdout)["resource"]["metadata"]["uid"]
        shown.wait_for("Lease 1, experimenter in checkout-latency: new, 1 task")
        subprocess.run(
            [PROGRAM, "agent", "work", "release", uid, "--yes"], env=environ, check=True, capture_output=True
        )
        shown.wait_for("Lease 1, experimenter in checkout-latency: Released.")
        subprocess.run(
            [PROGRAM, "agent", "work", "request", "--role", "ideator"], env=environ, check=True, capture_output=True
        )
        shown.wait_for("Lease 2, ideator in checkout-latency: new, 1 task")
        server.stop()
        shown.send("status\n")
        shown.send("quit\n")
        shown.wait_for("Nobody renews lease 2 from now on", "The first ends in 14 minutes", "Leave now?")
        shown.send("no\n")
        shown.wait_for("Nothing was done.")
        shown.send("\x03")
        shown.wait_for("Nothing is running.")
        shown.send("\x03")
        assert shown.wait_end() == 130


def test_a_lost_lease_rings_and_says_why_and_what_next(environ: dict[str, str], server: LocalServer) -> None:
    with plain(environ) as shown:
        _claim(shown)
        server.pass_time(3600.0)
        shown.send("renew 1\n")
        shown.wait_for(
            "Lease 1: The lease of the ideator in checkout-latency has run out", "Drafts stay; request new work"
        )
        assert b"\a" in shown.output
        shown.send("submit 1\n")
        shown.wait_for("The lease of this package has run out: no renewal was confirmed in time. Drafts stay")
        shown.send("quit\n")
        assert shown.wait_end() == 0


def test_sigterm_ends_the_editor_too_and_keeps_what_was_written(environ: dict[str, str], tmp_path: Path) -> None:
    environ["EDITOR"] = _editor(tmp_path, "outcome: completed\n")
    with plain(environ) as shown:
        _claim(shown)
        shown.send("submit 1\n")
        shown.wait_for("in the editor; type a line")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait_end() == 143
    assert list((tmp_path / "state").rglob("*.yaml"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it(environ: dict[str, str], number: signal.Signals, code: int) -> None:
    with plain(environ) as shown:
        os.kill(shown.pid, number)
        assert shown.wait_end() == code


def test_ctrl_z_stops_it_and_fg_reads_a_summary(environ: dict[str, str]) -> None:
    shell = {**environ, "PS1": "shell> "}
    with terminal(["bash", "--norc", "--noprofile", "-i"], columns=200, environ=shell) as shown:
        shown.wait_for("shell>")
        shown.send(f"{PROGRAM}\n")
        shown.wait_for("This host holds 0 live leases.", "The service answers.")
        shown.send("\x1a")
        shown.wait_for("Stopped")
        shown.send("echo alive\n")
        shown.wait_for("alive")
        shown.send("fg\n")
        shown.wait_for("Back.", "0 live leases, the service answers.")
        shown.send("quit\n")
        shown.wait_for("quit\nshell>")


def test_commands_from_a_pipe_are_carried_out_in_order(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [PROGRAM, "--plain"],
        input="claim ideator\nyes\nlist\nrelease 1\nyes\n",
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    order = [
        next(place for place, line in enumerate(lines) if line.startswith(start))
        for start in ("Claim one task", "Claimed: lease 1", "1. ideator", "Release lease 1", "Lease 1 is released")
    ]
    assert order == sorted(order)
    assert "\x1b" not in done.stdout


def test_read_only_changes_nothing(environ: dict[str, str]) -> None:
    with plain(environ, "--read-only") as shown:
        shown.send("claim ideator\n")
        shown.wait_for("This session is read-only.")
        shown.send("quit\n")
        assert shown.wait_end() == 0


def test_it_loads_no_textual(environ: dict[str, str]) -> None:
    script = (
        "import sys\nfrom expb_tui.__main__ import main\nsys.argv = ['expb-tui', '--plain']\n"
        "try:\n    main()\nfinally:\n    print(sorted({'textual', 'rich'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input="list\nwork\n", env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr.splitlines()[-1] == "[]"


async def test_the_same_trouble_is_said_once_and_which_lease_it_is_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    read, write = os.pipe()
    session = PlainSession(house_in(tmp_path))
    session.voice = Voice(write, ascii_only=False, gone=lambda: None)
    now = datetime.now(UTC)
    for second in range(0, 700, 10):
        problem = ApiProblem("POST /v1/work-packages/wp-1/renewals", 404, "not-found", request_id=f"r-{second}")
        at = now + timedelta(seconds=second)
        session.tell(of_renewal(held(), problem, at, tone=Tone.BAD))
        if second == 300:
            other = ApiProblem("POST /v1/work-packages/wp-1/renewals", 503, "busy")
            session.tell(of_renewal(held(), other, at, tone=Tone.BAD))
    session.voice.close()
    os.close(write)
    with os.fdopen(read) as said:
        lines = said.read().splitlines()
    await session.house.aclose()
    assert [re.findall(r"Refused with \d+", line) for line in lines] == [["Refused with 404"], ["Refused with 503"]]
    assert lines[0].startswith("Lease 1: The experimenter lease in checkout-latency was not renewed: ")
    assert lines[0].endswith("It is tried again by itself until its end.")
