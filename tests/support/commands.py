"""Running ``expb-tui`` in tests: in this process for speed, or as a program of its own where that is what is tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from expb_tui.cli.tree import run
from tests.support.server import LocalServer

FOLDER = Path(sys.executable).parent
PROGRAM = str(FOLDER / "expb-tui")


@dataclass(frozen=True)
class Done:
    """How one command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as JSON, after a look at the exit code."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass
class Commands:
    """``expb-tui`` for one operator: own profile file, settings, journal and no keyring."""

    home: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environ = {
            "HOME": str(self.home),
            "EXPBENCH_PROFILES": str(self.home / "profiles.json"),
            "EXPB_TUI_CONFIG_DIR": str(self.home / "config"),
            "EXPB_TUI_STATE_DIR": str(self.home / "state"),
            "EXPB_TUI_KEYRING": "off",
            "EXPB_TUI_KEEPER": "off",
        }
        for name, value in self.environ.items():
            self.patch.setenv(name, value)
        for name in ("EXPBENCH_AGENT_TOKEN", "EXPBENCH_AGENT_TOKEN_FILE", "EXPBENCH_API_SERVER", "DISPLAY"):
            self.patch.delenv(name, raising=False)

    def __call__(self, *arguments: str, given: str | None = None) -> Done:
        """Run one command in this process; ``given`` is its standard input."""
        import io

        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((given or "").encode())))
        self.capture.readouterr()
        code = run(arguments)
        told = self.capture.readouterr()
        return Done(code, told.out, told.err)

    def profiles(self) -> dict[str, Any]:
        """The profile file as it is on the disk."""
        document: dict[str, Any] = json.loads((self.home / "profiles.json").read_text())
        return document

    def full_environ(self) -> dict[str, str]:
        """The environment of a program of its own."""
        return {
            "PATH": f"{FOLDER}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            **self.environ,
        }


@contextmanager
def approving(server: LocalServer, command: str, environ: Mapping[str, str]) -> Iterator[list[str]]:
    """Run a shell command that signs in, and approve its code as soon as it is on standard error.

    The lines of standard error are in the list once the block is left; the command must then have succeeded.
    """
    process = subprocess.Popen(
        ["bash", "-c", command], env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            if found := re.search(r"enter the code (\S+)", line):
                server.approve(found[1])

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        yield lines
        assert process.wait(60) == 0, "\n".join(lines)
        reader.join(10)
    finally:
        process.kill()
        process.wait()
