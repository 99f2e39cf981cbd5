"""How long the commands that are typed most take to start, as a ratio to the interpreter's own start in the same run.

``--help`` may take 6 times and ``profile list`` 8 times as long as ``python -c pass``. Prints one JSON object; with
``--short`` fewer rounds, and exit code 1 where a ratio is more than one and a half times its bound.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BOUNDS = {"help": 6.0, "profile_list": 8.0}
SLACK = 1.5

_PROFILES = {
    "default": "researcher",
    "profiles": {
        f"researcher-{number}" if number else "researcher": {
            "scope": "account",
            "endpoint": "https://bench.example.test",
            "type": "agent",
            "account_id": "5d0c1f5e-8a55-4d4f-9f1e-0a1b2c3d4e01",
            "agent_id": "c1a4e7d2-90ab-4cde-b123-4567890abc03",
            "token": "not-a-token",
            "expires_at": "0001-01-01T00:00:00Z",
        }
        for number in range(5)
    },
}


def _milliseconds(command: list[str], environ: dict[str, str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    passed = (time.perf_counter() - started) * 1000
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace')}")
    return passed


def measure(rounds: int) -> dict[str, object]:
    """The fastest start of each in milliseconds, and their ratios.

    The fastest is what a start costs; the others also tell what else the machine did. The commands take turns, so that
    a slow moment hits all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        profiles = Path(folder, "profiles.json")
        profiles.write_text(json.dumps(_PROFILES))
        environ = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
            "EXPBENCH_PROFILES": str(profiles),
            "HOME": folder,
        }
        program = [str(Path(sys.executable).with_name("expb-tui"))]
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "help": [*program, "--help"],
            "profile_list": [*program, "profile", "list"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():
            _milliseconds(command, environ)  # byte-compiles
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(_milliseconds(command, environ))
    fastest = {name: min(values) for name, values in times.items()}
    return {
        "rounds": rounds,
        "milliseconds": {name: round(value, 1) for name, value in fastest.items()},
        "ratios": {name: round(fastest[name] / fastest["python"], 2) for name in BOUNDS},
        "bounds": BOUNDS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rounds, and fail beyond 1.5 times a bound")
    short = parser.parse_args().short
    result = measure(7 if short else 31)
    print(json.dumps(result, indent=2))
    ratios = result["ratios"]
    assert isinstance(ratios, dict)
    factor = SLACK if short else 1.0
    over = {name: ratio for name, ratio in ratios.items() if ratio > BOUNDS[name] * factor}
    for name, ratio in over.items():
        print(f"{name} takes {ratio} times as long as the bare interpreter; {BOUNDS[name] * factor} is the bound")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
