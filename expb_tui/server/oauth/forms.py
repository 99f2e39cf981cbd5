"""Form bodies and errors of the OAuth endpoints (contract, sections 2.2 and 2.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse

from expb_tui.server.bodies import read_bytes
from expb_tui.server.context import Exchange
from expb_tui.server.gate import NO_STORE
from expb_tui.server.problems import Problem
from expb_tui.server.routing import FORM_TYPE
from expb_tui.server.store.columns import is_storable

_MOST_FIELDS = 32


@dataclass(frozen=True, slots=True)
class Refusal:
    """A protocol error. Returned, not raised, so that what was written on the way stays."""

    error: str
    description: str
    status: int = 400
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> JSONResponse:
        body = {"error": self.error, "error_description": self.description}
        return JSONResponse(body, self.status, {**NO_STORE, **self.headers})


class FormError(Exception):
    """The form cannot be read; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


def invalid_request(description: str, status: int = 400) -> Refusal:
    return Refusal("invalid_request", description, status)


async def read_form(exchange: Exchange) -> dict[str, str]:
    """The fields of a form body, each at most once. Raises ``FormError``."""
    request: Request = exchange.request
    media = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if media != FORM_TYPE:
        raise FormError(invalid_request(f"send {FORM_TYPE}"))
    try:
        limits = exchange.services.settings.limits
        body = await read_bytes(request.receive, request.headers, limits.form, limits.body_seconds)
    except Problem as problem:
        raise FormError(Refusal("invalid_request", problem.detail, problem.status, problem.headers)) from problem
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise FormError(invalid_request("the form cannot be decoded")) from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise FormError(invalid_request("a field is given twice"))
    if not all(is_storable(text) for text in fields.values()):
        raise FormError(invalid_request("a field holds a character that cannot be stored"))
    return fields


def failure(status: int) -> JSONResponse:
    """What a JSON endpoint of OAuth answers when the server itself fails (contract, section 2.2)."""
    return Refusal("server_error", "the server cannot answer now; try again", status).response()


def success(body: dict[str, Any]) -> JSONResponse:
    return JSONResponse(body, 200, NO_STORE)
