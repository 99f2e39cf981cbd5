"""Invitations to an account (contract, section 3).

There is no mail here: whoever invites gets the token once and hands it over; a user with that address accepts.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from sqlalchemy import select

from expb_tui.server.context import Answer, Call, created, item, result
from expb_tui.server.identity.access import account_admin, account_owner, administered
from expb_tui.server.identity.accounts import Role
from expb_tui.server.identity.authentication import new_secret, verifier
from expb_tui.server.identity.kinds import ACCOUNT_INVITATIONS, ACCOUNT_MEMBERSHIPS, PROFILES
from expb_tui.server.offers import offer_list, offer_patch, offer_read
from expb_tui.server.problems import Problem, already_exists, not_found
from expb_tui.server.resources import REVOKE, Create, Patch, RowOf, create_body, name_key, printable
from expb_tui.server.routing import Operations, Param, Who
from expb_tui.server.store.schema import account_invitations, account_memberships, users
from expb_tui.wire.base import AnyResource, WireModel

operations = Operations("invitations")

TOKEN_HEADER = "X-Invitation-Token"  # noqa: S105 - the name of a header
_CLOSED = "The invitation was accepted or revoked, or has expired."

_ADDRESS = r"^[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+$"
Email = Annotated[str, Field(strict=True, min_length=3, max_length=320, pattern=_ADDRESS), AfterValidator(printable)]


class InvitationSpec(WireModel):
    email: Email
    role: Role
    delivery: Literal["manual", "email"] = "manual"


class InvitationResult(WireModel):
    """Writes of invitations answer an operation result; ``token`` only at the creation."""

    resource: AnyResource
    token: str | None = None


CreateInvitation = create_body(ACCOUNT_INVITATIONS, InvitationSpec)


@operations.post(
    "/v1/accounts/{account}/invitations",
    "createAccountInvitation",
    "Invite somebody into an account; the token is shown this once",
    who=Who.EITHER,
    body=CreateInvitation,
    answers={201: InvitationResult},
)
def post_invitation(call: Call, body: Create[InvitationSpec]) -> Answer:
    account_id = administered(call)
    if body.spec.role == "owner":
        account_owner(call, account_id)
    if body.spec.delivery == "email":
        raise _no_mail()
    member = account_memberships.c
    known = (
        select(member.id)
        .join(users, users.c.id == member.user_id)
        .where(member.account_id == account_id, users.c.email_key == name_key(body.spec.email))
    )
    if call.one(known) is not None:
        raise already_exists("Somebody with that address has a membership here already.")
    token = new_secret()
    row = call.insert(
        ACCOUNT_INVITATIONS,
        name=body.metadata.name,
        labels=body.metadata.labels,
        phase="pending",
        account_id=account_id,
        email=body.spec.email,
        role=body.spec.role,
        delivery=body.spec.delivery,
        expires_at=call.now + timedelta(seconds=call.services.settings.lifetimes.invitation),
        verifier=verifier(token),
    )
    return created(ACCOUNT_INVITATIONS, row, token=token)


@operations.post(
    "/v1/account-invitations/{uid}/acceptance",
    "acceptAccountInvitation",
    "Accept an invitation to one's own address",
    who=Who.USER,
    headers=(Param(TOKEN_HEADER, description="The token of the invitation.", required=True),),
    answers={200: AnyResource},
)
def accept(call: Call) -> Answer:
    row = call.fetch(ACCOUNT_INVITATIONS, call.path["uid"], lock=True)
    call.read_clock()
    user = call.fetch(PROFILES, call.me.user_id or "")
    if verifier(call.headers.get(TOKEN_HEADER.lower(), "")) != row.verifier or name_key(row.email) != user.email_key:
        raise not_found()
    if row.phase != "pending" or row.expires_at <= call.now:
        raise Problem(409, "invitation-closed", _CLOSED)
    membership = call.insert(
        ACCOUNT_MEMBERSHIPS,
        account_id=row.account_id,
        user_id=user.id,
        role=row.role,
        taken="You have a membership there already.",
    )
    call.update(ACCOUNT_INVITATIONS, row, phase="accepted", accepted_by=user.id, membership_id=membership.id)
    return item(ACCOUNT_MEMBERSHIPS, membership)


@operations.post(
    "/v1/account-invitations/{uid}/deliveries",
    "deliverAccountInvitation",
    "Mail an invitation again; this server has no mail",
    who=Who.EITHER,
    answers={200: AnyResource},
)
def deliver(call: Call) -> Answer:
    _invitation(call)
    raise _no_mail()


def _no_mail() -> Problem:
    return Problem(503, "mail-unavailable", "This server sends no mail; hand the token over yourself.")


def _invitation(call: Call) -> RowOf:
    row = call.fetch(ACCOUNT_INVITATIONS, call.path["uid"])
    account_admin(call, row.account_id)
    return row


def _still_open(call: Call, row: RowOf, changes: Any) -> Any:
    if row.phase != "pending":
        raise Problem(409, "invitation-closed", _CLOSED)
    return changes


offer_list(
    operations,
    ACCOUNT_INVITATIONS,
    "/v1/accounts/{account}/invitations",
    id="listAccountInvitations",
    summary="The invitations of an account, never their tokens",
    answer=AnyResource,
    where=lambda call: [account_invitations.c.account_id == administered(call)],
)
offer_read(
    operations,
    ACCOUNT_INVITATIONS,
    see=_invitation,
    id="readAccountInvitation",
    summary="An invitation",
    answer=AnyResource,
)
offer_patch(
    operations,
    ACCOUNT_INVITATIONS,
    see=_invitation,
    check=_still_open,
    show=result,
    body=Patch(None, REVOKE),
    id="revokeAccountInvitation",
    summary="Withdraw an invitation",
    answer=InvitationResult,
)
