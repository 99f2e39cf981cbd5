"""The steps behind the approval page (contract, section 2.9; hazards 13), as functions of one transaction.

A try at a password is counted before the password is looked at, per e-mail address, known or not; success takes the
count back. A device request is decided once, and only by an explicit decision of somebody who has signed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import case, delete, insert, select, update

from expb_tui.server.config import Lifetimes, RequestLimits
from expb_tui.server.context import Unit
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.entitlements import is_entitled
from expb_tui.server.oauth.sessions import scope_of
from expb_tui.server.resources import RowOf, name_key
from expb_tui.server.store.schema import (
    account_memberships,
    accounts,
    device_requests,
    sign_in_failures,
    sign_in_methods,
    sign_in_tickets,
    users,
)


@dataclass(frozen=True, slots=True)
class Account:
    """An account that the person may sign in to."""

    id: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class System:
    """The whole server instead of one account; for entitled users."""

    id: str = "system"


@dataclass(frozen=True, slots=True)
class Question:
    """What the second page asks: who wants in, from where, since when, and into which account or the system.

    ``system`` says whether the person may choose the system, ``asked_system`` whether the program asked for it.
    """

    code: str
    client_id: str
    ip_address: str
    age: timedelta
    remaining: timedelta
    email: str
    ticket: str
    accounts: Sequence[Account]
    chosen: Account | System | None
    system: bool
    asked_system: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The end: ``approved`` for an account or the system, or denied."""

    approved: bool
    client_id: str
    chosen: Account | System | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing was decided, in words for the person."""

    reason: str


def normal_code(typed: str) -> str:
    """A user code as the server compares it: people type small letters and stray spaces."""
    return "".join(typed.split()).upper()[:64]


def count_try(unit: Unit, limits: RequestLimits, email: str) -> bool:
    """Count one more try for this address; False where there were too many and none is made now.

    One statement, so that parallel tries are all counted.
    """
    now, table = unit.now, sign_in_failures.c
    over = table.window_ends_at <= now
    ends = now + timedelta(seconds=limits.sign_in_window)
    first = {"email_verifier": verifier(name_key(email)), "failures": 1, "window_ends_at": ends}
    counted = (
        unit.database.insert_or(sign_in_failures)
        .values(first)
        .on_conflict_do_update(
            index_elements=[table.email_verifier],
            set_={
                "failures": case((over, 1), else_=table.failures + 1),
                "window_ends_at": case((over, ends), else_=table.window_ends_at),
            },
        )
        .returning(table.failures)
    )
    failures: int = unit.conn.execute(counted).scalar_one()
    return failures <= limits.sign_in_failures


def note_sign_in(unit: Unit, user: RowOf) -> None:
    """The user signed in by password: the count of tries starts again."""
    unit.conn.execute(delete(sign_in_failures).where(sign_in_failures.c.email_verifier == verifier(user.email_key)))
    method = sign_in_methods.c
    used = update(sign_in_methods).where(method.user_id == user.id, method.method == "password")
    unit.conn.execute(used.values(last_used_at=unit.now))


def find_user(unit: Unit, email: str) -> RowOf | None:
    """The active user of an e-mail address, who may sign in by password."""
    method = sign_in_methods.c
    return unit.one(
        select(users)
        .join(sign_in_methods, method.user_id == users.c.id)
        .where(
            users.c.email_key == name_key(email),
            users.c.phase == "active",
            method.method == "password",
            method.phase == "active",
        )
    )


def take_ticket(unit: Unit, ticket: str, code: str, email: str) -> RowOf | None:
    """The user of a sign-in ticket that was issued for this code and address; a ticket is good once."""
    table = sign_in_tickets.c
    query = (
        select(users, table.authenticated_at.label("authenticated_at"), table.verifier)
        .join(sign_in_tickets, table.user_id == users.c.id)
        .join(device_requests, device_requests.c.id == table.device_request_id)
        .where(
            table.verifier == verifier(ticket),
            table.expires_at > unit.now,
            device_requests.c.user_verifier == verifier(code),
            users.c.email_key == name_key(email),
            users.c.phase == "active",
        )
    )
    row = unit.one(query)
    if row is None or unit.conn.execute(delete(sign_in_tickets).where(table.verifier == row.verifier)).rowcount != 1:
        return None
    return row


def proceed(
    unit: Unit, lifetimes: Lifetimes, fields: Mapping[str, str], user: RowOf, authenticated_at: datetime
) -> Question | Decided | Refused:
    """After a sign-in: act on an explicit decision, or ask for one."""
    code = normal_code(fields.get("user_code", ""))
    request = unit.one(select(device_requests).where(device_requests.c.user_verifier == verifier(code)), lock=True)
    now = unit.read_clock()
    if request is None:
        return Refused("This code is not known. Check it against the one that your terminal shows.")
    if request.expires_at <= now:
        return Refused("This code has expired. Start the sign-in again in your terminal.")
    if request.state != "pending":
        return Refused("This code was used already. Start the sign-in again in your terminal.")
    mine = _accounts_of(unit, user.id)
    decision = fields.get("decision", "")
    if decision == "deny":
        _close(unit, request, state="denied")
        return Decided(False, request.client_id, None)
    entitled = is_entitled(unit, user.id)
    chosen = _chosen(fields, mine, entitled=entitled)
    if isinstance(chosen, Refused):
        return chosen
    if not mine and not entitled:
        return Refused("You have no active account to sign in to.")
    if chosen is None and len(mine) == 1 and (not entitled or request.preferred_context == "account"):
        chosen = mine[0]
    if decision == "approve" and chosen is not None:
        account_id = chosen.id if isinstance(chosen, Account) else None
        _close(
            unit,
            request,
            state="approved",
            user_id=user.id,
            account_id=account_id,
            scope=scope_of(account_id),
            authenticated_at=authenticated_at,
        )
        return Decided(True, request.client_id, chosen)
    missing = "Choose an account or the system first." if entitled else "Choose an account first."
    return Question(
        code=code,
        client_id=request.client_id,
        ip_address=request.ip_address,
        age=now - request.created_at,
        remaining=request.expires_at - now,
        email=user.email,
        ticket=_issue_ticket(unit, lifetimes, request, user, authenticated_at),
        accounts=mine,
        chosen=chosen,
        system=entitled,
        asked_system=request.preferred_context == "system",
        error=missing if decision == "approve" else "",
    )


def _chosen(fields: Mapping[str, str], mine: Sequence[Account], *, entitled: bool) -> Account | System | Refused | None:
    """What the form names to sign in to; None where it names nothing."""
    named = {fields.get(name, "") for name in ("authority_context", "account_id")}
    if fields.get("scope") == "system":
        named.add("system")
    wanted = named - {""}
    if not wanted:
        return None
    if len(wanted) > 1:
        return Refused("Choose one account, or the system, and not both.")
    [one] = wanted
    if one == "system":
        return System() if entitled else Refused("You may not open a system session here.")
    account = next((account for account in mine if account.id == one), None)
    return account or Refused("You have no active membership in that account.")


def _close(unit: Unit, request: RowOf, **values: Any) -> None:
    unit.conn.execute(update(device_requests).where(device_requests.c.id == request.id).values(**values))
    unit.conn.execute(delete(sign_in_tickets).where(sign_in_tickets.c.device_request_id == request.id))


def _issue_ticket(unit: Unit, lifetimes: Lifetimes, request: RowOf, user: RowOf, authenticated_at: datetime) -> str:
    ticket = new_secret()
    unit.conn.execute(
        insert(sign_in_tickets),
        {
            "verifier": verifier(ticket),
            "device_request_id": request.id,
            "user_id": user.id,
            "authenticated_at": authenticated_at,
            "expires_at": unit.now + timedelta(seconds=lifetimes.sign_in_ticket),
        },
    )
    return ticket


def _accounts_of(unit: Unit, user_id: str) -> list[Account]:
    member = account_memberships.c
    query = (
        select(accounts.c.id, accounts.c.name, member.role)
        .join(account_memberships, member.account_id == accounts.c.id)
        .where(member.user_id == user_id, member.phase == "active", accounts.c.phase == "active")
        .order_by(accounts.c.name_key)
    )
    return [Account(row.id, row.name, row.role) for row in unit.conn.execute(query)]
