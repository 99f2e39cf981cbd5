"""Commands whose every durable step is recorded, and which can be killed at any of them (hazards 19).

Run as a program it is a server of forks: it loads ``expb-tui`` once, then reads one JSON object a line, runs that
command in a fork of itself and prints how it ended. Loading takes longer than most commands. The points of a run are

- ``commit TABLES``: a transaction that wrote to these tables,
- ``fsync``, ``rename``, ``reserve``, ``give up`` with the name of the file,
- ``send METHOD PATH`` and ``receive METHOD PATH``, ids in paths left out,

each once ``before`` and once ``after`` it happened, and numbered where it comes again: ``before commit intent #2``.
Names instead of a running number, because threads may change places from run to run and what arrives may be cut
differently.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

from expb_tui.core.paths import machine_id

ROOT = Path(__file__).parents[2]
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|wp-\d+|prj-\d+")
_TABLE = re.compile(r"\s*(?:INSERT (?:OR \w+ )?INTO|UPDATE|DELETE FROM|CREATE TABLE|ALTER TABLE) (\w+)")


class Recorder:
    """What the fork has in it: hooks below Python's own doors to disk and network, which tell the parent first."""

    def __init__(self, pipe: int, kill_at: str | None) -> None:
        self._pipe = pipe
        self._kill_at = kill_at
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def point(self, name: str) -> None:
        """One point is reached; the process ends here if it is the chosen one."""
        with self._lock:
            self._seen[name] += 1
            count = self._seen[name]
            full = name if count == 1 else f"{name} #{count}"
            os.write(self._pipe, f"{full}\n".encode())
            if full == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, act: Callable[[], Any]) -> Any:
        """Do it, with a point on either side."""
        self.point(f"before {name}")
        result = act()
        self.point(f"after {name}")
        return result

    def install(self) -> None:
        """From here on everything is recorded."""
        self._watch_sqlite()
        self._watch_files()
        self._watch_sockets()

    def _watch_sqlite(self) -> None:
        recorder, connect = self, sqlite3.connect

        class Watched(sqlite3.Connection):
            tables: frozenset[str] = frozenset()

            def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
                if sql.startswith("BEGIN"):
                    self.tables = frozenset()
                elif found := _TABLE.match(sql):
                    self.tables |= {found[1]}
                elif sql == "COMMIT" and self.tables:
                    name = f"commit {'+'.join(sorted(self.tables))}"
                    made: sqlite3.Cursor = recorder.around(name, lambda: super(Watched, self).execute(sql))
                    return made
                return super().execute(sql, parameters)

            def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
                if found := _TABLE.match(sql):
                    self.tables |= {found[1]}
                return super().executemany(sql, parameters)

        def watched(*arguments: Any, **named: Any) -> Any:
            return connect(*arguments, **{"factory": Watched, **named})

        sqlite3.connect = watched

    def _watch_files(self) -> None:
        def wrap(name: str, word: str, about: int) -> None:
            act = getattr(os, name)

            def watched(*arguments: Any, **named: Any) -> Any:
                return self.around(f"{word} {_file_name(arguments[about])}", lambda: act(*arguments, **named))

            setattr(os, name, watched)

        wrap("replace", "rename", 1)
        wrap("rename", "rename", 1)
        wrap("link", "link", 1)
        wrap("fsync", "fsync", 0)
        wrap("posix_fallocate", "reserve", 0)
        wrap("truncate", "give up", 0)

    def _watch_sockets(self) -> None:
        recorder = self
        sent: dict[int, str] = {}
        received: set[int] = set()
        plain: Any = socket.socket
        send, sendmsg, recv = plain.send, plain.sendmsg, plain.recv

        def sending(one: Any, data: bytes, act: Callable[[], Any]) -> Any:
            if one.family not in (socket.AF_INET, socket.AF_INET6):
                return act()
            first = bytes(data[:400]).split(b"\r\n")[0].decode("latin-1").split(" ")
            if len(first) == 3 and first[2].startswith("HTTP/"):
                sent[one.fileno()] = f"{first[0]} {_ID.sub('*', first[1].split('?')[0])}"
            received.discard(one.fileno())
            return recorder.around(f"send {sent.get(one.fileno(), '')}", act)

        def watched_send(one: Any, data: Any, *flags: Any) -> Any:
            return sending(one, data, lambda: send(one, data, *flags))

        def watched_sendmsg(one: Any, buffers: Any, *rest: Any) -> Any:
            kept = list(buffers)
            return sending(one, bytes(kept[0]) if kept else b"", lambda: sendmsg(one, kept, *rest))

        def watched_recv(one: Any, size: int, *flags: Any) -> Any:
            number = one.fileno()
            if one.family not in (socket.AF_INET, socket.AF_INET6) or number in received:
                return recv(one, size, *flags)
            recv(one, 1, socket.MSG_PEEK)  # raises where nothing has come yet, as asked for
            received.add(number)
            return recorder.around(f"receive {sent.get(number, '')}", lambda: recv(one, size, *flags))

        plain.send, plain.sendmsg, plain.recv = watched_send, watched_sendmsg, watched_recv


def _file_name(target: Any) -> str:
    path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.fspath(target)
    name = Path(path).name
    return re.sub(r"\d{8}T\d{6}\S*|[.-][0-9a-z_]{8}(?=\.tmp|$)|\d+", "*", name)


def shift_clock(seconds: float) -> None:
    """This process sees another wall clock; the one that counts on from the boot stays."""
    plain = datetime

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return plain.now(tz) + timedelta(seconds=seconds)  # type: ignore[return-value]  # as the class itself does

    for name, module in list(sys.modules.items()):
        if name.startswith("expb_tui.") and getattr(module, "datetime", None) is plain:
            module.datetime = Shifted  # type: ignore[attr-defined]  # it has one
    wall = time.time
    time.time = lambda: wall() + seconds


def _load() -> None:
    import importlib
    import pkgutil

    import expb_tui.cli
    import expb_tui.core
    import expb_tui.present
    from expb_tui.core.api.transport import preload

    preload()
    for package in (expb_tui.core, expb_tui.present, expb_tui.cli):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "demo" not in found.name and "serve" not in found.name and "child" not in found.name:
                importlib.import_module(found.name)
    from expb_tui.core.submissions import fields

    fields.wire_problems("ideator", {})


def _in_a_fork(request: Mapping[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    out, err = Path(request["folder"]) / "out", Path(request["folder"]) / "err"
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            code = _fork(request, writing, out, err)
        except BaseException:  # the fork of a server must never go on as that server
            import traceback

            traceback.print_exc()
            code = 70
        os._exit(code)
    os.close(writing)
    limit = float(request.get("seconds") or 60.0)
    stopper = threading.Timer(limit, os.kill, (child, signal.SIGKILL if not request.get("seconds") else signal.SIGTERM))
    stopper.start()
    points = bytearray()
    while part := os.read(reading, 65_536):
        points += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    stopper.cancel()
    return {
        "code": os.waitstatus_to_exitcode(status),
        "points": points.decode().splitlines(),
        "out": out.read_text(),
        "err": err.read_text(),
    }


def _fork(request: Mapping[str, Any], pipe: int, out: Path, err: Path) -> int:
    from expb_tui.cli.tree import run

    for number, path in ((1, out), (2, err)):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(target, number)
        os.close(target)
    given, feeding = os.pipe()
    os.write(feeding, request.get("given", "").encode())
    os.close(feeding)
    os.dup2(given, 0)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(request["environ"])
    if request.get("shift"):
        shift_clock(request["shift"])
    Recorder(pipe, request.get("kill_at")).install()
    code = run(request["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``code`` is negative for a signal."""

    code: int
    points: list[str]
    out: str
    err: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def json(self) -> Any:
        """Standard output as JSON, after a look at the exit code."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass
class Place:
    """One operator's files, and the fork server that runs commands there."""

    folder: Path
    forks: Forks
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        """Where this operator's journal stands."""
        return (
            Path(self.environ["EXPB_TUI_STATE_DIR"])
            / (self.environ.get("EXPB_TUI_MACHINE_ID") or machine_id())
            / "journal.db"
        )

    def run(
        self, *argv: str, kill_at: str | None = None, shift: float = 0.0, seconds: float = 0.0, given: str = ""
    ) -> Ran:
        """Run a command; killed at the point of that name. ``seconds``: ended by SIGTERM after so long."""
        return self.forks.run(
            {
                "argv": argv,
                "environ": self.environ,
                "folder": str(self.folder),
                "kill_at": kill_at,
                "shift": shift,
                "seconds": seconds,
                "given": given,
            }
        )


class Forks:
    """The program of this file as a child. Not for two threads at once."""

    def __init__(self) -> None:
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.recorded"],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"

    def run(self, request: Mapping[str, Any]) -> Ran:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps(request), file=self._child.stdin, flush=True)
        return Ran(**json.loads(self._child.stdout.readline()))

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(20)


@contextmanager
def forks() -> Iterator[Forks]:
    """A fork server for the time of the block."""
    made = Forks()
    try:
        yield made
    finally:
        made.close()


def not_visited(recorded: Sequence[str], visited: Sequence[str]) -> list[str]:
    """Points of the unfaulted run at which nothing was killed."""
    return [point for point in recorded if point not in visited]


def main() -> None:
    _load()
    gc.freeze()  # forks share what nobody touches
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_in_a_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
