"""Identity resources as typed calls over a ``Session`` (contract, section 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from expb_tui.core.api.failures import ApiProblem, bad_answer
from expb_tui.core.api.reading import read, resource_of
from expb_tui.core.errors import UsageError
from expb_tui.wire.base import IDENTITY_GROUP, Metadata
from expb_tui.wire.identity import (
    AgentAuthorization,
    AgentIdentity,
    AgentToken,
    AgentTokenResult,
    Create,
    Principal,
    Project,
)

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

_MOST_PAGES = 1_000
_UID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
ModelT = TypeVar("ModelT", bound=BaseModel)


def may_be_uid(text: str) -> bool:
    """Whether it may stand in a path as an id (a UUID here, perhaps something else elsewhere)."""
    return _UID.match(text) is not None


async def every(session: Session, path: str, query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """All items of a list, following ``next`` to its end (contract, section 1.8)."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        answer = await session.request("GET", path, query={**(query or {}), "cursor": cursor})
        page = answer.body
        if not isinstance(page, dict) or not isinstance(page.get("items"), list):
            raise bad_answer(f"GET {path}", "unexpected-shape", "it is not a page of items")
        items += (item for item in page["items"] if isinstance(item, dict))
        cursor = page.get("next")
        if not isinstance(cursor, str) or not cursor:
            return items
        if cursor in seen:
            break
        seen.add(cursor)
    raise bad_answer(f"GET {path}", "unexpected-shape", "the list has no end")


async def principal(session: Session) -> Principal:
    return read(Principal, (await session.request("GET", "/v1/principal")).body, "GET /v1/principal")


async def projects(session: Session) -> list[Project]:
    """Every project that this credential sees."""
    return await _all(session, Project, "/v1/projects")


async def project(session: Session, uid: str) -> Project:
    return await _one(session, Project, f"/v1/projects/{quote(uid, safe='')}")


async def find_project(session: Session, text: str) -> Project:
    """A project by its UID, else by its exact name in the session's account, over all pages.

    Raises ``UsageError`` with code ``unknown-project`` or ``ambiguous-project``.
    """
    if may_be_uid(text):
        try:
            return await project(session, text)
        except ApiProblem as problem:
            if problem.status not in (400, 404, 422):  # no such id, or nothing that could be one
                raise
    account = session.profile.account_id
    named = [
        found
        for found in await projects(session)
        if found.metadata.name == text and (found.metadata.account or account) == (account or found.metadata.account)
    ]
    if len(named) != 1:
        raise _no_one_project(text, [found.uid for found in named])
    return named[0]


async def agents(session: Session, account_id: str) -> list[AgentIdentity]:
    return await _all(session, AgentIdentity, f"/v1/accounts/{quote(account_id, safe='')}/agent-identities")


async def create_agent(session: Session, account_id: str, name: str, description: str, *, key: str) -> AgentIdentity:
    path = f"/v1/accounts/{quote(account_id, safe='')}/agent-identities"
    body = _create("agent-identities", name, {"description": description} if description else {})
    answer = await session.request("POST", path, json=body, idempotency_key=key)
    return read(AgentIdentity, resource_of(answer.body), f"POST {path}")


async def tokens(session: Session, agent_id: str) -> list[AgentToken]:
    return await _all(session, AgentToken, f"/v1/agent-identities/{quote(agent_id, safe='')}/tokens")


async def create_token(
    session: Session, agent_id: str, *, key: str, name: str | None = None, expires_at: datetime | None = None
) -> AgentTokenResult:
    """The answer's ``token`` is None in a replay: the secret is gone then."""
    path = f"/v1/agent-identities/{quote(agent_id, safe='')}/tokens"
    spec: dict[str, object] = {} if expires_at is None else {"expiresAt": expires_at.isoformat().replace("+00:00", "Z")}
    body = _create("agent-identity-tokens", name, spec)
    answer = await session.request("POST", path, json=body, idempotency_key=key)
    wrapped = answer.body if answer.body is not resource_of(answer.body) else {"resource": answer.body}
    return read(AgentTokenResult, wrapped, f"POST {path}")


async def revoke_token(session: Session, uid: str) -> None:
    """Revoke an agent identity token, whatever its version is now."""
    path = f"/v1/agent-identity-tokens/{quote(uid, safe='')}"
    present = await session.request("GET", path)
    await session.request("PATCH", path, json={"operation": "revoke"}, if_match=present.etag)


async def authorizations(session: Session, project_id: str) -> list[AgentAuthorization]:
    return await _all(session, AgentAuthorization, f"/v1/projects/{quote(project_id, safe='')}/agent-authorizations")


async def authorize_agent(
    session: Session, project_id: str, agent_id: str, roles: list[str], *, key: str
) -> AgentAuthorization:
    path = f"/v1/projects/{quote(project_id, safe='')}/agent-authorizations"
    body = _create("agent-authorizations", None, {"agentId": agent_id, "roles": roles})
    answer = await session.request("POST", path, json=body, idempotency_key=key)
    return read(AgentAuthorization, resource_of(answer.body), f"POST {path}")


async def _one(session: Session, model: type[ModelT], path: str) -> ModelT:
    return read(model, (await session.request("GET", path)).body, f"GET {path}")


async def _all(session: Session, model: type[ModelT], path: str) -> list[ModelT]:
    return [read(model, item, f"GET {path}") for item in await every(session, path)]


def _create(kind: str, name: str | None, spec: dict[str, object]) -> dict[str, Any]:
    return Create(api_version=IDENTITY_GROUP, kind=kind, metadata=Metadata(name=name), spec=spec).wire()


def _no_one_project(text: str, found: list[str]) -> UsageError:
    if found:
        return UsageError(
            f"There are {len(found)} projects named {text!r}",
            cause=f"their ids are {', '.join(found)}",
            next_step="Name the project by its id",
            code="ambiguous-project",
        )
    return UsageError(
        f"There is no project {text!r}",
        cause="no id and no exact name is like that among the projects that this profile sees",
        next_step="Check the spelling, and whether the profile belongs to the project",
        code="unknown-project",
    )
