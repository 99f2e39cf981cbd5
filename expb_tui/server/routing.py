"""The registry of operations: one declaration drives routing, validation, idempotency, If-Match and the document.

How an operation is declared, in a module that ``app.py`` lists::

    operations = Operations("work")

    @operations.post(
        "/v1/projects/{project}/work-packages", "requestWorkPackage", "Request a work package",
        who=Who.AGENT, body=WorkRequest, answers={201: WorkPackageResult, 200: WorkPackageResult},
    )
    def request_package(call: Call, body: WorkRequest) -> Answer:
        project = call.fetch(PROJECTS, call.path["project"], lock=True)
        now = call.read_clock()
        row = call.insert(PACKAGES, account_id=…, project_id=project.id, …)
        return created(PACKAGES, row, leaseToken=token)

The handler runs in a worker thread inside one transaction, after authentication and the idempotency row. It may run
twice (a deadlock on PostgreSQL is tried again), so it touches nothing but its connection. To refuse, raise ``Problem``
(everything is rolled back) or return it (what was written stays). GET handlers get a reading transaction. Path
parameters are uids; anything else there answers 404 before the handler.

PATCH takes ``body=Patch(edit_body(KIND, SpecModel), verbs)``; the handler gets an ``Edit`` or a ``Command`` and calls
``call.match(row)`` once it knows that the caller may see the row. Lists add ``query=LIST_QUERY`` and answer
``lists.page(call, KIND, where…)``. ``replay`` is for POSTs whose answers are not worth keeping (renewals): the record
lives an hour without a body, and a repeat calls ``replay(call, stored_status)`` instead of the handler.

``raw`` operations (pages, OAuth, event stream) are coroutines that get an ``Exchange`` and answer a ``Response``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Flag
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from expb_tui.server.problems import Problem
from expb_tui.server.resources import Patch
from expb_tui.server.rfc3339 import parse_instant
from expb_tui.server.store.columns import is_storable

JSON_TYPE = "application/json"
MERGE_PATCH_TYPE = "application/merge-patch+json"
FORM_TYPE = "application/x-www-form-urlencoded"
HTML_TYPE = "text/html"
EVENT_STREAM_TYPE = "text/event-stream"


class Who(Flag):
    """Who may call: others get 401 (no bearer) or 403 (the wrong kind of bearer).

    USER is the session of a user in an account. A system session gets 404 where SYSTEM is not named.
    """

    ANYONE = 0
    USER = 1
    AGENT = 2
    EITHER = 3
    SYSTEM = 4


@dataclass(frozen=True, slots=True)
class Param:
    """A query parameter or a header, for parsing and for the document."""

    name: str
    type: Literal["string", "integer", "boolean", "instant"] = "string"
    description: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False

    def parse(self, text: str) -> str | int | bool | datetime:
        """The value of a query parameter. Raises ``ValueError`` with words for the ``fields`` of a problem."""
        if self.type == "integer":
            if not text.isascii() or not text.isdigit() or len(text) > 9:
                raise ValueError("must be a whole number of at least 0")
            return int(text)
        if self.type == "boolean":
            if text not in ("true", "false"):
                raise ValueError("must be true or false")
            return text == "true"
        if self.type == "instant":
            return parse_instant(text)
        if len(text) > 4096 or not is_storable(text):
            raise ValueError("is too long or holds a character that cannot be stored")
        if self.choices and text not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return text


LIST_QUERY = (
    Param("limit", "integer", "Items per page; 0 means 100, more than 1024 is reduced."),
    Param("cursor", description="`next` of the previous page."),
    Param("labels", description="Selector over labels, Kubernetes grammar."),
    Param("fields", description="Selector over canonical paths such as `status.phase`, same grammar."),
    Param("name", description="Case-insensitive part of the name; `%` and `_` are wildcards."),
    Param("from", "instant", "Created at or after."),
    Param("till", "instant", "Created before."),
)
SEARCH_QUERY = (*LIST_QUERY, Param("q", description="Free search over name and description."))
CURSOR_QUERY = LIST_QUERY[:2]
"""For pages of query DTOs, which have no labels."""

REFUSED_QUERY = frozenset({"offset", "page", "pageSize"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path."""

    method: str
    path: str
    id: str
    summary: str
    tag: str
    handler: Callable[..., Any]
    who: Who
    body: type[BaseModel] | Patch | None = None
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    answers: Mapping[int, type[BaseModel] | None] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    raw: bool = False
    media: str = JSON_TYPE
    """What it answers; what it takes is JSON, or a form for raw POSTs."""
    replay: Callable[..., Any] | None = None
    failure: Callable[[int], Any] | None = None
    """For raw operations whose failures are not problem documents: from 500 or 503 to a response."""

    @property
    def writes(self) -> bool:
        return self.method in ("POST", "PATCH")

    @property
    def idempotent(self) -> bool:
        """Whether an Idempotency-Key is required."""
        return self.method == "POST" and not self.raw


HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


class Operations:
    """The operations of one module; ``tag`` groups them in the document."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.all: list[Operation] = []

    def add(self, method: str, path: str, id: str, summary: str, **options: Any) -> Callable[[HandlerT], HandlerT]:  # noqa: A002
        """Declare an operation; ``options`` are the fields of ``Operation``."""

        def register(handler: HandlerT) -> HandlerT:
            self.all.append(Operation(method, path, id, summary, self.tag, handler, **options))
            return handler

        return register

    def get(self, path: str, id: str, summary: str, **options: Any) -> Callable[[HandlerT], HandlerT]:  # noqa: A002
        return self.add("GET", path, id, summary, **options)

    def post(self, path: str, id: str, summary: str, **options: Any) -> Callable[[HandlerT], HandlerT]:  # noqa: A002
        return self.add("POST", path, id, summary, **options)

    def patch(self, path: str, id: str, summary: str, **options: Any) -> Callable[[HandlerT], HandlerT]:  # noqa: A002
        return self.add("PATCH", path, id, summary, **options)


def parse_query(params: Iterable[Param], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The declared query parameters that were sent. Raises 400 ``invalid-query`` or ``offset-unsupported``."""
    known = {param.name: param for param in params}
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, text in pairs:
        if name in REFUSED_QUERY:
            raise Problem(
                400, "offset-unsupported", "Pages are read by cursor.", fields={name: "is not supported"}, shape=True
            )
        param = known.get(name)
        if param is None:
            wrong[name] = "is not known here"
        elif name in values:
            wrong[name] = "is given twice"
        else:
            try:
                values[name] = param.parse(text)
            except ValueError as error:
                wrong[name] = str(error)
    wrong.update({param.name: "is required" for param in known.values() if param.required and param.name not in values})
    if wrong:
        raise Problem(400, "invalid-query", "The query is not valid.", fields=wrong, shape=True)
    return values
