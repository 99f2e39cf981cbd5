"""Column types and the columns that every resource table has, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Integer, MetaData, String, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""All tables of the server, identity and research."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class InstantColumn(TypeDecorator[datetime]):
    """An aware UTC instant to the microsecond: ``timestamptz``, or whole microseconds since 1970 on SQLite."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value  # type: ignore[no-any-return]  # psycopg hands out aware datetimes
        return _EPOCH + timedelta(microseconds=value)


JsonColumn = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""A JSON value; on PostgreSQL ``jsonb``."""

Uid = String(36)


def is_storable(text: str) -> bool:
    """Whether both databases can hold a text: PostgreSQL knows no NUL, and neither knows half a surrogate pair.

    Every door through which text comes in asks this: bodies, forms, queries, cursors.
    """
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def resource_columns(*, account: bool = True, project: bool = False) -> list[Column[Any]]:
    """The columns behind an envelope's ``metadata`` and the common part of ``status``. Fresh objects on each call.

    ``name_key`` is what names are compared by (see ``name_key`` in ``resources``).
    """
    columns: list[Column[Any]] = [
        Column("id", Uid, primary_key=True),
        Column("name", Text, nullable=False),
        Column("name_key", Text, nullable=False),
        Column("labels", JsonColumn, nullable=False),
        Column("version", Integer, nullable=False),
        Column("created_at", InstantColumn, nullable=False),
        Column("updated_at", InstantColumn, nullable=False),
        Column("phase", String(32), nullable=False),
        Column("authority", String(40), nullable=False),
        Column("modified_by_type", String(8), nullable=False),
        Column("modified_by", Uid, nullable=True),
    ]
    if account:
        columns.append(Column("account_id", Uid, ForeignKey("accounts.id"), nullable=False))
    if project:
        columns.append(Column("project_id", Uid, ForeignKey("projects.id"), nullable=False))
    return columns
