"""Schema migrations, run at start-up. Alembic is imported only where there is something to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, inspect, select, text

from expb_tui.server.config import ServerError
from expb_tui.server.store.database import Database

HEAD = "0004_system"
"""The newest revision in ``migrations/versions``; a test compares."""

FOLDER = Path(__file__).parent / "migrations"
_LOCK_KEY = 0x65787062
"""Servers that start at the same time on one PostgreSQL database migrate one after the other."""


def migrate(database: Database) -> None:
    """Bring the schema to ``HEAD``, all of it or nothing. Raises ``ServerError`` where it is newer than we are."""
    with database.write() as conn:
        if database.postgres:
            conn.execute(select(func.pg_advisory_xact_lock(_LOCK_KEY)))
        if current_revision(conn) != HEAD:
            _upgrade(conn)


def current_revision(conn: Connection) -> str | None:
    """The revision of the database, None where it is empty."""
    if not inspect(conn).has_table("alembic_version"):
        return None
    revision: str | None = conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def configuration(conn: Connection) -> Any:
    """Alembic's configuration over an open connection, without a file."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = conn
    return config


def _upgrade(conn: Connection) -> None:
    from alembic import command
    from alembic.util import CommandError

    try:
        command.upgrade(configuration(conn), HEAD)
    except CommandError as error:
        raise ServerError(
            "The database cannot be migrated",
            cause=f"it is at revision {current_revision(conn)}, which this version does not know",
            next_step="Use the version of expb-tui that wrote it, or another --database",
            code="database-newer",
        ) from error
