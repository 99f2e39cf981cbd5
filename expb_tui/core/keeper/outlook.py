"""What will become of a lease once nobody is logged in: said before the claim (hazards 7)."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.profiles.document import Profile
    from expb_tui.core.settings import Settings


@dataclass(frozen=True)
class Outlook:
    """Whether a lease claimed with a credential will be renewed by any keeper, or only by the one that runs now."""

    unattended: bool
    """A fresh process without display or session bus can read the credential: any later keeper renews."""
    keeper_off: bool
    """No keeper runs on this host, and none is started (setting ``keeper``)."""
    cause: str = ""
    """Why not unattended, one sentence."""
    next_step: str = ""
    to_file: str = ""
    """The profile whose credential ``secrets.unsecure`` can move to the 0600 file, which mends it; else empty."""

    def lines(self) -> list[str]:
        """For the confirmation: what will not go on, why, and what to do; empty where all is well."""
        if self.keeper_off:
            return ["Leases are renewed only while a cockpit is open: no keeper is started here (setting keeper = off)"]
        if self.unattended:
            return []
        return [f"Renewal ends with the keeper that runs now: {self.cause}", self.next_step]


async def outlook(profile: Profile, settings: Settings) -> Outlook:
    """Ask the keyring if need be, in a thread: up to 2 s. ``profile`` without a name: a token that no profile holds."""
    from expb_tui.core.keeper.state import look
    from expb_tui.core.profiles import secrets

    off = settings.keeper == "off" and not look().running
    if not profile.name:
        return Outlook(
            False,
            off,
            "its token is in no profile, and the keeper has it in its memory only",
            "Save it in a profile to make it last: expb-tui --profile=NAME auth --agent-token=-",
        )
    if await asyncio.to_thread(secrets.readable_unattended, profile):
        return Outlook(True, off)
    name = clean(profile.name)
    return Outlook(
        False,
        off,
        f"the credential of {name} is in the system keyring, which a process without your desktop session cannot read",
        f"Move it to the 0600 file to make it last: expb-tui profile unsecure {clean(shlex.quote(profile.name))}",
        to_file=profile.name,
    )
