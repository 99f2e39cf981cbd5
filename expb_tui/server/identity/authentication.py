"""Who a bearer is: one indexed query from the token's verifier to everything that must still be active."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, func, literal, or_, select, update

from expb_tui.server.context import Caller
from expb_tui.server.problems import Problem
from expb_tui.server.store.database import Database
from expb_tui.server.store.schema import (
    account_memberships,
    accounts,
    agent_identities,
    agent_tokens,
    credentials,
    sessions,
    system_entitlements,
    users,
)

SEEN_GRANULARITY = timedelta(seconds=1)
"""``lastSeenAt`` is refreshed by every request of an agent, but written at most this often."""


def new_secret() -> str:
    """An opaque token or code: 43 characters of base64url (contract, section 2)."""
    return secrets.token_urlsafe(32)


def verifier(secret: str) -> bytes:
    """What is stored instead of a token or code."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The caller, the database clock when it was found, and whether its ``lastSeenAt`` is due."""

    caller: Caller
    now: datetime
    seen_due: bool


def _query(clock: Any) -> Select[Any]:
    cred, session, user, member = credentials.c, sessions.c, users.c, account_memberships.c
    token, agent, account = agent_tokens.c, agent_identities.c, accounts.c
    entitled = system_entitlements.c.user_id
    joined = (
        credentials.outerjoin(accounts, account.id == cred.account_id)
        .outerjoin(sessions, session.id == cred.session_id)
        .outerjoin(users, user.id == session.user_id)
        .outerjoin(account_memberships, and_(member.user_id == user.id, member.account_id == cred.account_id))
        .outerjoin(system_entitlements, entitled == user.id)
        .outerjoin(agent_tokens, token.id == cred.agent_token_id)
        .outerjoin(agent_identities, agent.id == token.agent_id)
    )
    return (
        select(
            clock.label("now"),
            cred.purpose,
            cred.expires_at,
            cred.account_id,
            cred.session_id,
            cred.agent_token_id,
            session.user_id,
            session.scope,
            entitled.is_not(None).label("entitled"),
            member.role,
            token.agent_id,
            agent.last_seen_at,
        )
        .select_from(joined)
        .where(
            cred.verifier == bindparam("verifier"),
            or_(
                and_(
                    cred.purpose == "access",
                    session.phase == "active",
                    user.phase == "active",
                    or_(
                        and_(session.scope == "account", account.phase == "active", member.phase == "active"),
                        and_(session.scope == "system", entitled.is_not(None)),
                    ),
                ),
                and_(
                    cred.purpose == "agent",
                    account.phase == "active",
                    token.phase == "active",
                    agent.phase == "active",
                ),
            ),
        )
    )


_POSTGRES_QUERY = _query(func.clock_timestamp())
_SQLITE_QUERY = _query(literal(None))
_SEEN = (
    update(agent_identities)
    .where(agent_identities.c.id == bindparam("agent"))
    .values(last_seen_at=bindparam("seen", type_=agent_identities.c.last_seen_at.type))
)
_SEEN_IF_FREE = _SEEN.where(
    agent_identities.c.id.in_(
        select(agent_identities.c.id)
        .where(agent_identities.c.id == bindparam("agent"))
        .with_for_update(key_share=True, skip_locked=True)
    )
)


def bearer(header: str | None) -> str:
    """The token of an Authorization header; the scheme's text must be exactly ``Bearer ``. Raises 401."""
    if header is None or not header.startswith("Bearer "):
        raise unauthenticated()
    token = header[7:]
    if not token or len(token) > 512 or token.strip() != token:
        raise unauthenticated()
    return token


def unauthenticated() -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "The token is missing, expired or revoked; sign in again.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def authenticate(database: Database, conn: Connection, token: str) -> Authenticated:
    """The caller behind a token. Raises 401 where it, or anything that it stands on, is not active any more."""
    query = _POSTGRES_QUERY if database.postgres else _SQLITE_QUERY
    asked = datetime.now(UTC)
    row = conn.execute(query, {"verifier": verifier(token)}).one_or_none()
    if row is None:
        raise unauthenticated()
    now = database.clock(conn) if row.now is None else database.compare_clocks(row.now, asked)
    if row.expires_at is not None and row.expires_at <= now:
        raise unauthenticated()
    if row.purpose == "agent":
        due = row.last_seen_at is None or now - row.last_seen_at >= SEEN_GRANULARITY
        caller = Caller("agent", row.account_id, row.agent_token_id, agent_id=row.agent_id, expires_at=row.expires_at)
        return Authenticated(caller, now, due)
    caller = Caller(
        "user",
        row.account_id or "",
        row.session_id,
        user_id=row.user_id,
        account_role=row.role,
        expires_at=row.expires_at,
        scope=row.scope,
        system_entitled=bool(row.entitled),
    )
    return Authenticated(caller, now, False)


def mark_seen(conn: Connection, who: Authenticated, *, wait: bool = True) -> None:
    """Write ``lastSeenAt`` where it is due. Last in a transaction, so that it takes no lock out of order.

    Without ``wait`` an agent whose row is locked is left alone: whoever holds it is that agent at work, and writes it.
    """
    if who.seen_due:
        conn.execute(_SEEN if wait else _SEEN_IF_FREE, {"agent": who.caller.agent_id, "seen": who.now})
