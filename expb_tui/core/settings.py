"""Settings: built in, then ``config.toml``, then the environment; each remembers where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting is a top-level key of ``config.toml``, and all but tables can be set as ``EXPB_TUI_<KEY>``."""

    client_id: str = "expbctl"
    """The OAuth client id that the server registers for its command line."""
    lease_header: str = "X-Lease-Token"
    """The header that carries a lease token."""
    insecure_http: bool = False
    """Allow plain http to hosts other than this one."""
    timeout: float = 60.0
    """Seconds for one request with its retries."""
    keyring: Literal["auto", "off"] = "auto"
    theme: str = ""
    """Empty: chosen by the terminal."""
    icons: Literal["unicode", "ascii"] = "unicode"
    mouse: Literal["auto", "on", "off"] = "auto"
    """``auto``: on locally, off over SSH."""
    editor: str = ""
    """Empty: ``$VISUAL``, ``$EDITOR``."""
    pager: str = ""
    """Empty: ``$PAGER``."""
    read_only: bool = False
    """Hide every action that changes remote state."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Action id to key."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """Overrides of the work API's paths (contract, section 7, item 1)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value that is not built in came from, in words."""

    def source(self, name: str) -> str:
        return self.sources.get(name, "built in")


def load_settings(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read ``config.toml`` of ``paths.config_dir()`` (or ``path``) and the environment. Raises ``UsageError``."""
    raise NotImplementedError
