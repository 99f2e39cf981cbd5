"""Accounts and who belongs to them (contract, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import func, select

from expb_tui.server.context import Actor, Answer, Call, Unit, created, result
from expb_tui.server.identity.access import account_admin, account_owner, administered, visible_account
from expb_tui.server.identity.kinds import ACCOUNT_MEMBERSHIPS, ACCOUNTS
from expb_tui.server.offers import Changes, changes_of, offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, forbidden
from expb_tui.server.research.settings import open_account
from expb_tui.server.resources import (
    ACTIVATE,
    REVOKE,
    Create,
    Description,
    Edit,
    Patch,
    RowOf,
    create_body,
    edit_body,
)
from expb_tui.server.routing import Operations, Who
from expb_tui.server.store.schema import account_memberships, accounts, users
from expb_tui.wire.base import AnyResource, WireModel
from expb_tui.wire.identity import Account

operations = Operations("accounts")


class AccountSpec(WireModel):
    description: Description | None = None


class AccountResult(WireModel):
    """Writes of accounts answer an operation result."""

    resource: Account


CreateAccount = create_body(ACCOUNTS, AccountSpec, named=True)
EditAccount = edit_body(ACCOUNTS, AccountSpec)

Role = Literal["owner", "admin", "member"]
UserId = Annotated[str, Field(strict=True, min_length=36, max_length=36)]


class MembershipSpec(WireModel):
    user_id: UserId
    role: Role


class MembershipEdit(WireModel):
    role: Role = "member"


CreateMembership = create_body(ACCOUNT_MEMBERSHIPS, MembershipSpec)
EditMembership = edit_body(ACCOUNT_MEMBERSHIPS, MembershipEdit)


def user_actor(user_id: str) -> Actor:
    """A user who acts in their own name: for seeding."""
    return Actor("user", user_id, "user")


def create_account(unit: Unit, user_id: str, *, name: str, **columns: Any) -> RowOf:
    """An account with this user as its owner. Raises 409 ``account-name-in-use``."""
    row = _unless_taken(lambda: unit.insert(ACCOUNTS, name=name, **columns))
    unit.insert(ACCOUNT_MEMBERSHIPS, account_id=row.id, user_id=user_id, role="owner")
    open_account(unit, row.id)
    return row


def _unless_taken(write: Callable[[], RowOf]) -> RowOf:
    try:
        return write()
    except Problem as problem:
        if problem.code == "already-exists":
            raise Problem(409, "account-name-in-use", "Another account has that name.") from problem
        raise


@operations.post(
    "/v1/accounts",
    "createAccount",
    "Create an account",
    who=Who.USER,
    body=CreateAccount,
    answers={201: AccountResult},
)
def post_account(call: Call, body: Create[AccountSpec]) -> Answer:
    if call.services.settings.account_provisioning == "system-admin-only":
        raise forbidden("Accounts are made by a system administrator here.")
    row = create_account(
        call,
        call.me.user_id or "",
        name=body.metadata.name,
        labels=body.metadata.labels,
        description=body.spec.description,
    )
    return result(ACCOUNTS, row, 201)


@operations.patch(
    "/v1/accounts/{account}",
    "editAccount",
    "Change an account's name, labels or description",
    who=Who.EITHER,
    body=Patch(EditAccount),
    answers={200: AccountResult},
)
def edit_account(call: Call, body: Edit[AccountSpec]) -> Answer:
    account_owner(call, call.path["account"])
    row = call.fetch(ACCOUNTS, call.path["account"])
    call.match(row)
    return result(ACCOUNTS, _unless_taken(lambda: call.update(ACCOUNTS, row, **changes_of(row, body))))


@operations.post(
    "/v1/accounts/{account}/memberships",
    "createAccountMembership",
    "Take a user into an account",
    who=Who.EITHER,
    body=CreateMembership,
    answers={201: AnyResource},
)
def post_membership(call: Call, body: Create[MembershipSpec]) -> Answer:
    account_admin(call, call.path["account"])
    if body.spec.role == "owner":
        account_owner(call, call.path["account"])
    if not _knows(call, body.spec.user_id):
        # The same for nobody at all: who is on this server is not told, and strangers are invited, not put in.
        wrong = {"spec.userId": "is not an active user with whom you share an account; invite them instead"}
        raise Problem(409, "invalid-reference", "There is no such user for you.", fields=wrong)
    row = call.insert(
        ACCOUNT_MEMBERSHIPS,
        name=body.metadata.name,
        labels=body.metadata.labels,
        account_id=call.path["account"],
        user_id=body.spec.user_id,
        role=body.spec.role,
        taken="That user has a membership here already.",
    )
    return created(ACCOUNT_MEMBERSHIPS, row)


def _knows(call: Call, user_id: str) -> bool:
    """Whether the caller and an active user are, or were, in one account that the caller is in now."""
    mine, theirs = account_memberships.alias(), account_memberships.alias()
    query = (
        select(users.c.id)
        .join(theirs, theirs.c.user_id == users.c.id)
        .join(mine, mine.c.account_id == theirs.c.account_id)
        .where(
            users.c.id == user_id,
            users.c.phase == "active",
            mine.c.user_id == call.me.user_id,
            mine.c.phase == "active",
        )
    )
    return call.conn.execute(query.limit(1)).one_or_none() is not None


def _membership(call: Call) -> RowOf:
    """A membership of the account, for its administrators."""
    row = call.fetch(ACCOUNT_MEMBERSHIPS, call.path["uid"])
    account_admin(call, row.account_id)
    return row


def _readable_membership(call: Call) -> RowOf:
    """As ``_membership``, and one's own."""
    row = call.fetch(ACCOUNT_MEMBERSHIPS, call.path["uid"])
    if row.user_id != call.me.user_id or row.account_id != call.me.account_id:
        account_admin(call, row.account_id)
    return row


def _owners_rules(call: Call, row: RowOf, changes: Changes) -> Changes:
    """Only owners make or unmake owners (403), and one stays (409 ``last-owner``)."""
    role, phase = changes.get("role", row.role), changes.get("phase", row.phase)
    if "owner" in (row.role, role):
        account_owner(call, row.account_id)
    if row.role == "owner" and row.phase == "active" and (role != "owner" or phase != "active"):
        _keep_an_owner(call, row)
    return changes


def _keep_an_owner(call: Call, leaving: RowOf) -> None:
    # The account is locked, so that two owners cannot leave at once.
    call.fetch(ACCOUNTS, leaving.account_id, lock=True)
    member = account_memberships.c
    others = (
        select(func.count())
        .select_from(account_memberships)
        .where(
            member.account_id == leaving.account_id,
            member.id != leaving.id,
            member.role == "owner",
            member.phase == "active",
        )
    )
    if not call.conn.execute(others).scalar_one():
        raise Problem(409, "last-owner", "The account would be left without an owner.")


offer_list(
    operations,
    ACCOUNTS,
    "/v1/accounts",
    id="listAccounts",
    summary="The session's account",
    answer=Account,
    where=lambda call: [accounts.c.id == call.me.account_id],
)
offer_read(
    operations,
    ACCOUNTS,
    path="/v1/accounts/{account}",
    see=lambda call: visible_account(call, call.path["account"]),
    id="readAccount",
    summary="An account",
    answer=Account,
)
offer_list(
    operations,
    ACCOUNT_MEMBERSHIPS,
    "/v1/accounts/{account}/memberships",
    id="listAccountMemberships",
    summary="Who belongs to an account",
    answer=AnyResource,
    where=lambda call: [account_memberships.c.account_id == administered(call)],
)
offer_read(
    operations,
    ACCOUNT_MEMBERSHIPS,
    see=_readable_membership,
    id="readAccountMembership",
    summary="A membership",
    answer=AnyResource,
)
offer_patch(
    operations,
    ACCOUNT_MEMBERSHIPS,
    see=_membership,
    check=_owners_rules,
    body=Patch(EditMembership, {**ACTIVATE, **REVOKE}),
    id="editAccountMembership",
    summary="Change a membership's role or labels, or activate, deactivate or revoke it",
    answer=AnyResource,
)
