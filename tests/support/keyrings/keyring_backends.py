"""Keyring backends of every temper, chosen by PYTHON_KEYRING_BACKEND; each access is noted in EXPB_TEST_KEYRING.log.

Real backends of the real keyring library: only the vault behind them is a file, because no desktop runs in tests.
"""

from __future__ import annotations

import getpass
import json
import os
import time
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class Working(KeyringBackend):
    """Keeps what it is given."""

    priority = 9

    def _note(self, word: str) -> dict[str, str]:
        vault = Path(os.environ["EXPB_TEST_KEYRING"])
        with open(f"{vault}.log", "a") as log:
            log.write(word + "\n")
        told: dict[str, str] = json.loads(vault.read_text()) if vault.exists() else {}
        return told

    def _save(self, told: dict[str, str]) -> None:
        Path(os.environ["EXPB_TEST_KEYRING"]).write_text(json.dumps(told))

    def get_password(self, service: str, username: str) -> str | None:
        print("a backend may print")
        return self._note("get").get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._save(self._note("set") | {f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        told = self._note("delete")
        if told.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError("No such password!")
        self._save(told)


class OnDesktop(Working):
    """Can be read only while somebody is logged in, as the Secret Service can."""

    def get_password(self, service: str, username: str) -> str | None:
        if "DBUS_SESSION_BUS_ADDRESS" not in os.environ:
            raise KeyringLocked("no session bus")
        return super().get_password(service, username)


class Hanging(Working):
    """Waits for somebody who never comes."""

    def get_password(self, service: str, username: str) -> str | None:
        self._note("get")
        time.sleep(300)
        return None

    def set_password(self, service: str, username: str, password: str) -> None:
        self._note("set")
        time.sleep(300)


class Prompting(Working):
    """Asks on the terminal, as encrypted files do."""

    def set_password(self, service: str, username: str, password: str) -> None:
        self._note("set")
        getpass.getpass("Password for the keyring: ")


class Locked(Working):
    """Takes nothing any more; what it holds it still gives."""

    def set_password(self, service: str, username: str, password: str) -> None:
        raise KeyringLocked("Failed to unlock the collection!")


class Forgetful(Working):
    """Takes everything, keeps nothing."""

    def set_password(self, service: str, username: str, password: str) -> None:
        self._note("set")


class PlaintextKeyring(Working):
    """What keyrings.alt calls its unencrypted file."""
