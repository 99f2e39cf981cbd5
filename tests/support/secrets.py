"""A service behind a window that learns every credential it hands out, and the search for them on this host."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from expb_tui.cli.demo_page import approve
from tests.support.commands import PROGRAM
from tests.support.keeper import HOST, no_keeper_left
from tests.support.raw_server import Request, raw_server, response

CREDENTIALS = ("access_token", "refresh_token", "device_code", "leaseToken", "lease_token", "token")
LEASE = "leaseToken"
_BEGINNING = 16
"""Characters of a secret that are one already."""
_PAUSE = 0.02
"""Seconds between two looks at all processes; a Python that starts lives several times as long."""
Fault = Callable[[Request], bytes | None]
"""The whole answer to give in place of the service's, or None to ask the service."""


@dataclass
class Known:
    """Every secret that is about, by what it is."""

    values: dict[str, set[str]] = field(default_factory=dict)

    def add(self, kind: str, value: str) -> None:
        self.values.setdefault(kind, set()).add(value)

    def learn(self, told: Any) -> None:
        """Whatever credentials an answer of the service holds."""
        if isinstance(told, dict):
            for key, value in told.items():
                if key in CREDENTIALS and isinstance(value, str):
                    self.add(key, value)
                self.learn(value)

    def found_in(self, content: bytes | str, *, but: Iterable[str] = ()) -> list[str]:
        """The kinds of secrets that stand there, the beginning of one included."""
        raw = content.encode() if isinstance(content, str) else content
        kinds = (kind for kind in self.values if kind not in but)
        return [kind for kind in kinds if any(value[:_BEGINNING].encode() in raw for value in self.values[kind])]


@dataclass
class Window:
    """Stands before the service; ``fault`` answers in its place."""

    known: Known
    target: str = ""
    fault: Fault = lambda request: None

    def __call__(self, request: Request, connection: socket.socket) -> None:
        connection.sendall(self.fault(request) or self._forwarded(request))

    def _forwarded(self, request: Request) -> bytes:
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        with httpx.Client(trust_env=False, timeout=20) as http:
            answer = http.request(request.method, self.target + request.target, headers=headers, content=request.body)
        with contextlib.suppress(ValueError):
            self.known.learn(answer.json())
        kept = {name: value for name, value in answer.headers.items() if name not in ("connection", "content-length")}
        return response(f"{answer.status_code} x", answer.content, **kept)


def echo(status: str, code: str, **headers: str) -> Fault:
    """A service that repeats what it was sent, credentials included, in every part of its refusal."""

    def fault(request: Request) -> bytes:
        said = f"{request.headers} {request.body.decode()}"
        credential = request.headers.get("authorization", "") + request.headers.get("x-lease-token", "")
        body = {"status": int(status[:3]), "code": code, "error": code, "requestId": credential}
        body |= {"detail": said, "error_description": said, "fields": {"body": said}}
        told = {"content_type": "application/problem+json", "x_request_id": credential, **headers}
        return response(status, json.dumps(body).encode(), **told)

    return fault


class Watch:
    """Looks at every process of this host again and again: its arguments, and the environment of the named helpers."""

    def __init__(self, *helpers: str) -> None:
        self._helpers = tuple(name.encode() for name in helpers)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.arguments: set[bytes] = set()
        self.environments: dict[bytes, set[bytes]] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_PAUSE):
            for entry in os.scandir("/proc"):
                if entry.name.isdigit():
                    with contextlib.suppress(OSError):
                        self._see(Path(entry.path))

    def _see(self, process: Path) -> None:
        arguments = (process / "cmdline").read_bytes()
        self.arguments.add(arguments)
        for helper in self._helpers:
            if helper in arguments:
                self.environments.setdefault(helper, set()).add((process / "environ").read_bytes())


@dataclass
class Operator:
    """Somebody with a home of their own who uses ``expb-tui`` as a program; everything that it says is searched."""

    folder: Path
    known: Known
    window: Window
    address: str
    facts: dict[str, str]
    environ: dict[str, str]
    leaks: list[str] = field(default_factory=list)

    def run(
        self,
        *arguments: str,
        given: str = "",
        code: int | None = 0,
        says: str = "",
        fault: Fault | None = None,
        may_print: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> str:
        """One command; ``says`` must stand in what it says. ``may_print``: kinds that it was asked to print.

        ``code`` None takes any exit code.
        """
        self.window.fault = fault or (lambda request: None)
        done = subprocess.run(
            [PROGRAM, *arguments],
            input=given,
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.window.fault = lambda request: None
        line = " ".join(arguments)
        assert code in (done.returncode, None), (line, done.stdout, done.stderr)
        assert says in done.stdout + done.stderr, (line, done.stdout, done.stderr)
        self.leaks += [f"{kind} in the output of: {line}" for kind in self.known.found_in(done.stdout, but=may_print)]
        self.leaks += [f"{kind} in what was said by: {line}" for kind in self.known.found_in(done.stderr)]
        return done.stdout

    def sign_in(self, *arguments: str) -> None:
        """A device login that is approved as soon as it asks."""
        process = subprocess.Popen(
            [PROGRAM, *arguments], env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        said = ""
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if found := re.search(r"enter the code (\S+)", line):
                page = f"{self.address}/oauth/device?user_code={found[1]}"
                approve(page, self.facts["email"], self.facts["password"], self.facts["account_id"])
        assert process.stdout is not None
        said += process.stdout.read()
        assert process.wait(30) == 0, said
        self.leaks += [f"{kind} at sign-in" for kind in self.known.found_in(said)]

    def search_files(self, *places: str, private: Iterable[str] = (), but: Iterable[str] = ()) -> None:
        """Search folders below the operator's; in ``private`` ones, secrets may stand in files of mode 0600."""
        for path in (path for place in places for path in (self.folder / place).rglob("*")):
            with contextlib.suppress(FileNotFoundError):
                if not path.is_file():
                    continue
                found = self.known.found_in(path.read_bytes(), but=but)
                kept = any(path.is_relative_to(self.folder / place) for place in private)
                if found and not (kept and path.stat().st_mode & 0o077 == 0):
                    self.leaks.append(f"{', '.join(found)} in {path.relative_to(self.folder)}")


@contextlib.contextmanager
def operator(folder: Path, **environ: str) -> Iterator[Operator]:
    """An operator and a service of their own, both with nothing but what is below ``folder``; no keeper is left."""
    for name in ("home", "tmp", "service"):
        (folder / name).mkdir(mode=0o700)
    known = Known()
    window = Window(known)
    surroundings = {
        "PATH": f"{folder / 'bin'}:{Path(PROGRAM).parent}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LC_ALL": "C.UTF-8",
        "EXPB_TUI_STATE_DIR": str(folder / "home/.local/state/expb-tui"),
        "EXPB_TUI_MACHINE_ID": HOST,
        **environ,
    }
    with raw_server(window) as front, open(folder / "service" / "log", "wb") as log:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        window.target = f"http://127.0.0.1:{port}"
        command = [PROGRAM, "serve", f"--port={port}", "--seed-demo", "--device-interval=1", "-o", "json"]
        command += [f"--database=sqlite:///{folder / 'service' / 'db.sqlite'}", f"--issuer={front.address}"]
        service = subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, stderr=log)
        try:
            assert service.stdout is not None
            facts: dict[str, str] = json.loads(service.stdout.readline())
            known.add("owner's password", facts["password"])
            known.add("agent's token", facts["agent_token"])
            with no_keeper_left(surroundings):
                yield Operator(folder, known, window, front.address, facts, surroundings)
        finally:
            service.terminate()
            service.wait(20)
