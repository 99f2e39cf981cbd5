"""The secret search of hazards 19 while leases are kept: keyring, environment, a keeper with tokens in its memory only,
the cockpit inside tmux, editor, pager, crashes with core files allowed, and faults whose text is a token.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expb_tui.core.keeper.state import look
from tests.support.cockpit import TerminalCockpit
from tests.support.commands import PROGRAM
from tests.support.keeper import state_folder, until
from tests.support.raw_server import Request, response
from tests.support.require import missing
from tests.support.secrets import LEASE, Operator, Watch, operator
from tests.support.terminal import PATIENCE, terminal

ROOT = Path(__file__).parents[2]
HELPER = """#!/bin/sh
# Stands in for editor and pager: keeps what it was given.
env >"$TMPDIR/given-to-$(basename "$0")-$$"
cat "$1" >>"$TMPDIR/given-to-$(basename "$0")-$$"
"""
FAULT = """
import sys
from {module} import {name} as Broken
def fail(self, *arguments, **options):
    raise RuntimeError(open({planted!r}).read())
setattr(Broken, {method!r}, fail)
sys.argv = ["expb-tui", *sys.argv[1:]]
from expb_tui.__main__ import main
main()
"""


def no_events(request: Request) -> bytes | None:
    """The window hands on whole answers only, so that the cockpit has to ask."""
    return response("404 Not Found", b"{}") if "/events" in request.target else None


def desktop(folder: Path) -> dict[str, str]:
    """Somebody logged in with a keyring that a keeper could not read, and every crash allowed to leave its memory."""
    (folder / "bin").mkdir()
    for name in ("editor-of-ours", "pager-of-ours"):
        (folder / "bin" / name).write_text(HELPER)
        (folder / "bin" / name).chmod(0o700)
    (folder / "vault").mkdir(mode=0o700)
    return {
        "PYTHON_KEYRING_BACKEND": "tests.support.keyrings.keyring_backends.OnDesktop",
        "PYTHONPATH": str(ROOT),
        "EXPB_TEST_KEYRING": str(folder / "vault" / "keys"),
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere",
        "EDITOR": "editor-of-ours",
        "PAGER": "pager-of-ours",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


def claimed(one: Operator, role: str, **environ: str) -> str:
    asked = json.dumps({"project_id": one.facts["project_id"], "role": role, "max_tasks": 1})
    address = [f"--api-server-address={one.address}"] if environ else []
    told = one.run(
        *("agent", "work", "request", "-f", "-", "-o", "json", *address),
        given=asked,
        may_print=[LEASE],
        environ=environ,
    )
    uid: str = json.loads(told)["resource"]["metadata"]["uid"]
    return uid


def secure(one: Operator, name: str) -> None:
    """Into the keyring; a busy host may take longer for its answer than the program waits."""

    def place() -> str:
        one.run("profile", "secure", name, code=None)
        return one.run("profile", "show", name, "-o", "json")

    until(place, lambda shown: json.loads(shown)["profile"].get("expb_tui", {}).get("secret") == "keyring")


def sign_in(one: Operator) -> None:
    """A user's session in the keyring, an agent's token in the file, one in the keyring, one in the environment."""
    where = f"--api-server-address={one.address}"
    one.sign_in("--profile=owner", "auth", "--agent-name=walker", "--agent-profile=walker", where)
    one.run("auth", "--profile=researcher", "--agent-token", where, given=one.facts["agent_token"])
    one.run("profile", "use", "researcher")
    for name in ("owner", "researcher"):
        secure(one, name)
    one.search_files("home", "tmp", but=["token"])  # the walker's, which is in the file
    one.search_files("home", "tmp", private=["home/.config/exp-bench"])


def keep(one: Operator) -> str:
    """Claims whose tokens only the running keeper has; it renews them from its memory."""
    bus = one.environ.pop("DBUS_SESSION_BUS_ADDRESS")
    claimed(one, "experimenter", EXPBENCH_AGENT_TOKEN=one.facts["agent_token"])  # starts the keeper
    one.environ["DBUS_SESSION_BUS_ADDRESS"] = bus
    package = claimed(one, "ideator")
    state = until(lambda: look(state_folder(one.environ)), lambda state: state.keeps == 2 and bool(state.lent))
    assert state.lent == ("researcher",)
    (agents,) = {agent for _, agent in state.lent_agents}
    assert agents == one.facts["agent_id"]
    one.run("agent", "work", "renew", package)
    assert len(one.known.values[LEASE]) == 2
    return package


def look_around(one: Operator, package: str) -> None:
    """Every output that is about leases, profiles or this host."""
    one.run("agent", "work", "list", "-o", "wide")
    one.run("agent", "work", "show", package, "-o", "yaml")
    one.run("auth", "status", "--profile=walker", "-o", "wide")
    for form in ("wide", "json"):
        one.run("keeper", "status", "-o", form)
        one.run("doctor", "-o", form, code=None, says="endpoint")  # a slow host's keyring may be bad
    one.run("keeper", "install", "--print")
    plain = one.run("--plain", given="list\nshow 1\nprofiles\nhelp\nquit\n")
    assert "help" in plain
    bare = {"EXPBENCH_AGENT_TOKEN": one.facts["agent_token"]}
    where = f"--api-server-address={one.address}"
    one.run("doctor", "-o", "json", where, environ=bare, code=None, says="the token speaks for")


@contextmanager
def tmux(one: Operator) -> Iterator[list[str]]:
    """The words that begin each command to a tmux of this operator's own."""
    (one.folder / "tmux.conf").write_text("set -s escape-time 10\n")
    base = ["tmux", "-S", str(one.folder / "tmux"), "-f", str(one.folder / "tmux.conf")]
    try:
        yield base
    finally:
        subprocess.run([*base, "kill-server"], capture_output=True, timeout=PATIENCE)


def told(base: list[str], *arguments: str) -> str:
    return subprocess.run([*base, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def ran(one: Operator, cockpit: TerminalCockpit, program: str) -> None:
    """Wait until it has been given its text, and the cockpit is back."""
    deadline = time.monotonic() + PATIENCE
    while not list((one.folder / "tmp").glob(f"given-to-{program}*")):
        assert cockpit.terminal.pump(), "the terminal is gone"
        assert time.monotonic() < deadline, cockpit.terminal.text
    cockpit.terminal.settle()


def in_the_cockpit(one: Operator) -> None:
    """Inside tmux: everything is looked at and copied, the task is edited and paged, and a crash ends it."""
    one.window.fault = no_events
    crash = one.folder / "crash"
    crash.mkdir()
    line = f"cd {shlex.quote(str(crash))}; ulimit -c unlimited; exec {PROGRAM}"
    with tmux(one) as base, terminal([*base, "new-session", "sh", "-c", line], environ=one.environ) as shown:
        cockpit = TerminalCockpit(shown)
        cockpit.wait_for("Commands", "online", "2 leases")
        for opened in ("app.doctor", "app.notices", "app.help"):
            cockpit.press(opened)
            cockpit.wait_for("Esc Close", without="still examining")
            cockpit.press("dialog.close")
            cockpit.wait_for("Commands", without="Esc Close")
        cockpit.press("pane.profiles", "profile.details")
        cockpit.wait_for("Esc Close", "secret kept in")
        cockpit.press("dialog.close")
        cockpit.wait_for("Commands", without="Esc Close")
        cockpit.press("pane.leases", "list.down", "app.copy")
        cockpit.wait_for("Esc Close")
        cockpit.press("dialog.accept")
        cockpit.wait_for("Sent to tmux")
        cockpit.press("pane.package")
        cockpit.wait_for("\u25b8 4 Package", "Instructions")
        cockpit.press("package.page")
        ran(one, cockpit, "pager")
        cockpit.press("package.open")
        cockpit.wait_for("e Editor")
        cockpit.press("package.edit")
        ran(one, cockpit, "editor")
        buffers = [
            told(base, "show-buffer", "-b", name) for name in told(base, "list-buffers", "-F#{buffer_name}").split()
        ]
        assert buffers, "nothing was copied"
        screens = told(base, "capture-pane", "-p", "-S", "-", "-a", "-q") + told(base, "capture-pane", "-p", "-S", "-")
        one.leaks += [f"{kind} in a tmux buffer" for kind in one.known.found_in("\n".join(buffers))]
        one.leaks += [f"{kind} on the screen" for kind in one.known.found_in(screens)]
        pid = int(told(base, "display-message", "-p", "#{pane_pid}"))
        assert core_limit(pid) == "0"
        os.kill(pid, signal.SIGSEGV)
        shown.wait_end()
        one.leaks += [f"{kind} sent to the terminal" for kind in one.known.found_in(bytes(shown.output))]
    assert list(crash.iterdir()) == [], "a core file"


def core_limit(pid: int) -> str:
    """The size that a process's core file may have."""
    limits = Path(f"/proc/{pid}/limits").read_text()
    found = re.search(r"^Max core file size +(\S+)", limits, re.MULTILINE)
    assert found is not None
    return found[1]


def crash_the_keeper(one: Operator) -> None:
    """Killed as by a fault of its own memory; the one that a person starts next has no lent token."""
    folder = state_folder(one.environ)
    pid = look(folder).pid
    assert core_limit(pid) == "0"
    os.kill(pid, signal.SIGSEGV)
    until(lambda: look(folder).running, lambda running: not running)
    assert not [path for path in Path("/").glob("core*") if path.is_file()], "a detached keeper works in /"


def faults(one: Operator) -> None:
    """A defect whose text is a token, wherever one may end up: commands, keeper, cockpit; tracebacks hold no text."""
    planted = str(one.folder / "planted")
    Path(planted).write_text(one.facts["agent_token"])
    for module, name, method, arguments in (
        ("expb_tui.core.profiles.session", "Session", "request", ["agent", "opportunity", "list", "--profile=walker"]),
        ("expb_tui.core.leases.renewer", "Renewer", "run", ["keeper"]),
        ("expb_tui.core.keeper.tokens", "Tokens", "session_for", ["keeper"]),
        ("expb_tui.core.doctor.model", "Finding", "__post_init__", ["doctor"]),
    ):
        script = FAULT.format(module=module, name=name, method=method, planted=planted)
        done = subprocess.Popen(
            [sys.executable, "-P", "-c", script, *arguments],
            env=one.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            said, _ = done.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            done.terminate()
            said, _ = done.communicate(timeout=PATIENCE)
        one.leaks += [f"{kind} in what a fault in {name}.{method} said: {said!r}" for kind in one.known.found_in(said)]
    script = FAULT.format(module="expb_tui.tui.app", name="CockpitApp", method="act_app_notices", planted=planted)
    command = [sys.executable, "-P", "-c", script]
    with terminal(command, environ=one.environ) as shown:
        cockpit = TerminalCockpit(shown)
        cockpit.wait_for("Commands", "online")
        cockpit.press("app.notices")
        assert shown.wait_end() == 1
        assert "a fault ended the cockpit: RuntimeError" in shown.text.replace("\n", " ")
        one.leaks += [f"{kind} in what a fault left" for kind in one.known.found_in(bytes(shown.output))]
    assert list((one.folder / "home").rglob("fault.txt"))


def test_no_secret_leaves_its_place_while_leases_are_kept(tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        missing("tmux", "it is not installed")
    helpers = Watch("keyring_child", "keeper\0--detach", "-of-ours")
    with operator(tmp_path, **desktop(tmp_path)) as one, helpers as watch:
        sign_in(one)
        package = keep(one)
        # Lease tokens are in the journal; what the keeper was lent is in its memory and nowhere else.
        private = ["home/.config/exp-bench", "home/.local/state/expb-tui"]
        one.search_files("home", "tmp", private=private)
        one.search_files("home", "tmp", but=["token", LEASE])
        look_around(one, package)
        in_the_cockpit(one)
        crash_the_keeper(one)
        faults(one)
        one.search_files("home", "tmp", private=private)
        one.search_files("home", "tmp", but=["token", LEASE])
    for arguments in watch.arguments:
        one.leaks += [f"{kind} in the arguments of {arguments[:80]!r}" for kind in one.known.found_in(arguments)]
    assert watch.environments.keys() >= {b"keyring_child", b"keeper\0--detach"}
    for helper, seen in watch.environments.items():
        for environ in seen:
            one.leaks += [f"{kind} in the environment of {helper!r}" for kind in one.known.found_in(environ)]
    assert one.leaks == []
    assert one.known.values.keys() >= {"agent's token", "access_token", "refresh_token", "device_code", LEASE, "token"}
