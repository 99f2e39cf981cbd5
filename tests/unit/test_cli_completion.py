"""The completion scripts do complete, each in its own shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.require import missing
from tests.support.terminal import terminal


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    profiles = tmp_path / "profiles.json"
    entry = {"scope": "account", "endpoint": "https://bench.example.test", "type": "agent", "token": "t"}
    profiles.write_text(json.dumps({"default": "researcher", "profiles": {"researcher": entry, "owner": entry}}))
    folder = str(Path(sys.executable).parent)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "EXPBENCH_PROFILES": str(profiles),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }


def _path_of(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        if shell in ("zsh", "fish"):
            missing(shell, "the shell is not installed")
        pytest.fail("bash is everywhere")
    return found


def _run(command: list[str], environ: dict[str, str]) -> set[str]:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return {line.partition("\t")[0] for line in done.stdout.splitlines()}


CASES = [
    ("", {"auth", "profile", "context", "agent", "keeper", "serve", "demo", "doctor", "completion", "version"}),
    ("agent work re", {"request", "renew", "release"}),
    ("profile use ", {"owner", "researcher"}),
    ("--profile r", {"researcher"}),
    ("-o y", {"yaml", "yml"}),
    ("agent work request --role i", {"ideator", "integrator"}),
    ("completion z", {"zsh"}),
]


@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_bash(typed: str, expected: set[str], environ: dict[str, str]) -> None:
    script = f"""
eval "$(expb-tui completion bash)"
line={f"expb-tui {typed}"!r}
read -ra COMP_WORDS <<< "$line"
case "$line" in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
COMP_LINE=$line COMP_POINT=${{#line}}
_expb_tui_completion expb-tui
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p expb-tui >/dev/null
"""
    assert _run([_path_of("bash"), "--norc", "-c", script], environ) == expected


@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_fish(typed: str, expected: set[str], environ: dict[str, str]) -> None:
    script = f"expb-tui completion fish | source; complete -C {f'expb-tui {typed}'!r}"
    assert _run([_path_of("fish"), "--no-config", "-c", script], environ) == expected


def test_zsh(environ: dict[str, str]) -> None:
    """zsh completes only while one types, so it is typed at."""
    setup = "PS1='% '; autoload -U compinit; compinit -D; eval \"$(expb-tui completion zsh)\"; clear; echo rea''dy\n"
    with terminal([_path_of("zsh"), "-f", "-i"], environ={**environ, "TERM": "xterm"}) as shell:
        shell.send(setup)
        shell.wait_for("ready")
        for typed, expected in CASES:
            shell.send(f"\x15\x0cexpb-tui {typed}\t")
            shell.wait_for(*expected, without="ready")
