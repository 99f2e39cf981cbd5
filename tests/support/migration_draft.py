"""Prints what a new migration would have to do: ``python -m tests.support.migration_draft``. A draft, to be read."""

from __future__ import annotations

import tempfile
from pathlib import Path

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext

from expb_tui.server.store import research_tables, schema
from expb_tui.server.store.columns import metadata
from expb_tui.server.store.database import Database
from expb_tui.server.store.migrate import migrate

__all__ = ["research_tables", "schema"]


def main() -> None:
    """Migrate an empty SQLite database and print the difference to the tables in the code."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'draft.sqlite'}")
        migrate(database)
        with database.engine.connect() as conn:
            context = MigrationContext.configure(conn, opts={"compare_type": True})
            upgrade = produce_migrations(context, metadata).upgrade_ops
            assert upgrade is not None
            print(render_python_code(upgrade))
        database.close()


if __name__ == "__main__":
    main()
