"""The journal: packages, tokens, intents, drafts and receipts of this host in one SQLite file.

Each method is one transaction, and none spans an await. Intents are written before the request that they stand for,
success only after its answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from expb_tui.core.leases import drafts as versions
from expb_tui.core.leases import statements
from expb_tui.core.leases.door import BUSY, Door
from expb_tui.core.leases.drafts import Draft, DraftMoved
from expb_tui.core.leases.looks import Changes, Overview
from expb_tui.core.leases.model import Receipt
from expb_tui.core.leases.owner import Owner
from expb_tui.core.leases.salvage import Salvaged, identity
from expb_tui.core.leases.schema import (
    ENDED_PHASES,
    LEASE_COLUMNS,
    MIGRATIONS,
    Intent,
    PackageRow,
    Pin,
    from_instant,
    receipt_columns,
    receipt_of,
)
from expb_tui.core.paths import state_dir
from expb_tui.core.secret import SecretStr

_RECEIPTS_OF_PACKAGES = (
    "SELECT receipt.* FROM receipt JOIN package"
    " ON package.endpoint = receipt.endpoint AND package.uid = receipt.package_uid"
)
"""Receipts stay for ever, packages for a month."""
_DRAFTED = (
    "SELECT package.endpoint, draft.package_uid, draft.task_id FROM draft"
    " JOIN package ON package.uid = draft.package_uid"
)
_OPEN_INTENTS = "SELECT * FROM intent WHERE settled_at IS NULL"
_ONLY = (" WHERE uid = ?", " WHERE package.uid = ?", " AND package_uid = ?")
"""What narrows a look at packages, receipts and intents to one package."""
_ENDED = "phase IN ('" + "', '".join(sorted(ENDED_PHASES)) + "')"


@dataclass(frozen=True)
class KeptPin:
    """A kept package that has not ended: whom it belongs to, and its lease's end by the service's clock."""

    uid: str
    pin: Pin
    expires_at: datetime | None
    keeping_problem: str


class Journal:
    """Opens on first use. Raises what ``Door`` raises."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or state_dir() / "journal.db"
        self._door = Door(self.path, MIGRATIONS)
        before = self._door.salvage.last()
        self._salvaged_before = before.at if before else None

    @property
    def folder(self) -> Path:
        """Where the locks of packages stand too."""
        return self.path.parent

    @property
    def file(self) -> tuple[int, int] | None:
        """Tells the file that counts now from one that stood there before; one ``stat``."""
        return identity(self.path)

    @property
    def closed(self) -> bool:
        """Nothing more can be read or written."""
        return self._door.closed

    def version(self) -> int:
        """A number that changes with every commit of any process; microseconds, never waits for a writer."""
        return self._door.version()

    def still(self, patience: float = BUSY) -> AbstractContextManager[None]:
        """No transaction of this process is open inside the block; for the moment before it is stopped."""
        return self._door.still(patience)

    def salvaged(self, *, since_opened: bool = False) -> Salvaged | None:
        """The latest time that a damaged journal was set aside on this host; or since this was made. One ``stat``."""
        told = self._door.salvage.last()
        return None if since_opened and told is not None and told.at == self._salvaged_before else told

    async def mark_listed(self, endpoint: str, agent_id: str) -> None:
        """After a salvage: this agent's packages have been asked for. Raises ``FileProblem``."""
        await self._door.read(lambda _: self._door.salvage.mark_listed(endpoint, agent_id))

    async def aclose(self) -> None:
        """Close the file; safe to call twice."""
        await self._door.aclose()

    async def overview(self, only: str | None = None) -> Overview:
        """One consistent look at everything, or at what there is about the packages of the id ``only``."""
        about, of_receipt, of_intent = ("", "", "") if only is None else _ONLY
        values = () if only is None else (only,)

        def look(db: sqlite3.Connection) -> Overview:
            db.execute("BEGIN")
            try:
                packages = db.execute(f"SELECT * FROM package{about} ORDER BY id", values)  # noqa: S608 - own words
                intents = db.execute(f"{_OPEN_INTENTS}{of_intent} ORDER BY id", values)
                receipts = db.execute(f"{_RECEIPTS_OF_PACKAGES}{of_receipt} ORDER BY receipt.id DESC", values)
                drafts = db.execute(_DRAFTED)
                return Overview(
                    [PackageRow.of(row) for row in packages],
                    [Intent.of(row) for row in intents],
                    [receipt_of(row) for row in receipts],
                    frozenset(tuple(row) for row in drafts),
                )
            finally:
                db.execute("COMMIT")

        return await self._door.read(look)

    # Packages

    async def packages(self) -> list[PackageRow]:
        """Every package of this host."""
        return await self._door.read(
            lambda db: [PackageRow.of(row) for row in db.execute("SELECT * FROM package ORDER BY id").fetchall()]
        )

    async def newest(self) -> int:
        """The row number of the latest package; cheap, and it grows with each new one."""
        return await self._door.read(lambda db: int(db.execute("SELECT max(id) FROM package").fetchone()[0] or 0))

    async def kept(self) -> list[KeptPin]:
        """Whom the leases belong to that renewers look after; neither documents nor tokens are read."""
        names = tuple(Pin.__dataclass_fields__)
        wanted = (
            f"SELECT uid, expires_at, keeping_problem, {', '.join(names)} FROM package"  # noqa: S608 - own words
            f" WHERE kept AND token IS NOT NULL AND lost_code = '' AND NOT {_ENDED} ORDER BY id"
        )

        def find(db: sqlite3.Connection) -> list[KeptPin]:
            return [
                KeptPin(
                    row["uid"],
                    Pin(*(row[name] for name in names)),
                    from_instant(row["expires_at"]),
                    row["keeping_problem"],
                )
                for row in db.execute(wanted).fetchall()
            ]

        return await self._door.read(find)

    async def package(self, uid: str, endpoint: str | None = None) -> PackageRow | None:
        """The package of that id; ``endpoint`` tells two services' packages apart."""

        def find(db: sqlite3.Connection) -> PackageRow | None:
            rows = db.execute("SELECT * FROM package WHERE uid = ? ORDER BY id DESC", (uid,)).fetchall()
            fit = [row for row in rows if endpoint in (None, row["endpoint"])]
            return PackageRow.of(fit[0]) if fit else None

        return await self._door.read(find)

    async def merge(self, row: PackageRow) -> PackageRow:
        """Take in what the server said of a package; the rules are ``schema.merged``'s."""
        return await self._door.write(lambda db: statements.merge(db, row), critical=True)

    async def changes(self, since: int) -> Changes:
        """What was written after the number ``since``; with -1 every package that has a token."""

        def look(db: sqlite3.Connection) -> Changes:
            where = "changed > ?" if since >= 0 else "changed > ? AND token IS NOT NULL"
            statement = f"SELECT {LEASE_COLUMNS} FROM package WHERE {where}"  # noqa: S608 - own words
            db.execute("BEGIN")
            try:
                number, rows = db.execute("SELECT coalesce(max(changed), 0), count(*) FROM package").fetchone()
                return Changes([PackageRow.of(row) for row in db.execute(statement, (since,))], number, rows)
            finally:
                db.execute("COMMIT")

        return await self._door.read(look)

    async def merge_renewals(self, rows: Iterable[PackageRow]) -> list[PackageRow | None]:
        """Take in many answers about journaled packages at once; None for one that has been forgotten meanwhile."""
        answers = list(rows)

        def take_in(db: sqlite3.Connection) -> list[PackageRow | None]:
            return [statements.merge(db, row) if statements.known(db, row) else None for row in answers]

        return await self._door.write(take_in, critical=True)

    async def lose(self, row_id: int, code: str, reason: str, *, token: SecretStr | None) -> PackageRow:
        """Mark a lease as lost, unless a newer token than ``token`` has been journaled meanwhile."""

        def mark(db: sqlite3.Connection) -> PackageRow:
            (ended,) = db.execute(f"SELECT {_ENDED} FROM package WHERE id = ?", (row_id,)).fetchone()  # noqa: S608 - own words
            if not ended:
                db.execute(
                    "UPDATE package SET lost_code = ?, lost_reason = ? WHERE id = ? AND token IS ?",
                    (code, reason, row_id, token.get_secret_value() if token else None),
                )
            return PackageRow.of(db.execute("SELECT * FROM package WHERE id = ?", (row_id,)).fetchone())

        return await self._door.write(mark)

    async def set_kept(self, uids: Iterable[str], kept: bool) -> None:
        """Whether renewers look after these packages; unknown ones are passed over."""
        await self._mark("kept", int(kept), uids)

    async def set_keeping_problem(self, uids: Iterable[str], problem: str) -> None:
        """Why renewers cannot look after these packages; empty for nothing in the way."""
        await self._mark("keeping_problem", problem, uids)

    async def _mark(self, column: Literal["kept", "keeping_problem"], value: int | str, uids: Iterable[str]) -> None:
        wanted = [(value, uid, value) for uid in uids]

        def mark(db: sqlite3.Connection) -> None:
            statement = f"UPDATE package SET {column} = ? WHERE uid = ? AND {column} <> ?"  # noqa: S608 - own words
            db.executemany(statement, wanted)

        await self._door.write(mark)

    # Intents

    async def intend(self, intent: Intent) -> Intent:
        """Write down a request before it is sent."""
        return await self._door.write(lambda db: replace(intent, id=statements.insert(db, "intent", intent.columns())))

    async def reserve(self) -> None:
        """Make sure that the answer of a claim can be written even if the disk fills up meanwhile."""
        await self._door.reserve()

    async def rekey(self, intent: Intent, key: str) -> Intent:
        """The same intent goes on with a fresh key, journaled before it is used."""

        def change(db: sqlite3.Connection) -> Intent:
            db.execute("UPDATE intent SET key = ? WHERE id = ?", (key, intent.id))
            return replace(intent, key=key)

        return await self._door.write(change)

    async def settle(self, intent: Intent, outcome: str, package: PackageRow | None = None) -> PackageRow | None:
        """The answer of a request is known: one transaction for it and the package that it brought."""

        def finish(db: sqlite3.Connection) -> PackageRow | None:
            row = statements.merge(db, package) if package is not None else None
            statements.settle(db, intent, outcome)
            return row

        return await self._door.write(finish, critical=True)

    async def settle_submission(
        self, intent: Intent | None, receipt: Receipt, package: PackageRow
    ) -> tuple[Receipt, PackageRow]:
        """A submission is confirmed: receipt, package and intent together; the draft has served its purpose."""

        def finish(db: sqlite3.Connection) -> tuple[Receipt, PackageRow]:
            row = statements.merge(db, package)
            columns = receipt_columns(row.pin.endpoint, receipt)
            names = ", ".join(columns)
            db.execute(
                f"INSERT OR IGNORE INTO receipt ({names}) VALUES ({', '.join('?' * len(columns))})",  # noqa: S608 - own names
                tuple(columns.values()),
            )
            versions.served(db, receipt.package_id, receipt.task_id)
            if intent is not None:
                statements.settle(db, intent, "done")
            kept = db.execute(
                "SELECT * FROM receipt WHERE endpoint = ? AND package_uid = ? AND task_id = ?",
                (row.pin.endpoint, receipt.package_id, receipt.task_id),
            ).fetchone()
            return receipt_of(kept), row

        return await self._door.write(finish, critical=True)

    async def give_up(self, intent: Intent) -> None:
        """Its process no longer waits for the answer; anybody may resolve it."""
        await self._door.write(
            lambda db: db.execute("UPDATE intent SET given_up = 1 WHERE id = ?", (intent.id,)).rowcount
        )

    async def take_over(self, intent: Intent, owner: Owner) -> bool:
        """Take an intent from a dead process, or from one that gave up; False where somebody else was quicker."""

        def take(db: sqlite3.Connection) -> bool:
            new = (owner.host, owner.boot, owner.pid, owner.start)
            old = (intent.owner.host, intent.owner.boot, intent.owner.pid, intent.owner.start)
            changed = db.execute(
                "UPDATE intent SET owner_host = ?, owner_boot = ?, owner_pid = ?, owner_start = ?, given_up = 0"
                " WHERE id = ? AND settled_at IS NULL AND given_up = ?"
                " AND owner_host = ? AND owner_boot = ? AND owner_pid = ? AND owner_start = ?",
                (*new, intent.id, int(intent.given_up), *old),
            ).rowcount
            return changed == 1

        return await self._door.write(take)

    async def repin(self, row_id: int, pin: Pin) -> PackageRow:
        """Tie a package to another profile of the same agent."""

        def change(db: sqlite3.Connection) -> PackageRow:
            db.execute(
                "UPDATE package SET credential_id = ?, profile_name = ?, profile_file = ? WHERE id = ?",
                (pin.credential_id, pin.profile_name, pin.profile_file, row_id),
            )
            return PackageRow.of(db.execute("SELECT * FROM package WHERE id = ?", (row_id,)).fetchone())

        return await self._door.write(change)

    async def open_intents(self) -> list[Intent]:
        """Requests whose answer is not known, oldest first."""
        return await self._door.read(
            lambda db: [
                Intent.of(row)
                for row in db.execute("SELECT * FROM intent WHERE settled_at IS NULL ORDER BY id").fetchall()
            ]
        )

    # Drafts and receipts

    async def save_draft(
        self,
        package_id: str,
        task_id: str,
        values: dict[str, Any],
        text: str | None,
        *,
        based_on: Draft | None = None,
        mark: str = "",
    ) -> Draft:
        """Durable when it returns. Raises ``DraftMoved`` where the draft is not what this was ``based_on`` any more;
        what was to be written is then kept beside it, under ``mark``."""
        saved, moved = await self._door.write(
            lambda db: versions.save(db, package_id, task_id, values, text, based_on, mark)
        )
        if moved is not None:
            raise DraftMoved(moved)
        return saved

    async def draft(self, package_id: str, task_id: str) -> Draft | None:
        """The draft of a task."""
        found = await self.drafts((package_id, task_id))
        return found[0] if found else None

    async def drafts(self, only: tuple[str, str] | None = None) -> list[Draft]:
        """Every draft, or the one of a package and task."""
        where, values = (" WHERE package_uid = ? AND task_id = ?", only) if only else ("", ())
        query = f"SELECT * FROM draft{where}"  # noqa: S608 - one of two own texts
        return await self._door.read(lambda db: [versions.of(row) for row in db.execute(query, values).fetchall()])

    async def take_draft(self, package_id: str, version: Draft) -> Draft:
        """One of several versions goes on as the draft of its task; what it replaces is kept beside it."""
        return await self._door.write(lambda db: versions.take(db, package_id, version))

    async def other_drafts(self, package_id: str, task_id: str) -> list[Draft]:
        """Other versions of the draft of a task, newest first."""
        return await self._door.read(lambda db: versions.others(db, package_id, task_id))

    async def drop_draft(self, package_id: str, task_id: str) -> None:
        """Forget a draft."""
        await self._door.write(
            lambda db: (
                db.execute("DELETE FROM draft WHERE package_uid = ? AND task_id = ?", (package_id, task_id)).rowcount
            )
        )

    async def receipts(self) -> list[Receipt]:
        """Every receipt, newest first."""
        return await self._door.read(
            lambda db: [receipt_of(row) for row in db.execute("SELECT * FROM receipt ORDER BY id DESC").fetchall()]
        )

    async def tokens(self) -> list[SecretStr]:
        """Every lease token that is still kept, for the search for secrets in submissions."""
        return await self._door.read(
            lambda db: [
                SecretStr(row["token"])
                for row in db.execute("SELECT token FROM package WHERE token IS NOT NULL").fetchall()
            ]
        )
