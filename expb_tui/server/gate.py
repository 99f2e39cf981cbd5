"""In front of every route: whose host this is, who is calling from where, and how often (hazards 13)."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from email.utils import format_datetime
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from expb_tui.server.config import is_loopback
from expb_tui.server.context import Services
from expb_tui.server.dispatch import Facts, send_problem
from expb_tui.server.problems import Problem, forbidden

OAUTH_PREFIX = "/oauth/"
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_WINDOW = 60.0
_MOST_ADDRESSES = 10_000


class Gate:
    """ASGI middleware; puts ``Facts`` into the scope."""

    def __init__(self, app: ASGIApp, *, services: Services, refuse_page: Callable[[int, str, str], Response]) -> None:
        self._app = app
        self._services = services
        self._refuse_page = refuse_page
        proxy = services.settings.trusted_proxy
        self._proxy = None if proxy is None else ipaddress.ip_network(proxy, strict=False)
        self._rate = _Windows(services.settings.limits.oauth_per_minute)
        settings = services.settings
        self._proxy_only = not settings.insecure_http and not is_loopback(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer = scope["client"][0] if scope.get("client") else ""
        behind_proxy = self._proxy is not None and _within(peer, self._proxy)
        facts = Facts(str(uuid4()), _client(peer, headers) if behind_proxy else peer)
        scope["expb.facts"] = facts
        send = self._stamped(send, facts.request_id)
        path: str = scope["path"]
        if self._proxy_only and not behind_proxy and not is_loopback(peer):
            problem = forbidden("Plain http is for the TLS proxy only.")
            await send_problem(send, problem, path, facts.request_id)
            return
        host = headers.get("host", "")
        if behind_proxy:
            host = _last(headers, "x-forwarded-host") or host
        refusal: Response | None = None
        if not self._own_host(host):
            if not path.startswith(OAUTH_PREFIX):
                problem = Problem(421, "misdirected-request", "This server has another name; see its issuer.")
                await send_problem(send, problem, path, facts.request_id)
                return
            text = "This server answers under another address. Open the address that your terminal shows."
            refusal = self._refuse_page(421, "Wrong address", text)
        elif path.startswith(OAUTH_PREFIX):
            if not self._rate.admit(facts.client_address):
                text = "Too many requests from this address; wait a minute."
                refusal = JSONResponse({"error": "rate-limited", "error_description": text}, 429, NO_STORE)
            elif scope["method"] == "POST" and not self._own_origin(headers):
                refusal = self._refuse_page(403, "Refused", "This form was sent from another site.")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _stamped(self, send: Send, request_id: str) -> Send:
        """Adds the request id, and the database's time: leases are judged by it (contract, section 6.2.4)."""

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = format_datetime(self._services.database.now(), usegmt=True).encode()
                message["headers"] = [*message["headers"], (b"date", date), (b"x-request-id", request_id.encode())]
            await send(message)

        return stamped

    def _own_host(self, host: str) -> bool:
        own = urlsplit(self._services.issuer)
        try:
            given = urlsplit(f"{own.scheme}://{host}")
            same_port = _port(given.port, own.scheme) == _port(own.port, own.scheme)
        except ValueError:
            return False
        if given.netloc != host or given.hostname is None or "@" in host or not same_port:
            return False
        if given.hostname == own.hostname:
            return True
        return is_loopback(own.hostname or "") and is_loopback(given.hostname)

    def _own_origin(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:
            return True
        if origin == "null":
            # What browsers send for a form of a page whose referrer policy is no-referrer, as ours is.
            return headers.get("sec-fetch-site") == "same-origin"
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme == urlsplit(self._services.issuer).scheme and self._own_host(host)


class _Windows:
    """How many requests each address made in its current minute."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._windows: dict[str, tuple[float, int]] = {}

    def admit(self, address: str) -> bool:
        address = _neighbourhood(address)
        now = time.monotonic()
        start, count = self._windows.get(address, (now, 0))
        if now - start >= _WINDOW:
            start, count = now, 0
        if len(self._windows) >= _MOST_ADDRESSES:
            self._windows = {key: entry for key, entry in self._windows.items() if now - entry[0] < _WINDOW}
        self._windows[address] = (start, count + 1)
        return count < self._limit


def _neighbourhood(address: str) -> str:
    """What is counted together: an IPv4 address, or the /64 that one IPv6 subscriber has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def _client(peer: str, headers: Headers) -> str:
    """The last address of X-Forwarded-For: the one that the trusted proxy itself saw, with or without a port."""
    last = _last(headers, "x-forwarded-for")
    for text in (last.strip("[]"), urlsplit(f"//{last}").netloc.rpartition(":")[0].strip("[]")):
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            continue
    return peer


def _last(headers: Headers, name: str) -> str:
    """The last entry of a list header: the proxy's own, on whatever line it stands; earlier ones are the client's."""
    return ",".join(headers.getlist(name)).rsplit(",", 1)[-1].strip()


def _within(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


def _port(port: int | None, scheme: str) -> int:
    return port or (443 if scheme == "https" else 80)
