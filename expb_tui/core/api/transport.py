"""HTTP to one endpoint: timeouts, limits, retries, and errors in words (contract, sections 1.7, 1.9 and 7)."""

from __future__ import annotations

import asyncio
import json as jsonlib
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from expb_tui.core.api.answers import Answer, Secrets, content_of, date_of, parsed, too_large
from expb_tui.core.api.breakage import CONNECT_TIMEOUT, failure_of, interrupted, transport_errors, unreachable
from expb_tui.core.api.endpoint import check_endpoint, is_loopback
from expb_tui.core.api.failures import (
    ApiProblem,
    BadAnswer,
    Redirected,
    RequestFailure,
    TlsFailure,
    Unreachable,
    bad_answer,
    problem_from,
    redirected,
)
from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.errors import UsageError
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from typing import TypeAlias

    import httpx

    from expb_tui.core.api.channels import Channels

    StreamedAnswer: TypeAlias = httpx.Response
    """An answer that is read as it comes; named here, because httpx is named nowhere else."""

__all__ = [
    "Answer", "ApiProblem", "BadAnswer", "Redirected", "RequestFailure", "TlsFailure", "Transport", "Unreachable",
    "check_endpoint", "repeat_same_key",
]  # fmt: skip

STREAM_SILENCE = 25.0
"""Seconds without a byte after which a stream is broken: a service sends something every 15 (contract, 6.2.9)."""
_READ_TRIES = 3
_BACKOFF = 0.4
_LONGEST_RETRY_AFTER = 5.0
"""A longer ``Retry-After`` is for the person, not for a retry behind their back. Seconds."""
_SECRETS = "expb_tui.secrets"
"""Where a request carries its ``Secrets`` (httpx's extensions are for such things)."""
_LARGEST_IN_BULK = 8 * 1024 * 1024
"""Bytes of an answer to one of very many requests."""
_BUSY = (502, 503, 504)
_JITTER = random.SystemRandom()
ResultT = TypeVar("ResultT")


class Transport:
    """Connections to one endpoint; use it inside one event loop and close it."""

    def __init__(
        self, endpoint: str, *, insecure_http: bool = False, timeout: float = 60.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """``timeout`` bounds a whole request with its retries, in seconds. Raises ``UsageError`` for a bad endpoint."""
        self.endpoint = check_endpoint(endpoint, insecure_http=insecure_http)
        self._timeout = timeout
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._channels: Channels | None = None
        self._plain = True
        """Nothing stands between here and the endpoint that only httpx knows: a proxy, compression."""
        self._opening = asyncio.Lock()

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
        in_bulk: bool = False,
    ) -> Answer:
        """Send and judge; ``within`` overrides the timeout. Only GETs are retried. Raises a ``RequestFailure``.

        ``in_bulk``: one of very many, by the cheapest way; for bodies of JSON.
        """
        url, secrets = self._url(path), _secrets(token, headers, form)
        once: Callable[[float], Awaitable[Answer]]
        if in_bulk and (channels := await self._ready_in_bulk()):
            target = f"{url}?{urlencode(_query(query) or {})}".rstrip("?")
            content = b"" if json is None else jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
            typed = {**_headers(token, headers), **({} if json is None else {"content-type": "application/json"})}
            once = partial(self._once_in_bulk, channels, method, target, typed, content, secrets)
        else:
            client = await self._ready()
            request = client.build_request(
                method,
                url,
                params=_query(query),
                headers=_headers(token, headers),
                json=json,
                data=form,
                extensions={_SECRETS: secrets},
            )
            once = partial(self._once, client, request)
        deadline = self._clock.ticks() + (within or self._timeout)
        tries = _READ_TRIES if method in ("GET", "HEAD") else 1
        for attempt in range(1, tries + 1):
            try:
                return await once(deadline - self._clock.ticks())
            except (Unreachable, ApiProblem) as failure:
                wait = _retry_wait(failure, attempt)
                if attempt == tries or wait is None or self._clock.ticks() + wait >= deadline:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        token: SecretStr | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[StreamedAnswer]:
        """A GET whose answer is read as it comes (events); only the head is judged, within the timeout.

        A stream that says nothing for ``STREAM_SILENCE`` seconds is broken: ``Unreachable``.
        """
        client = await self._ready()
        import httpx

        request = client.build_request(
            "GET",
            self._url(path),
            params=_query(query),
            headers=_headers(token, headers),
            timeout=httpx.Timeout(None, read=STREAM_SILENCE),
            extensions={_SECRETS: _secrets(token, headers, None)},
        )
        name = f"GET {path}"
        response: httpx.Response | None = None
        try:
            async with self._patience(self._timeout):
                response = await client.send(request, stream=True)
                if not 200 <= response.status_code < 300:
                    await self._judge(name, response, 0.0)
            yield response
        except transport_errors() as error:
            raise failure_of(self.endpoint, name, error, in_body=response is not None) from error
        finally:
            if response is not None:
                await response.aclose()

    async def aclose(self) -> None:
        if self._channels is not None:
            channels, self._channels = self._channels, None
            await channels.aclose()
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def _ready(self) -> httpx.AsyncClient:
        # httpx and the certificates take a tenth of a second to load: in a thread, so that the cockpit does not stop.
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client

    async def _ready_in_bulk(self) -> Channels | None:
        """None where only httpx knows the way."""
        if self._channels is None and self._plain:
            async with self._opening:
                if self._channels is None:
                    self._channels = await asyncio.to_thread(self._open_in_bulk)
                    self._plain = self._channels is not None
        return self._channels if self._plain else None

    def _open_in_bulk(self) -> Channels | None:
        from urllib.request import getproxies

        from expb_tui.core.api.channels import Channels

        parts = urlsplit(self.endpoint)
        if not is_loopback(parts.hostname or "") and {parts.scheme, "all"} & getproxies().keys():
            return None
        context = None
        if parts.scheme == "https":
            preload()
            import httpx

            context = httpx.create_ssl_context()
            context.set_alpn_protocols(["http/1.1"])
        return Channels(self.endpoint, context)

    def _open(self) -> httpx.AsyncClient:
        import ssl

        preload()
        import httpx

        parts = urlsplit(self.endpoint)
        secure = parts.scheme == "https"
        return httpx.AsyncClient(
            http2=False,
            follow_redirects=False,
            # SSL_CERT_FILE counts everywhere; without https no certificates need to be loaded.
            verify=httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            # The proxies of the environment; a loopback address is never asked of one.
            trust_env=not is_loopback(parts.hostname or ""),
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=5, keepalive_expiry=30.0),
            # Before httpx reads the address that it leads to, which may be none.
            event_hooks={"response": [_refuse_redirect]},
            headers=dict(_always()),
        )

    def _url(self, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError(f"not a path: {path}")
        return self.endpoint + path

    async def _once(self, client: httpx.AsyncClient, request: httpx.Request, seconds: float) -> Answer:
        name = f"{request.method} {request.url.path}"
        response: httpx.Response | None = None
        sent = self._clock.ticks()
        try:
            async with self._patience(seconds):
                response = await client.send(request, stream=True)
                return await self._judge(name, response, sent)
        except transport_errors() as error:
            raise failure_of(self.endpoint, name, error, in_body=response is not None) from error
        finally:
            if response is not None:
                await response.aclose()

    async def _once_in_bulk(
        self,
        channels: Channels,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes,
        secrets: Secrets,
        seconds: float,
    ) -> Answer:
        from expb_tui.core.api.channels import Interrupted, TooLarge

        parts = urlsplit(url)
        name = f"{method} {parts.path}"
        target = f"{parts.path}?{parts.query}".rstrip("?")
        every = [*_always().items(), *headers.items()]
        sent = self._clock.ticks()
        try:
            async with self._patience(seconds):
                got = await channels.exchange(method, target, every, content, largest=_LARGEST_IN_BULK)
        except Interrupted as broken:
            raise interrupted(self.endpoint, name, broken) from broken.__cause__
        except TooLarge:
            raise too_large(name) from None
        if 300 <= got.status < 400:
            raise redirected(name, url, secrets.hidden(got.headers.get("location", "")))
        if got.headers.get("content-encoding", "identity").lower() != "identity":
            self._plain = False  # compressed unasked: httpx can read it, from the next request on
            raise bad_answer(name, "not-json", "it is compressed, which was not asked for")
        return await self._verdict(name, got.status, got.headers, got.content, secrets, sent)

    async def _judge(self, name: str, response: httpx.Response, sent: float) -> Answer:
        secrets: Secrets = response.request.extensions[_SECRETS]
        content = await content_of(name, response)
        return await self._verdict(name, response.status_code, response.headers, content, secrets, sent)

    @staticmethod
    async def _verdict(
        name: str, status: int, told: Mapping[str, str], content: bytes, secrets: Secrets, sent: float
    ) -> Answer:
        headers = {key.lower(): secrets.hidden(value) for key, value in told.items()}
        if 200 <= status < 300:
            body = await parsed(name, status, content)
            return Answer(status, headers, body, sent, date_of(headers), clean(headers.get("x-request-id", "")), name)
        try:
            body = await parsed(name, status, secrets.hidden_in(content))
        except BadAnswer:
            body = None
        raise problem_from(name, status, headers, body)

    @asynccontextmanager
    async def _patience(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise unreachable(
                self.endpoint, "timeout", f"no complete answer within {seconds:.0f} s", unknown=True
            ) from None


def preload() -> None:
    """Load what the first request needs; takes some 50 ms, so call it in a thread where a screen is waiting."""
    # httpx imports its own command line, and with it click, rich and pygments, where it can: 70 ms for nothing.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None makes the import fail, as documented
    import httpx  # noqa: F401 - loading it is the purpose


async def repeat_same_key(
    send: Callable[[], Awaitable[ResultT]], *, tries: int = 4, budget: float = 30.0, clock: Clock = SYSTEM_CLOCK
) -> ResultT:
    """Repeat a mutation whose idempotency key, and body, are the same each time that ``send`` is called.

    Repeats on network errors, 500, 502, 503, 504 and ``idempotency-in-progress``, with backoff, at most ``tries``
    times within ``budget`` seconds. Never on 429. The last failure is raised.
    """
    deadline = clock.ticks() + budget
    for attempt in range(1, tries + 1):
        try:
            return await send()
        except (Unreachable, BadAnswer, ApiProblem) as failure:
            wait = _retry_wait(failure, attempt, mutation=True)
            if attempt == tries or wait is None or clock.ticks() + wait >= deadline:
                raise
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _retry_wait(failure: RequestFailure, attempt: int, *, mutation: bool = False) -> float | None:
    """Seconds before the next try, None for *no further try*."""
    wait = _BACKOFF * 2.0 ** (attempt - 1) * _JITTER.uniform(0.5, 1.5)
    if isinstance(failure, Unreachable):
        return wait
    if isinstance(failure, BadAnswer):
        return wait if mutation and failure.code == "truncated" else None
    if not isinstance(failure, ApiProblem):
        return None
    in_progress = failure.code == "idempotency-in-progress"
    if failure.status in _BUSY or (mutation and (failure.status == 500 or in_progress)):
        asked = failure.retry_after or 0.0
        return max(wait, asked) if asked <= _LONGEST_RETRY_AFTER else None
    return None


async def _refuse_redirect(response: httpx.Response) -> None:
    if 300 <= response.status_code < 400:
        request = response.request
        location = request.extensions[_SECRETS].hidden(response.headers.get("location", ""))
        raise redirected(f"{request.method} {request.url.path}", str(request.url), location)


@cache
def _always() -> Mapping[str, str]:
    """Headers of every request."""
    from expb_tui import __version__

    return {
        "accept": "application/json",
        "accept-encoding": "identity",  # an answer of 32 MiB is 32 MiB, not a compressed gigabyte
        "user-agent": f"expb-tui/{__version__}",
    }


def _secrets(token: SecretStr | None, headers: Mapping[str, str] | None, form: Mapping[str, str] | None) -> Secrets:
    return Secrets(token.get_secret_value() if token else "", headers or {}, form or {})


def _query(query: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not query:
        return None
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in query.items()
        if value is not None
    }


def _headers(token: SecretStr | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    result = dict(headers or {})
    if token is not None:
        result["authorization"] = f"Bearer {token.get_secret_value()}"
    for name, value in result.items():
        if not (value.isascii() and value.isprintable()):
            raise UsageError(
                f"The value of the header {name} cannot be sent",
                cause="it holds characters that no credential or id has",
                next_step="Save the credential again without spaces or line breaks",
                code="bad-header",
            )
    return result
