"""What a request can end in, in words for a person. Loads nothing of the network: faces may catch these cheaply."""

from __future__ import annotations

from collections.abc import Mapping

from expb_tui.core.errors import ExpbError


class RequestFailure(ExpbError):
    """Base of all of them. ``outcome_unknown``: the server may have carried the request out all the same."""

    outcome_unknown = False


class Unreachable(RequestFailure):
    """No answer: ``code`` is dns, refused, timeout or network. A request that was never sent has no unknown outcome."""

    code = "unreachable"


class TlsFailure(RequestFailure):
    """The server's certificate is not trusted: ``code`` is tls-expired, tls-name, tls-unknown-authority or tls."""

    code = "tls"


class Redirected(RequestFailure):
    """A redirect, which is never followed with a credential; ``target`` is the cleaned address."""

    code = "redirected"
    target = ""


class BadAnswer(RequestFailure):
    """An answer that cannot be used: ``code`` is html, truncated, too-large, not-json or unexpected-shape."""

    code = "bad-answer"


class ApiProblem(RequestFailure):
    """The server answered and refused. ``code`` is the server's own word, unknown ones included."""

    status: int
    detail: str
    fields: Mapping[str, str]
    request_id: str
    retry_after: float | None
    """Seconds to wait before asking again; set for every 429 (60 where the server names none), else as sent."""
