"""Alembic's entry: the connection comes from ``store.migrate``, inside its transaction."""

from __future__ import annotations

from alembic import context

from expb_tui.server.store import research_tables, schema
from expb_tui.server.store.columns import metadata

__all__ = ["research_tables", "schema"]

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
