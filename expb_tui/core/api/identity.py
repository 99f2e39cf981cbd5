"""Identity resources as typed calls over a ``Session`` (contract, section 3)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from expb_tui.core.api.failures import ApiProblem, bad_answer
from expb_tui.core.api.lists import every
from expb_tui.core.api.reading import read, resource_of
from expb_tui.core.errors import ExpbError
from expb_tui.core.secret import is_token
from expb_tui.wire.base import IDENTITY_GROUP, Metadata, Resource
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

_UID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_TOKENS = "agent-identity-tokens"
ModelT = TypeVar("ModelT", bound=BaseModel)
ResourceT = TypeVar("ResourceT", bound=Resource[Any, Any])


def may_be_uid(text: str) -> bool:
    """Whether it may stand in a path as an id (a UUID here, perhaps something else elsewhere)."""
    return _UID.match(text) is not None


async def principal(session: Session) -> Principal:
    return read(Principal, (await session.request("GET", "/v1/principal")).body, "GET /v1/principal")


async def projects(session: Session) -> list[Project]:
    """Every project that this credential sees."""
    return await _all(session, Project, "/v1/projects")


async def project(session: Session, uid: str) -> Project:
    """The project of that id. Raises ``BadAnswer`` for another one (a service may know it by its name, too)."""
    path = f"/v1/projects/{quote(uid, safe='')}"
    found = read(Project, (await session.request("GET", path)).body, f"GET {path}")
    if not found.uid or uid.casefold() not in (found.uid.casefold(), (found.metadata.name or "").casefold()):
        raise bad_answer(f"GET {path}", "unexpected-shape", "it is about another project")
    return found


async def find_project(session: Session, text: str) -> Project:
    """A project by its UID, else by its exact name in the session's account, over all pages.

    Raises ``ExpbError`` with code ``unknown-project`` or ``ambiguous-project``.
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
    spec: dict[str, object] = {"description": description} if description else {}
    created = await _created(session, path, "agent-identities", name, spec, key)
    made = _made(AgentIdentity, resource_of(created), path, "agent-identities")
    if (made.metadata.name or name).strip().casefold() != name.strip().casefold():
        raise bad_answer(f"POST {path}", "unexpected-shape", "it is about another agent")
    return made


async def tokens(session: Session, agent_id: str) -> list[AgentToken]:
    return await _all(session, AgentToken, f"/v1/agent-identities/{quote(agent_id, safe='')}/tokens")


async def create_token(
    session: Session, agent_id: str, *, key: str, name: str | None = None, expires_at: datetime | None = None
) -> AgentTokenResult:
    """The answer's ``token`` is None in a replay: the secret is gone then."""
    path = f"/v1/agent-identities/{quote(agent_id, safe='')}/tokens"
    spec: dict[str, object] = {} if expires_at is None else {"expiresAt": expires_at.isoformat().replace("+00:00", "Z")}
    created = await _created(session, path, _TOKENS, name, spec, key)
    resource = _made(AgentToken, resource_of(created), path, _TOKENS)
    if resource.spec.agent_id not in (None, agent_id):
        raise bad_answer(f"POST {path}", "unexpected-shape", "its token is another agent's")
    wrapped = created if isinstance(created.get("resource"), dict) else {"resource": created}
    result = read(AgentTokenResult, wrapped, f"POST {path}")
    if result.token is not None and not is_token(result.token.get_secret_value()):
        raise bad_answer(f"POST {path}", "unexpected-shape", "its token cannot be used")
    return result


async def revoke_token(session: Session, uid: str) -> None:
    """Revoke an agent identity token, whatever its version is now."""
    path = f"/v1/agent-identity-tokens/{quote(uid, safe='')}"
    present = await session.request("GET", path)
    answer = await session.request("PATCH", path, json={"operation": "revoke"}, if_match=present.etag)
    revoked = read(AgentToken, resource_of(answer.body), f"PATCH {path}")
    if (revoked.uid, revoked.status.phase) != (uid, "revoked"):
        raise bad_answer(f"PATCH {path}", "unexpected-shape", "it does not say that the token is revoked")


async def authorizations(session: Session, project_id: str) -> list[AgentAuthorization]:
    return await _all(session, AgentAuthorization, f"/v1/projects/{quote(project_id, safe='')}/agent-authorizations")


async def authorize_agent(
    session: Session, project_id: str, agent_id: str, roles: list[str], *, key: str
) -> AgentAuthorization:
    path = f"/v1/projects/{quote(project_id, safe='')}/agent-authorizations"
    spec: dict[str, object] = {"agentId": agent_id, "roles": roles}
    created = await _created(session, path, "agent-authorizations", None, spec, key)
    return _made(AgentAuthorization, resource_of(created), path, "agent-authorizations")


async def _all(session: Session, model: type[ModelT], path: str) -> list[ModelT]:
    return [read(model, item, f"GET {path}") for item in await every(session, path)]


async def _created(
    session: Session, path: str, kind: str, name: str | None, spec: dict[str, object], key: str
) -> dict[str, Any]:
    body = Create(api_version=IDENTITY_GROUP, kind=kind, metadata=Metadata(name=name), spec=spec).wire()
    answer = await session.request("POST", path, json=body, idempotency_key=key)
    if not isinstance(answer.body, dict):
        raise bad_answer(f"POST {path}", "unexpected-shape", "it holds no resource")
    return answer.body


def _made(model: type[ResourceT], body: Any, path: str, kind: str) -> ResourceT:
    """The resource that a create made; what has no id, or is of another kind, was not made by it."""
    made = read(model, body, f"POST {path}")
    if made.kind != kind or not made.uid:
        raise bad_answer(f"POST {path}", "unexpected-shape", "it does not name what was created")
    return made


def _no_one_project(text: str, found: list[str]) -> ExpbError:
    if found:
        return ExpbError(
            f"There are {len(found)} projects named {text!r}",
            cause=f"their ids are {', '.join(found)}",
            next_step="Name the project by its id",
            code="ambiguous-project",
        )
    return ExpbError(
        f"There is no project {text!r}",
        cause="no id and no exact name is like that among the projects that this profile sees",
        next_step="Check the spelling, and whether the profile belongs to the project",
        code="unknown-project",
    )
