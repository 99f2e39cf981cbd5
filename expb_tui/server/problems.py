"""Refusals, as problem documents (contract, section 1.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

TYPE_PREFIX = "urn:exp-bench:problem:"
_MAX_FIELDS = 64
_PLAIN_MESSAGES = {"missing": "is required", "extra_forbidden": "is not known here"}


class Problem(Exception):
    """Raise it to refuse: the transaction is rolled back. Return it instead to refuse *and* keep what was written.

    ``code`` is the stable word, ``fields`` maps an input path in envelope spelling to what is wrong there.
    ``shape=True`` marks an error in the form of the input, which carries no ``type``.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str = "",
        *,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        shape: bool = False,
    ) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.detail = detail
        self.fields = dict(fields or {})
        self.headers = dict(headers or {})
        self.shape = shape

    def document(self, instance: str, request_id: str) -> dict[str, Any]:
        """The JSON object to answer."""
        document: dict[str, Any] = {}
        if not self.shape:
            document["type"] = TYPE_PREFIX + self.code
        document["title"] = HTTPStatus(self.status).phrase
        document["status"] = self.status
        document["code"] = self.code
        if self.detail:
            document["detail"] = self.detail
        document["instance"] = instance
        document["requestId"] = request_id
        if self.fields:
            document["fields"] = self.fields
        return document


def not_found() -> Problem:
    """The same answer for what is not there and for what the caller may not know about."""
    return Problem(404, "not-found", "There is no such thing here, or it is not yours to see.")


def forbidden(detail: str = "Your role does not allow this.") -> Problem:
    return Problem(403, "forbidden", detail)


def invalid(fields: Mapping[str, str], detail: str = "The input is not valid.") -> Problem:
    """422 ``validation`` from the domain layer."""
    return Problem(422, "validation", detail, fields=fields)


def stale() -> Problem:
    return Problem(412, "precondition-failed", "Somebody else changed this record; read it again.")


def already_exists(detail: str) -> Problem:
    return Problem(409, "already-exists", detail)


def shape_problem(error: ValidationError, prefix: Iterable[str] = ()) -> Problem:
    """422 ``validation`` from a model: every path with its message, in the spelling of the envelope."""
    fields: dict[str, str] = {}
    for entry in error.errors(include_url=False, include_input=False)[:_MAX_FIELDS]:
        # pydantic marks the key of a map, not its value, by a part of its own.
        parts = [*prefix, *(str(part) for part in entry["loc"] if part != "[key]")]
        message = _PLAIN_MESSAGES.get(entry["type"], entry["msg"].removeprefix("Value error, "))
        if entry["type"] == "at_field":
            parts.append(entry["ctx"]["field"])
            message = entry["ctx"]["message"]
        fields.setdefault(".".join(parts) or "body", message)
    return Problem(422, "validation", "The input is not valid.", fields=fields, shape=True)
