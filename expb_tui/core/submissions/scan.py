"""The search for secrets in a submission before it is sent (hazards 18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from expb_tui.core.secret import SecretStr


@dataclass(frozen=True)
class Finding:
    """A place that holds a secret and what kind it is; never the secret."""

    path: str
    kind: str


class Scanner:
    """Knows the secrets of this host and the shapes of others'."""

    def __init__(self, known: Iterable[SecretStr] = ()) -> None:
        raise NotImplementedError

    def scan(self, body: Any) -> list[Finding]:
        """Every string of ``body``, keys included."""
        raise NotImplementedError


def environment_secrets(environ: Mapping[str, str]) -> list[SecretStr]:
    """Values of variables whose names say that they are keys, tokens or passwords."""
    raise NotImplementedError
