"""What a start may load: the proof, in a child process, that commands stay cheap and the core knows no face."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_HEAVY = ("pydantic", "httpx", "keyring", "textual", "rich", "asyncio", "yaml", "segno", "sqlite3")

_SCRIPT = """
import json, sys
sys.argv = ["expb-tui", *json.loads(sys.argv[1])]
try:
    from expb_tui.__main__ import main
    main()
except SystemExit as end:
    code = end.code
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def _modules_after(command: list[str], folder: Path) -> set[str]:
    profiles = folder / "profiles.json"
    profiles.write_text(
        json.dumps(
            {
                "default": "a",
                "profiles": {"a": {"scope": "account", "endpoint": "https://b.example", "type": "agent", "token": "t"}},
            }
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps(command)],
        env={**os.environ, "EXPBENCH_PROFILES": str(profiles), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["code"] == 0, done.stderr
    return set(told["modules"])


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["profile", "list"],
        ["-o", "json", "profile", "list"],
        ["profile", "show"],
        ["context"],
        ["agent", "--help"],
        ["agent", "work", "request", "--help"],
        ["agent", "work", "submit", "--help"],
        ["keeper", "--help"],
        ["keeper", "status"],
        ["serve", "--help"],
        ["demo", "--help"],
    ],
    ids=" ".join,
)
def test_cheap_commands_load_nothing_heavy(command: list[str], tmp_path: Path) -> None:
    loaded = _modules_after(command, tmp_path)
    assert not loaded.intersection(_HEAVY)


def test_help_of_the_root_imports_no_noun(tmp_path: Path) -> None:
    loaded = _modules_after(["--help"], tmp_path)
    assert not {name for name in loaded if name.startswith("expb_tui.cli.")} - {
        "expb_tui.cli.diagnostics",
        "expb_tui.cli.options",
        "expb_tui.cli.output",
        "expb_tui.cli.tree",
    }
    assert not {name for name in loaded if name.startswith(("expb_tui.wire", "expb_tui.tui", "expb_tui.server"))}


_EVERY_CORE_MODULE = """
import importlib, pkgutil, sys
import expb_tui.core
first = set(sys.modules)
for found in pkgutil.walk_packages(expb_tui.core.__path__, "expb_tui.core."):
    importlib.import_module(found.name)
print(chr(10).join(first))
print("--")
print(chr(10).join(sys.modules))
"""


def test_core_loads_no_face() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_CORE_MODULE], capture_output=True, text=True, check=True)
    package, _, everything = done.stdout.partition("--")
    assert not set(package.split()).intersection({*_HEAVY, "click"})
    loaded = set(everything.split())
    assert not loaded.intersection(
        {"textual", "rich", "click", "keyring", "docker", "httpx", "starlette", "sqlalchemy", "segno"}
    )
    rooms = {name.split(".")[1] for name in loaded if name.startswith("expb_tui.")}
    assert rooms <= {"core", "wire"}
