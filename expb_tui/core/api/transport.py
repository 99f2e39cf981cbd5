"""HTTP to one endpoint: timeouts, limits, retries, and errors in words (contract, sections 1.7, 1.9 and 7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import ApiProblem, BadAnswer, Redirected, RequestFailure, TlsFailure, Unreachable
from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.secret import SecretStr

if TYPE_CHECKING:
    import httpx

__all__ = [
    "Answer", "ApiProblem", "BadAnswer", "Redirected", "RequestFailure", "TlsFailure", "Transport", "Unreachable",
    "check_endpoint", "repeat_same_key",
]  # fmt: skip

DEFAULT_ENDPOINT = "https://exp.sre-norns.com"


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer. ``body`` is the parsed JSON, None where there is none."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    sent_ticks: float
    """``clock.ticks()`` just before the request was sent: lease arithmetic counts from here (hazards 1)."""
    date: datetime | None
    """The server's ``Date``, aware and in UTC."""
    request_id: str = ""

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")


class Transport:
    """Connections to one endpoint; use it inside one event loop and close it."""

    def __init__(
        self, endpoint: str, *, insecure_http: bool = False, timeout: float = 60.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """``timeout`` bounds a whole request with its retries, in seconds."""
        self.endpoint = check_endpoint(endpoint, insecure_http=insecure_http)

    async def send(
        self,
        method: str,
        path: str,
        *,
        token: SecretStr | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        within: float | None = None,
    ) -> Answer:
        """Send and judge; ``within`` overrides the timeout. Only GETs are retried. Raises a ``RequestFailure``."""
        raise NotImplementedError

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        token: SecretStr | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """A GET whose answer is read as it comes (events); only the head is judged."""
        raise NotImplementedError
        yield

    async def aclose(self) -> None:
        raise NotImplementedError


async def repeat_same_key(
    send: Callable[[], Awaitable[Answer]], *, tries: int = 4, budget: float = 30.0, clock: Clock = SYSTEM_CLOCK
) -> Answer:
    """Repeat a mutation whose journaled idempotency key is part of ``send``.

    Repeats on network errors, 500, 502, 503, 504 and ``idempotency-in-progress``, with backoff, at most ``tries``
    times within ``budget`` seconds. Never on 429. The last failure is raised.
    """
    raise NotImplementedError


def check_endpoint(url: str, *, insecure_http: bool = False) -> str:
    """The endpoint in its one spelling, or ``UsageError``: absolute http(s), no user info, query or fragment; a
    trailing ``/`` and ``/v1`` are dropped; plain http only for loopback unless ``insecure_http``."""
    raise NotImplementedError
