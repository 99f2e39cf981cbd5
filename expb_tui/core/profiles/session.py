"""One selected credential on one endpoint: selection, refresh, one repeat after a 401 (section 4; hazards 9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.profiles.document import Profile
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr

if TYPE_CHECKING:
    import httpx

    from expb_tui.core.api.transport import Answer
    from expb_tui.core.settings import Settings
    from expb_tui.wire.identity import Principal


class Session:
    """Acts as one profile (or explicit token); its credential goes to its own endpoint only."""

    profile: Profile
    """As saved when opened, without tokens; ``name`` is empty for an explicit token."""
    endpoint: str
    explicit: bool
    """True for an explicit token, which is never stored."""

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
        raise NotImplementedError

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
    ) -> Answer:
        """One call with the bearer; a POST without a key gets a fresh one. ``RequestFailure`` or ``SignInNeeded``."""
        raise NotImplementedError

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """A GET with the bearer whose answer is read as it comes."""
        raise NotImplementedError
        yield

    async def principal(self) -> Principal:
        """Who this credential speaks for, asked anew each time."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections; a refresh in flight is finished first."""
        raise NotImplementedError
