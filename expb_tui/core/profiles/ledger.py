"""What was spent: one small file per user profile that makes refreshes safe beside a writer without locks (hazards 9).

Before a refresh token is sent, the intent and the room for the answer are on the disk; the answer is written there,
in place, before the shared file. A program that had read the shared file earlier may still write back a spent refresh
token, and sending that again would end the session: the digests kept here tell it apart, and the credentials kept here
replace it. Blocking; 0600.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from expb_tui.core import paths
from expb_tui.core.locks import file_lock
from expb_tui.core.profiles.document import UNSET_INSTANT, Profile, instant_text
from expb_tui.core.profiles.store import ProfileStore, unwritable
from expb_tui.core.secret import SecretStr

_SLOT = 16 * 1024
"""Bytes written each time, padded: later writes need no new space."""
_REMEMBERED = 64
"""Spent refresh tokens of one session; a writer that held an older one in memory would be hours late."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The last session that was refreshed here."""

    endpoint: str
    account_id: str | None
    sending: str = ""
    """Digest of the refresh token of an intent whose answer has not come."""
    spent: tuple[str, ...] = ()
    current: str = ""
    """Digest of the refresh token that is valid now."""
    lifetime: float = 0.0
    """Seconds that an access token of this session lives."""
    token: SecretStr | None = None
    refresh_token: SecretStr | None = None
    expires_at: datetime | None = None


class Ledger:
    """The refreshes of one profile of one store."""

    def __init__(self, store: ProfileStore, name: str) -> None:
        key = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._folder = store.side
        self._path = store.side / f"session-{key}.json"
        self._lock = store.side / f"session-{key}.lock"

    @contextmanager
    def locked(self, wait: float = 10.0) -> Iterator[None]:
        """One process refreshes or ends a session at a time; waits at most ``wait`` seconds."""
        try:
            paths.private_dir(self._folder)
        except OSError as error:
            raise unwritable(self._folder, error) from error
        with file_lock(self._lock, timeout=wait):
            yield

    def read(self) -> Entry | None:
        """The entry; None where there is none, or none that can be read."""
        try:
            told = json.loads(self._path.read_bytes())
            return _entry(told)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def successor(self, profile: Profile) -> Profile | None:
        """``profile`` with valid credentials, where its refresh token is one that was spent here; else None."""
        entry = self.read()
        if entry is None or profile.refresh_token is None or entry.refresh_token is None:
            return None
        if (entry.endpoint, entry.account_id) != (profile.endpoint, profile.account_id):
            return None
        if digest(profile.refresh_token) not in entry.spent:
            return None
        return replace(profile, token=entry.token, refresh_token=entry.refresh_token, expires_at=entry.expires_at)

    def intend(self, profile: Profile) -> None:
        """Write down that the refresh token is about to be sent.

        Raises ``FileProblem`` where there is no room; then nothing must be sent.
        """
        if profile.refresh_token is None:
            raise ValueError("no refresh token")
        sending = digest(profile.refresh_token)
        entry = self._entry_for(profile)
        self._write(replace(entry, sending=sending, current=sending))

    def interrupted(self, profile: Profile) -> bool:
        """Whether ``profile``'s refresh token was about to be sent once before, and no answer was recorded."""
        entry = self.read()
        return (
            entry is not None and profile.refresh_token is not None and entry.sending == digest(profile.refresh_token)
        )

    def record(self, before: Profile, after: Profile, lifetime: float) -> None:
        """The answer: ``before``'s refresh token is spent, ``after`` holds the new pair."""
        if before.refresh_token is None or after.refresh_token is None:
            raise ValueError("no refresh token")
        entry = self._entry_for(before)
        spent = (*entry.spent, digest(before.refresh_token))[-_REMEMBERED:]
        self._write(
            Entry(
                after.endpoint,
                after.account_id,
                spent=spent,
                current=digest(after.refresh_token),
                lifetime=lifetime,
                token=after.token,
                refresh_token=after.refresh_token,
                expires_at=after.expires_at,
            )
        )

    def blank(self) -> None:
        """Take the tokens out, once they are where they belong and nobody can write a spent one back there."""
        entry = self.read()
        if entry is not None and entry.token is not None:
            self._write(replace(entry, token=None, refresh_token=None))

    def lifetime(self, profile: Profile) -> float | None:
        """Seconds that the tokens of this session live, where it was refreshed here before."""
        entry = self.read()
        if entry is None or profile.refresh_token is None or entry.current != digest(profile.refresh_token):
            return None
        return entry.lifetime or None

    def forget(self) -> None:
        """No trace of the session stays; the lock file does."""
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _entry_for(self, profile: Profile) -> Entry:
        entry = self.read()
        fresh = Entry(profile.endpoint, profile.account_id)
        if entry is None or profile.refresh_token is None:
            return fresh
        return entry if entry.current == digest(profile.refresh_token) else fresh

    def _write(self, entry: Entry) -> None:
        content = json.dumps(_told(entry)).encode()
        content = content.ljust(max(_SLOT, len(content)))
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                written = os.pwrite(descriptor, content, 0)
                if written < len(content):
                    os.pwrite(descriptor, content[written:], written)
                os.ftruncate(descriptor, len(content))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unwritable(self._path, error) from error


def digest(token: SecretStr) -> str:
    """What stands for a refresh token where it must not be written."""
    return hashlib.sha256(token.get_secret_value().encode("utf-8", "surrogatepass")).hexdigest()


def _told(entry: Entry) -> dict[str, Any]:
    return {
        "endpoint": entry.endpoint,
        "account_id": entry.account_id,
        "sending": entry.sending,
        "spent": entry.spent,
        "current": entry.current,
        "lifetime": entry.lifetime,
        "token": entry.token.get_secret_value() if entry.token else None,
        "refresh_token": entry.refresh_token.get_secret_value() if entry.refresh_token else None,
        "expires_at": instant_text(entry.expires_at),
    }


def _entry(told: Any) -> Entry:
    expires = told["expires_at"]
    return Entry(
        told["endpoint"],
        told["account_id"],
        told["sending"],
        tuple(told["spent"]),
        told["current"],
        float(told["lifetime"]),
        SecretStr(told["token"]) if told["token"] else None,
        SecretStr(told["refresh_token"]) if told["refresh_token"] else None,
        None if expires == UNSET_INSTANT else datetime.fromisoformat(expires),
    )
