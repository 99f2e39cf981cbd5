"""The last look before a submission leaves this host: the contract's models, and secrets (hazards 18)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import SubmissionBlocked
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr

_LARGEST = 1_000_000
"""Bytes of a body; the service takes 1 MiB (contract, 1.9)."""


class Guard:
    """Judges submissions. What a keyring holds is asked for once per state of the profiles: it may take seconds."""

    def __init__(self, journal: Journal, store: ProfileStore) -> None:
        self._journal = journal
        self._store = store
        self._profiles: tuple[object, list[SecretStr]] = (None, [])

    async def check(self, role: str, body: Mapping[str, Any], extra: Iterable[SecretStr] = ()) -> None:
        """Raise ``SubmissionBlocked`` where the body is not what ``role`` submits, or holds a secret."""
        from expb_tui.core.submissions.fields import wire_problems  # research models: not for the first screen
        from expb_tui.core.submissions.scan import Scanner

        problems = wire_problems(role, body)
        if problems:
            raise SubmissionBlocked(
                "The submission is not complete",
                problems,
                cause="; ".join(f"{path}: {words}" for path, words in problems.items()),
                next_step="Correct the named fields and send it again",
                code="submission-invalid",
            )
        scanner = Scanner([*await self._known(), *extra])
        findings = await asyncio.to_thread(scanner.scan, body)
        if findings:
            found = {finding.path: f"holds {finding.kind}" for finding in findings}
            raise SubmissionBlocked(
                "The submission was not sent",
                found,
                cause="; ".join(f"{path} {words}" for path, words in found.items()),
                next_step="Take it out of the named field; the secret is not shown here",
                code="secret-found",
            )
        if len(_as_sent(body)) > _LARGEST:
            raise SubmissionBlocked(
                "The submission is too large",
                {"output": "is too large"},
                cause="the service takes 1 MiB",
                next_step="Send large parts as references",
                code="submission-too-large",
            )

    async def _known(self) -> list[SecretStr]:
        from expb_tui.core.submissions.scan import environment_secrets

        stamp = self._store.stamp()
        if self._profiles[0] != stamp:
            self._profiles = stamp, await asyncio.to_thread(_profile_secrets, self._store)
        return [*self._profiles[1], *await self._journal.tokens(), *environment_secrets(os.environ)]


def _as_sent(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _profile_secrets(store: ProfileStore) -> list[SecretStr]:
    """Tokens of every profile; what a keyring does not give up now cannot be compared."""
    found = secrets.known_secrets(store)
    for profile in store.read().by_name.values():
        if profile.in_keyring:
            with suppress(ExpbError):
                full = secrets.reveal(store, profile)
                found += [token for token in (full.token, full.refresh_token) if token]
    return found
