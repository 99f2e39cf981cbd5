"""Signing in by device authorization (RFC 8628; contract, sections 2.3, 2.4 and 4), and signing out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from expb_tui.core.api.endpoint import check_endpoint, same_endpoint, same_origin
from expb_tui.core.api.failures import ApiProblem, RequestFailure
from expb_tui.core.clock import MAX_SLEEP, SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.agents import register_agent, save_agent_token, use_project
from expb_tui.core.profiles.document import Profile
from expb_tui.core.profiles.environment import endpoint_for
from expb_tui.core.profiles.ledger import Ledger
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.core.settings import Settings, load_settings
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Transport
    from expb_tui.wire.oauth import DeviceAuthorization, TokenAnswer

__all__ = [
    "DeviceCode", "DeviceLogin", "PollState", "SignedOut", "browser_refusal", "endpoint_for", "register_agent",
    "save_agent_token", "sign_out", "use_project",
]  # fmt: skip

_POLL_LIMIT = 20.0
_LONGEST_CODE_LIFE = 3600
_LONGEST_WAIT = 60.0
"""Seconds between polls of a server that cannot be reached; doubled up to here (RFC 8628, section 3.5)."""
_LOCK_WAIT = 45.0

PollKind = Literal["pending", "slow_down", "denied", "expired", "approved", "unreachable"]


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a person needs to approve; every text is cleaned."""

    user_code: str
    uri: str
    complete_uri: str
    """With the code in it, for QR and link; the plain address where the server sends none."""
    expires_ticks: float
    """On ``clock.ticks()``."""
    interval: float


@dataclass(frozen=True, slots=True)
class PollState:
    """What the last poll said. ``denied``, ``expired`` and ``approved`` are last ones."""

    kind: PollKind
    text: str
    next_poll: float
    """Seconds until the next poll, 0 at an end."""


class DeviceLogin:
    """One device authorization: ``start``, then ``async for state in poll()``, then ``save``, then ``aclose``."""

    def __init__(
        self,
        store: ProfileStore,
        *,
        profile: str | None = None,
        endpoint: str | None = None,
        scope: Literal["account", "system"] = "account",
        account: str | None = None,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``profile`` None means the default user profile, else ``default``. The endpoint is ``endpoint``, else
        ``EXPBENCH_API_SERVER``, else the saved profile's, else the public service. A session of another account than
        ``account``, where that is named, is refused. Raises ``UsageError``."""
        self._store = store
        self._settings = settings or load_settings()
        self._clock = clock
        self._scope = scope
        self._account = account
        self.profile_name = profile or _default_user_profile(store)
        self._refuse_agent(self.profile_name)
        self.endpoint = check_endpoint(
            endpoint_for(store, self.profile_name, endpoint), insecure_http=self._settings.insecure_http
        )
        self._transport: Transport | None = None
        self._device: DeviceAuthorization | None = None
        self._started = 0.0
        self._session: Profile | None = None
        self._cancelled = asyncio.Event()

    async def start(self) -> DeviceCode:
        """Ask for a code. Raises ``RequestFailure``, or ``ExpbError`` for an address of another origin."""
        from expb_tui.core.api import oauth
        from expb_tui.wire.oauth import DEFAULT_INTERVAL

        self._started = self._clock.ticks()
        device = await oauth.authorize_device(self._connected(), self._settings.client_id, self._scope)
        complete = device.verification_uri_complete or device.verification_uri
        for address in (device.verification_uri, complete):
            if not (address.isascii() and address.isprintable() and " " not in address) or not same_origin(
                address, self.endpoint
            ):
                raise ExpbError(
                    f"Sign-in at {self.endpoint} was stopped",
                    cause=f"the server asks to open {clean(address)[:200]}, which is not at its own address",
                    next_step="Do not open that address; ask the operator of the service",
                    code="foreign-address",
                )
        self._device = device
        interval = device.interval or 0
        return DeviceCode(
            user_code=clean(device.user_code),
            uri=device.verification_uri,
            complete_uri=complete,
            expires_ticks=self._expires(device),
            interval=float(interval if interval > 0 else DEFAULT_INTERVAL),
        )

    async def poll(self) -> AsyncIterator[PollState]:
        """A state before the first wait (pending) and after each poll, until an end. Other OAuth errors are raised."""
        from expb_tui.wire.oauth import DEFAULT_INTERVAL, SLOW_DOWN_STEP

        if self._device is None:
            raise RuntimeError("start() first")
        device = self._device
        interval = float(device.interval if device.interval and device.interval > 0 else DEFAULT_INTERVAL)
        wait = interval
        kind: PollKind = "pending"
        text = "waiting for approval"
        while True:
            left = self._expires(device) - self._clock.ticks()
            if left <= 0:
                yield PollState("expired", "the code has expired", 0.0)
                return
            yield PollState(kind, text, min(wait, left))
            if not await self._waited(min(wait, left)):
                return
            left = self._expires(device) - self._clock.ticks()
            if left <= 0:
                continue
            try:
                answer = await self._ask(device, left)
            except ApiProblem as problem:
                if problem.code == "access_denied":
                    yield PollState("denied", "the request was denied in the browser", 0.0)
                    return
                if problem.code == "expired_token":
                    yield PollState("expired", "the code has expired", 0.0)
                    return
                kind, text, interval, wait = _after(problem, interval, wait, SLOW_DOWN_STEP)
            except RequestFailure as failure:
                if failure.code == "unexpected-shape":
                    raise
                wait = min(max(wait, interval) * 2, _LONGEST_WAIT)
                kind, text = "unreachable", failure.lines()[0]
            else:
                if self._cancelled.is_set():
                    await self._revoke(answer.refresh_token.get_secret_value())
                    return
                await self._accept(answer)
                yield PollState("approved", "approved", 0.0)
                return

    def cancel(self) -> None:
        """Stop polling; ``poll`` ends without a further state, and a token that came too late is revoked."""
        self._cancelled.set()

    async def save(self, profile_name: str | None = None, make_default: bool = False) -> Profile:
        """After *approved*: save the session.

        The kept profile's project stays only for the same endpoint and account. Where it cannot be written, the session
        is still here, and ``save`` may be called again.
        """
        if self._session is None:
            raise RuntimeError("nothing was approved")
        name = profile_name or self.profile_name
        return await asyncio.to_thread(self._save, name, self._session, make_default)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.aclose()

    def _save(self, name: str, session: Profile, make_default: bool) -> Profile:
        self._refuse_agent(name)
        ledger = Ledger(self._store, name)
        with ledger.locked(_LOCK_WAIT):
            old = self._store.read().by_name.get(name)
            profile = replace(session, name=name)
            if old is not None:
                profile = replace(profile, extra=old.extra)
                if same_endpoint(old.endpoint, profile.endpoint) and old.account_id == profile.account_id:
                    profile = replace(
                        profile, endpoint=old.endpoint, project_id=old.project_id, project_name=old.project_name
                    )
            saved = secrets.keep(self._store, profile, make_default=make_default)
            ledger.forget()
        return saved

    async def _ask(self, device: DeviceAuthorization, left: float) -> TokenAnswer:
        from expb_tui.core.api import oauth

        code = device.device_code.get_secret_value()
        return await oauth.poll_device(self._connected(), self._settings.client_id, code, min(left, _POLL_LIMIT))

    async def _accept(self, answer: TokenAnswer) -> None:
        wanted = (self._scope, self._account or answer.account_id)
        if (answer.scope, answer.account_id) != wanted:
            other_scope = answer.scope != self._scope
            await self._revoke(answer.refresh_token.get_secret_value())
            raise ExpbError(
                "The session was not saved",
                cause=f"it has the {clean(answer.scope)} scope, and {self._scope} was asked for"
                if other_scope
                else f"it is of account {clean(answer.account_id or '')}, and {self._account} was asked for",
                next_step="Sign in again and choose the intended account in the browser",
                code="other-scope" if other_scope else "other-account",
            )
        self._session = Profile(
            self.profile_name,
            "user",
            scope=answer.scope,
            endpoint=self.endpoint,
            account_id=answer.account_id,
            token=SecretStr(answer.access_token.get_secret_value()),
            refresh_token=SecretStr(answer.refresh_token.get_secret_value()),
            expires_at=self._clock.now() + timedelta(seconds=answer.expires_in),
        )

    async def _revoke(self, token: str) -> None:
        from expb_tui.core.api import oauth

        with suppress(RequestFailure):  # nobody has the token; it ends by itself
            await oauth.revoke(self._connected(), self._settings.client_id, SecretStr(token))

    async def _waited(self, seconds: float) -> bool:
        """False when cancelled. Wakes every 15 s, so that a suspended machine finds an expired code at once."""
        until = self._clock.ticks() + seconds
        while (left := until - self._clock.ticks()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._cancelled.wait(), min(left, MAX_SLEEP))
            if self._cancelled.is_set():
                return False
        return not self._cancelled.is_set()

    def _expires(self, device: DeviceAuthorization) -> float:
        return self._started + min(device.expires_in, _LONGEST_CODE_LIFE)

    def _connected(self) -> Transport:
        from expb_tui.core.api.transport import Transport

        if self._transport is None:
            self._transport = Transport(
                self.endpoint, insecure_http=self._settings.insecure_http, timeout=self._settings.timeout
            )
        return self._transport

    def _refuse_agent(self, name: str) -> None:
        saved = self._store.read().by_name.get(name)
        if saved is not None and saved.is_agent and saved.signed_in:
            raise UsageError(
                f"Profile {name!r} holds an agent's token",
                cause="signing in would overwrite it, and it cannot be shown again",
                next_step="Name another profile with --profile, or remove that one first",
                code="profile-is-agent",
            )


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The local credential is gone; ``problem`` says why the server could not be told, if so."""

    profile: Profile
    revoked: bool
    problem: ExpbError | None


async def sign_out(store: ProfileStore, name: str | None = None, *, settings: Settings | None = None) -> SignedOut:
    """Revoke a user's session, then always clear the local credential. Agent tokens are not revoked."""
    settings = settings or load_settings()
    profile = await asyncio.to_thread(store.select, name)
    problem: ExpbError | None = None
    revoked = False
    if profile.signed_in and not profile.is_agent:
        try:
            full = await asyncio.to_thread(secrets.reveal, store, profile)
            await _revoke_session(full, settings)
            revoked = True
        except ExpbError as error:
            problem = error
    cleared = await asyncio.to_thread(secrets.clear, store, profile.name)
    return SignedOut(cleared, revoked, problem)


async def _revoke_session(profile: Profile, settings: Settings) -> None:
    from expb_tui.core.api import oauth
    from expb_tui.core.api.transport import Transport

    token = profile.refresh_token or profile.token
    if token is None:
        return
    transport = Transport(profile.endpoint, insecure_http=settings.insecure_http, timeout=settings.timeout)
    try:
        await oauth.revoke(transport, settings.client_id, token)
    finally:
        await transport.aclose()


def browser_refusal(environ: Mapping[str, str] | None = None) -> str:
    """Why no browser may be opened here, in words; empty where one may."""
    environ = os.environ if environ is None else environ
    if any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return "this is an SSH session: open the address on your own machine"
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return "this host has no display: open the address on another machine"
    return ""


def _after(problem: ApiProblem, interval: float, wait: float, step: float) -> tuple[PollKind, str, float, float]:
    """What to do after an error that is no end: kind, text, interval, wait. Raises ``problem`` where it is one."""
    if problem.code == "authorization_pending":
        return "pending", "waiting for approval", interval, interval
    if problem.code == "slow_down":
        interval += step
        return "slow_down", f"the server asks for a slower pace: every {interval:.0f} s", interval, interval
    if problem.status == 429:
        wait = problem.retry_after or _LONGEST_WAIT
        return (
            "slow_down",
            f"too many requests from this address: next try in {wait:.0f} s",
            interval,
            max(wait, interval),
        )
    if problem.status >= 500:
        wait = max(problem.retry_after or 0.0, min(max(wait, interval) * 2, _LONGEST_WAIT))
        return "unreachable", problem.lines()[0], interval, wait
    raise problem


def _default_user_profile(store: ProfileStore) -> str:
    """The profile that signing in without a name is about: the default one if it is a user's, else ``default``."""
    profiles = store.read()
    name = profiles.default
    return name if name and name in profiles.by_name and not profiles.by_name[name].is_agent else "default"
