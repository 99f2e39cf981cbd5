"""Identity resources as typed calls over a ``Session`` (contract, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from expb_tui.wire.identity import AgentAuthorization, AgentIdentity, AgentToken, AgentTokenResult, Principal, Project

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session


async def every(session: Session, path: str, query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """All items of a list, following ``next`` to its end (contract, section 1.8)."""
    raise NotImplementedError


def resource_of(body: Any) -> dict[str, Any]:
    """The envelope in an answer to a write, wrapped as an operation result or bare (contract, section 7, item 7)."""
    raise NotImplementedError


async def principal(session: Session) -> Principal:
    raise NotImplementedError


async def projects(session: Session) -> list[Project]:
    """Every project that this credential sees."""
    raise NotImplementedError


async def project(session: Session, uid: str) -> Project:
    raise NotImplementedError


async def agents(session: Session, account_id: str) -> list[AgentIdentity]:
    raise NotImplementedError


async def create_agent(session: Session, account_id: str, name: str, description: str, *, key: str) -> AgentIdentity:
    raise NotImplementedError


async def create_token(
    session: Session, agent_id: str, *, key: str, name: str | None = None, expires_at: datetime | None = None
) -> AgentTokenResult:
    raise NotImplementedError


async def tokens(session: Session, agent_id: str) -> list[AgentToken]:
    raise NotImplementedError


async def revoke_token(session: Session, uid: str) -> None:
    raise NotImplementedError


async def authorizations(session: Session, project_id: str) -> list[AgentAuthorization]:
    raise NotImplementedError


async def authorize_agent(
    session: Session, project_id: str, agent_id: str, roles: list[str], *, key: str
) -> AgentAuthorization:
    raise NotImplementedError
