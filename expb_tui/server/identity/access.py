"""Who may see and do what. One place for the rules of sections 1.7 and 3 of the contract.

A foreign or invisible record is 404, a record of one's own account that one's role does not reach is 403.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, select

from expb_tui.server.context import Call
from expb_tui.server.identity.kinds import ACCOUNTS
from expb_tui.server.problems import forbidden, not_found
from expb_tui.server.resources import RowOf
from expb_tui.server.store.schema import (
    account_memberships,
    accounts,
    agent_authorizations,
    project_memberships,
    projects,
    sessions,
    users,
)


def visible_account(call: Call, account_id: str) -> RowOf:
    """The caller's own account. Raises 404 for any other."""
    if account_id != call.me.account_id:
        raise not_found()
    return call.fetch(ACCOUNTS, account_id)


def account_admin(call: Call, account_id: str) -> None:
    """The caller administers this account. Raises 404 for a foreign one, 403 for agents and plain members."""
    if account_id != call.me.account_id:
        raise not_found()
    if not call.me.is_account_admin:
        raise forbidden("Only an owner or administrator of the account may do this.")
    call.act_as("account-administrator")


def administered(call: Call) -> str:
    """The account that the URL names, which the caller administers; otherwise as ``account_admin``."""
    account_admin(call, call.path["account"])
    return call.path["account"]


def account_owner(call: Call, account_id: str) -> None:
    """As ``account_admin``, but owners only."""
    account_admin(call, account_id)
    if call.me.account_role != "owner":
        raise forbidden("Only an owner of the account may do this.")


def projects_of_user(call: Call) -> Select[Any]:
    """The projects that a user is a member of, in the session's account."""
    member = project_memberships.c
    return (
        select(projects)
        .join(project_memberships, member.project_id == projects.c.id)
        .where(projects.c.account_id == call.me.account_id, member.user_id == call.me.user_id, member.phase == "active")
    )


def grants_of_agent(call: Call) -> Select[Any]:
    """The projects that an agent is authorized in, each with its ``roles``."""
    grant = agent_authorizations.c
    return (
        select(projects, grant.roles)
        .join(agent_authorizations, grant.project_id == projects.c.id)
        .where(projects.c.account_id == call.me.account_id, grant.agent_id == call.me.agent_id, grant.phase == "active")
    )


def require_member(call: Call, project_id: str, *, lock: bool = False) -> RowOf:
    """The project, of which the caller is a member, and so an administrator. Raises 404 otherwise."""
    if call.me.type != "user":
        raise not_found()
    row = _project(call, projects_of_user(call), project_id, lock)
    call.act_as("project-administrator")
    return row


def require_reader(call: Call, project_id: str) -> RowOf:
    """The project, for its members and for agents with an active authorization. Raises 404 otherwise."""
    query = projects_of_user(call) if call.me.type == "user" else grants_of_agent(call)
    return _project(call, query, project_id, False)


def agent_grant(call: Call, project_id: str, *, lock: bool = False) -> RowOf:
    """The project that the calling agent is authorized in; the row has its ``roles`` too. Raises 404 otherwise."""
    return _project(call, grants_of_agent(call), project_id, lock)


def _project(call: Call, query: Select[Any], project_id: str, lock: bool) -> RowOf:
    query = query.where(projects.c.id == project_id)
    row = call.conn.execute(call.database.lock(query, projects) if lock else query).one_or_none()
    if row is None:
        raise not_found()
    return row


def session_authority(
    conn: Connection, now: datetime, session_ids: Collection[str]
) -> dict[str, tuple[str, str, frozenset[str]]]:
    """What still-valid sessions may see: session to (account, account role, project ids). Others are left out."""
    session, member = sessions.c, account_memberships.c
    joined = (
        sessions.join(users, users.c.id == session.user_id)
        .join(accounts, accounts.c.id == session.account_id)
        .join(account_memberships, and_(member.user_id == session.user_id, member.account_id == session.account_id))
        .outerjoin(
            project_memberships,
            and_(
                project_memberships.c.user_id == session.user_id,
                project_memberships.c.account_id == session.account_id,
                project_memberships.c.phase == "active",
            ),
        )
    )
    query = (
        select(session.id, session.account_id, member.role, project_memberships.c.project_id)
        .select_from(joined)
        .where(
            session.id.in_(session_ids),
            session.phase == "active",
            session.refresh_expires_at > now,
            users.c.phase == "active",
            accounts.c.phase == "active",
            member.phase == "active",
        )
    )
    found: dict[str, tuple[str, str, set[str]]] = {}
    for row in conn.execute(query):
        entry = found.setdefault(row.id, (row.account_id, row.role, set()))
        if row.project_id is not None:
            entry[2].add(row.project_id)
    return {uid: (account, role, frozenset(ids)) for uid, (account, role, ids) in found.items()}
