"""The operations that most kinds have alike: list, read, and edit or command one record.

``see`` finds the record of a call, or refuses; it is where a kind says who may do what. ``guard`` does that for a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from sqlalchemy import ColumnElement

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, item
from expb_tui.server.resources import Command, Edit, Kind, Patch, RowOf, metadata_changes, spec_changes
from expb_tui.server.routing import LIST_QUERY, Operations, Param, Who
from expb_tui.wire.base import Page

See = Callable[[Call], RowOf]
Changes = Mapping[str, Any]
"""Columns and their new values."""


def offer_list(
    operations: Operations,
    kind: Kind,
    path: str,
    *,
    id: str,  # noqa: A002 - the document's word
    summary: str,
    answer: type[BaseModel],
    where: Callable[[Call], Sequence[ColumnElement[bool]]],
    who: Who = Who.EITHER,
    query: tuple[Param, ...] = LIST_QUERY,
    search: Sequence[ColumnElement[Any]] = (),
) -> None:
    """GET of a collection. ``where`` refuses, or says which rows the caller gets."""

    def list_records(call: Call) -> Answer:
        return lists.page(call, kind, *where(call), search=search)

    options = {"who": who, "query": query, "answers": {200: Page[answer]}}  # type: ignore[valid-type]  # made here
    operations.get(path, id, summary, **options)(list_records)


def offer_read(
    operations: Operations,
    kind: Kind,
    *,
    see: See,
    id: str,  # noqa: A002 - the document's word
    summary: str,
    answer: type[BaseModel],
    who: Who = Who.EITHER,
    path: str = "",
) -> None:
    """GET of one record, by default at its shallow URL with ``{uid}``."""

    def read_record(call: Call) -> Answer:
        return item(kind, see(call))

    operations.get(path or kind.path("{uid}"), id, summary, who=who, answers={200: answer})(read_record)


def offer_patch(
    operations: Operations,
    kind: Kind,
    *,
    see: See,
    body: Patch,
    id: str,  # noqa: A002 - the document's word
    summary: str,
    answer: type[BaseModel],
    who: Who = Who.EITHER,
    path: str = "",
    check: Callable[[Call, RowOf, Changes], Changes] = lambda call, row, changes: changes,
    show: Callable[[Kind, RowOf], Answer] = item,
) -> None:
    """PATCH of one record: a command or an edit, once the version matches.

    ``check`` sees the changes before they are made, may refuse or alter them, and may lock what it looks at.
    """

    def change_record(call: Call, given: Edit[Any] | Command) -> Answer:
        row = see(call)
        call.match(row)
        return show(kind, call.update(kind, row, **check(call, row, changes_of(row, given))))

    options = {"who": who, "body": body, "answers": {200: answer}}
    operations.patch(path or kind.path("{uid}"), id, summary, **options)(change_record)


def changes_of(row: RowOf, given: Edit[Any] | Command) -> Changes:
    """The columns that a validated PATCH body changes."""
    if isinstance(given, Command):
        return {"phase": given.phase}
    return {**metadata_changes(row, given), **spec_changes(given)}
