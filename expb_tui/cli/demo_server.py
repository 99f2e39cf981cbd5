"""The demo's world: a throw-away folder, a local server as a child process in it, and two profiles."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.secret import TOKEN_VARIABLES

PATIENCE = 60.0
"""Seconds within which the server must answer; a cold start compiles its packages."""
USER_PROFILE = "owner"
_ENDING = 5.0
_BORROWED = (
    "EXPBENCH_PROFILES",
    "EXPB_TUI_CONFIG_DIR",
    "EXPB_TUI_STATE_DIR",
    "EXPB_TUI_KEYRING",
    "EXPB_TUI_KEEPER",
)
_SHED = (*TOKEN_VARIABLES, "EXPBENCH_API_SERVER")


class World(NamedTuple):
    """What the server said on its first line; the password and token are made up for this one run."""

    folder: Path
    address: str
    email: str
    password: str
    account_id: str
    project_id: str
    project_name: str
    agent_id: str
    agent_name: str
    agent_token: str


@contextmanager
def world(keep: str | None) -> Iterator[World]:
    """A running demo; the server ends with the block. The folder goes, unless ``keep`` names it or the cockpit left the
    report of a fault in it.

    The environment of this process points into the folder meanwhile, so that nobody's own profiles, settings, journal
    or keyring are touched. Raises ``ExpbError`` where the server cannot be started.
    """
    folder = _folder(keep)
    saved = {name: os.environ.get(name) for name in (*_BORROWED, *_SHED)}
    try:
        os.environ |= {
            "EXPBENCH_PROFILES": str(folder / "profiles.json"),
            "EXPB_TUI_CONFIG_DIR": str(folder / "config"),
            "EXPB_TUI_STATE_DIR": str(folder / "state"),
            "EXPB_TUI_KEYRING": "off",
            # Its leases end with its server: nothing has to outlive the cockpit.
            "EXPB_TUI_KEEPER": "off",
        }
        for name in _SHED:
            os.environ.pop(name, None)
        with _signals_unwind(), _server(folder) as told:
            yield World(folder, **{name: told[name] for name in World._fields[1:]})
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if keep is None and not any(folder.glob("state/*/fault.txt")):
            shutil.rmtree(folder, ignore_errors=True)


def _folder(keep: str | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="expb-tui-demo-"))
    folder = Path(keep).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder", next_step="Name a new one with --keep")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def _signals_unwind() -> Iterator[None]:
    """Signals leave through the ``finally`` blocks, so that the server ends and the folder goes."""
    caught: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:  # where it met a destructor, Python has let nothing out
        raise SystemExit(128 + caught[0])


@contextmanager
def _server(folder: Path) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "expb_tui", "serve", "--until-eof", "--seed-demo", "-o", "json"]
    # Whoever approves on the same screen should not wait five seconds for the answer.
    command += ["--device-interval", "1", "--port", "0", "--database", f"sqlite:///{folder / 'server.sqlite'}"]
    log = folder / "server.log"
    with open(log, "wb") as errors:
        server = subprocess.Popen(  # noqa: S603 - this very program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    try:
        yield _first_line(server, log)
    finally:
        _end(server)


def _first_line(server: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    assert server.stdout is not None
    descriptor, deadline, told = server.stdout.fileno(), time.monotonic() + PATIENCE, b""
    while b"\n" not in told:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ExpbError(
                "The local server does not start",
                cause=f"it has not answered for {PATIENCE:.0f} s",
                next_step="Try again with --keep DIR, and look at server.log there",
                code="demo-server",
            )
        if not select.select([descriptor], [], [], min(left, 1.0))[0]:
            continue
        part = os.read(descriptor, 65_536)
        if not part:
            server.wait(_ENDING)
            raise _failed(log)
        told += part
    facts: dict[str, str] = json.loads(told.splitlines()[0])
    return facts


def _failed(log: Path) -> ExpbError:
    """The server's own words, without the name of the program in front."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it ended without a word"]
    said = [line.removeprefix("expb-tui: error: ").strip() for line in lines[-2:]]
    return ExpbError(
        "The local server does not start", cause=said[0], next_step=said[1] if len(said) > 1 else "", code="demo-server"
    )


def _end(server: subprocess.Popen[bytes]) -> None:
    for stream in (server.stdin, server.stdout):
        if stream is not None:
            stream.close()
    for stop in (server.terminate, server.kill):
        stop()
        try:
            server.wait(_ENDING)
        except subprocess.TimeoutExpired:
            continue
        return


def write_profiles(demo: World) -> None:
    """The agent as the default profile, and the owner still to be signed in."""
    from expb_tui.core.profiles.store import Profile, ProfileStore
    from expb_tui.core.secret import SecretStr

    store = ProfileStore()
    store.put(
        Profile(
            demo.agent_name,
            type="agent",
            endpoint=demo.address,
            account_id=demo.account_id,
            agent_id=demo.agent_id,
            token=SecretStr(demo.agent_token),
            project_id=demo.project_id,
            project_name=demo.project_name,
        ),
        make_default=True,
    )
    store.put(Profile(USER_PROFILE, endpoint=demo.address))
