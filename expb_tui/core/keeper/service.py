"""The keeper as a service of the user's systemd: written, enabled and removed (``keeper install``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from expb_tui.core import logind
from expb_tui.core.errors import ExpbError, FileProblem, UsageError
from expb_tui.core.keeper.spawn import command
from expb_tui.core.paths import user_config_root

UNIT = "expb-tui-keeper.service"
_LIMIT = 20.0
"""Seconds for one call of systemctl."""
_HANDED_ON = (
    "EXPBENCH_PROFILES", "EXPB_TUI_CONFIG_DIR", "EXPB_TUI_STATE_DIR", "EXPB_TUI_MACHINE_ID", "EXPB_TUI_KEYRING",
    "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYTHON_KEYRING_BACKEND", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What decides where state, settings and profiles are; a service knows nothing of a login's environment."""
_UNIT = """\
[Unit]
Description=Renews the leases of Exp-Bench work packages (expb-tui keeper)
StartLimitIntervalSec=0

[Service]
ExecStart={line}
{environment}Restart=on-failure
RestartSec=5
UMask=0077
LimitCORE=0
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def unit_path() -> Path:
    """Where the user's systemd finds it (man systemd.unit)."""
    return user_config_root() / "systemd" / "user" / UNIT


def unit_text(environ: Mapping[str, str] | None = None) -> str:
    """The unit for this program and this environment. Raises ``UsageError`` where a value cannot stand in a unit."""
    environ = os.environ if environ is None else environ
    script = Path(sys.executable).with_name("expb-tui")
    line = (
        [str(script), *command("keeper", "--stay")[4:]] if os.access(script, os.X_OK) else command("keeper", "--stay")
    )
    settings = [f"{name}={environ[name]}" for name in _HANDED_ON if environ.get(name)]
    return _UNIT.format(
        line=" ".join(_quoted(word).replace("$", "$$") for word in line),
        environment="".join(f"Environment={_quoted(setting)}\n" for setting in settings),
    )


def install() -> Path:
    """Write the unit, enable it for every start of the host, and start it now. Raises ``ExpbError``; blocks."""
    path, text = unit_path(), unit_text()
    _require_manager()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_suffix(f".{os.getpid()}")
        temp.write_text(text)
        temp.replace(path)
    except OSError as error:
        raise FileProblem(
            f"{path} cannot be written", cause=error.strerror or str(error), next_step="Check the folder's owner"
        ) from error
    _systemctl("daemon-reload")
    # It takes over from a keeper that would end when idle, the tokens in its memory included.
    _systemctl("enable", "--now", UNIT)
    return path


def uninstall() -> bool:
    """Stop, disable and remove it; False where there was none. Raises ``ExpbError``; blocks."""
    path = unit_path()
    if not path.exists():
        return False
    _require_manager()
    _systemctl("disable", "--now", UNIT)
    with suppress(FileNotFoundError):
        path.unlink()
    _systemctl("daemon-reload")
    return True


def by_hand_lines() -> list[str]:
    """Where the unit goes, and what makes it count, for who installs it without us."""
    return [f"Write it to {unit_path()}, then: systemctl --user daemon-reload && systemctl --user enable --now {UNIT}"]


def lingering_lines() -> list[str]:
    """What the host does with the service when nobody is logged in, and the line that mends it; empty if unknown."""
    lines = []
    if logind.lingers() is False:
        lines.append(f"It ends with your last session: let it go on with '{logind.LINGER} {logind.user_name()}'")
    if logind.kills_user_processes():
        lines.append("This host ends what a session has started (KillUserProcesses=yes); the service is exempt")
    return lines


def _require_manager() -> None:
    if sys.platform != "linux" or shutil.which("systemctl") is None or not logind.manages():
        raise ExpbError(
            "The keeper is not installed",
            cause="this host has no systemd",
            next_step="Start it with the host's own means (cron: @reboot expb-tui keeper --detach --stay)",
            code="no-systemd",
        )
    _systemctl("show-environment")  # before anything is written: a login by su or sudo does not reach it


def _systemctl(*words: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a system program with our own words
            ["systemctl", "--user", *words],  # noqa: S607 - found on the operator's own PATH
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        problem = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise ExpbError(
            f"systemctl --user {' '.join(words)} failed",
            cause=problem,
            next_step="Log in without su or sudo, so that your own systemd is reachable; see also --print",
            code="systemd",
        )


def _quoted(text: str) -> str:
    """One word of a unit file (man systemd.syntax)."""
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise UsageError(
            "A control character cannot stand in a unit", next_step="Rename the folder, or set another one"
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
