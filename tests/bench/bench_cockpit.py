"""What the cockpit costs in a terminal: its start against a ten-line Textual application in one run, and its bytes.

Both run in a pseudo-terminal that answers no query; they take turns, so that a slow moment hits both. Measured: the
first truthful text, the first real frame, data from a local server, bytes sent until then, bytes of an idle cockpit,
and the time and bytes of keys. Prints one JSON object; with ``--short`` fewer rounds, and exit code 1 beyond 1.5 times
a bound.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.cockpit import environment, profiles_file
from tests.support.server import seed, settings_for, start_server
from tests.support.timed import COLUMNS, LINES, Timed, p50, p95

SLACK = 1.5
BOUNDS = {
    "first_text_ms": 100.0,
    "frame_ratio": 1.5,
    "data_ratio": 2.5,
    "start_bytes": 60_000.0,
    "idle_bytes_per_s": 100.0,
    "key_ratio": 2.5,
    "key_bytes": 600.0,
    "quit_ms": 500.0,
}
"""Style, section 5, and the issue's own ratios. ``first_text_ms`` is taken where the bare interpreter needs 11 ms, and
grows with it. ``key_ratio`` holds the 95th percentile of a move of the cursor against that of the ten lines, which
answer the same keys by changing their one line, by turns."""
_INTERPRETER_MS = 11.0
_TEN_LINES = """
from textual.app import App
from textual.widgets import Static


class Ten(App):
    def compose(self):
        yield Static("hello from ten lines")

    def on_key(self, event):
        self.query_one(Static).update(event.key * 20)


Ten().run()
"""


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[None]:
    settings = settings_for(f"sqlite:///{folder / 'server.sqlite'}")
    demo = seed(settings)
    server = start_server(settings, demo)
    profiles_file(folder, server)
    try:
        yield
    finally:
        server.stop()


def measure(rounds: int, idle: float) -> dict[str, float]:
    """Medians over ``rounds``; ``idle`` is how many seconds an idle cockpit is watched."""
    found: dict[str, list[float]] = {}
    program = [str(Path(sys.executable).with_name("expb-tui"))]

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ten = folder / "ten.py"
        ten.write_text(_TEN_LINES)
        environ = environment(folder)
        with _served(folder):
            for number in range(rounds + 1):
                bare = Timed([sys.executable, "-c", "print('hello')"], environ)
                interpreter = bare.until(b"hello")
                os.waitpid(bare.pid, 0)
                hello = Timed([sys.executable, str(ten)], environ)
                reference = hello.until(b"hello from ten lines")
                hello.quiet()
                if number < rounds:
                    hello.end("\x11")
                cockpit = Timed(program, environ)
                first = cockpit.until(b"opening")
                frame = cockpit.until(b"Profiles", b"Leases")
                data = cockpit.until(b"online", b"hypothesis-reviewer")
                cockpit.quiet()
                start = len(cockpit.output)
                if number == 0:  # byte-compiles, and fills the disk's cache
                    cockpit.end("\x11")
                    continue
                note("interpreter_ms", interpreter)
                note("ten_lines_ms", reference)
                note("first_text_ms", first)
                note("frame_ms", frame)
                note("data_ms", data)
                note("frame_ratio", frame / reference)
                note("data_ratio", data / reference)
                note("start_bytes", start)
                if number == rounds:
                    cockpit.pump(1.0)
                    note("idle_bytes_per_s", cockpit.watch(idle)[0])
                    cockpit.key("2")
                    pairs = [(cockpit.key(key), hello.key(key)) for _ in range(15) for key in "jjkk"]
                    hello.end("\x11")
                    times = [passed for (passed, _), _ in pairs]
                    note("ten_lines_key_p95_ms", p95([passed for _, (passed, _) in pairs]))
                    note("key_p50_ms", p50(times))
                    note("key_p95_ms", p95(times))
                    note("key_ratio", found["key_p95_ms"][0] / found["ten_lines_key_p95_ms"][0])
                    note("key_bytes", p50([size for (_, size), _ in pairs]))
                note("quit_ms", cockpit.end("\x11"))
    return {name: round(p50(values), 2) for name, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer rounds, and fail beyond 1.5 times a bound")
    short = parser.parse_args().short
    result = measure(5 if short else 15, 5.0 if short else 20.0)
    bounds = dict(BOUNDS)
    bounds["first_text_ms"] *= max(1.0, result["interpreter_ms"] / _INTERPRETER_MS)
    print(json.dumps({"columns": COLUMNS, "lines": LINES, "median": result, "bounds": bounds}, indent=2))
    factor = SLACK if short else 1.0
    over = {name: result[name] for name, bound in bounds.items() if result[name] > bound * factor}
    for name, value in over.items():
        print(f"{name} is {value}; {bounds[name] * factor:.1f} is the bound", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
