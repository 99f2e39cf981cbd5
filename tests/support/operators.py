"""The files and the environment of an operator in tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.server import LocalServer


def profiles_file(
    folder: Path,
    server: LocalServer | None = None,
    *,
    signed_in: bool = False,
    default: str = "researcher",
    endpoint: str | None = None,
) -> Path:
    """A profile file of the demo: an agent, and its owner signed out, or signed in by the whole device flow.

    ``endpoint`` is a way to the server that tests can break.
    """
    entries: dict[str, dict[str, Any]] = {}
    if server is not None:
        common = {"scope": "account", "endpoint": endpoint or server.address, "account_id": server.account_id}
        entries["researcher"] = {
            **common,
            "type": "agent",
            "agent_id": server.agent_id,
            "token": server.agent_token,
            "project_id": server.project_id,
            "project_name": "checkout-latency",
        }
        entries["owner"] = {**common, "type": "user"}
        if signed_in:
            tokens = server.sign_in()
            entries["owner"] |= {
                "token": tokens["access_token"],
                "refresh_token": tokens["refresh_token"],
                "expires_at": "2099-01-01T00:00:00Z",
            }
    path = folder / "profiles.json"
    path.write_text(json.dumps({"default": default, "profiles": entries} if entries else {"profiles": {}}))
    path.chmod(0o600)
    return path


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment of a cockpit that lives in ``folder`` alone."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "EXPBENCH_PROFILES": str(folder / "profiles.json"),
        "EXPB_TUI_STATE_DIR": str(folder / "state"),
        "EXPB_TUI_CONFIG_DIR": str(folder / "config"),
        "EXPB_TUI_KEYRING": "off",
        "EXPB_TUI_KEEPER": "off",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LC_ALL": "C.UTF-8",
        **changes,
    }
