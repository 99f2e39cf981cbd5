"""The grants of the token endpoint, as functions of one transaction (contract, section 2.4)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import insert, select, update

from expb_tui.server.config import Lifetimes, ServerSettings
from expb_tui.server.context import Actor, Unit
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.kinds import SESSIONS
from expb_tui.server.oauth.forms import Refusal, invalid_request
from expb_tui.server.oauth.sessions import SignIn, may_sign_in, open_session, revoke_session, rotate, scope_of
from expb_tui.server.resources import RowOf
from expb_tui.server.store.schema import credentials, device_requests
from expb_tui.wire.oauth import DEVICE_GRANT, SLOW_DOWN_STEP, TokenAnswer

GRANTS = (DEVICE_GRANT, "refresh_token", "account_switch")
_LONGEST_AGENT_TEXT = 200


@dataclass(frozen=True, slots=True)
class Client:
    """Where a form came from."""

    ip_address: str
    user_agent: str


def check_client(settings: ServerSettings, fields: Mapping[str, str]) -> Refusal | None:
    """None for a registered client."""
    if fields.get("client_id") in settings.client_ids:
        return None
    return Refusal("invalid_client", "this client id is not registered here")


def start_device(unit: Unit, lifetimes: Lifetimes, fields: Mapping[str, str], client: Client) -> dict[str, object]:
    """A new device request: its two codes, in clear for the only time."""
    device_code = new_secret()
    user_code = secrets.token_urlsafe(9).upper()
    unit.conn.execute(
        insert(device_requests),
        {
            "id": str(uuid4()),
            "device_verifier": verifier(device_code),
            "user_verifier": verifier(user_code),
            "client_id": fields["client_id"],
            "preferred_context": fields.get("preferred_context", ""),
            "state": "pending",
            "poll_interval": lifetimes.device_interval,
            "created_at": unit.now,
            "expires_at": unit.now + timedelta(seconds=lifetimes.device_code),
            "ip_address": client.ip_address,
            "user_agent": client.user_agent[:_LONGEST_AGENT_TEXT],
        },
    )
    return {
        "device_code": device_code,
        "user_code": user_code,
        "expires_in": lifetimes.device_code,
        "interval": lifetimes.device_interval,
    }


def grant_tokens(unit: Unit, lifetimes: Lifetimes, fields: Mapping[str, str], client: Client) -> TokenAnswer | Refusal:
    """Whatever the ``grant_type`` asks for, to a client that is registered."""
    grant = fields.get("grant_type", "")
    if grant == DEVICE_GRANT:
        return _device(unit, lifetimes, fields)
    if grant in ("refresh_token", "account_switch"):
        return _refresh(unit, lifetimes, fields, client, switch=grant == "account_switch")
    if not grant:
        return invalid_request("grant_type is missing")
    return Refusal("unsupported_grant_type", f"the grants here are {', '.join(GRANTS)}")


def _device(unit: Unit, lifetimes: Lifetimes, fields: Mapping[str, str]) -> TokenAnswer | Refusal:
    code = fields.get("device_code")
    if not code:
        return invalid_request("device_code is missing")
    table = device_requests.c
    request = unit.one(select(device_requests).where(table.device_verifier == verifier(code)), lock=True)
    now = unit.read_clock()
    if request is None or request.client_id != fields["client_id"] or request.state == "used":
        return Refusal("invalid_grant", "the device code is unknown or was used")
    if request.expires_at <= now:
        return Refusal("expired_token", "the device code has expired; start again")
    if request.state == "denied":
        return Refusal("access_denied", "the request was denied in the browser")
    change = update(device_requests).where(table.id == request.id)
    too_soon = request.last_poll_at is not None and now - request.last_poll_at < timedelta(
        seconds=request.poll_interval
    )
    if too_soon:
        longer = request.poll_interval + SLOW_DOWN_STEP
        unit.conn.execute(change.values(last_poll_at=now, poll_interval=longer))
        return Refusal("slow_down", f"poll at most every {longer} seconds")
    if request.state == "pending":
        unit.conn.execute(change.values(last_poll_at=now))
        return Refusal("authorization_pending", "nobody has decided yet")
    unit.conn.execute(change.values(last_poll_at=now, state="used"))
    if request.scope != scope_of(request.account_id) or not may_sign_in(unit, request.user_id, request.account_id):
        return Refusal("access_denied", "the membership or grant that approved this is not active any more")
    sign_in = SignIn(
        user_id=request.user_id,
        account_id=request.account_id,
        client_id=request.client_id,
        authenticated_at=request.authenticated_at,
        method="password",
        origin="device",
        ip_address=request.ip_address,
        user_agent=request.user_agent,
    )
    return open_session(unit, lifetimes, sign_in)


def _refresh(
    unit: Unit, lifetimes: Lifetimes, fields: Mapping[str, str], client: Client, *, switch: bool
) -> TokenAnswer | Refusal:
    token = fields.get("refresh_token")
    if not token:
        return invalid_request("refresh_token is missing")
    spent = verifier(token)
    session = lock_session(unit, spent, purposes=("refresh",))
    now = unit.read_clock()
    refused = Refusal("invalid_grant", "the refresh token is unknown, spent, expired or revoked; sign in again")
    if session is None or session.client_id != fields["client_id"]:
        return refused
    # Read again under the session's lock: a parallel refresh may have spent it meanwhile.
    record = unit.one(select(credentials).where(credentials.c.verifier == spent))
    actor = Actor("user", session.user_id, "user")
    if record is not None and record.spent_at is not None:
        revoke_session(unit, session, actor)
        return refused
    usable = record is not None and session.phase == "active" and session.refresh_expires_at > now
    if not usable or not may_sign_in(unit, session.user_id, session.account_id):
        return refused
    account_id = fields.get("account_id", "")
    if not switch:
        if account_id not in ("", session.account_id) or fields.get("scope", "") not in ("", session.scope):
            return invalid_request("scope and account_id must be those of the session")
        return rotate(unit, lifetimes, session, spent)
    if session.scope == "system":
        return invalid_request("a system session is not moved to an account; sign in to that account")
    if account_id in ("", session.account_id):
        return invalid_request("account_id must name another account")
    if not may_sign_in(unit, session.user_id, account_id):
        return Refusal("invalid_grant", "there is no active membership in that account")
    revoke_session(unit, session, actor)
    sign_in = SignIn(
        user_id=session.user_id,
        account_id=account_id,
        client_id=session.client_id,
        authenticated_at=session.authenticated_at,
        method=session.authentication_method,
        origin="account-switch",
        ip_address=client.ip_address,
        user_agent=client.user_agent[:_LONGEST_AGENT_TEXT],
    )
    return open_session(unit, lifetimes, sign_in)


def revoke_token(unit: Unit, fields: Mapping[str, str]) -> Refusal | None:
    """End the session of an access or refresh token; an unknown one, or another client's, is no error."""
    token = fields.get("token")
    if not token:
        return invalid_request("token is missing")
    session = lock_session(unit, verifier(token), purposes=("access", "refresh"))
    if session is not None and session.client_id == fields["client_id"]:
        unit.read_clock()
        revoke_session(unit, session, Actor("user", session.user_id, "user"))
    return None


def lock_session(unit: Unit, token_verifier: bytes, purposes: tuple[str, ...]) -> RowOf | None:
    """The session behind a token, locked."""
    record = credentials.c
    found = unit.one(select(record.session_id).where(record.verifier == token_verifier, record.purpose.in_(purposes)))
    if found is None:
        return None
    return unit.one(SESSIONS.by_id(found.session_id), lock=True)
