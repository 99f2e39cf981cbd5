"""What systemd's login manager does with a user's processes once nobody is logged in (hazards 7)."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

LINGER = "loginctl enable-linger"
"""The line that lets a user's services run with nobody logged in."""
ROOT = Path("/")
"""Where the host's own files are."""
_LIMIT = 2.0
"""Seconds that ``loginctl`` may take."""
_SETTING = re.compile(r"\s*KillUserProcesses\s*=\s*(\S+)", re.IGNORECASE)
_CONFIGURATION = ("/etc/systemd/logind.conf", "/run/systemd/logind.conf", "/usr/lib/systemd/logind.conf")


def user_name() -> str:
    """Of the effective user; the number where nobody has it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def manages(root: Path | None = None) -> bool:
    """Whether systemd runs this host. Source: man 3 sd_booted."""
    return ((root or ROOT) / "run/systemd/system").is_dir()


def lingers(user: str | None = None, *, root: Path | None = None) -> bool | None:
    """Whether a user's service manager runs with nobody logged in; None without systemd. Source: man loginctl."""
    if not manages(root):
        return None
    return ((root or ROOT) / "var/lib/systemd/linger" / (user or user_name())).exists()


def kills_user_processes(*, root: Path | None = None) -> bool | None:
    """Whether what a session has started ends with it, detached or not; None where it cannot be found out.

    Source: man logind.conf. A lingering user is not exempt, a user service is.
    """
    if not manages(root):
        return None
    told = _property("KillUserProcesses")
    if told in ("yes", "no"):
        return told == "yes"
    return _configured(root or ROOT)


def _property(name: str) -> str:
    """One property of the manager as it runs; empty where it does not tell."""
    program = shutil.which("loginctl")
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - a system program with our own words
            [program, "show-session", f"--property={name}", "--value"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _configured(root: Path) -> bool | None:
    """What the files say; the last drop-in wins, and the default is no."""
    found: bool | None = None
    for path in _files(root):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found = bool(found)
        for line in lines:
            if match := _SETTING.match(line):
                found = match[1].lower() in ("yes", "true", "on", "1")
    return found


def _files(root: Path) -> Iterable[Path]:
    for name in _CONFIGURATION:
        path = root / name.lstrip("/")
        if path.exists():
            yield path
            break
    drop_ins = [drop for name in _CONFIGURATION for drop in (root / f"{name.lstrip('/')}.d").glob("*.conf")]
    yield from sorted(drop_ins, key=lambda path: path.name)
