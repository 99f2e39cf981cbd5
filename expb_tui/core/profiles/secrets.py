"""Where credentials are kept: the system keyring where a secure one works, else the 0600 file (issue point 3).

The keyring's entries: service ``expb-tui``, user name ``PROFILE@DIGEST`` (the first 12 hexadecimal digits of the
SHA-256 of the profile file's real path), value a JSON object with endpoint, account_id, agent_id, token, refresh_token
and expires_at. Everything here blocks: from async code, call it in a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from expb_tui.core.errors import ExpbError, SignInNeeded, UsageError
from expb_tui.core.profiles.document import FILE, KEYRING, Profile, Profiles, instant_text
from expb_tui.core.profiles.keyring_door import KeyringFailure, KeyringState, ask, probe, refusal
from expb_tui.core.profiles.ledger import Ledger
from expb_tui.core.profiles.refusals import Refusals
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean

__all__ = [
    "KeyringFailure", "KeyringState", "Remembered", "bring_back", "clear", "forget", "in_place", "keep",
    "known_secrets", "probe", "readable_unattended", "remember", "reveal", "secure", "sign_in_needed", "unsecure",
    "whereabouts",
]  # fmt: skip

_LOCK_WAIT = 45.0
"""Seconds to wait for a refresh in flight, which cannot take longer."""


def reveal(store: ProfileStore, profile: Profile) -> Profile:
    """``profile`` with its tokens filled in, from wherever they are; at most 5 s.

    Raises ``SignInNeeded`` where it is signed out, or where the keyring does not give them.
    """
    if not profile.signed_in:
        raise sign_in_needed(profile, "it is signed out")
    full = _from_keyring(store, profile) if profile.in_keyring else profile
    if profile.is_agent or full.refresh_token is None:
        return full
    successor = Ledger(store, profile.name).successor(full)
    if successor is None:
        return full
    with suppress(ExpbError):  # the tokens are right either way; only their place is not repaired now
        _put_back(store, full, successor)
    return successor


def keep(store: ProfileStore, profile: Profile, *, make_default: bool = False) -> Profile:
    """Save a profile with its tokens where they belong, and answer the entry that the file now has.

    A profile that exists stays where it was; a new one goes to the keyring where ``probe`` finds a usable one, an
    agent's only where a keeper could read it there. A keyring that fails now falls back to the file.
    """
    Refusals(store.path).clear(profile)
    existing = store.read().by_name.get(profile.name)
    if existing is not None:
        place = existing.secret_place
    else:
        state = probe()
        place = KEYRING if state.usable and (state.unattended or not profile.is_agent) else FILE
    profile = replace(profile, secret_place=place)
    try:
        entry = in_place(store, profile)
    except KeyringFailure:
        entry = replace(profile, secret_place=FILE, in_keyring=False)
    return store.put(entry, make_default)


def in_place(store: ProfileStore, profile: Profile) -> Profile:
    """The entry for the file: tokens in it, or put into the keyring and blanked, as ``profile.secret_place`` says.

    Raises ``KeyringFailure``.
    """
    if profile.secret_place == KEYRING:
        ask("put", _user(store, profile.name), value=_sealed(profile))
        return replace(profile, token=None, refresh_token=None, in_keyring=True)
    return replace(profile, in_keyring=False)


def secure(store: ProfileStore, name: str) -> KeyringState:
    """Move the credential into the keyring. Raises ``ExpbError`` where none is usable; then nothing changed."""
    state = probe(fresh=True)
    if not state.usable:
        raise KeyringFailure(f"Profile {name!r} stays in the file", cause=state.reason, next_step="Nothing was changed")
    with Ledger(store, name).locked(_LOCK_WAIT):
        profile = store.select(name)
        if not profile.signed_in:
            store.put(replace(profile, secret_place=KEYRING))
            return state
        full = reveal(store, profile)
        user = _user(store, name)
        ask("put", user, value=_sealed(full))
        if ask("get", user).get("value") != _sealed(full):
            raise KeyringFailure(
                f"Profile {name!r} stays in the file",
                cause=f"{state.backend} did not give back what was put into it",
                next_step="Nothing was changed",
            )
        _replace(
            store, full, lambda old: replace(old, token=None, refresh_token=None, secret_place=KEYRING, in_keyring=True)
        )
        Ledger(store, name).forget()
    return state


def unsecure(store: ProfileStore, name: str) -> Profile:
    """Move the credential into the 0600 file, where ``expbctl`` finds it."""
    with Ledger(store, name).locked(_LOCK_WAIT):
        profile = store.select(name)
        full = reveal(store, profile) if profile.signed_in else profile
        moved = replace(full, secret_place=FILE, in_keyring=False)
        store.put(moved)
        if profile.secret_place == KEYRING:
            _delete_entry(store, name)
    return moved


def clear(store: ProfileStore, name: str) -> Profile:
    """Sign out locally: no trace of the credential stays on this host; endpoint and context do."""
    with Ledger(store, name).locked(_LOCK_WAIT):
        profile = store.select(name)
        cleared = store.clear_credentials(name)
        _erase(store, profile)
    return cleared


def forget(store: ProfileStore, name: str) -> None:
    """Delete the profile and every trace of its credential on this host; revokes nothing."""
    profile = store.select(name)
    with Ledger(store, name).locked(_LOCK_WAIT):
        store.remove(name)
        _erase(store, profile)


class Remembered(NamedTuple):
    """A profile as it was before it was signed out or removed, its tokens with it; in memory only."""

    profile: Profile
    default: bool


def remember(store: ProfileStore, name: str) -> Remembered:
    """What ``bring_back`` needs; without the tokens where the keyring does not give them."""
    profiles = store.read()
    profile = store.select(name)
    if profile.signed_in:
        try:
            profile = reveal(store, profile)
        except SignInNeeded:
            profile = profile.signed_out()
    return Remembered(profile, profiles.default == name)


def bring_back(store: ProfileStore, remembered: Remembered) -> Profile:
    """Undo ``clear`` or ``forget``; the entry is as it was, and the default too unless another was chosen meanwhile.

    Raises ``UsageError`` where a profile of that name is signed in by now: a newer credential is never replaced.
    """
    profile = remembered.profile
    with Ledger(store, profile.name).locked(_LOCK_WAIT):
        profiles = store.read()
        now = profiles.by_name.get(profile.name)
        if now is not None and now.signed_in:
            raise UsageError(
                f"Profile {profile.name!r} stays as it is",
                cause="it has been signed in anew since",
                next_step="Remove it first to have the earlier one again",
            )
        try:
            entry = in_place(store, profile) if profile.token else profile
        except KeyringFailure:
            entry = replace(profile, secret_place=FILE, in_keyring=False)
        return store.put(entry, make_default=remembered.default and profiles.default is None)


def known_secrets(store: ProfileStore) -> list[SecretStr]:
    """Every token in the profile file, to look for in what is about to be sent; the keyring is not asked."""
    tokens = (token for saved in store.read().by_name.values() for token in (saved.token, saved.refresh_token))
    return [token for token in tokens if token]


def readable_unattended(profile: Profile) -> bool:
    """A keeper without display and session bus can read this credential (hazards 7)."""
    return not profile.in_keyring or probe().unattended


def whereabouts(profile: Profile) -> str:
    """Where the credential is, for a person, with the reason where it is the file and not the keyring."""
    if profile.in_keyring:
        return f"in the system keyring ({probe().backend or 'not reachable now'})"
    if not profile.signed_in:
        return "nowhere: signed out"
    state = probe()
    return "in the profile file (0600)" if state.usable else f"in the profile file (0600): {state.reason}"


def sign_in_needed(profile: Profile, cause: str) -> SignInNeeded:
    """The words for a credential that cannot be used, with the command that mends it."""
    command = f"expb-tui --profile={clean(shlex.quote(profile.name))} auth"
    return SignInNeeded(
        f"Profile {profile.name!r} cannot be used",
        cause=cause,
        next_step=f"Save a new token with: {command} --agent-token=-"
        if profile.is_agent
        else f"Sign in again with: {command} login",
    )


def _put_back(store: ProfileStore, stale: Profile, successor: Profile) -> None:
    """Repair the shared file (or the keyring) after somebody wrote a spent refresh token back."""
    if stale.in_keyring:
        in_place(store, successor)
        Ledger(store, stale.name).blank()
        _replace(store, stale, lambda old: replace(old, expires_at=successor.expires_at))
    else:
        _replace(
            store,
            stale,
            lambda old: replace(
                old,
                token=successor.token,
                refresh_token=successor.refresh_token,
                expires_at=successor.expires_at,
            ),
        )


def _replace(store: ProfileStore, seen: Profile, change: Callable[[Profile], Profile]) -> None:
    """Change the saved profile unless its credential is no longer the one that was ``seen``."""
    in_file = (None, None) if seen.in_keyring else (seen.token, seen.refresh_token)

    def checked(profiles: Profiles) -> Profiles:
        current = profiles.by_name.get(seen.name)
        if current is None or (current.token, current.refresh_token) != in_file:
            return profiles
        return profiles.put(change(current))

    store.edit(checked)


def _erase(store: ProfileStore, profile: Profile) -> None:
    Ledger(store, profile.name).forget()
    if profile.secret_place == KEYRING:
        _delete_entry(store, profile.name)


def _delete_entry(store: ProfileStore, name: str) -> None:
    try:
        ask("delete", _user(store, name))
    except KeyringFailure as error:
        raise KeyringFailure(
            f"The keyring entry {_user(store, name)!r} of expb-tui could not be deleted",
            cause=error.cause,
            next_step="The profile file is done; delete that entry with the keyring's own program",
        ) from error


def _from_keyring(store: ProfileStore, profile: Profile) -> Profile:
    why_not = refusal()
    if why_not:
        raise sign_in_needed(profile, f"its credential is in the system keyring, and {why_not}")
    try:
        answer = ask("get", _user(store, profile.name))
    except KeyringFailure as error:
        raise sign_in_needed(profile, f"its credential is in the system keyring, and {error.cause}") from error
    try:
        told = json.loads(answer["value"])
        bound = (told["endpoint"], told["account_id"], told["agent_id"])
        token, refresh = told["token"], told["refresh_token"]
    except (TypeError, ValueError, KeyError):
        raise sign_in_needed(profile, "the system keyring has no entry for it") from None
    if bound != (profile.endpoint, profile.account_id, profile.agent_id):
        # The credential goes to its own endpoint only, whatever the file has been made to say since.
        raise sign_in_needed(profile, "the credential in the keyring is for another endpoint or account")
    return replace(profile, token=SecretStr(token), refresh_token=SecretStr(refresh) if refresh else None)


def _sealed(profile: Profile) -> str:
    return json.dumps(
        {
            "endpoint": profile.endpoint,
            "account_id": profile.account_id,
            "agent_id": profile.agent_id,
            "token": profile.token.get_secret_value() if profile.token else None,
            "refresh_token": profile.refresh_token.get_secret_value() if profile.refresh_token else None,
            "expires_at": instant_text(profile.expires_at),
        }
    )


def _user(store: ProfileStore, name: str) -> str:
    return f"{name}@{hashlib.sha256(os.fsencode(store.path)).hexdigest()[:12]}"
