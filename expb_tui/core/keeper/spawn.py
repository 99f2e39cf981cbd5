"""Starting the keeper so that it outlives whoever started it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from expb_tui.core.errors import ExpbError
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.settings import Settings


@dataclass(frozen=True)
class Ensured:
    """Whether a keeper runs now. ``problem`` says why not, or why a token could not be lent to it."""

    kind: Literal["started", "running", "off", "failed"]
    problem: ExpbError | None = None

    @property
    def runs(self) -> bool:
        """A keeper renews leases now."""
        return self.kind in ("started", "running")


async def ensure(settings: Settings, session: Session | None = None, folder: Path | None = None) -> Ensured:
    """Start the keeper where none runs, or only one of an older version; lend it the token of ``session`` if it needs.

    Never raises; waits until it is at work, at most 20 s.
    """
    from expb_tui.core.keeper.state import look

    if look(folder).running:
        return Ensured("running")
    return Ensured("off")
