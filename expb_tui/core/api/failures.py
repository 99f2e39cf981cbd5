"""What a request can end in, in words for a person. Loads nothing of the network: faces may catch these cheaply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean

DEFAULT_WAIT = 60.0
"""Seconds to wait after a 429 that names no time (contract, section 7, item 9)."""
_SHOWN = 300
"""Characters of a server's own text that are shown at most."""


class RequestFailure(ExpbError):
    """Base of all of them. ``outcome_unknown``: the server may have carried the request out all the same."""

    outcome_unknown = False


class Unreachable(RequestFailure):
    """No answer: ``code`` is dns, refused, timeout or network. What was never sent has no unknown outcome."""

    code = "unreachable"


class TlsFailure(RequestFailure):
    """The server's certificate is not trusted: tls-expired, tls-name, tls-unknown-authority, or tls."""

    code = "tls"


class Redirected(RequestFailure):
    """A redirect, which is never followed with a credential; ``target`` is the cleaned address."""

    code = "redirected"
    target = ""


class BadAnswer(RequestFailure):
    """An answer that cannot be used: html, truncated, too-large, not-json, or unexpected-shape."""

    code = "bad-answer"
    status = 0


class ApiProblem(RequestFailure):
    """The server answered and refused. ``code`` is the server's own word, unknown ones included."""

    def __init__(
        self,
        request: str,
        status: int,
        code: str,
        *,
        detail: str = "",
        fields: Mapping[str, str] | None = None,
        request_id: str = "",
        retry_after: float | None = None,
        documented: bool = False,
    ) -> None:
        """``request`` is method and path; every text is cleaned already."""
        # The request comes last: where there is little room, its path is what a person can do without.
        what = f"Refused with {status} {code}: {request}"
        if request_id:
            what += f" (request {request_id})"
        named = "; ".join(f"{path}: {message}" for path, message in (fields or {}).items())
        cause = ": ".join(part for part in (detail.rstrip(".: "), named) if part) or _CAUSES.get(
            status, "the server gave no reason"
        )
        super().__init__(what, cause=cause, next_step=_next_step(status, code, retry_after), code=code)
        self.status = status
        self.detail = detail
        self.fields: Mapping[str, str] = fields or {}
        self.request_id = request_id
        self.retry_after = retry_after
        """Seconds to wait before asking again; set for every 429, otherwise as sent."""
        self.documented = documented
        """A problem document came with it; a 404 without one may mean that the route does not exist."""
        self.outcome_unknown = status >= 500


def problem_from(request: str, status: int, headers: Mapping[str, str], body: Any) -> ApiProblem:
    """The problem in an answer that is no 2xx: a problem document, an OAuth error, or any other body (section 1.7).

    ``body`` is the parsed JSON, or None where there was none.
    """
    told = body if isinstance(body, dict) else {}
    code = _text(told.get("code")) or _text(told.get("error")) or _FALLBACK_CODES.get(status, "http-error")
    detail = _text(told.get("detail")) or _text(told.get("error_description")) or _text(told.get("title"))
    raw = told.get("fields")
    fields = {_text(key): _text(value) or "is wrong" for key, value in raw.items()} if isinstance(raw, dict) else {}
    request_id = _text(told.get("requestId")) or _text(told.get("request_id")) or _text(headers.get("x-request-id"))
    wait = retry_after(headers)
    if wait is None and status == 429:
        wait = DEFAULT_WAIT
    return ApiProblem(
        request,
        status,
        code,
        detail=detail,
        fields=fields,
        request_id=request_id,
        retry_after=wait,
        documented=bool(_text(told.get("code"))),
    )


def bad_answer(name: str, code: str, cause: str, status: int = 0) -> BadAnswer:
    """``name`` is method and path, ``status`` that of the answer where it matters."""
    step = {
        "html": "Check the address, and whether a proxy or a network's sign-in page answers in place of the service",
        "too-large": "Ask for less (--limit), or check the address",
        "truncated": "Try again; read the present state before repeating a change",
    }.get(code, "Check the address; if it is right, report this to the operator of the service")
    failure = BadAnswer(f"The answer to {name} cannot be used", cause=cause, next_step=step, code=code)
    failure.status = status
    failure.outcome_unknown = not name.startswith("GET ")
    return failure


def redirected(name: str, url: str, location: str) -> Redirected:
    """The target is shown without query and user info, which may hold credentials."""
    target = _address(url, location) if location else "an address that it does not name"
    failure = Redirected(
        f"{name} was redirected to {target}",
        cause="a credential is never sent on to another address",
        next_step="If that address is right, name it as the endpoint and sign in there",
    )
    failure.target = target
    return failure


def _address(url: str, location: str) -> str:
    try:
        parts = urlsplit(urljoin(url, location))
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return clean(f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}")[:_SHOWN]


def tls_failure(endpoint: str, error: Any) -> TlsFailure:
    """``error`` is an ``ssl.SSLError``; the numbers are OpenSSL's verification results (x509_vfy.h)."""
    code, cause = {
        9: ("tls-not-yet-valid", "its certificate is not valid yet"),
        10: ("tls-expired", "its certificate has expired"),
        18: ("tls-unknown-authority", "its certificate is signed by itself"),
        19: ("tls-unknown-authority", "its certificate comes from an authority that is not trusted here"),
        20: ("tls-unknown-authority", "its certificate comes from an authority that is not trusted here"),
        21: ("tls-unknown-authority", "its certificate comes from an authority that is not trusted here"),
        62: ("tls-name", "its certificate is for another name"),
        64: ("tls-name", "its certificate is for another address"),
    }.get(getattr(error, "verify_code", 0), ("tls", clean(getattr(error, "reason", "") or str(error))))
    step = {
        "tls-unknown-authority": "Name the authority's certificate in SSL_CERT_FILE if you trust it",
        "tls-name": "Check the address; use the name that the certificate is for",
        "tls-expired": "Check this host's clock, and tell the operator of the service",
        "tls-not-yet-valid": "Check this host's clock",
    }.get(code, "Check that the address speaks TLS on that port")
    return TlsFailure(f"No secure connection to {endpoint}", cause=cause, next_step=step, code=code)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds from now, whether it was sent as a number or as a date; None where it is absent."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), 86_400))
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(text)
        since = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return min(max(0.0, (until - since).total_seconds()), 86_400.0)
    except (ValueError, TypeError):
        return None


def _text(value: object) -> str:
    return clean(value)[:_SHOWN] if isinstance(value, str) else ""


def _next_step(status: int, code: str, wait: float | None) -> str:
    if status == 429 or wait:
        return f"Try again in {wait or DEFAULT_WAIT:.0f} s"
    step = _STEPS.get(code)
    if step is not None:
        return step
    return _STATUS_STEPS.get(status) or (
        _STATUS_STEPS[500] if status >= 500 else "Report the request id if this is unexpected"
    )


_FALLBACK_CODES = {429: "rate-limited"}
_CAUSES = {
    401: "the credential is not accepted",
    403: "this credential may not do that",
    404: "it does not exist, or this credential may not see it",
    409: "it conflicts with the present state",
    412: "somebody else changed the record",
    428: "the request must name the version that it changes",
    429: "too many requests",
    500: "the server failed",
    502: "the server behind the address did not answer",
    503: "the server cannot answer now",
    504: "the server behind the address did not answer in time",
}
_STATUS_STEPS = {
    400: "This is a fault of the request; correct the input, or report the request id",
    401: "Sign in again with: expb-tui auth login",
    403: "Ask an owner or administrator for the right, or use another profile",
    404: "Check the id, the project and the profile",
    409: "Read the present state and decide again",
    412: "Read it again and repeat the change",
    413: "Send less; the limit is 1 MiB",
    422: "Correct the named fields and send again",
    428: "Read it again and repeat the change",
    500: "Try again later; if it stays, report the request id to the operator of the service",
    503: "The server cannot decide now; try again in a minute",
}
_STEPS = {
    "account-name-in-use": "Choose another name",
    "already-exists": "Choose another name, or use the one that exists",
    "concurrent-update": "Read it again and repeat the change",
    "idempotency-conflict": "The same key was used for something else; start the operation anew",
    "idempotency-in-progress": "The same request is still being worked on; wait a second and look again",
    "identity-inactive": "Activate the agent identity first",
    "account-inactive": "Ask the operator of the service about the account",
    "invalid-reference": "Check the ids that the request names",
    "last-owner": "Make somebody else an owner first",
    "lease-conflict": "The work is somebody else's now; read the package, and do not report a result",
    "lease-expired": "The lease is over; drop the work and request new work",
    "lease-limit": "The lease cannot be longer; finish and submit before its absolute end",
    "lease-token-required": "Adopt the package's saved answer, which holds the lease token",
    "limit-exceeded": "Finish or release what is held, or wait; queued work stays",
    "project-inactive": "Wait until the project is active again, or choose another",
    "role-not-authorized": "Ask a project administrator to grant the role to this agent",
    "task-closed": "The task is submitted or withdrawn; read the package",
    "invalid_client": "The server knows no such client id; set client_id in config.toml",
    "invalid_grant": "Sign in again with: expb-tui auth login",
    "unauthenticated": "Sign in again with: expb-tui auth login",
}
