"""Whether the credential at hand still is the one that a package was claimed with (hazards 6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from expb_tui.core.api.endpoint import same_endpoint
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.model import NoCredential
from expb_tui.core.leases.schema import PackageRow, Pin
from expb_tui.core.profiles.refusals import Refusals
from expb_tui.core.profiles.store import Profile, Profiles, ProfileStore
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.wire.identity import Principal

NEXT_STEP = "Point the profile back, or sign in again as that agent; the lease runs out at its end otherwise"


def mismatch(pin: Pin, profile: Profile | None) -> str:
    """Why ``profile``, as it is now, cannot act for what ``pin`` names; empty where it can."""
    name = clean(pin.profile_name)
    if profile is None:
        return f"the profile {name} is gone"
    if not same_endpoint(profile.endpoint, pin.endpoint):
        return f"the profile {name} now points to {clean(profile.endpoint)}"
    # An id that the file does not tell (a profile made elsewhere) is asked of the service before anything is sent.
    if (profile.account_id or pin.account_id) != pin.account_id:
        return f"the profile {name} now belongs to another account"
    if (profile.agent_id or pin.agent_id) != pin.agent_id:
        return f"the profile {name} is now another agent"
    if not profile.signed_in:
        return f"the profile {name} is signed out"
    return ""


class ProfileLook:
    """The profile files as they are at one moment; each is read once."""

    def __init__(self, store: ProfileStore, *, only_ours: bool = False) -> None:
        """``only_ours``: other profile files are read each time, because nothing tells when they change."""
        self._store = store
        self._only_ours = only_ours
        self._read: dict[str, Profiles | ExpbError] = {}

    def problem(self, pin: Pin) -> str:
        """Why nobody on this host can act for ``pin``; empty where its profile can."""
        if not pin.profile_name:
            return "it was claimed with a token that no profile holds"
        found = self._profiles(pin.profile_file)
        if isinstance(found, ExpbError):
            return f"its profile file cannot be read: {found.what}"
        return mismatch(pin, found.by_name.get(pin.profile_name))

    def refused(self, pin: Pin) -> str:
        """As ``problem``, or that the service has refused its credential: that may be tried, but not counted on."""
        if problem := self.problem(pin):
            return problem
        found = self._profiles(pin.profile_file)
        profile = None if isinstance(found, ExpbError) else found.by_name.get(pin.profile_name)
        if profile is None or not Refusals(pin.profile_file).has(profile):
            return ""
        return f"the service refuses the credential of {clean(pin.profile_name)}"

    def _profiles(self, path: str) -> Profiles | ExpbError:
        ours = path == str(self._store.path)
        if path in self._read and (ours or not self._only_ours):
            return self._read[path]
        try:
            found: Profiles | ExpbError = (self._store if ours else ProfileStore(Path(path))).read()
        except ExpbError as error:
            found = error
        self._read[path] = found
        return found


class Credentials:
    """Who sessions speak for, and whether they may act for a package."""

    def __init__(self, store: ProfileStore) -> None:
        self.store = store
        self._principals: WeakKeyDictionary[Session, Principal] = WeakKeyDictionary()
        self._look: tuple[object, ProfileLook] | None = None

    def look(self) -> ProfileLook:
        """Our profile file as it is now; it is read again only where it has changed."""
        stamp = self.store.stamp()
        if self._look is None or self._look[0] != stamp:
            self._look = stamp, ProfileLook(self.store, only_ours=True)
        return self._look[1]

    async def principal(self, session: Session) -> Principal:
        """Asked once a session: its credential id stays the same through refreshes (contract, 1.6)."""
        known = self._principals.get(session)
        if known is None:
            known = self._principals[session] = await session.principal()
        return known

    async def pin(self, session: Session) -> Pin:
        """What a claim of this session is tied to."""
        who = await self.principal(session)
        explicit = session.explicit
        return Pin(
            session.endpoint,
            who.account_id or "",
            who.agent_id or "",
            who.credential_id or "",
            "" if explicit else session.profile.name,
            "" if explicit else str(self.store.path),
        )

    async def authorize(self, session: Session, pin: Pin) -> None:
        """Raise ``NoCredential`` unless ``session`` is that agent on that service, by the profile file as it is now."""
        problem = ""
        if session.endpoint != pin.endpoint:
            problem = f"it is on {clean(pin.endpoint)}, and this credential is for {clean(session.endpoint)}"
        elif not session.explicit:
            acting = replace(pin, profile_name=session.profile.name, profile_file=str(self.store.path))
            problem = self.look().problem(acting)
            if not problem and pin.profile_file not in ("", acting.profile_file):
                problem = f"it was claimed with a profile of {clean(pin.profile_file)}"
        if not problem and not (session.profile.account_id and session.profile.agent_id):
            who = await self.principal(session)
            if (who.account_id or "", who.agent_id or "") != (pin.account_id, pin.agent_id):
                problem = "this credential is of another agent"
        if problem:
            raise NoCredential("Nothing was sent for the package", cause=problem, next_step=NEXT_STEP)

    def replaces(self, session: Session, row: PackageRow) -> bool:
        """This (authorized) session's profile should keep the package, because the one that claimed it cannot."""
        if session.explicit or session.profile.name == row.pin.profile_name:
            return False
        return bool(self.look().refused(row.pin))
