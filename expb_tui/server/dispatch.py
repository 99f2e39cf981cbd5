"""From an HTTP request to an operation and back. One instance of ``Endpoint`` stands behind each path.

What touches the database runs in a worker thread in one transaction: see ``transaction``.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic_core import to_json
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from expb_tui.server.bodies import read_bytes
from expb_tui.server.context import Exchange, Services
from expb_tui.server.problems import Problem, not_found
from expb_tui.server.routing import JSON_TYPE, MERGE_PATCH_TYPE, Operation, Who, parse_query
from expb_tui.server.transaction import Incoming, Outgoing, authenticate_only, perform
from expb_tui.wire.problem import MEDIA_TYPE

log = logging.getLogger("expb_tui.server")

_UID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Endpoint:
    """The ASGI application of one path, for all its methods."""

    def __init__(self, services: Services, operations: Iterable[Operation]) -> None:
        self._services = services
        self._by_method = {operation.method: operation for operation in operations}
        self._allow = ", ".join(sorted(self._by_method))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        facts: Facts = scope["expb.facts"]
        operation = self._by_method.get(scope["method"])
        if operation is None:
            problem = Problem(405, "method-not-allowed", "This path has other methods.", headers={"Allow": self._allow})
            await send_problem(send, problem, scope["path"], facts.request_id)
        elif operation.raw:
            await self._raw(operation, facts, scope, receive, send)
        else:
            await self._transact(operation, facts, scope, receive, send)

    async def _transact(self, operation: Operation, facts: Facts, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        try:
            headers = _headers(scope)
            _check_accept(headers)
            query = _query(operation, scope)
            body = b""
            if operation.body is not None:
                _check_media(operation, headers)
                limits = self._services.settings.limits
                body = await read_bytes(receive, headers, limits.body, limits.body_seconds)
            params = _uids(scope["path_params"])
            incoming = Incoming(operation, path, params, query, headers, body, facts.request_id)
            answer = await perform(self._services, incoming)
        except Problem as problem:
            await send_problem(send, problem, path, facts.request_id)
        except Exception as error:  # the last door: whatever it is, the caller learns nothing of it
            await send_problem(send, _failed(operation, facts, error), path, facts.request_id)
        else:
            await _send(send, answer)

    async def _raw(self, operation: Operation, facts: Facts, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = None
            query: Mapping[str, Any] = {}
            if operation.who is not Who.ANYONE:
                query = _query(operation, scope)
                header = _headers(scope).get("authorization")
                caller = await authenticate_only(self._services, operation, header)
            exchange = Exchange(
                self._services, Request(scope, receive), caller, query, facts.request_id, facts.client_address
            )
            response = await operation.handler(exchange)
        except Problem as problem:
            await send_problem(send, problem, scope["path"], facts.request_id)
            return
        except Exception as error:  # as above
            failed = _failed(operation, facts, error)
            if operation.failure is None:
                await send_problem(send, failed, scope["path"], facts.request_id)
                return
            response = operation.failure(failed.status)
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the gate found out about a request before it was routed."""

    request_id: str
    client_address: str


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _query(operation: Operation, scope: Scope) -> Mapping[str, Any]:
    raw: bytes = scope["query_string"]
    if not raw:
        return parse_query(operation.query, ()) if operation.query else {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError as error:
        raise Problem(400, "invalid-query", "The query cannot be decoded.", shape=True) from error
    return parse_query(operation.query, pairs)


def _uids(params: Mapping[str, str]) -> dict[str, str]:
    for value in params.values():
        if _UID.fullmatch(value) is None:
            raise not_found()
    return {name: value.lower() for name, value in params.items()}


def _check_media(operation: Operation, headers: Mapping[str, str]) -> None:
    media = headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if media == JSON_TYPE or (media == MERGE_PATCH_TYPE and operation.method == "PATCH"):
        return
    raise Problem(415, "unsupported-media-type", f"Send {JSON_TYPE}.", shape=True)


def _check_accept(headers: Mapping[str, str]) -> None:
    accept = headers.get("accept")
    if not accept:
        return
    for part in accept.split(","):
        media, _, parameters = part.partition(";")
        if media.strip().lower() in ("*/*", "application/*", JSON_TYPE, MEDIA_TYPE):
            quality = parameters.replace(" ", "")
            if not re.search(r"(^|;)q=0(\.0*)?(;|$)", quality):
                return
    raise Problem(406, "not-acceptable", f"Answers are {JSON_TYPE}.", shape=True)


def _failed(operation: Operation, facts: Facts, error: Exception) -> Problem:
    """503 where the database is away, busy or locked, else 500; logged without its words, which may quote a secret."""
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeout)):
        cause = getattr(error, "orig", error)
        state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
        log.error(
            "request %s, %s: the database said %s (%s)", facts.request_id, operation.id, type(cause).__name__, state
        )
        return Problem(503, "unavailable", "The server cannot decide now; try again.", headers={"Retry-After": "1"})
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("request %s, %s: %s\n%s", facts.request_id, operation.id, type(error).__name__, frames)
    return Problem(500, "internal-error", "Something went wrong on the server.")


async def _send(send: Send, answer: Outgoing) -> None:
    headers = [
        (b"content-type", answer.media.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def send_problem(send: Send, problem: Problem, path: str, request_id: str) -> None:
    """Answer a problem document."""
    body = to_json(problem.document(path, request_id))
    await _send(send, Outgoing(problem.status, problem.headers, body, MEDIA_TYPE))
