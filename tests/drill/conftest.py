"""One fork server for the drills of a module, and a server with operators for each drill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.drill import Drill
from tests.support.recorded import Forks, forks
from tests.support.server import LocalServer


@pytest.fixture(scope="module")
def fork_server() -> Iterator[Forks]:
    """One for all drills of a module."""
    with forks() as made:
        yield made


@pytest.fixture
def drill(server: LocalServer, fork_server: Forks, tmp_path: Path) -> Drill:
    return Drill(server, fork_server, tmp_path, server.sign_in()["access_token"])
