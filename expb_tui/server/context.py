"""What a handler works with: the unit of work (connection, clock, changes), the call on top of it, and the services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from sqlalchemy import Connection, Select
from sqlalchemy.exc import IntegrityError

from expb_tui.server.events import record_event
from expb_tui.server.problems import Problem, already_exists, not_found, stale
from expb_tui.server.resources import Kind, RowOf, envelope, name_key

if TYPE_CHECKING:
    from starlette.requests import Request

    from expb_tui.server.config import ServerSettings
    from expb_tui.server.event_stream import Streams
    from expb_tui.server.identity.passwords import Passwords
    from expb_tui.server.store.database import Database


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes a record, and by which authority (contract, section 1.1)."""

    type: Literal["user", "agent", "service"]
    id: str | None
    authority: str


SERVICE = Actor("service", None, "service")
"""The server itself: seeding, expiry."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated bearer. ``account_role`` is for users only; ``expires_at`` ends the credential.

    A system session has no account: its ``account_id`` is empty, which no record's is.
    """

    type: Literal["user", "agent"]
    account_id: str
    credential_id: str
    user_id: str | None = None
    agent_id: str | None = None
    account_role: str | None = None
    expires_at: datetime | None = None
    scope: str = "account"
    system_entitled: bool = False

    @property
    def is_system(self) -> bool:
        return self.scope == "system"

    @property
    def is_account_admin(self) -> bool:
        return self.account_role in ("owner", "admin")

    def acting(self, authority: str) -> Actor:
        """The caller as the one who changes something."""
        return Actor(self.type, self.user_id or self.agent_id, authority)


class Unit:
    """One transaction: its connection, the clock and who acts; changes are noted for the event stream.

    ``now`` is the database clock at the last ``read_clock()``; call that again after taking locks.
    """

    def __init__(
        self,
        conn: Connection,
        database: Database,
        *,
        actor: Actor = SERVICE,
        now: datetime | None = None,
    ) -> None:
        self.conn = conn
        self.database = database
        self.actor = actor
        self.now = now if now is not None else database.clock(conn)

    def read_clock(self) -> datetime:
        """The database clock at this moment; also kept as ``now``."""
        self.now = self.database.clock(self.conn)
        return self.now

    def fetch(self, kind: Kind, uid: str, *, lock: bool = False) -> RowOf:
        """The row of a kind by its uid, locked if asked. Raises 404; says nothing about who may see it."""
        query = kind.fetching_locked if lock and self.database.postgres else kind.fetching
        row = self.conn.execute(query, {"of_uid": uid}).one_or_none()
        if row is None:
            raise not_found()
        return row

    def one(self, query: Select[Any], *, lock: bool = False) -> RowOf | None:
        """The only row of a query, locked if asked, or None."""
        return self.conn.execute(self.database.lock(query) if lock else query).one_or_none()

    def insert(
        self,
        kind: Kind,
        *,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        phase: str = "active",
        uid: str | None = None,
        actor: Actor | None = None,
        taken: str = "There is such a record already.",
        **columns: Any,
    ) -> RowOf:
        """A new record, version 1; an empty name becomes its uid. Raises 409 ``already-exists``, saying ``taken``."""
        actor = actor or self.actor
        uid = uid or str(uuid4())
        name = name.strip() or uid
        values = {
            "id": uid,
            "name": name,
            "name_key": name_key(name),
            "labels": dict(labels or {}),
            "version": 1,
            "created_at": self.now,
            "updated_at": self.now,
            "phase": phase,
            "authority": actor.authority,
            "modified_by_type": actor.type,
            "modified_by": actor.id,
            **columns,
        }
        try:
            row = self.conn.execute(kind.inserting, values).one()
        except IntegrityError as error:
            raise _duplicate(error, taken) from error
        self.changed(kind, row, "create")
        return row if kind.query is None else self.fetch(kind, uid)

    def update(self, kind: Kind, row: RowOf, **columns: Any) -> RowOf:
        """The record with these columns changed and its version raised; 412 if another was faster."""
        values = {
            "of_uid": row.id,
            "of_version": row.version,
            "version": row.version + 1,
            "updated_at": self.now,
            "modified_by_type": self.actor.type,
            "modified_by": self.actor.id,
            **columns,
        }
        try:
            changed = self.conn.execute(kind.updating, values).one_or_none()
        except IntegrityError as error:
            raise _duplicate(error, "Another record has that name.") from error
        if changed is None:
            raise stale()
        self.changed(kind, changed, "update")
        return changed if kind.query is None else self.fetch(kind, row.id)

    def changed(self, kind: Kind, row: RowOf, action: Literal["create", "update"] = "update") -> None:
        """Note a change for the event stream; ``insert`` and ``update`` do it themselves."""
        account_id = row.account_id if kind.account else row.id if kind.name == "accounts" else None
        if kind.announced and account_id is not None:
            record_event(
                self.conn,
                kind=kind.name,
                uid=row.id,
                account_id=account_id,
                project_id=row.project_id if kind.project else None,
                version=row.version,
                action=action,
            )


def _duplicate(error: IntegrityError, detail: str) -> Exception:
    """409 for a unique key that is taken; anything else is our own mistake and stays what it is."""
    taken = getattr(error.orig, "sqlstate", None) == "23505" or "UNIQUE constraint" in str(error.orig)
    return already_exists(detail) if taken else error


@dataclass
class Services:
    """What lives as long as the server process."""

    settings: ServerSettings
    database: Database
    passwords: Passwords
    issuer: str = ""
    """The origin that people and clients use; known once the socket is bound."""
    stopping: bool = False

    event_streams: Streams | None = None

    def close(self) -> None:
        """End the workers and give back the database."""
        self.passwords.close()
        self.database.close()


@dataclass(slots=True)
class Answer:
    """What a handler answers: a JSON value, a status and extra headers."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Call(Unit):
    """One request of an operation, inside its transaction.

    ``path`` holds the (lower-case) uids of the URL by name, ``query`` the declared parameters that were sent, parsed;
    ``headers`` is lower-case. ``caller`` is None for anonymous operations only; ``me`` spares the check.
    """

    def __init__(
        self,
        conn: Connection,
        services: Services,
        *,
        caller: Caller | None,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        request_id: str,
        now: datetime,
    ) -> None:
        actor = SERVICE
        if caller is not None:
            actor = caller.acting("research-agent" if caller.type == "agent" else "user")
        super().__init__(conn, services.database, actor=actor, now=now)
        self.request_id = request_id
        self.services = services
        self.caller = caller
        self.path = path
        self.query = query
        self.headers = headers

    @property
    def me(self) -> Caller:
        if self.caller is None:
            raise Problem(401, "unauthenticated", "Sign in first.")
        return self.caller

    def match(self, row: RowOf) -> None:
        """412 unless ``If-Match`` is exactly the row's ETag (its presence was checked before)."""
        if self.headers.get("if-match") != etag(row.version):
            raise stale()

    def act_as(self, authority: str) -> None:
        """From here on changes are recorded under this authority, such as ``project-administrator``."""
        self.actor = self.me.acting(authority)


@dataclass
class Exchange:
    """One request of a raw operation (pages, OAuth, streams): no transaction is open."""

    services: Services
    request: Request
    caller: Caller | None
    query: Mapping[str, Any]
    request_id: str
    client_address: str


def etag(version: int) -> str:
    """The ETag of a version, with its quotes."""
    return f'"{version}"'


def item(kind: Kind, row: RowOf) -> Answer:
    """200 with the envelope and its ETag."""
    return Answer(envelope(kind, row), headers={"ETag": etag(row.version)})


def created(kind: Kind, row: RowOf, **once: str) -> Answer:
    """201 with Location and ETag; with ``once`` (one-time data) an operation result, else the bare envelope."""
    headers = {"ETag": etag(row.version), "Location": kind.path(row.id)}
    if not once:
        return Answer(envelope(kind, row), 201, headers)
    headers["Cache-Control"] = "no-store"
    return Answer({"resource": envelope(kind, row), **once}, 201, headers)


def result(kind: Kind, row: RowOf, status: int = 200) -> Answer:
    """An operation result without one-time data."""
    headers = {"ETag": etag(row.version)}
    if status == 201:
        headers["Location"] = kind.path(row.id)
    return Answer({"resource": envelope(kind, row)}, status, headers)
