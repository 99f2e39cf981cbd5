"""Which credentials the service has refused: known to every process of this host until they work, or are other ones.

A refusal is a fact about a credential, not about a process: the keeper may meet it at night, and the cockpit shows it
in the morning before it has asked anything itself.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from expb_tui.core.paths import private_dir, state_dir
from expb_tui.core.profiles.document import Profile

_FOLDER = "refused"


class Refusals:
    """Of one profile file. Every call is one or two operations on a small local file, and none of them raises."""

    def __init__(self, profile_file: str | Path) -> None:
        self._file = str(profile_file)
        self._folder = state_dir() / _FOLDER
        self._paths: dict[str, str] = {}

    def add(self, profile: Profile) -> None:
        """The service does not accept the saved credential of ``profile``, and nothing newer is saved."""
        with suppress(OSError):  # what cannot be remembered is found out again
            private_dir(self._folder)
            path = self._path(profile)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(_mark(profile), encoding="ascii")
            os.replace(fresh, path)

    def clear(self, profile: Profile) -> None:
        """It was accepted. Microseconds where nothing was refused: the keeper asks after each renewal."""
        name = profile.name
        if name not in self._paths:
            self._paths[name] = str(self._path(profile))
        with suppress(OSError):
            os.unlink(self._paths[name])

    def has(self, profile: Profile) -> bool:
        """The credential that is saved now is the one that was refused last."""
        try:
            return self._path(profile).read_text(encoding="ascii") == _mark(profile)
        except (OSError, ValueError):
            return False

    def stamp(self) -> int:
        """Changes with every refusal, and when one is over."""
        try:
            return self._folder.stat().st_mtime_ns
        except OSError:
            return 0

    def _path(self, profile: Profile) -> Path:
        return self._folder / hashlib.sha256(f"{self._file}\n{profile.name}".encode()).hexdigest()[:32]


def _mark(profile: Profile) -> str:
    """Tells one credential from another, without being one: a refresh, another token and another place change it."""
    secrets = [secret.get_secret_value() if secret else "" for secret in (profile.token, profile.refresh_token)]
    parts = (profile.endpoint, profile.agent_id, profile.expires_at, profile.in_keyring, *secrets)
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
