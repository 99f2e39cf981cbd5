"""The one place that imports keyring: a child process that answers one question and can be killed when it hangs.

Reads one JSON object from standard input, ``{"op": "put"|"get"|"take"|"delete", "user": …, "value": …}``, and writes
one to standard output: ``{"ok": true, "backend": …, "value": …}`` or ``{"ok": false, "error": …}``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "expb-tui"
_OF_THE_SYSTEM = ("SecretService", "kwallet", "libsecret", "macOS", "Windows")
"""Backends of keyring itself that encrypt; only these are taken without having been named by the operator."""


def main() -> None:
    """Answer, and leave standard output to the answer alone, whatever a backend prints."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    question = json.load(sys.stdin)
    try:
        answer = _answer(question)
    except BaseException as error:  # a backend may raise anything, SystemExit from a prompt included
        answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    json.dump(answer, answers)
    answers.close()
    os._exit(0)  # a backend's threads and exit handlers are not waited for


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    backend, secure = _backend()
    if backend is None or type(backend).__module__ == "keyring.backends.fail":
        return {"ok": False, "error": "no keyring works on this host"}
    name = f"{type(backend).__module__}.{type(backend).__qualname__}"
    if not secure and question["op"] == "put":
        return {"ok": False, "error": f"{name} does not keep secrets encrypted"}
    user = question["user"]
    value = None
    if question["op"] == "put":
        backend.set_password(SERVICE, user, question["value"])
    else:
        value = backend.get_password(SERVICE, user)
    if question["op"] in ("take", "delete") and value is not None:
        backend.delete_password(SERVICE, user)
    return {"ok": True, "backend": name, "value": value}


def _backend() -> tuple[KeyringBackend | None, bool]:
    """The backend to use, and whether it may hold secrets."""
    from keyring import core
    from keyring.backends.chainer import ChainerBackend

    # What the operator named, by PYTHON_KEYRING_BACKEND or keyring's own configuration, counts as secure unless it is
    # known not to be; what is merely installed counts only if it belongs to the system.
    backend = core.load_env() or core.load_config()
    named = backend is not None
    if backend is None:
        if sys.platform == "linux" and not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
            return None, False  # looking further would start a D-Bus of its own
        backend = core.get_keyring()
    if isinstance(backend, ChainerBackend):
        chain: list[KeyringBackend] = list(backend.backends)
        return next(((one, True) for one in chain if _of_the_system(one)), (chain[0] if chain else None, False))
    return backend, _of_the_system(backend) or (named and not _known_insecure(backend))


def _of_the_system(backend: KeyringBackend) -> bool:
    module = type(backend).__module__
    return any(module.startswith(f"keyring.backends.{name}") for name in _OF_THE_SYSTEM)


def _known_insecure(backend: KeyringBackend) -> bool:
    module = type(backend).__module__
    return module in ("keyring.backends.null", "keyring.backends.fail") or "plaintext" in type(backend).__name__.lower()
