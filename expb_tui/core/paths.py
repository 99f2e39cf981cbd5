"""Where things live on this host. Everything that is state is kept per machine id, because homes are shared."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import MutableMapping
from pathlib import Path

APP = "expb-tui"


def _home_or(variable: str, *fallback: str) -> Path:
    value = os.environ.get(variable)
    return Path(value) if value and os.path.isabs(value) else Path.home().joinpath(*fallback)


def user_config_root() -> Path:
    """The operating system's user configuration directory, as Go's ``os.UserConfigDir`` finds it.

    Written out instead of asking platformdirs, because the file is shared with ``expbctl`` and must be the same one.
    """
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return _home_or("XDG_CONFIG_HOME", ".config")


def profiles_path() -> Path:
    """The shared profile file: ``EXPBENCH_PROFILES``, else ``exp-bench/profiles.json`` (contract, section 4)."""
    named = os.environ.get("EXPBENCH_PROFILES")
    return Path(named) if named else user_config_root() / "exp-bench" / "profiles.json"


def legacy_profiles_path() -> Path | None:
    """The file that is read, never written, where no variable is set and the usual one is missing."""
    return None if os.environ.get("EXPBENCH_PROFILES") else user_config_root() / "experibench" / "profiles.json"


def config_dir() -> Path:
    """Our own settings and the user's themes: ``EXPB_TUI_CONFIG_DIR``, else ``expb-tui`` beside ``exp-bench``."""
    named = os.environ.get("EXPB_TUI_CONFIG_DIR")
    return Path(named) if named else user_config_root() / APP


def pin_folders(environ: MutableMapping[str, str]) -> None:
    """Make the folders that the environment names absolute, for a process that lives in another working folder."""
    for name in ("EXPB_TUI_STATE_DIR", "EXPB_TUI_CONFIG_DIR", "EXPBENCH_PROFILES", "EXPBENCH_AGENT_TOKEN_FILE"):
        if environ.get(name):
            environ[name] = os.path.abspath(environ[name])


def state_root() -> Path:
    """``EXPB_TUI_STATE_DIR``, else the platform's state directory."""
    named = os.environ.get("EXPB_TUI_STATE_DIR")
    if named:
        return Path(named).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / APP
    return _home_or("XDG_STATE_HOME", ".local", "state") / APP


def machine_id() -> str:
    """A stable id of this host, so that two hosts with one home keep two journals.

    ``EXPB_TUI_MACHINE_ID`` overrides it; without ``/etc/machine-id`` the host name stands in.
    """
    named = os.environ.get("EXPB_TUI_MACHINE_ID")
    if named:
        return named
    for source in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(source).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            return text
    return os.uname().nodename or "unknown-host"


def state_dir() -> Path:
    """This host's state: journal, drafts, locks."""
    return state_root() / machine_id()


def private_dir(path: Path) -> Path:
    """Create ``path`` with mode 0700 (parents too) and return it."""
    if not path.is_dir():
        # mkdir's own parents=True would give the parents the ordinary mode.
        private_dir(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def others_may(mode: int) -> str:
    """What users beside the owner may do with a file of that mode, in words that go on; empty for nothing."""
    for read, change, who in (
        (stat.S_IROTH, stat.S_IWOTH, "every user of this host"),
        (stat.S_IRGRP, stat.S_IWGRP, "its group"),
    ):
        if mode & change:
            return f"{who} can change"
        if mode & read:
            return f"{who} can read"
    return ""
