"""The one place that builds what the faces share, and that may open the cockpit from a command.

Importing this module is cheap; settings, journal, sessions and desk are imported and opened when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from expb_tui.core.clock import SYSTEM_CLOCK, Clock
from expb_tui.core.secret import SecretStr

if TYPE_CHECKING:
    from expb_tui.core.leases.desk import Desk
    from expb_tui.core.leases.journal import Journal
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.profiles.store import ProfileStore
    from expb_tui.core.settings import Settings


class DemoHint(NamedTuple):
    """What the operator needs on the approval page of the demo; the password is made up for this one run."""

    address: str
    email: str
    password: str
    user_profile: str
    """The profile that is still signed out, so that the device flow can be tried."""


class Chosen(NamedTuple):
    """What the global options and the environment say; nothing here is ever stored."""

    profile: str | None = None
    endpoint: str | None = None
    token: SecretStr | None = None
    timeout: float | None = None
    """Seconds that one request may take; None for the settings' value."""
    account: str | None = None
    project: str | None = None
    insecure_http: bool = False


class House:
    """Everything that the cockpit and the commands share. Build it with ``open_house``, end it with ``aclose``.

    ``settings``, ``store``, ``journal`` and ``desk`` are opened on first use and blocking: the journal's first use
    touches the disk. ``session`` caches one ``Session`` per profile name; callers never close what they got from it.
    """

    def __init__(self, chosen: Chosen, *, clock: Clock, demo_hint: DemoHint | None = None) -> None:
        self.chosen = chosen
        self.clock = clock
        self.demo_hint = demo_hint
        self._sessions: dict[str, Session] = {}

    @property
    def settings(self) -> Settings:
        """Read once. Raises ``FileProblem`` or ``UsageError`` where ``config.toml`` is wrong."""
        raise NotImplementedError

    @property
    def store(self) -> ProfileStore:
        """The shared profile file."""
        raise NotImplementedError

    @property
    def journal(self) -> Journal:
        """This host's journal. Raises ``FileProblem`` where it cannot be opened."""
        raise NotImplementedError

    @property
    def desk(self) -> Desk:
        """Claims, renewals, releases and submissions over the journal."""
        raise NotImplementedError

    async def session(self, profile: str | None = None) -> Session:
        """The session of a profile (None: the chosen, else the default one). Raises ``SignInNeeded``, ``UsageError``."""
        raise NotImplementedError

    async def forget_session(self, profile: str) -> None:
        """Close and drop the cached session after a sign-in, sign-out, removal or move of its secret."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close sessions and journal; safe to call twice."""
        raise NotImplementedError


def open_house(
    chosen: Chosen | None = None, *, clock: Clock = SYSTEM_CLOCK, demo_hint: DemoHint | None = None
) -> House:
    """A house that opens nothing yet; the environment's token and endpoint fill what ``chosen`` leaves open."""
    return House(chosen or Chosen(), clock=clock, demo_hint=demo_hint)
