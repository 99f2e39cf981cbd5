"""Fixtures for everybody; see the modules named here."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no defect
settings.load_profile("untimed")

pytest_plugins = ["tests.support.postgres", "tests.support.server"]
