"""Sessions and their token pairs: issue, rotate, revoke (contract, sections 2.5 and 2.6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import and_, delete, insert, select, update

from expb_tui.server.config import Lifetimes
from expb_tui.server.context import Actor, Unit
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.entitlements import is_entitled
from expb_tui.server.identity.kinds import SESSIONS
from expb_tui.server.resources import RowOf
from expb_tui.server.store.schema import (
    account_memberships,
    accounts,
    credentials,
    sessions,
    system_entitlements,
    users,
)
from expb_tui.wire.oauth import TokenAnswer


@dataclass(frozen=True, slots=True)
class SignIn:
    """How a person signed in: what a new session remembers. Without an account it is a system session."""

    user_id: str
    account_id: str | None
    client_id: str
    authenticated_at: datetime
    method: str
    origin: str
    ip_address: str
    user_agent: str


def open_session(unit: Unit, lifetimes: Lifetimes, sign_in: SignIn) -> TokenAnswer:
    """A new session with its first pair of tokens; the refresh token's end is counted from now on."""
    row = unit.insert(
        SESSIONS,
        actor=Actor("user", sign_in.user_id, "user"),
        account_id=sign_in.account_id,
        user_id=sign_in.user_id,
        scope=scope_of(sign_in.account_id),
        client_id=sign_in.client_id,
        authenticated_at=sign_in.authenticated_at,
        authentication_method=sign_in.method,
        origin=sign_in.origin,
        ip_address=sign_in.ip_address,
        user_agent=sign_in.user_agent,
        expires_at=unit.now + timedelta(seconds=lifetimes.access_token),
        refresh_expires_at=unit.now + timedelta(seconds=lifetimes.refresh_token),
    )
    return _issue(unit, lifetimes, row.id, row.account_id, row.refresh_expires_at)


def rotate(unit: Unit, lifetimes: Lifetimes, session: RowOf, spent: bytes) -> TokenAnswer:
    """A new pair; every earlier access token is gone and the refresh token is remembered as spent."""
    record = credentials.c
    unit.conn.execute(delete(credentials).where(record.session_id == session.id, record.purpose == "access"))
    unit.conn.execute(update(credentials).where(record.verifier == spent).values(spent_at=unit.now))
    answer = _issue(unit, lifetimes, session.id, session.account_id, session.refresh_expires_at)
    expires_at = unit.now + timedelta(seconds=answer.expires_in)
    unit.conn.execute(update(sessions).where(sessions.c.id == session.id).values(expires_at=expires_at))
    return answer


def revoke_session(unit: Unit, session: RowOf, actor: Actor | None = None) -> None:
    """End a session: neither of its tokens works any more. Does nothing to one that has ended."""
    if session.phase != "active":
        return
    unit.conn.execute(delete(credentials).where(credentials.c.session_id == session.id))
    if actor is not None:
        unit.actor = actor
    unit.update(SESSIONS, session, phase="revoked")


def end_system_sessions(unit: Unit) -> None:
    """Revoke the system sessions of users who are not entitled any more, so that no later grant revives them."""
    session = sessions.c
    query = select(session.id).where(
        session.scope == "system",
        session.phase == "active",
        session.user_id.not_in(select(system_entitlements.c.user_id)),
    )
    for uid in unit.conn.execute(query.order_by(session.id)).scalars().all():
        revoke_session(unit, unit.fetch(SESSIONS, uid, lock=True))


def scope_of(account_id: str | None) -> Literal["account", "system"]:
    """The scope of a session by its account."""
    return "system" if account_id is None else "account"


def may_sign_in(unit: Unit, user_id: str, account_id: str | None) -> bool:
    """Whether user, account and membership are all active; without an account, whether the user is entitled."""
    if account_id is None:
        active = select(users.c.id).where(users.c.id == user_id, users.c.phase == "active")
        return unit.one(active) is not None and is_entitled(unit, user_id)
    member = account_memberships.c
    query = (
        select(member.id)
        .join(users, users.c.id == member.user_id)
        .join(accounts, accounts.c.id == member.account_id)
        .where(
            and_(member.user_id == user_id, member.account_id == account_id),
            member.phase == "active",
            users.c.phase == "active",
            accounts.c.phase == "active",
        )
    )
    return unit.conn.execute(query).one_or_none() is not None


def _issue(
    unit: Unit, lifetimes: Lifetimes, session_id: str, account_id: str | None, refresh_expires_at: datetime
) -> TokenAnswer:
    access, refresh = new_secret(), new_secret()
    # An access token never outlives the thirty days of its session.
    expires_at = min(unit.now + timedelta(seconds=lifetimes.access_token), refresh_expires_at)
    common = {"account_id": account_id, "session_id": session_id}
    unit.conn.execute(
        insert(credentials),
        [
            {**common, "verifier": verifier(access), "purpose": "access", "expires_at": expires_at},
            {**common, "verifier": verifier(refresh), "purpose": "refresh", "expires_at": refresh_expires_at},
        ],
    )
    return TokenAnswer.model_validate(
        {
            "access_token": access,
            "refresh_token": refresh,
            "expires_in": int((expires_at - unit.now).total_seconds()),
            "scope": scope_of(account_id),
            "account_id": account_id,
        }
    )
