"""The system keyring behind a door that never stays shut: every access is a child process with a time limit."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from expb_tui.core import paths
from expb_tui.core.clock import boot_id
from expb_tui.core.errors import ExpbError
from expb_tui.core.secret import environ_for_helpers
from expb_tui.core.text import clean

PROBE_LIMIT = 2.0
"""Seconds that the whole probe may take."""
READ_LIMIT = 5.0
"""Seconds for one access afterwards: time enough to confirm an unlock on the desktop."""
_PROBE_LIFE = 600.0
"""Seconds for which the answer of a probe is believed, by all processes of this host."""
_ATTENDED = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")
"""What a process has only while somebody is logged in (hazards 7)."""

_NEXT_STEP = "Unlock it, or switch it off with EXPB_TUI_KEYRING=off"


@dataclass(frozen=True, slots=True)
class KeyringState:
    """What the probe found."""

    usable: bool
    """Secure, and a fresh process read back what another had written."""
    unattended: bool
    """A fresh process without display and session bus could read it too, so that a keeper may rely on it."""
    backend: str
    reason: str
    """One sentence for a person: why it is not used, or which one is."""


class KeyringFailure(ExpbError):
    """The keyring did not do what it was asked within its limit."""

    code = "keyring"


def probe(*, fresh: bool = False) -> KeyringState:
    """Try the keyring in child processes, 2 s in all; the answer is believed for ten minutes unless ``fresh``."""
    why_not = refusal()
    if why_not:
        return KeyringState(False, False, "", why_not)
    cache = paths.state_dir() / "keyring-probe.json"
    key = _fingerprint()
    found = None if fresh else _cached(cache, key)
    if found is None:
        found = _probe()
        with suppress(OSError):
            paths.private_dir(cache.parent)
            temp = cache.with_suffix(f".{os.getpid()}")
            temp.write_text(json.dumps({"key": key, "at": time.time(), "state": asdict(found)}))
            temp.replace(cache)
    return found


def refusal() -> str:
    """Why the keyring is not even looked at, in words; empty where it may be."""
    from expb_tui.core.settings import load_settings

    settings = load_settings()
    if settings.keyring == "off":
        return f"the keyring is switched off ({settings.source('keyring')})"
    if sys.platform == "linux" and not os.environ.get("DBUS_SESSION_BUS_ADDRESS") and not _named_by_operator():
        return "there is no session bus on this host (DBUS_SESSION_BUS_ADDRESS), so no keyring is looked for"
    return ""


def _named_by_operator() -> bool:
    return bool(os.environ.get("PYTHON_KEYRING_BACKEND")) or _keyring_config().exists()


def _keyring_config() -> Path:
    return paths.user_config_root() / "python_keyring" / "keyringrc.cfg"


def _fingerprint() -> str:
    names = (*_ATTENDED, "PYTHON_KEYRING_BACKEND", "XDG_CONFIG_HOME", "HOME", "PYTHONPATH")
    parts = [boot_id(), sys.prefix, *(os.environ.get(name, "") for name in names)]
    with suppress(OSError):
        parts.append(str(_keyring_config().stat().st_mtime_ns))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _cached(cache: Path, key: str) -> KeyringState | None:
    try:
        told = json.loads(cache.read_bytes())
        if told["key"] == key and 0 <= time.time() - told["at"] < _PROBE_LIFE:
            return KeyringState(**told["state"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _probe() -> KeyringState:
    """One process writes, a fresh one without display and bus takes it out again, or else a fresh one with them."""
    deadline = time.monotonic() + PROBE_LIMIT
    user, value = f"probe-{os.getpid()}", os.urandom(16).hex()
    alone = {name: text for name, text in os.environ.items() if name not in _ATTENDED}
    backend = ""
    try:
        backend = ask("put", user, value=value, limit=deadline - time.monotonic())["backend"]
        for environ in (alone, None):
            with suppress(KeyringFailure):
                if ask("take", user, limit=deadline - time.monotonic(), environ=environ).get("value") == value:
                    return KeyringState(True, environ is alone, backend, f"the system keyring works ({backend})")
            if time.monotonic() >= deadline:
                break
    except KeyringFailure as error:
        return KeyringState(False, False, backend, error.cause)
    return KeyringState(False, False, backend, f"{backend} did not give back in a fresh process what was put into it")


def ask(
    operation: str,
    user: str,
    *,
    value: str | None = None,
    limit: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One question to the keyring in a child process; ``limit`` is seconds, ``READ_LIMIT`` by default.

    Raises ``KeyringFailure``.
    """
    import signal
    import subprocess

    root = str(Path(__file__).parents[3])
    script = f"import sys; sys.path.insert(0, {root!r}); from expb_tui.core.profiles.keyring_child import main; main()"
    # -P: a file named keyring.py in the working directory is not imported. A session of its own: a prompt finds no
    # terminal to ask on, and everything that it started can be ended with it.
    try:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter with our own text
            [sys.executable, "-P", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environ_for_helpers(os.environ if environ is None else environ),
        )
    except OSError as error:
        raise KeyringFailure(
            "The system keyring was not asked", cause=error.strerror or str(error), next_step=_NEXT_STEP
        ) from error
    try:
        output, _ = child.communicate(
            json.dumps({"op": operation, "user": user, "value": value}).encode(),
            timeout=max(0.05, READ_LIMIT if limit is None else limit),
        )
        answer = json.loads(output)
    except subprocess.TimeoutExpired:
        raise KeyringFailure(
            "The system keyring does not answer",
            cause="the keyring gave no answer in time; it may be locked or asking for a password",
            next_step=_NEXT_STEP,
        ) from None
    except ValueError:
        raise KeyringFailure(
            "The system keyring failed", cause="the keyring ended without an answer", next_step=_NEXT_STEP
        ) from None
    finally:
        if child.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
    if not isinstance(answer, dict) or not answer.get("ok"):
        told = answer.get("error", "") if isinstance(answer, dict) else ""
        cause = clean(str(told))[:300] or "the keyring gave no reason"
        raise KeyringFailure("The system keyring failed", cause=cause, next_step=_NEXT_STEP)
    return answer
