"""Sign-in, agent registration, sign-out, project context (contract, sections 2.3, 2.4, 2.6, 4 and 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import ExpbError
from expb_tui.core.profiles.document import Profile
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr

if TYPE_CHECKING:
    from expb_tui.core.settings import Settings
    from expb_tui.wire.identity import Project


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

    kind: Literal["pending", "slow_down", "denied", "expired", "approved", "unreachable"]
    text: str
    next_poll: float
    """Seconds until the next poll, 0 at an end."""
    seconds_left: float


class DeviceLogin:
    """One device authorization: ``start``, then ``async for state in poll()``, then ``save``."""

    def __init__(
        self,
        store: ProfileStore,
        *,
        profile: str | None = None,
        endpoint: str | None = None,
        scope: Literal["account", "system"] = "account",
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``profile`` None means the default user profile, else ``default``. The endpoint is ``endpoint``, else
        ``EXPBENCH_API_SERVER``, else the saved profile's, else the public service."""
        raise NotImplementedError

    profile_name: str
    endpoint: str

    async def start(self) -> DeviceCode:
        """Ask for a code. Raises ``RequestFailure``, or ``ExpbError`` for an address of another origin."""
        raise NotImplementedError

    async def poll(self) -> AsyncIterator[PollState]:
        """A state before the first wait (pending) and after each poll, until an end. Other OAuth errors are raised."""
        raise NotImplementedError
        yield

    def cancel(self) -> None:
        """Stop polling; ``poll`` ends without a further state, and a token that came too late is revoked."""
        raise NotImplementedError

    async def save(self, profile_name: str | None = None, make_default: bool = False) -> Profile:
        """After *approved*: save the session. The answer has no tokens in it."""
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


async def register_agent(
    session: Session, store: ProfileStore, agent_name: str, profile_name: str, *, description: str = ""
) -> Profile:
    """Create an agent identity and a token, and save both as an agent profile (contract, section 5, sequence 1).

    Raises ``ExpbError`` with code ``agent-exists`` (409), ``agent-forbidden`` (403; the user profile stays),
    ``token-unavailable`` (a replay without the secret) or ``profile-exists``.
    """
    raise NotImplementedError


async def save_agent_token(
    store: ProfileStore,
    name: str | None,
    token: SecretStr,
    endpoint: str | None = None,
    *,
    settings: Settings | None = None,
) -> Profile:
    """Check the token at ``/v1/principal`` (it must be an agent's) and save it as an agent profile."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SignedOut:
    """The local credential is gone; ``problem`` says why the server could not be told, if so."""

    profile: Profile
    revoked: bool
    problem: ExpbError | None


async def sign_out(store: ProfileStore, name: str | None = None, *, settings: Settings | None = None) -> SignedOut:
    """Revoke a user's session, then always clear the local credential. Agent tokens are not revoked."""
    raise NotImplementedError


async def use_project(session: Session, store: ProfileStore, text: str) -> Project:
    """Set the profile's project: ``text`` is a UID, else an exact name over all pages; two matches are an error."""
    raise NotImplementedError


def browser_refusal(environ: Mapping[str, str] | None = None) -> str:
    """Why no browser may be opened here (SSH, no display), in words; empty where one may."""
    raise NotImplementedError
