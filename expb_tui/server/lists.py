"""Pages: filters, selectors, keyset cursors (contract, section 1.8)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from expb_tui.server.context import Answer, Call
from expb_tui.server.problems import Problem
from expb_tui.server.resources import Kind, RowOf, envelope
from expb_tui.server.rfc3339 import parse_instant
from expb_tui.server.selectors import field_conditions, label_conditions
from expb_tui.server.store.columns import is_storable
from expb_tui.wire.base import instant_text

DEFAULT_LIMIT = 100
LARGEST_LIMIT = 1024
LARGEST_PAGE = 8 * 1024 * 1024
"""Bytes after which a page takes no further item."""
_NEWEST_FIRST = "newest"


def page(
    call: Call,
    kind: Kind,
    *where: ColumnElement[bool],
    show: Callable[[RowOf], Mapping[str, Any]] | None = None,
    search: Sequence[ColumnElement[Any]] = (),
) -> Answer:
    """One page of a kind, newest first, of the rows for which ``where`` holds and that the query selects.

    ``show`` replaces the envelope; ``search`` are the columns that ``q`` looks into.
    """
    query = call.query
    columns = kind.table.c
    conditions = [*where, *_filters(kind, query, search)]
    limit = page_limit(query)
    statement = kind.select.where(*conditions)
    order = f"{kind.name}/{_NEWEST_FIRST}"
    if "cursor" in query:
        created_text, uid = _read_cursor(query["cursor"], order, 2)
        created = _cursor_instant(created_text)
        statement = statement.where(
            or_(columns.created_at < created, and_(columns.created_at == created, columns.id < uid))
        )
    statement = statement.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit + 1)
    items, last, more = _fill(call, statement, limit, show or (lambda row: envelope(kind, row)))
    body: dict[str, Any] = {"items": items, "limit": limit}
    if more and last is not None:
        body["next"] = _write_cursor(order, [instant_text(last.created_at), last.id])
    if more or "cursor" in query:
        counted = kind.select.where(*conditions).order_by(None).subquery()
        body["total"] = call.conn.execute(select(func.count()).select_from(counted)).scalar_one()
    else:
        body["total"] = len(items)
    return Answer(body)


def _fill(
    call: Call, statement: Select[Any], limit: int, show: Callable[[RowOf], Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], RowOf | None, bool]:
    """The items of a page, the last row in it, and whether there are more.

    A page ends early where it grows large: clients read no more than 32 MiB (contract, section 1.9).
    """
    items: list[Mapping[str, Any]] = []
    last, size = None, 0
    # Rows come as they are taken, not all into memory first.
    result = call.conn.execute(statement, execution_options={"stream_results": True})
    for row in result:
        if len(items) == limit or size > LARGEST_PAGE:
            result.close()
            return items, last, True
        items.append(show(row))
        size += len(to_json(items[-1]))
        last = row
    return items, last, False


def page_of(
    call: Call, items: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], Sequence[str]], order: str
) -> Answer:
    """One page of a few computed items, which come sorted by ``key`` (texts); ``order`` names that order."""
    limit = page_limit(call.query)
    rest = list(items)
    if "cursor" in call.query:
        width = len(key(items[0])) if items else None
        after = _read_cursor(call.query["cursor"], order, width)
        rest = [item for item in items if list(key(item)) > after]
    body: dict[str, Any] = {"items": rest[:limit], "limit": limit, "total": len(items)}
    if len(rest) > limit:
        body["next"] = _write_cursor(order, list(key(rest[limit - 1])))
    return Answer(body)


def page_limit(query: Mapping[str, Any]) -> int:
    """Items per page: 0 means the default, too many are clamped."""
    return min(query.get("limit", 0) or DEFAULT_LIMIT, LARGEST_LIMIT)


def _filters(kind: Kind, query: Mapping[str, Any], search: Sequence[ColumnElement[Any]]) -> list[ColumnElement[bool]]:
    columns = kind.table.c
    conditions: list[ColumnElement[bool]] = []
    if "labels" in query:
        conditions += label_conditions(query["labels"], columns.labels)
    if "fields" in query:
        conditions += field_conditions(query["fields"], kind.selectable)
    if query.get("name"):
        # Wildcards are not escaped, as upstream (contract, section 1.8).
        conditions.append(columns.name_key.like(f"%{query['name'].casefold()}%"))
    start, end = query.get("from"), query.get("till")
    if start is not None and end is not None and start > end:
        raise Problem(400, "invalid-time-range", "`from` is later than `till`.", fields={"till": "is before from"})
    if start is not None:
        conditions.append(columns.created_at >= start)
    if end is not None:
        conditions.append(columns.created_at < end)
    if query.get("q") and search:
        conditions.append(or_(*(func.lower(column).contains(query["q"].lower(), autoescape=True) for column in search)))
    return conditions


def _order_mark(order: str) -> str:
    return hashlib.sha256(order.encode()).hexdigest()[:12]


def _write_cursor(order: str, key: list[str]) -> str:
    text = json.dumps({"o": _order_mark(order), "k": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _read_cursor(cursor: str, order: str, width: int | None) -> list[str]:
    """The key in a cursor of this very order. Raises 400 ``invalid-cursor``."""
    try:
        value = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        key = value["k"]
        if value["o"] != _order_mark(order) or not all(isinstance(part, str) and is_storable(part) for part in key):
            raise _invalid_cursor()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _invalid_cursor() from error
    if width is not None and len(key) != width:
        raise _invalid_cursor()
    return list(key)


def _cursor_instant(text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise _invalid_cursor() from error


def _invalid_cursor() -> Problem:
    return Problem(400, "invalid-cursor", "The cursor is not from this list.", fields={"cursor": "is not valid here"})
