"""Fixtures for everybody; see the modules named here."""

from __future__ import annotations

pytest_plugins = ["tests.support.postgres", "tests.support.server"]
