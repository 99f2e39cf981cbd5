"""What starting must not cost: modules that a child process finds loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pydantic", "httpx", "keyring", "textual", "sqlalchemy", "anyio")


def test_the_first_request_does_not_load_the_command_line_of_httpx() -> None:
    code = "from expb_tui.core.api.transport import preload; preload(); import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "httpx" in loaded
    assert not {"rich", "click", "pygments"} & set(loaded)


@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("import expb_tui.core", ("asyncio", "json")),
        (
            "from expb_tui.core.profiles.store import ProfileStore; ProfileStore().read().names()",
            ("asyncio", "subprocess", "ctypes", "tomllib", "logging", "urllib.request"),
        ),
        ("from expb_tui.core.settings import load_settings; load_settings()", ("asyncio",)),
        ("import expb_tui.core.profiles.session, expb_tui.core.profiles.login, expb_tui.core.api.transport", ()),
        ("from expb_tui.core.api.failures import ApiProblem", ("asyncio",)),
        # The first answer that the cockpit waits for is read without them.
        ("import expb_tui.core.opportunities, expb_tui.core.api.offers", ("expb_tui.wire",)),
    ],
)
def test_nothing_heavy_is_loaded(script: str, more: tuple[str, ...]) -> None:
    looked_for = HEAVY + more
    code = f"{script}\nimport sys\nprint(*(name for name in {looked_for!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
