"""Connections that fail or break off, told as what a person can act on; both ways to a server end in these words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from expb_tui.core.api.failures import RequestFailure, Unreachable, bad_answer, tls_failure
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.api.channels import Interrupted

CONNECT_TIMEOUT = 10.0
"""Seconds until a connection must stand."""


def transport_errors() -> tuple[type[Exception], ...]:
    """What httpx raises for a broken exchange; imports it."""
    import httpx

    return (httpx.TransportError, httpx.DecodingError)


def unreachable(endpoint: str, code: str, cause: str, *, unknown: bool) -> Unreachable:
    """No answer of this endpoint; ``unknown``: the request may have been carried out."""
    failure = Unreachable(
        f"{endpoint} cannot be reached",
        cause=cause,
        next_step="Check the network and try again"
        if code != "dns"
        else "Check the address and the name server, and try again",
        code=code,
    )
    failure.outcome_unknown = unknown
    return failure


def failure_of(endpoint: str, name: str, error: Exception, *, in_body: bool) -> RequestFailure:
    """The words for one of ``transport_errors``; ``name`` is method and path, ``in_body``: an answer had begun."""
    import httpx

    if isinstance(error, httpx.DecodingError):
        return bad_answer(name, "not-json", "it is compressed in a way that cannot be read")
    cut = in_body and isinstance(error, httpx.RemoteProtocolError)
    late = isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
    return _broken(endpoint, name, error, sent=not isinstance(error, httpx.ConnectError), cut=cut, late=late)


def interrupted(endpoint: str, name: str, broken: Interrupted) -> RequestFailure:
    """The words for an exchange in bulk that broke off; ``name`` is method and path."""
    cause = broken.__cause__ or broken
    late = not broken.sent and isinstance(cause, TimeoutError)
    return _broken(endpoint, name, cause, sent=broken.sent, cut=broken.in_body, late=late)


def _broken(endpoint: str, name: str, error: BaseException, *, sent: bool, cut: bool, late: bool) -> RequestFailure:
    """``sent``: it may have arrived; ``cut``: in the middle of the answer; ``late``: no connection in time."""
    import socket
    import ssl

    chain = _chain(error)
    for cause in chain:
        if isinstance(cause, ssl.SSLError) and not sent:
            return tls_failure(endpoint, cause)
    if cut:
        return bad_answer(name, "truncated", "the connection ended in the middle of the answer")
    if late:
        return unreachable(endpoint, "timeout", f"no connection within {CONNECT_TIMEOUT:.0f} s", unknown=False)
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        host = urlsplit(endpoint).hostname
        return unreachable(endpoint, "dns", f"the name {host} is not known", unknown=False)
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        return unreachable(endpoint, "refused", "nothing listens at that address and port", unknown=False)
    told = clean(str(error)) or type(error).__name__
    return unreachable(endpoint, "network", told, unknown=sent)


def _chain(error: BaseException) -> list[BaseException]:
    """The error with everything that it came from, groups included."""
    found: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or current in found:
            continue
        found.append(current)
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
    return found
