"""One operation in one transaction: authentication, idempotency, the handler, and what it notes for the events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from expb_tui.server.bodies import invalid_json, read_body
from expb_tui.server.context import Answer, Call, Caller, Services
from expb_tui.server.idempotency import Ticket, close_record, drop_record, is_kept, open_record, ticket
from expb_tui.server.identity.authentication import Authenticated, authenticate, bearer, mark_seen
from expb_tui.server.problems import Problem, forbidden, not_found
from expb_tui.server.routing import JSON_TYPE, Operation, Who
from expb_tui.wire.problem import MEDIA_TYPE

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


async def perform(services: Services, incoming: Incoming) -> Outgoing:
    """Run an operation in the right thread. Raises ``Problem`` for a caller who is not known, and database errors."""
    database = services.database
    if incoming.operation.writes:
        return await database.run_write(perform_write, services, incoming)
    answer, seen = await database.run_read(_read, services, incoming)
    if seen is not None:
        # On PostgreSQL not behind the writers, who may be waiting for a lock.
        run = database.run_read if database.postgres else database.run_write
        await run(_mark_seen, services, seen)
    return answer


async def authenticate_only(services: Services, operation: Operation, header: str | None) -> Caller:
    """The caller of a raw operation. Raises 401 and 403."""

    def read() -> Caller:
        with services.database.read() as conn:
            return authenticate(services.database, conn, bearer(header)).caller

    caller = await services.database.run_read(read)
    _check_who(operation, caller)
    return caller


def perform_write(services: Services, incoming: Incoming) -> Outgoing:
    """As ``perform``, for an operation that writes; blocks, and is for the thread that may."""
    for left in reversed(range(_TRIES)):
        try:
            return _write_once(services, incoming)
        except DBAPIError as error:
            if not left or getattr(error.orig, "sqlstate", None) not in _RETRY_STATES:
                raise
    raise AssertionError("the last try returns or raises")


def _read(services: Services, incoming: Incoming) -> tuple[Outgoing, Authenticated | None]:
    operation, database = incoming.operation, services.database
    who = None
    try:
        with database.read() as conn:
            if operation.who is not Who.ANYONE:
                who = authenticate(database, conn, bearer(incoming.headers.get("authorization")))
                _check_who(operation, who.caller)
            answer = _outgoing(operation.handler(_call(conn, services, incoming, who)))
    except Problem as problem:
        if who is None:
            raise
        answer = _refusal(problem, incoming)
    return answer, who if who is not None and who.seen_due else None


def _write_once(services: Services, incoming: Incoming) -> Outgoing:
    database, operation = services.database, incoming.operation
    who = opened = None
    try:
        with database.write(incoming.request_id) as conn:
            who = authenticate(database, conn, bearer(incoming.headers.get("authorization")))
            _check_who(operation, who.caller)
            call = _call(conn, services, incoming, who)
            if operation.idempotent:
                use = _ticket(services, incoming, call)
                stored = open_record(database, conn, use)
                if stored is not None:
                    if stored.body is None and operation.replay is not None:
                        return _outgoing(operation.replay(call, stored.status))
                    return Outgoing(stored.status, stored.headers, stored.body or b"", _media(stored.status))
                opened = use
            else:
                _check_precondition(incoming)
            answer = _handle(operation, call, incoming)
            if opened is not None:
                _settle(conn, opened, answer, operation)
            mark_seen(conn, who)
            return _outgoing(answer)
    except Problem as problem:
        if who is None:
            raise
        if opened is not None and is_kept(problem.status):
            return _store_refusal(services, incoming, opened, problem, who)
        if who.seen_due:
            _mark_seen(services, who)
        return _refusal(problem, incoming)


def _call(conn: Connection, services: Services, incoming: Incoming, who: Authenticated | None) -> Call:
    return Call(
        conn,
        services,
        caller=None if who is None else who.caller,
        path=incoming.params,
        query=incoming.query,
        headers=incoming.headers,
        request_id=incoming.request_id,
        now=services.database.clock(conn) if who is None else who.now,
    )


def _settle(conn: Connection, use: Ticket, answer: Answer, operation: Operation) -> None:
    if is_kept(answer.status):
        keep_body = operation.replay is None or answer.status >= 300
        close_record(conn, use, answer.status, answer.headers, answer.body, keep_body=keep_body)
    else:
        drop_record(conn, use)


def _mark_seen(services: Services, who: Authenticated) -> None:
    database = services.database
    with database.read() if database.postgres else database.write() as conn:
        mark_seen(conn, who, wait=not database.postgres)


def _check_who(operation: Operation, caller: Caller) -> None:
    if caller.is_system:
        if not operation.who & Who.SYSTEM:
            raise not_found()
        return
    if operation.who is Who.SYSTEM:
        raise forbidden("This needs a system session.")
    if caller.type == "agent" and not operation.who & Who.AGENT:
        raise forbidden("Agents may not do this; it needs a user's session.")
    if caller.type == "user" and not operation.who & Who.USER:
        raise forbidden("Only an agent identity may do this.")


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


def _store_refusal(
    services: Services, incoming: Incoming, use: Ticket, problem: Problem, who: Authenticated
) -> Outgoing:
    """Keep a 4xx after its transaction was rolled back; a duplicate that got in between has the say."""
    with services.database.write() as conn:
        stored = open_record(services.database, conn, use)
        if stored is None:
            document = problem.document(incoming.path, incoming.request_id)
            close_record(conn, use, problem.status, problem.headers, document, keep_body=True)
        mark_seen(conn, who)
    if stored is not None and stored.body is not None:
        return Outgoing(stored.status, stored.headers, stored.body, _media(stored.status))
    return _refusal(problem, incoming)


def _ticket(services: Services, incoming: Incoming, call: Call) -> Ticket:
    lifetimes = services.settings.lifetimes
    keep = lifetimes.renewal_record if incoming.operation.replay is not None else lifetimes.idempotency_record
    try:
        return ticket(
            incoming.headers.get("idempotency-key"), call.me, "POST", incoming.path, incoming.body, call.now, keep
        )
    except ValueError as error:
        raise invalid_json() from error


def _refusal(problem: Problem, incoming: Incoming) -> Outgoing:
    document = problem.document(incoming.path, incoming.request_id)
    return Outgoing(problem.status, problem.headers, to_json(document), MEDIA_TYPE)


def _media(status: int) -> str:
    return JSON_TYPE if status < 400 else MEDIA_TYPE


def _outgoing(answer: Answer) -> Outgoing:
    return Outgoing(answer.status, answer.headers, to_json(answer.body), _media(answer.status))
