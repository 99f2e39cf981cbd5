"""One selected credential on one endpoint: selection, refresh, one repeat after a 401 (section 4; hazards 6 and 9).

Refreshing runs in a thread, under the profile's kernel lock, from reading the store to saving the new pair: neither a
cancelled caller nor a closing event loop tears it down between the request and the save.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from expb_tui.core import faults
from expb_tui.core.api.endpoint import DEFAULT_ENDPOINT, check_endpoint, same_endpoint
from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError, FileProblem, SignInNeeded, UsageError
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.document import Profile, Profiles
from expb_tui.core.profiles.environment import environment_token
from expb_tui.core.profiles.ledger import Ledger
from expb_tui.core.profiles.refusals import Refusals
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Answer, StreamedAnswer, Transport
    from expb_tui.wire.identity import Principal
    from expb_tui.wire.oauth import TokenAnswer

REFRESH_AHEAD = 180.0
"""Seconds before expiry at which ours refresh; ``expbctl`` does at 30, so ours come first."""
_SHORT_LIVED = 0.6
"""Tokens that live less than five minutes are refreshed with this part of their life left."""
_REFRESH_LIMIT = 20.0
_LOCK_WAIT = 45.0
_RETRY_REFRESH = 10.0
"""Seconds until a refresh that failed for now is tried again, while the token is still good."""
_COMFORT = 30.0
"""Seconds of life with which a token is good enough to go on with, while a refresh takes its time."""
_BRIEFLY = 3.0
"""Seconds to wait for a refresh in that case."""
_SECOND_LOOK = 0.25
"""Seconds in which an unlocked program saves the pair that it has just got."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A credential in memory; ``saved`` is the entry that it was read from."""

    profile: Profile
    saved: Profile
    lifetime: float | None

    @property
    def token(self) -> SecretStr:
        return self.profile.token or SecretStr("")


class Session:
    """Acts as one profile (or explicit token); its credential goes to its own endpoint only."""

    def __init__(self, store: ProfileStore, profile: Profile, settings: Settings, clock: Clock) -> None:
        """Use ``Session.open``."""
        self.profile = profile
        """As saved when last looked at; ``name`` is empty for an explicit token."""
        self.endpoint = check_endpoint(profile.endpoint, insecure_http=settings.insecure_http)
        self.explicit = not profile.name
        """An explicit token is never stored."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._held = _Held(profile, profile, None) if self.explicit else None
        self._stamp: object = None
        self._gate = asyncio.Lock()
        self._not_before = 0.0
        self._refreshing: set[asyncio.Future[_Held]] = set()
        self._transport: Transport | None = None
        self._refusals = Refusals(store.path)

    @classmethod
    def open(
        cls,
        store: ProfileStore,
        *,
        profile: str | None = None,
        endpoint: str | None = None,
        token: SecretStr | None = None,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self:
        """Select: explicit ``token``, else ``profile``, else the token of the environment, else the default profile.

        ``endpoint`` is what a person named for this call: an error where it differs from the profile's. Reads the file
        only; the keyring is asked at the first request. Raises ``UsageError`` or ``SignInNeeded``.
        """
        settings = settings or load_settings()
        if token is None and profile is None:
            token = environment_token()
        if token is not None:
            address = endpoint or os.environ.get("EXPBENCH_API_SERVER") or DEFAULT_ENDPOINT
            return cls(store, Profile("", "agent", endpoint=address, token=token), settings, clock)
        selected = store.select(profile)
        if endpoint is not None and not same_endpoint(endpoint, selected.endpoint):
            raise UsageError(
                f"Profile {selected.name!r} is for {selected.endpoint}, not for {endpoint}",
                cause="a credential goes to its own endpoint only",
                next_step="Leave the address out, or name another profile",
                code="endpoint-differs",
            )
        if not selected.signed_in:
            raise secrets.sign_in_needed(selected, "it is signed out")
        return cls(store, selected, settings, clock)

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        within: float | None = None,
        in_bulk: bool = False,
    ) -> Answer:
        """One call with the bearer; a POST without a key gets a fresh one. ``RequestFailure`` or ``SignInNeeded``."""
        sent = dict(headers or {})
        if method == "POST":
            sent["idempotency-key"] = idempotency_key or str(uuid.uuid4())
        if if_match is not None:
            sent["if-match"] = if_match
        send = partial(
            self._connected().send, method, path, json=json, query=query, headers=sent, within=within, in_bulk=in_bulk
        )
        held = await self._credential()
        try:
            answer = await send(token=held.token)
        except ApiProblem as problem:
            if problem.status != 401:
                raise
            held = await self._after_refusal(held, problem)
            # Refused before anything was done with it, so that repeating it is safe, for mutations too.
            try:
                answer = await send(token=held.token)
            except ApiProblem as again:
                if again.status != 401:
                    raise
                raise self._refused(again) from again
        if not self.explicit:
            self._refusals.clear(self.profile)
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[StreamedAnswer]:
        """A GET with the bearer whose answer is read as it comes."""
        async with AsyncExitStack() as opened:
            held = await self._credential()
            try:
                response = await self._open_stream(opened, held, path, query, headers)
            except ApiProblem as problem:
                if problem.status != 401:
                    raise
                held = await self._after_refusal(held, problem)
                response = await self._open_stream(opened, held, path, query, headers)
            yield response

    async def _open_stream(
        self,
        opened: AsyncExitStack,
        held: _Held,
        path: str,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> StreamedAnswer:
        stream = self._connected().stream(path, token=held.token, query=query, headers=headers)
        return await opened.enter_async_context(stream)

    def is_of(self, saved: Profile) -> bool:
        """Whether that profile still is for the service and the identity that this session acts with."""
        mine = self.profile
        was = (mine.endpoint, mine.account_id, mine.agent_id, mine.type)
        return (saved.endpoint, saved.account_id, saved.agent_id, saved.type) == was

    @property
    def profile_file(self) -> str:
        """The file that the profile was read from."""
        return str(self._store.path)

    async def token(self) -> SecretStr:
        """Read the credential now, wherever it is kept; afterwards this session has it. Raises ``SignInNeeded``.

        Nothing is sent, unless a user's token has to be refreshed.
        """
        return (await self._credential()).token

    async def principal(self) -> Principal:
        """Who this credential speaks for, asked anew each time."""
        from expb_tui.core.api import identity

        return await identity.principal(self)

    async def aclose(self) -> None:
        """Close the connections; a refresh in flight is finished first."""
        if self._refreshing:
            await asyncio.wait(self._refreshing)
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.aclose()

    def _connected(self) -> Transport:
        if self._transport is None:
            self._transport = self._new_transport()
        return self._transport

    def _new_transport(self) -> Transport:
        from expb_tui.core.api.transport import Transport

        return Transport(
            self.endpoint,
            insecure_http=self._settings.insecure_http,
            timeout=self._settings.timeout,
            clock=self._clock,
        )

    # The credential

    async def _credential(self) -> _Held:
        if self.explicit and self._held is not None:
            return self._held
        async with self._gate:
            stamp = self._store.stamp()
            if self._held is None or stamp != self._stamp:
                self._held = await asyncio.to_thread(self._read, self._held)
                self._stamp = stamp
            if self._due(self._held) and self._clock.ticks() >= self._not_before:
                try:
                    self._held = await self._renewed(self._held)
                    self.profile = self._held.saved
                    self._stamp = None
                except SignInNeeded:
                    raise
                except ExpbError:
                    if self._left(self._held) <= 0:
                        raise
                    # Still good: a server that is away or a full disk is no reason to stop now.
                    self._not_before = self._clock.ticks() + _RETRY_REFRESH
            return self._held

    async def _renewed(self, held: _Held) -> _Held:
        """Refresh in a thread, which goes on when the caller is cancelled, or has waited enough with a good token."""
        refresh = asyncio.ensure_future(asyncio.to_thread(self._refresh, held))
        self._refreshing.add(refresh)
        refresh.add_done_callback(self._refreshing.discard)
        # A caller that has gone leaves nobody to hear the failure; the next one meets it again.
        refresh.add_done_callback(lambda done: done.cancelled() or done.exception())
        comfortable = self._left(held) > _COMFORT
        done, _ = await asyncio.wait({refresh}, timeout=_BRIEFLY if comfortable else None)
        if done:
            return refresh.result()
        self._not_before = self._clock.ticks() + _RETRY_REFRESH
        return held

    def _due(self, held: _Held) -> bool:
        profile = held.profile
        if profile.is_agent or profile.expires_at is None:
            return False
        ahead = REFRESH_AHEAD if held.lifetime is None else min(REFRESH_AHEAD, held.lifetime * _SHORT_LIVED)
        return self._left(held) <= ahead

    def _left(self, held: _Held) -> float:
        expires = held.profile.expires_at
        return float("inf") if expires is None else (expires - self._clock.now()).total_seconds()

    def _read(self, held: _Held | None) -> _Held:
        """What is saved now. Blocks. The keyring is not asked again while the entry is the one already known."""
        saved = self._store.select(self.profile.name)
        if not self.is_of(saved):
            raise SignInNeeded(
                f"Profile {saved.name!r} has been changed meanwhile",
                cause=f"it was for {self.profile.endpoint} and is now for {saved.endpoint} or another identity there",
                next_step="Nothing was sent; open it anew",
                code="profile-moved",
            )
        self.profile = saved
        if held is not None and _credential_of(saved) == _credential_of(held.saved):
            return replace(held, saved=saved)
        full = secrets.reveal(self._store, saved)
        return _Held(full, saved, Ledger(self._store, saved.name).lifetime(full))

    def _refresh(self, held: _Held) -> _Held:
        """Spend the refresh token, unless somebody else has. Blocks; runs in a thread."""
        ledger = Ledger(self._store, self.profile.name)
        with ledger.locked(_BRIEFLY if self._left(held) > _COMFORT else _LOCK_WAIT):
            current = self._read(None)
            if not self._due(current):
                return current
            cut_off = ledger.interrupted(current.profile)
            try:
                return self._spend(ledger, current)
            except ApiProblem as problem:
                if problem.code != "invalid_grant":
                    raise
                newer = self._another(current)
                if newer is None:
                    raise self._refused(problem, cut_off=cut_off) from problem
                return self._spend(ledger, newer) if self._due(newer) else newer

    def _spend(self, ledger: Ledger, held: _Held) -> _Held:
        before = held.profile
        if before.refresh_token is None:
            raise secrets.sign_in_needed(before, "it has expired and holds no refresh token")
        ledger.intend(before)
        asked = self._clock.now()
        answer = faults.run(self._ask_refresh(before.refresh_token))
        if (answer.scope, answer.account_id) != (before.scope, before.account_id):
            raise secrets.sign_in_needed(before, "the server answered with a session of another scope or account")
        after = replace(
            before,
            token=SecretStr(answer.access_token.get_secret_value()),
            refresh_token=SecretStr(answer.refresh_token.get_secret_value()),
            expires_at=asked + timedelta(seconds=answer.expires_in),
        )
        ledger.record(before, after, answer.expires_in)
        try:
            placed = secrets.in_place(self._store, after)
            if placed.in_keyring:
                ledger.blank()
        except secrets.KeyringFailure:
            # Locked for now: the ledger keeps the pair, and the next reader puts it into the keyring.
            placed = replace(after, token=None, refresh_token=None)
        # A disk that has filled up meanwhile loses nothing: the ledger has the pair, and the next reader puts it back.
        with suppress(FileProblem):
            self._store.edit(lambda profiles: _refreshed(profiles, before, placed), ours_wins=False)
        return _Held(after, placed, float(answer.expires_in))

    async def _ask_refresh(self, refresh_token: SecretStr) -> TokenAnswer:
        from expb_tui.core.api import oauth

        transport = self._new_transport()
        try:
            return await oauth.refresh(transport, self._settings.client_id, refresh_token, _REFRESH_LIMIT)
        finally:
            await transport.aclose()

    async def _after_refusal(self, held: _Held, problem: ApiProblem) -> _Held:
        """After a 401: what the store holds now, if that is another credential; else ``SignInNeeded``."""
        if self.explicit:
            raise self._refused(problem) from problem
        async with self._gate:
            newer = await asyncio.to_thread(self._newer_than, held)
            if newer is None:
                raise self._refused(problem) from problem
            self._held = newer
            self._stamp = None
            return newer

    def _newer_than(self, held: _Held) -> _Held | None:
        if self.profile.is_agent:  # never refreshed, and its file may be mounted read-only
            return self._another(held)
        with Ledger(self._store, self.profile.name).locked(_LOCK_WAIT):  # a refresh of ours may be in flight
            return self._another(held)

    def _another(self, held: _Held) -> _Held | None:
        """A saved credential other than ``held``; looks twice, because ``expbctl`` saves a moment after it is told."""
        for wait in (0.0, 0.0 if held.profile.is_agent else _SECOND_LOOK):
            time.sleep(wait)
            saved = self._read(None)
            if saved.token != held.token:
                return saved
        return None

    def _refused(self, problem: ApiProblem, *, cut_off: bool = False) -> SignInNeeded:
        cause = "the server does not accept its credential"
        if problem.request_id:
            cause += f" (request {problem.request_id})"
        if cut_off:
            cause += "; an earlier refresh was cut off before its answer could be saved"
        if self.explicit:
            return SignInNeeded(
                "The token cannot be used", cause=cause, next_step="Check the token, and whether it was revoked"
            )
        self._refusals.add(self.profile)
        return secrets.sign_in_needed(self.profile, cause)


def _credential_of(profile: Profile) -> tuple[object, ...]:
    return profile.token, profile.refresh_token, profile.expires_at, profile.in_keyring


def _refreshed(profiles: Profiles, before: Profile, placed: Profile) -> Profiles:
    """The new pair written into the profile, unless it was signed in anew, signed out or removed meanwhile."""
    current = profiles.by_name.get(before.name)
    known = (None, None) if before.in_keyring else (before.token, before.refresh_token)
    if current is None or not current.signed_in or (current.token, current.refresh_token) != known:
        return profiles
    return profiles.put(
        replace(
            current,
            token=placed.token,
            refresh_token=placed.refresh_token,
            expires_at=placed.expires_at,
            secret_place=placed.secret_place,
            in_keyring=placed.in_keyring,
        )
    )
