"""What every act of the desk needs, and how an answer about a package becomes a row of the journal."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.core.api.work import LARGEST_COUNT, PackageAnswer, WorkApi
from expb_tui.core.clock import Clock, boot_id
from expb_tui.core.leases.credentials import Credentials
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import HeldPackage, LeaseTimes, NotHeld
from expb_tui.core.leases.owner import this_process
from expb_tui.core.leases.schema import Intent, PackageRow, Pin

if TYPE_CHECKING:
    from expb_tui.core.leases.saving import Saver
    from expb_tui.core.profiles.session import Session

_LONGEST = 366 * 86_400.0
"""Seconds: a length of lease beyond it is not believed."""


@dataclass(frozen=True)
class Context:
    """The journal, who may act, how to ask the server, and the time; ``patience`` is seconds for one act."""

    journal: Journal
    credentials: Credentials
    api: WorkApi
    clock: Clock
    patience: float
    saver: Saver | None = None
    """Where a renewer's answers are journaled; None: at once, each by itself."""

    async def save(self, told: PackageRow, known: PackageRow) -> PackageRow:
        """Journal an answer about the package ``known``. ``FileProblem``; from a renewer's saver ``NotJournaled``."""
        return await (self.saver.save(told, known) if self.saver else self.journal.merge(told))

    async def row(self, session: Session, package_id: str) -> PackageRow:
        """The journaled package, after making sure that ``session`` may act for it. ``NotHeld``, ``NoCredential``."""
        row = await self.journal.package(package_id, session.endpoint)
        if row is None:
            row = await self.journal.package(package_id)
        if row is None:
            raise NotHeld.package(package_id)
        await self.credentials.authorize(session, row.pin)
        if self.credentials.replaces(session, row):
            row = await self.journal.repin(row.id, await self.credentials.pin(session))
        return row

    def row_of(self, answer: PackageAnswer, pin: Pin, *, project_name: str = "", project_id: str = "") -> PackageRow:
        """What the journal shall hold of an answer that has a package."""
        package = answer.package
        assert package is not None
        now = self.clock.now()
        lease = package.status.lease
        return PackageRow(
            pin,
            package.uid,
            package.metadata.project or project_id,
            project_name,
            package.spec.role,
            answer.version,
            package.status.phase,
            answer.token,
            answer.document,
            self._times(answer),
            min(max(0, lease.renewals), LARGEST_COUNT) if lease else 0,
            now,
            now,
        )

    def _times(self, answer: PackageAnswer) -> LeaseTimes | None:
        """None where there is no lease, or one that is told in numbers beyond all measure: its token is kept."""
        try:
            return self._reckoned(answer)
        except (OverflowError, ValueError):
            return None

    def _reckoned(self, answer: PackageAnswer) -> LeaseTimes | None:
        assert answer.package is not None
        lease = answer.package.status.lease
        if lease is None:
            return None
        sent = answer.answer.sent_ticks
        sent_wall = self.clock.now() - timedelta(seconds=max(0.0, self.clock.ticks() - sent))
        date = answer.answer.date or sent_wall
        length = float(lease.lease_seconds or 0) if (lease.lease_seconds or 0) <= _LONGEST else 0.0
        if length <= 0:
            length = max(1.0, (lease.expires_at - date).total_seconds())
        return LeaseTimes(lease.expires_at, lease.absolute_expires_at, float(length), date, sent_wall, sent, boot_id())

    def intent(
        self,
        kind: Literal["claim", "submit", "release"],
        pin: Pin,
        *,
        key: str,
        route: str,
        body: Any,
        project_id: str = "",
        project_name: str = "",
        role: str = "",
        package_uid: str = "",
        task_id: str = "",
    ) -> Intent:
        """A request about to be sent by this process."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return Intent(
            kind,
            key,
            route,
            body,
            digest,
            pin,
            this_process(),
            self.clock.now(),
            self.clock.ticks(),
            boot_id(),
            project_id,
            project_name,
            role,
            package_uid,
            task_id,
        )

    async def held(self, row: PackageRow) -> HeldPackage:
        """A row as a face sees it."""
        problem = self.credentials.look().refused(row.pin) if row.pin.profile_name else ""
        return (await self.journal.overview(row.uid)).held(row, self.clock, problem)
