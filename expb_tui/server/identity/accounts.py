"""Accounts and who belongs to them (contract, section 3). Invitations are not offered here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import func, select

from expb_tui.server import lists
from expb_tui.server.context import Actor, Answer, Call, Unit, created, etag, item, result
from expb_tui.server.identity.access import account_admin, account_owner, visible_account
from expb_tui.server.identity.kinds import ACCOUNT_MEMBERSHIPS, ACCOUNTS
from expb_tui.server.problems import Problem, already_exists, forbidden
from expb_tui.server.research.settings import open_account
from expb_tui.server.resources import (
    ACTIVATE,
    REVOKE,
    Command,
    Create,
    Description,
    Edit,
    Patch,
    RowOf,
    create_body,
    edit_body,
    envelope,
    metadata_changes,
    spec_changes,
)
from expb_tui.server.routing import LIST_QUERY, Operations, Who
from expb_tui.server.store.schema import account_memberships, accounts, users
from expb_tui.wire.base import AnyResource, Page, WireModel
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


def create_account(unit: Unit, user_id: str, *, name: str, **columns: Any) -> RowOf:
    """An account with this user as its owner. Raises 409 ``account-name-in-use``."""
    try:
        row = unit.insert(ACCOUNTS, name=name, **columns)
    except Problem as problem:
        raise Problem(409, "account-name-in-use", "Another account has that name.") from problem
    unit.insert(ACCOUNT_MEMBERSHIPS, account_id=row.id, user_id=user_id, role="owner")
    open_account(unit, row.id)
    return row


@operations.get(
    "/v1/accounts",
    "listAccounts",
    "The session's account",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[Account]},
)
def list_accounts(call: Call) -> Answer:
    return lists.page(call, ACCOUNTS, accounts.c.id == call.me.account_id)


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


@operations.get("/v1/accounts/{account}", "readAccount", "An account", who=Who.EITHER, answers={200: Account})
def read_account(call: Call) -> Answer:
    return item(ACCOUNTS, visible_account(call, call.path["account"]))


@operations.patch(
    "/v1/accounts/{account}",
    "editAccount",
    "Change an account's name, labels or description",
    who=Who.EITHER,
    body=Patch(EditAccount),
    answers={200: AccountResult},
)
def edit_account(call: Call, body: Edit[AccountSpec]) -> Answer:
    row = visible_account(call, call.path["account"])
    account_owner(call, row.id)
    call.match(row)
    try:
        row = call.update(ACCOUNTS, row, **metadata_changes(row, body), **spec_changes(body))
    except Problem as problem:
        if problem.code == "already-exists":
            raise Problem(409, "account-name-in-use", "Another account has that name.") from problem
        raise
    return Answer({"resource": envelope(ACCOUNTS, row)}, headers={"ETag": etag(row.version)})


@operations.get(
    "/v1/accounts/{account}/memberships",
    "listAccountMemberships",
    "Who belongs to an account",
    who=Who.EITHER,
    query=LIST_QUERY,
    answers={200: Page[AnyResource]},
)
def list_memberships(call: Call) -> Answer:
    account_admin(call, call.path["account"])
    return lists.page(call, ACCOUNT_MEMBERSHIPS, account_memberships.c.account_id == call.path["account"])


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
    known = call.one(select(users.c.id).where(users.c.id == body.spec.user_id, users.c.phase == "active"))
    if known is None:
        raise Problem(
            409, "invalid-reference", "There is no such user.", fields={"spec.userId": "is not an active user"}
        )
    try:
        row = call.insert(
            ACCOUNT_MEMBERSHIPS,
            name=body.metadata.name,
            labels=body.metadata.labels,
            account_id=call.path["account"],
            user_id=body.spec.user_id,
            role=body.spec.role,
        )
    except Problem as problem:
        raise already_exists("That user has a membership here already.") from problem
    return created(ACCOUNT_MEMBERSHIPS, row)


@operations.get(
    "/v1/account-memberships/{uid}",
    "readAccountMembership",
    "A membership",
    who=Who.EITHER,
    answers={200: AnyResource},
)
def read_membership(call: Call) -> Answer:
    row = call.fetch(ACCOUNT_MEMBERSHIPS, call.path["uid"])
    if row.user_id != call.me.user_id or row.account_id != call.me.account_id:
        account_admin(call, row.account_id)
    return item(ACCOUNT_MEMBERSHIPS, row)


@operations.patch(
    "/v1/account-memberships/{uid}",
    "editAccountMembership",
    "Change a membership's role or labels, or activate, deactivate or revoke it",
    who=Who.EITHER,
    body=Patch(EditMembership, {**ACTIVATE, **REVOKE}),
    answers={200: AnyResource},
)
def edit_membership(call: Call, body: Edit[MembershipEdit] | Command) -> Answer:
    row = call.fetch(ACCOUNT_MEMBERSHIPS, call.path["uid"])
    account_admin(call, row.account_id)
    changes = (
        {"phase": body.phase} if isinstance(body, Command) else {**metadata_changes(row, body), **spec_changes(body)}
    )
    role, phase = changes.get("role", row.role), changes.get("phase", row.phase)
    if "owner" in (row.role, role):
        account_owner(call, row.account_id)
    call.match(row)
    if row.role == "owner" and row.phase == "active" and (role != "owner" or phase != "active"):
        _keep_an_owner(call, row)
    return item(ACCOUNT_MEMBERSHIPS, call.update(ACCOUNT_MEMBERSHIPS, row, **changes))


def _keep_an_owner(call: Call, leaving: RowOf) -> None:
    """409 ``last-owner`` unless another active owner stays. The account is locked, so that two cannot leave at once."""
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


def user_actor(user_id: str) -> Actor:
    """A user who acts in their own name: for seeding."""
    return Actor("user", user_id, "user")
