"""What every wire model shares: key spelling, instants, the resource envelope, pages."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, AliasChoices, AliasGenerator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

IDENTITY_GROUP = "identity.sre-norns.com/v1"
RESEARCH_GROUP = "exp-bench.sre-norns.com/v1"


def _camel_first(name: str) -> AliasChoices:
    return AliasChoices(to_camel(name), name)


def _snake_first(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


class WireModel(BaseModel):
    """A resource or command body: written in camelCase, read in camelCase or snake_case, unknown keys kept."""

    model_config = ConfigDict(
        extra="allow",
        alias_generator=AliasGenerator(validation_alias=_camel_first, serialization_alias=to_camel),
    )

    def wire(self) -> dict[str, Any]:
        """The JSON object to send: wire spelling, absent instead of null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class SnakeModel(WireModel):
    """A query DTO or one of the documented snake_case bodies: written in snake_case, read in either spelling."""

    model_config = ConfigDict(
        extra="allow",
        alias_generator=AliasGenerator(validation_alias=_snake_first, serialization_alias=lambda name: name),
    )


def _to_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def instant_text(value: datetime) -> str:
    """RFC 3339 in UTC with a ``Z``; microseconds only where there are any."""
    return _to_utc(value).isoformat().replace("+00:00", "Z")


Instant = Annotated[datetime, AfterValidator(_to_utc), PlainSerializer(instant_text, when_used="json")]
"""An aware UTC datetime; any RFC 3339 offset is accepted on reading."""


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Number = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_finite)]
"""A finite JSON number; strings and booleans are not numbers."""

Count = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]
"""A JSON integer of at least zero that every JSON reader can hold exactly."""

Text = Annotated[str, Field(strict=True, min_length=1, max_length=65_536)]
"""Prose that must not be empty."""

Label = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
"""A short name: of a measure, a constraint, a file, a unit."""


def at_field(field: str, message: str) -> PydanticCustomError:
    """An error between fields of one model that belongs to ``field`` (wire spelling): raise it in a model validator.

    Its context holds both words, so that whoever shows the error can point at the field instead of its parent.
    """
    return PydanticCustomError("at_field", "{field} {message}", {"field": field, "message": message})


class Link(WireModel):
    """One entry of ``_links``."""

    ref: str
    rel: str | None = None


class Metadata(WireModel):
    """Section 1.2 of the contract. Everything is optional, because the empty package has almost none of it."""

    uid: str | None = None
    name: str | None = None
    account: str | None = None
    project: str | None = None
    version: int | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: Instant | None = None
    update_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None


class Actor(WireModel):
    """Who last changed a record; attribution only, it grants nothing."""

    type: str
    user_id: str | None = None
    agent_id: str | None = None


class Status(WireModel):
    """The part that every ``status`` has. Phases are open words: unknown ones pass through."""

    phase: str = ""
    authority: str | None = None
    last_modified_by: Actor | None = None


class Spec(WireModel):
    """A spec of which nothing is known."""


SpecT = TypeVar("SpecT", bound=WireModel)
StatusT = TypeVar("StatusT", bound=WireModel)


class Resource(WireModel, Generic[SpecT, StatusT]):
    """The envelope of section 1.1."""

    api_version: str
    kind: str
    metadata: Metadata = Field(default_factory=Metadata)
    spec: SpecT
    status: StatusT
    links: dict[str, Link] | None = Field(default=None, validation_alias="_links", serialization_alias="_links")

    @property
    def uid(self) -> str:
        """The server-assigned id, or the empty string where the resource has none (the empty package)."""
        return self.metadata.uid or ""


AnyResource = Resource[Spec, Status]

ItemT = TypeVar("ItemT")


class Page(WireModel, Generic[ItemT]):
    """Section 1.8. ``next`` is absent on the last page; ``total`` is advisory."""

    items: list[ItemT]
    limit: int | None = None
    next: str | None = None
    total: int | None = None


class Operation(WireModel):
    """A lifecycle command: exactly one key."""

    operation: Annotated[str, Field(strict=True, min_length=1, max_length=40)]
