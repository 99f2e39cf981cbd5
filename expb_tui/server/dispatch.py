"""From an HTTP request to an operation and back: bodies, authentication, the transaction, problems.

One instance of ``Endpoint`` stands behind each path. Everything that touches the database runs in a worker thread in
one transaction: authentication, idempotency, the handler, and what it notes for the event stream.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from expb_tui.server.context import Answer, Call, Exchange, Services
from expb_tui.server.idempotency import NEVER_STORED, Ticket, close_record, open_record, ticket
from expb_tui.server.identity.authentication import authenticate, bearer, mark_seen
from expb_tui.server.problems import Problem, forbidden, not_found, shape_problem
from expb_tui.server.resources import Command, Patch
from expb_tui.server.routing import JSON_TYPE, MERGE_PATCH_TYPE, Operation, Who, parse_query
from expb_tui.wire.problem import MEDIA_TYPE

log = logging.getLogger("expb_tui.server")

_UID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_TRIES = 3
_RETRY_STATES = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization failure and deadlock: nothing happened, so the transaction is run again."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request, read whole, before anything is known about its caller."""

    operation: Operation
    path: str
    params: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An answer, ready to send."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    media: str = JSON_TYPE


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
                body = await read_bytes(receive, headers, self._services.settings.limits.body)
            params = _uids(scope["path_params"])
            incoming = Incoming(operation, path, params, query, headers, body, facts.request_id)
            answer = await perform(self._services, incoming)
        except Problem as problem:
            await send_problem(send, problem, path, facts.request_id)
            return
        except PoolTimeout:
            await send_problem(send, _unavailable(), path, facts.request_id)
            return
        except DBAPIError as error:
            _log_database(operation, error)
            await send_problem(send, _unavailable(), path, facts.request_id)
            return
        except Exception as error:  # the last door: whatever it is, the caller learns nothing of it
            log_failure(operation, facts.request_id, error)
            await send_problem(send, internal_error(), path, facts.request_id)
            return
        await _send(send, answer)

    async def _raw(self, operation: Operation, facts: Facts, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = None
            query: Mapping[str, Any] = {}
            if operation.who is not Who.ANYONE:
                query = _query(operation, scope)
                token = bearer(_headers(scope).get("authorization"))
                caller = await self._services.database.run_read(_authenticate_only, self._services, operation, token)
            exchange = Exchange(
                self._services, Request(scope, receive), caller, query, facts.request_id, facts.client_address
            )
            response = await operation.handler(exchange)
        except Problem as problem:
            await send_problem(send, problem, scope["path"], facts.request_id)
            return
        except Exception as error:
            log_failure(operation, facts.request_id, error)
            await send_problem(send, internal_error(), scope["path"], facts.request_id)
            return
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the gate found out about a request before it was routed."""

    request_id: str
    client_address: str


async def perform(services: Services, incoming: Incoming) -> Outgoing:
    """Run an operation in the right thread. Raises ``Problem``."""
    database = services.database
    if incoming.operation.writes:
        return await database.run_write(_write, services, incoming)
    answer, seen = await database.run_read(_read, services, incoming)
    if seen is not None:
        await database.run_write(_touch, services, seen)
    return answer


def _read(services: Services, incoming: Incoming) -> tuple[Outgoing, Any]:
    operation = incoming.operation
    with services.database.read() as conn:
        if operation.who is Who.ANYONE:
            who, caller, now = None, None, services.database.clock(conn)
        else:
            who = authenticate(services.database, conn, bearer(incoming.headers.get("authorization")))
            caller, now = who.caller, who.now
            _check_who(operation, caller.type)
        call = Call(
            conn,
            services,
            caller=caller,
            path=incoming.params,
            query=incoming.query,
            headers=incoming.headers,
            request_id=incoming.request_id,
            now=now,
        )
        answer = operation.handler(call)
        seen = who if who is not None and who.seen_due else None
        return _outgoing(answer), seen


def _touch(services: Services, who: Any) -> None:
    with services.database.write() as conn:
        mark_seen(conn, who)


def _write(services: Services, incoming: Incoming) -> Outgoing:
    for left in reversed(range(_TRIES)):
        try:
            return _write_once(services, incoming)
        except DBAPIError as error:
            if not left or getattr(error.orig, "sqlstate", None) not in _RETRY_STATES:
                raise
    raise AssertionError("the last try returns or raises")


def _write_once(services: Services, incoming: Incoming) -> Outgoing:
    database, operation = services.database, incoming.operation
    use: Ticket | None = None
    who = None
    try:
        with database.write(incoming.request_id) as conn:
            who = authenticate(database, conn, bearer(incoming.headers.get("authorization")))
            _check_who(operation, who.caller.type)
            call = Call(
                conn,
                services,
                caller=who.caller,
                path=incoming.params,
                query=incoming.query,
                headers=incoming.headers,
                request_id=incoming.request_id,
                now=who.now,
            )
            if operation.idempotent:
                use = _ticket(services, incoming, call)
                stored = open_record(database, conn, use)
                if stored is not None:
                    if stored.body is None and operation.replay is not None:
                        return _outgoing(operation.replay(call, stored.status))
                    return Outgoing(stored.status, stored.headers, stored.body or b"", _media(stored.status))
            else:
                _check_precondition(incoming)
            answer = _handle(operation, call, incoming)
            if use is not None:
                keep = operation.replay is None or answer.status >= 300
                close_record(conn, use, answer.status, answer.headers, answer.body, keep_body=keep)
            mark_seen(conn, who)
            return _outgoing(answer)
    except Problem as problem:
        if use is None or who is None or problem.status in NEVER_STORED or problem.status >= 500:
            raise
        if problem.code in ("idempotency-conflict", "idempotency-in-progress"):
            raise
        return _store_refusal(services, incoming, use, problem, who)


def _check_precondition(incoming: Incoming) -> None:
    if "if-match" not in incoming.headers:
        raise Problem(428, "precondition-required", "Send If-Match with the version that you have read.")


def _handle(operation: Operation, call: Call, incoming: Incoming) -> Answer:
    if operation.body is None:
        answer = operation.handler(call)
    else:
        answer = operation.handler(call, read_body(operation.body, incoming.body))
    if isinstance(answer, Problem):
        document = answer.document(incoming.path, incoming.request_id)
        return Answer(document, answer.status, dict(answer.headers))
    if not isinstance(answer, Answer):
        raise TypeError(f"{operation.id} answered {type(answer).__name__}")
    return answer


def _store_refusal(services: Services, incoming: Incoming, use: Ticket, problem: Problem, who: Any) -> Outgoing:
    """Keep a 4xx after its transaction was rolled back; a duplicate that got in between has the say."""
    document = problem.document(incoming.path, incoming.request_id)
    with services.database.write() as conn:
        stored = open_record(services.database, conn, use)
        if stored is None:
            close_record(conn, use, problem.status, problem.headers, document, keep_body=True)
        mark_seen(conn, who)
    if stored is not None and stored.body is not None:
        return Outgoing(stored.status, stored.headers, stored.body, _media(stored.status))
    return Outgoing(problem.status, problem.headers, to_json(document), MEDIA_TYPE)


def _ticket(services: Services, incoming: Incoming, call: Call) -> Ticket:
    lifetimes = services.settings.lifetimes
    keep = lifetimes.renewal_record if incoming.operation.replay is not None else lifetimes.idempotency_record
    try:
        return ticket(
            incoming.headers.get("idempotency-key"), call.me, "POST", incoming.path, incoming.body, call.now, keep
        )
    except ValueError as error:
        raise _invalid_json() from error


def read_body(body: type[BaseModel] | Patch, raw: bytes) -> Any:
    """The validated body: a model, an ``Edit`` or a ``Command``. Raises 400 ``invalid-json`` or 422 ``validation``."""
    if isinstance(body, Patch):
        return _read_patch(body, raw)
    value = _json_object(raw)
    del value
    return _validated(body, raw)


def _read_patch(patch: Patch, raw: bytes) -> Any:
    value = _json_object(raw)
    if "operation" not in value:
        if patch.edit is None:
            raise Problem(422, "validation", "Send a command.", fields={"operation": "is required"}, shape=True)
        return _validated(patch.edit, raw)
    extra = {key: "is not known here" for key in value if key != "operation"}
    if extra:
        raise Problem(422, "validation", "A command has one key.", fields=extra, shape=True)
    verb = value["operation"]
    if not isinstance(verb, str) or verb not in patch.verbs:
        known = ", ".join(patch.verbs) or "none"
        raise Problem(
            422, "validation", "Unknown command.", fields={"operation": f"must be one of: {known}"}, shape=True
        )
    return Command(verb, patch.verbs[verb])


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise _invalid_json() from error
    if not isinstance(value, dict):
        raise Problem(
            422, "validation", "The body must be an object.", fields={"body": "must be an object"}, shape=True
        )
    if b"\\u0000" in raw and (place := _nul_at(value, "body")) is not None:
        raise Problem(
            422, "validation", "NUL characters are not kept.", fields={place: "holds a NUL character"}, shape=True
        )
    return value


def _nul_at(value: Any, path: str) -> str | None:
    """Where the first NUL character is; no database keeps one."""
    if isinstance(value, str):
        return path if "\0" in value else None
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        if any("\0" in key for key in value):
            return path
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        found = _nul_at(part, str(key) if path == "body" else f"{path}.{key}")
        if found is not None:
            return found
    return None


def _validated(model: type[BaseModel], raw: bytes) -> BaseModel:
    try:
        return model.model_validate_json(raw, strict=True, extra="forbid")
    except ValidationError as error:
        raise shape_problem(error) from None


async def read_bytes(receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
    """The request body. Raises 413 as soon as it is known to be too long."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise Problem(413, "body-too-large", f"A body may have {limit} bytes.", shape=True)
    body = b""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "invalid-json", "The request ended before its body.", shape=True)
        chunk: bytes = message.get("body", b"")
        body += chunk
        if len(body) > limit:
            raise Problem(413, "body-too-large", f"A body may have {limit} bytes.", shape=True)
        if not message.get("more_body", False):
            return body


def _authenticate_only(services: Services, operation: Operation, token: str) -> Any:
    with services.database.read() as conn:
        caller = authenticate(services.database, conn, token).caller
    _check_who(operation, caller.type)
    return caller


def _check_who(operation: Operation, kind: str) -> None:
    if kind == "agent" and not operation.who & Who.AGENT:
        raise forbidden("Agents may not do this; it needs a user's session.")
    if kind == "user" and not operation.who & Who.USER:
        raise forbidden("Only an agent identity may do this.")


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


def _invalid_json() -> Problem:
    return Problem(400, "invalid-json", "The body is not valid JSON.", fields={"body": "is not valid JSON"}, shape=True)


def _unavailable() -> Problem:
    return Problem(503, "unavailable", "The server cannot decide now; try again.", headers={"Retry-After": "1"})


def internal_error() -> Problem:
    return Problem(500, "internal-error", "Something went wrong on the server.")


def _media(status: int) -> str:
    return JSON_TYPE if status < 400 else MEDIA_TYPE


def _outgoing(answer: Answer) -> Outgoing:
    return Outgoing(answer.status, answer.headers, to_json(answer.body), _media(answer.status))


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


def log_failure(operation: Operation, request_id: str, error: BaseException) -> None:
    """Where it failed and what kind of error, to standard error: never its message, which may quote a secret."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("request %s, %s %s: %s\n%s", request_id, operation.method, operation.id, type(error).__name__, frames)


def _log_database(operation: Operation, error: DBAPIError) -> None:
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    log.error("%s %s: the database said %s (%s)", operation.method, operation.id, type(error.orig).__name__, state)
