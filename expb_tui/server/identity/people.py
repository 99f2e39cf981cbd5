"""The caller's own things: principal, profile, accounts, sessions (contract, section 3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from sqlalchemy import ColumnElement, select

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, Unit, item
from expb_tui.server.identity.access import grants_of_agent, projects_of_user
from expb_tui.server.identity.kinds import PROFILES, SESSIONS, SIGN_IN_METHODS
from expb_tui.server.oauth.sessions import revoke_session
from expb_tui.server.offers import Changes, offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, not_found
from expb_tui.server.resources import REVOKE, Command, Patch, RowOf, edit_body, name_key, printable
from expb_tui.server.routing import CURSOR_QUERY, Operations, Who
from expb_tui.server.store.schema import account_memberships, accounts, sessions, sign_in_methods
from expb_tui.wire.base import AnyResource, Page, WireModel
from expb_tui.wire.identity import Principal, ProfileAccount

operations = Operations("people")


def create_user(unit: Unit, *, email: str, password_hash: str, display_name: str | None = None) -> RowOf:
    """A person who can sign in by password; self-registration is not offered, so this is for seeding.

    Raises 409 ``already-exists`` where the address is taken.
    """
    user = unit.insert(
        PROFILES,
        email=email.strip(),
        email_key=name_key(email),
        display_name=display_name,
        password_hash=password_hash,
    )
    unit.insert(SIGN_IN_METHODS, user_id=user.id, method="password")
    return user


@operations.get(
    "/v1/principal",
    "readPrincipal",
    "Who this credential speaks for",
    who=Who.EITHER | Who.SYSTEM,
    answers={200: Principal},
)
def principal(call: Call) -> Answer:
    me = call.me
    found = Principal(
        type=me.type,
        scope=me.scope,
        account_id=me.account_id or None,
        account_role=me.account_role,
        user_id=me.user_id,
        agent_id=me.agent_id,
        credential_id=me.credential_id,
        system_admin=me.is_system,
        system_entitled=me.system_entitled,
    )
    if me.type == "agent":
        found.role_grants = {row.id: row.roles for row in call.conn.execute(grants_of_agent(call))}
    elif not me.is_system:
        found.project_ids = sorted(row.id for row in call.conn.execute(projects_of_user(call)))
    return Answer(found.wire())


def _display_name(text: str) -> str:
    if len(text.encode()) > 200:
        raise ValueError("must be at most 200 bytes")
    return printable(text)


class ProfileSpec(WireModel):
    display_name: (
        Annotated[str, Field(strict=True, min_length=1, max_length=200), AfterValidator(_display_name)] | None
    ) = None


EditProfile = edit_body(PROFILES, ProfileSpec)


@operations.get(
    "/v1/profile/accounts",
    "listProfileAccounts",
    "The caller's accounts, by name",
    who=Who.USER,
    query=CURSOR_QUERY,
    answers={200: Page[ProfileAccount]},
)
def profile_accounts(call: Call) -> Answer:
    member = account_memberships.c
    query = (
        select(accounts.c.id, accounts.c.name, accounts.c.name_key, member.role, member.phase)
        .join(account_memberships, member.account_id == accounts.c.id)
        .where(member.user_id == call.me.user_id, member.phase != "revoked")
        .order_by(accounts.c.name_key)
    )
    items = [
        {"account_id": row.id, "name": row.name, "role": row.role, "status": row.phase}
        for row in call.conn.execute(query)
    ]
    items.sort(key=lambda entry: (name_key(entry["name"]), entry["account_id"]))
    return lists.page_of(call, items, lambda entry: (name_key(entry["name"]), entry["account_id"]), "profile-accounts")


def _profile(call: Call) -> RowOf:
    return call.fetch(PROFILES, call.me.user_id or "")


def _own_sessions(call: Call) -> list[ColumnElement[bool]]:
    """A user's sessions; a system session sees only itself (contract, section 1.7)."""
    own = [sessions.c.user_id == call.me.user_id]
    return [*own, sessions.c.id == call.me.credential_id] if call.me.is_system else own


def _own_session(call: Call, *, lock: bool = False) -> RowOf:
    row = call.fetch(SESSIONS, call.path["uid"], lock=lock)
    if row.user_id != call.me.user_id or (call.me.is_system and row.id != call.me.credential_id):
        raise not_found()
    return row


def _own_method(call: Call) -> RowOf:
    row = call.fetch(SIGN_IN_METHODS, call.path["uid"])
    if row.user_id != call.me.user_id:
        raise not_found()
    return row


def _keep_a_method(call: Call, row: RowOf, changes: Changes) -> Changes:
    """409 where nobody could sign in as this person any more. The profile is locked against parallel revocations."""
    call.fetch(PROFILES, row.user_id, lock=True)
    method = sign_in_methods.c
    others = select(method.id).where(method.user_id == row.user_id, method.id != row.id, method.phase == "active")
    if call.conn.execute(others.limit(1)).one_or_none() is None:
        raise Problem(409, "last-sign-in-method", "This is the only way left to sign in.")
    return changes


@operations.patch(
    "/v1/sessions/{uid}",
    "revokeSessionByUid",
    "End one of the caller's sessions",
    who=Who.USER | Who.SYSTEM,
    body=Patch(None, REVOKE),
    answers={200: AnyResource},
)
def edit_session(call: Call, body: Command) -> Answer:
    row = _own_session(call, lock=True)
    call.match(row)
    call.read_clock()
    revoke_session(call, row)
    return item(SESSIONS, _own_session(call))


offer_read(
    operations,
    PROFILES,
    path="/v1/profile",
    see=_profile,
    id="readProfile",
    summary="The caller's profile",
    answer=AnyResource,
    who=Who.USER,
)
offer_patch(
    operations,
    PROFILES,
    path="/v1/profile",
    see=_profile,
    body=Patch(EditProfile),
    id="editProfile",
    summary="Change the caller's profile",
    answer=AnyResource,
    who=Who.USER,
)
offer_list(
    operations,
    SESSIONS,
    "/v1/sessions",
    id="listSessions",
    summary="The caller's sessions",
    answer=AnyResource,
    where=_own_sessions,
    who=Who.USER | Who.SYSTEM,
)
offer_read(
    operations,
    SESSIONS,
    see=_own_session,
    id="readSession",
    summary="One of the caller's sessions",
    answer=AnyResource,
    who=Who.USER | Who.SYSTEM,
)
offer_list(
    operations,
    SIGN_IN_METHODS,
    "/v1/profile/sign-in-methods",
    id="listSignInMethods",
    summary="How the caller can sign in",
    answer=AnyResource,
    where=lambda call: [sign_in_methods.c.user_id == call.me.user_id],
    who=Who.USER,
)
offer_read(
    operations,
    SIGN_IN_METHODS,
    see=_own_method,
    id="readSignInMethod",
    summary="One way to sign in",
    answer=AnyResource,
    who=Who.USER,
)
offer_patch(
    operations,
    SIGN_IN_METHODS,
    see=_own_method,
    check=_keep_a_method,
    body=Patch(None, REVOKE),
    id="revokeSignInMethod",
    summary="Give up a way to sign in, but not the last",
    answer=AnyResource,
    who=Who.USER,
)
