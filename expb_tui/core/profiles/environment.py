"""What the environment names for this call: the service, and a token that no profile holds (contract, section 4)."""

from __future__ import annotations

import os
from pathlib import Path

from expb_tui.core.api.endpoint import DEFAULT_ENDPOINT
from expb_tui.core.errors import UsageError
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr


def endpoint_for(store: ProfileStore, profile: str, named: str | None) -> str:
    """Where signing in to ``profile`` goes: ``named``, else ``EXPBENCH_API_SERVER``, else its own, else the service."""
    saved = store.read().by_name.get(profile)
    return named or os.environ.get("EXPBENCH_API_SERVER") or (saved and saved.endpoint) or DEFAULT_ENDPOINT


def environment_token() -> SecretStr | None:
    """``EXPBENCH_AGENT_TOKEN``, else the content of the file that ``EXPBENCH_AGENT_TOKEN_FILE`` names; never stored."""
    token = os.environ.get("EXPBENCH_AGENT_TOKEN", "").strip()
    path = os.environ.get("EXPBENCH_AGENT_TOKEN_FILE")
    if not token and path:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be read",
                cause=str(error.strerror if isinstance(error, OSError) else error),
                next_step="Correct EXPBENCH_AGENT_TOKEN_FILE, or unset it",
            ) from error
        if not token:
            raise UsageError(f"{path} holds no token", next_step="Correct EXPBENCH_AGENT_TOKEN_FILE, or unset it")
    return SecretStr(token) if token else None
