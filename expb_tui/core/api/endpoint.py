"""The address of a service: its one spelling, and what may be reached without encryption (contract; hazards 13)."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from expb_tui.core.errors import UsageError

DEFAULT_ENDPOINT = "https://exp.sre-norns.com"
"""Where a profile that names nothing else signs in."""


def check_endpoint(url: str, *, insecure_http: bool = False) -> str:
    """The endpoint in its one spelling; a trailing ``/`` and ``/v1`` are dropped.

    Raises ``UsageError`` (code ``endpoint``) unless it is an absolute http or https address without user info, query
    and fragment, and for plain http to another host than this one, unless ``insecure_http``.
    """
    parts = _split(url)
    host = (parts.hostname or "").lower()
    if parts.scheme == "http" and not insecure_http and not is_loopback(host):
        raise UsageError(
            f"{url!r} is not encrypted",
            cause="plain http is for this host only, because a credential would be readable on the way",
            next_step="Use https, or allow it with insecure_http = true in config.toml",
            code="endpoint",
        )
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, default) else ""
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{host}{port}{path}"


def same_endpoint(one: str, other: str) -> bool:
    """Whether a credential for ``one`` may go to ``other``."""
    if one == other:
        return _usable(one)
    try:
        return check_endpoint(one, insecure_http=True) == check_endpoint(other, insecure_http=True)
    except UsageError:
        return False


@lru_cache(maxsize=64)
def _usable(url: str) -> bool:
    """It is an endpoint at all."""
    try:
        check_endpoint(url, insecure_http=True)
    except UsageError:
        return False
    return True


def same_origin(one: str, other: str) -> bool:
    """Scheme, host and port agree, and neither address holds user info; path and query need not agree."""
    try:
        first, second = (_split(url.partition("?")[0]) for url in (one, other))
    except UsageError:
        return False
    return _origin(first) == _origin(second)


def is_loopback(host: str) -> bool:
    """This host, by name or address."""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}[parts.scheme]


def _split(url: str) -> SplitResult:
    problem = ""
    try:
        parts = urlsplit(url)
        port_fits = parts.port != 0
    except ValueError as error:
        raise _refused(url, str(error)) from None
    if not url.isprintable() or " " in url:
        problem = "it holds spaces or control characters"
    elif parts.scheme not in ("http", "https") or not parts.hostname or not port_fits:
        problem = "it must be like https://bench.example.org"
    elif parts.username is not None or parts.password is not None:
        problem = "it must not hold a user name or password"
    elif "?" in url or "#" in url:
        problem = "it must not hold a query or fragment"
    if problem:
        raise _refused(url, problem)
    return parts


def _refused(url: str, cause: str) -> UsageError:
    # User info and query may be credentials.
    shown = url.partition("?")[0].partition("#")[0]
    scheme, slashes, rest = shown.partition("//")
    return UsageError(
        f"{scheme + slashes + rest.rpartition('@')[2]!r} is not the address of a service",
        cause=cause,
        next_step="Give the address as the operator of the service wrote it",
        code="endpoint",
    )
