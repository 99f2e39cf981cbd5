"""Kinds: how a table row becomes an envelope, what may be selected by, and the bodies that create and edit it.

A kind is declared once::

    HOLDS = Kind("holds", RESEARCH_GROUP, holds, project=True,
                 spec=lambda row: {"targetKind": row.target_kind, …}, status=lambda row: {},
                 fields={"spec.targetKind": holds.c.target_kind})
    CreateHold = create_body(HOLDS, HoldSpec)            # strict body of a POST
    EditHold = Patch(None, {"release": "released"})      # PATCH: commands only
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import AfterValidator, Field, create_model
from sqlalchemy import ColumnElement, Row, Select, Table, bindparam, insert, select, update
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from expb_tui.server.problems import invalid
from expb_tui.server.store.database import lock_rows
from expb_tui.wire.base import WireModel, instant_text

RowOf = Row[Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """One resource kind. ``query`` replaces the plain select where ``spec`` or ``status`` need joined columns."""

    name: str
    group: str
    table: Table
    spec: Callable[[RowOf], dict[str, Any]]
    status: Callable[[RowOf], dict[str, Any]] = lambda row: {}
    fields: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    account: bool = True
    project: bool = False
    query: Callable[[], Select[Any]] | None = None
    base: str = "/v1"
    """What the item URL begins with."""
    announced: bool = True
    """Whether changes go to the account's event stream; what concerns one person only does not."""

    @cached_property
    def select(self) -> Select[Any]:
        return self.query() if self.query is not None else select(self.table)

    @cached_property
    def by_id(self) -> Callable[[str], Select[Any]]:
        column = self.table.c.id
        base = self.select
        return lambda uid: base.where(column == uid)

    # Statements are built once: building one takes longer than running it, and claims run many.

    @cached_property
    def fetching(self) -> Select[Any]:
        """The row whose uid is given as ``of_uid``."""
        return self.select.where(self.table.c.id == bindparam("of_uid"))

    @cached_property
    def fetching_locked(self) -> Select[Any]:
        """As ``fetching``, for PostgreSQL, with the lock of ``Database.lock``."""
        return lock_rows(self.fetching, self.table)

    @cached_property
    def inserting(self) -> ReturningInsert[Any]:
        return insert(self.table).returning(self.table)

    @cached_property
    def updating(self) -> ReturningUpdate[Any]:
        """The row whose uid and version are given as ``of_uid`` and ``of_version``."""
        columns = self.table.c
        mine = (columns.id == bindparam("of_uid"), columns.version == bindparam("of_version"))
        return update(self.table).where(*mine).returning(self.table)

    @cached_property
    def selectable(self) -> Mapping[str, ColumnElement[Any]]:
        """Canonical path to column, for the ``fields`` selector."""
        columns = self.table.c
        paths: dict[str, ColumnElement[Any]] = {
            "metadata.uid": columns.id,
            "metadata.name": columns.name,
            "metadata.version": columns.version,
            "metadata.creationTimestamp": columns.created_at,
            "metadata.updateTimestamp": columns.updated_at,
            "status.phase": columns.phase,
            "status.authority": columns.authority,
        }
        if self.account:
            paths["metadata.account"] = columns.account_id
        if self.project:
            paths["metadata.project"] = columns.project_id
        return {**paths, **self.fields}

    def path(self, uid: str) -> str:
        """The shallow item URL."""
        return f"{self.base}/{self.name}/{uid}"


def name_key(name: str) -> str:
    """What names are compared by: case-insensitively after trimming (contract, section 1.2)."""
    return name.strip().casefold()


def envelope(kind: Kind, row: RowOf) -> dict[str, Any]:
    """The resource as JSON (contract, section 1.1)."""
    metadata: dict[str, Any] = {"uid": row.id, "name": row.name}
    if kind.account and row.account_id is not None:
        metadata["account"] = row.account_id
    if kind.project and row.project_id is not None:
        metadata["project"] = row.project_id
    metadata["version"] = row.version
    if row.labels:
        metadata["labels"] = row.labels
    metadata["creationTimestamp"] = instant_text(row.created_at)
    metadata["updateTimestamp"] = instant_text(row.updated_at)
    actor: dict[str, Any] = {"type": row.modified_by_type}
    if row.modified_by is not None:
        actor["agentId" if row.modified_by_type == "agent" else "userId"] = row.modified_by
    return {
        "apiVersion": kind.group,
        "kind": kind.name,
        "metadata": metadata,
        "spec": present(kind.spec(row)),
        "status": {
            "phase": row.phase,
            "authority": row.authority,
            "lastModifiedBy": actor,
            **present(kind.status(row)),
        },
        "_links": {"self": {"ref": kind.path(row.id), "rel": "self"}},
    }


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """The map without its null entries: absent says it."""
    return {key: value for key, value in values.items() if value is not None}


# Bodies

_LABEL_PART = r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,61}[A-Za-z0-9]"
_DNS = r"[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?){0,7}"
LABEL_KEY = rf"^({_DNS}/)?{_LABEL_PART}$"
MOST_LABELS = 64
LABEL_VALUE = rf"^({_LABEL_PART})?$"
"""Two characters at least, as the toolkit's stored pattern wants it (contract, section 1.2)."""

LabelKey = Annotated[str, Field(strict=True, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(strict=True, pattern=LABEL_VALUE)]


def printable(text: str) -> str:
    """The text, without anything that a reader cannot see or that turns what they see around.

    Raises ``ValueError`` for control, format (bidi among them), surrogate and unassigned characters, and line breaks.
    """
    if any(unicodedata.category(character) in _UNSEEN for character in text):
        raise ValueError("must not hold control, invisible or direction-changing characters")
    return text


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def _clean_name(name: str) -> str:
    trimmed = printable(name).strip()
    if not trimmed:
        raise ValueError("must not be blank")
    if len(trimmed.encode()) > 200:
        raise ValueError("must be at most 200 bytes")
    return trimmed


PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$"
"""The part of ``printable`` that a JSON schema can say."""

Name = Annotated[str, Field(strict=True, min_length=1, max_length=200, pattern=PRINTABLE), AfterValidator(_clean_name)]
Description = Annotated[str, Field(strict=True, max_length=65_536)]


class CreateMetadata(WireModel):
    """All that a caller may say about a new resource; the rest is the server's."""

    name: Name = ""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=MOST_LABELS)


class NamedMetadata(CreateMetadata):
    """For kinds whose name is chosen, not generated."""

    name: Name


class EditMetadata(WireModel):
    """A null label value deletes that label, null for all of them clears them."""

    name: Name = ""
    labels: dict[LabelKey, LabelValue | None] | None = Field(default=None, max_length=64)


SpecT = TypeVar("SpecT", bound=WireModel)


class Create(WireModel, Generic[SpecT]):
    """The body of a create."""

    api_version: str
    kind: str
    metadata: CreateMetadata = Field(default_factory=CreateMetadata)
    spec: SpecT


class Edit(WireModel, Generic[SpecT]):
    """The body of an edit: absent is unchanged (``model_fields_set`` tells)."""

    api_version: str = ""
    kind: str = ""
    metadata: EditMetadata = Field(default_factory=EditMetadata)
    spec: SpecT


@dataclass(frozen=True)
class Patch:
    """What a PATCH of a kind takes: an edit, or one of the commands (verb to the phase that it leads to), or both."""

    edit: type[WireModel] | None
    verbs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """A validated ``{"operation": verb}``; ``phase`` is where the verb leads."""

    verb: str
    phase: str


ACTIVATE: Mapping[str, str] = {"activate": "active", "deactivate": "inactive"}
REVOKE: Mapping[str, str] = {"revoke": "revoked"}


class NoSpec(WireModel):
    """A spec in which nothing may be said."""


def _title(kind_name: str) -> str:
    return "".join(part.capitalize() for part in kind_name.split("-"))


def create_body(kind: Kind, spec: type[SpecT], *, named: bool = False) -> type[Create[SpecT]]:
    """The strict model of a POST body; ``named`` kinds must be given a name."""
    fields: dict[str, Any] = {"api_version": (Literal[kind.group], ...), "kind": (Literal[kind.name], ...)}
    if named:
        fields["metadata"] = (NamedMetadata, ...)
    base: Any = Create[spec]  # type: ignore[valid-type]  # built for this kind
    return cast("type[Create[SpecT]]", create_model(f"{_title(kind.name)}Create", __base__=base, **fields))


def edit_body(kind: Kind, spec: type[SpecT]) -> type[Edit[SpecT]]:
    """The strict model of a PATCH body that is not a command."""
    fields: dict[str, Any] = {
        "api_version": (Literal[kind.group], kind.group),
        "kind": (Literal[kind.name], kind.name),
        "spec": (spec, Field(default_factory=spec)),
    }
    base: Any = Edit[spec]  # type: ignore[valid-type]  # built for this kind
    return cast("type[Edit[SpecT]]", create_model(f"{_title(kind.name)}Edit", __base__=base, **fields))


def metadata_changes(row: RowOf, edit: Edit[Any]) -> dict[str, Any]:
    """Columns that an edit's metadata changes: ``name`` (with its key), ``labels``. Raises 422 for too many labels."""
    changes: dict[str, Any] = {}
    given = edit.metadata.model_fields_set
    if "name" in given:
        changes.update(name=edit.metadata.name, name_key=name_key(edit.metadata.name))
    if "labels" in given:
        merged = {} if edit.metadata.labels is None else {**row.labels, **edit.metadata.labels}
        labels = {key: value for key, value in merged.items() if value is not None}
        if len(labels) > MOST_LABELS:
            raise invalid({"metadata.labels": f"must be at most {MOST_LABELS}"})
        changes["labels"] = labels
    return changes


def spec_changes(edit: Edit[Any]) -> dict[str, Any]:
    """The spec fields that an edit names, by their Python names: columns of the same name take them as they are."""
    spec: WireModel = edit.spec
    return {name: getattr(spec, name) for name in spec.model_fields_set if name in type(spec).model_fields}
