"""With which credentials the keeper acts: those that it can read by itself, and those that were lent to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expb_tui.core.clock import Clock
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.leases.credentials import NEXT_STEP, mismatch
from expb_tui.core.leases.model import HeldPackage, NoCredential
from expb_tui.core.leases.schema import Pin
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr, is_token
from expb_tui.core.settings import Settings

_GRACE = 60.0
"""Seconds that requests under way have before the connections of a session that is not used any more are closed."""
_ASK_AGAIN = 60.0
"""Seconds after which a credential that could not be read is tried again though nothing has changed."""

Identity = tuple[str, str, str, str]
"""Profile file and name; endpoint and agent id for a token that no profile holds."""


def identity_of(pin: Pin | HeldPackage) -> Identity:
    """Whose credential a lease needs."""
    return pin.profile_file, pin.profile_name, pin.endpoint, pin.agent_id


@dataclass(frozen=True)
class LentToken:
    """An agent's token that lives in the keeper's memory only."""

    endpoint: str
    account_id: str
    agent_id: str
    profile: str
    """Empty for a token of the environment or the command line."""
    token: SecretStr

    def plain(self) -> dict[str, str]:
        """For the control socket, nothing else: the token is in it."""
        return {
            "endpoint": self.endpoint,
            "account": self.account_id,
            "agent": self.agent_id,
            "profile": self.profile,
            "token": self.token.get_secret_value(),
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> LentToken:
        """What ``plain`` gave. Raises ``UsageError``, which does not quote it."""
        values = [told.get(name) for name in ("endpoint", "account", "agent", "profile", "token")]
        endpoint, account, agent, profile, token = (value if isinstance(value, str) else "" for value in values)
        if not (endpoint and agent and is_token(token)):
            raise UsageError("That is no token to lend", next_step="Name endpoint, agent and token")
        return cls(endpoint, account, agent, profile, SecretStr(token))


class Sessions:
    """One session per identity. What cannot be read is asked again now and then, never once per renewal."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._open: dict[tuple[str, str], Session] = {}
        """By profile file and name, or by endpoint and agent id for a lent token."""
        self._retired: list[tuple[float, Session]] = []
        """With the moment, on the clock's ticks."""
        self._lent: dict[tuple[str, str], LentToken] = {}
        self._problems: dict[Identity, ExpbError] = {}
        self._asked: dict[Identity, tuple[object, float]] = {}
        self._leaning: set[Identity] = set()
        """Identities that act with a lent token."""

    # Lent tokens

    def lend(self, token: LentToken) -> None:
        """Keep it in memory until this process ends; a newer one of the same agent takes its place."""
        key = (token.endpoint, token.agent_id)
        self._lent[key] = token
        self._retire(key)
        self._asked.clear()

    @property
    def lent(self) -> list[LentToken]:
        """Every token that was lent, for a successor."""
        return list(self._lent.values())

    def lent_profiles(self, identities: Iterable[Identity]) -> tuple[str, ...]:
        """The profiles of these whose token is in this memory only."""
        return tuple(sorted({identity[1] for identity in self._leaning.intersection(identities) if identity[1]}))

    def speaks_for(self, held: HeldPackage) -> bool:
        """Its token was lent, though no profile holds it."""
        return not held.profile_name and (held.endpoint, held.agent_id) in self._lent

    # Sessions

    def problem(self, identity: Identity) -> ExpbError | None:
        """Why nothing can be sent for it, as last found out."""
        return self._problems.get(identity)

    async def check(self, pin: Pin) -> ExpbError | None:
        """Find out whether this process can act for a lease; reads files, asks a keyring at most once a minute."""
        await self._close_retired()
        identity = identity_of(pin)
        stamp = self._stamp(pin)
        before = self._asked.get(identity)
        due = before is None or before[0] != stamp
        failing = self._problems.get(identity)
        if not due and failing is not None and before is not None:
            due = self._clock.ticks() - before[1] >= _ASK_AGAIN
        if due:
            self._asked[identity] = stamp, self._clock.ticks()
            try:
                session = await self._session(pin)
            except ExpbError as problem:
                self._problems[identity] = problem
                self._leaning.discard(identity)
            else:
                self._problems.pop(identity, None)
                (self._leaning.add if session.explicit else self._leaning.discard)(identity)
        return self._problems.get(identity)

    async def session(self, held: HeldPackage) -> Session:
        """For the renewer. Raises what ``check`` found, without asking again."""
        identity = identity_of(held)
        if (problem := self._problems.get(identity)) is not None:
            raise problem
        key = identity[2:] if identity in self._leaning or not held.profile_name else identity[:2]
        if (session := self._open.get(key)) is not None:
            return session
        pin = Pin(held.endpoint, held.account_id, held.agent_id, "", held.profile_name, held.profile_file)
        return await self._session(pin)

    async def aclose(self) -> None:
        """Close every connection."""
        for session in (*self._open.values(), *(session for _, session in self._retired)):
            await session.aclose()
        self._open.clear()
        self._retired.clear()

    async def _session(self, pin: Pin) -> Session:
        """Raises ``ExpbError`` where nothing can be sent for it."""
        lent = self._lent.get((pin.endpoint, pin.agent_id))
        if not pin.profile_name:
            if lent is None:
                raise NoCredential(
                    "A lease cannot be renewed here",
                    cause="it was claimed with a token that no profile holds, and nobody has lent it to this keeper",
                    next_step="Open the cockpit, or renew it, with that token; or save it in a profile",
                )
            return self._of_lent(lent)
        store = ProfileStore(Path(pin.profile_file))
        profile = store.read().by_name.get(pin.profile_name)
        wrong = mismatch(pin, profile)
        if wrong or profile is None:  # the session of what the profile is now serves other leases
            raise NoCredential("A lease cannot be renewed here", cause=wrong, next_step=NEXT_STEP)
        key = (pin.profile_file, pin.profile_name)
        if key in self._open and not self._open[key].is_of(profile):
            self._retire(key)
        try:
            if key not in self._open:
                self._open[key] = Session.open(
                    store, profile=pin.profile_name, settings=self._settings, clock=self._clock
                )
            await self._open[key].token()
        except ExpbError:
            self._retire(key)
            if lent is None:
                raise
            return self._of_lent(lent)
        return self._open[key]

    def _of_lent(self, lent: LentToken) -> Session:
        key = (lent.endpoint, lent.agent_id)
        if key not in self._open:
            self._open[key] = Session.open(
                ProfileStore(), endpoint=lent.endpoint, token=lent.token, settings=self._settings, clock=self._clock
            )
        return self._open[key]

    def _retire(self, key: tuple[str, str]) -> None:
        """Not used any more; requests under way may still need its connections."""
        if key in self._open:
            self._retired.append((self._clock.ticks(), self._open.pop(key)))

    async def _close_retired(self) -> None:
        while self._retired and self._clock.ticks() - self._retired[0][0] >= _GRACE:
            await self._retired.pop(0)[1].aclose()

    def _stamp(self, pin: Pin) -> object:
        lent = (pin.endpoint, pin.agent_id) in self._lent
        return lent, ProfileStore(Path(pin.profile_file)).stamp() if pin.profile_file else None
