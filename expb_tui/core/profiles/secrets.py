"""Where credentials are kept: the system keyring where a secure one works, else the 0600 file (issue point 3)."""

from __future__ import annotations

from dataclasses import dataclass

from expb_tui.core.profiles.document import Profile
from expb_tui.core.profiles.store import ProfileStore


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


def probe(*, fresh: bool = False) -> KeyringState:
    """Try the keyring in child processes, 2 s in all; the answer is cached for minutes unless ``fresh``. Blocks."""
    raise NotImplementedError


def reveal(store: ProfileStore, profile: Profile) -> Profile:
    """``profile`` with its tokens filled in, from wherever they are. Blocks, at most 5 s. Raises ``SignInNeeded``."""
    raise NotImplementedError


def keep(store: ProfileStore, profile: Profile, *, make_default: bool = False) -> Profile:
    """Save a profile with its tokens where they belong: a new one where ``probe`` allows, an old one where it was."""
    raise NotImplementedError


def secure(store: ProfileStore, name: str) -> KeyringState:
    """Move the credential into the keyring. Raises ``ExpbError`` where none is usable; then nothing changed."""
    raise NotImplementedError


def unsecure(store: ProfileStore, name: str) -> Profile:
    """Move the credential into the 0600 file, where ``expbctl`` finds it."""
    raise NotImplementedError


def forget(store: ProfileStore, name: str) -> None:
    """Delete the profile and every trace of its credential on this host; revokes nothing."""
    raise NotImplementedError


def readable_unattended(profile: Profile) -> bool:
    """A keeper without display and session bus can read this credential (hazards 7)."""
    raise NotImplementedError
