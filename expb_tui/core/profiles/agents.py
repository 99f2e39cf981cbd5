"""Agent profiles and the project context (contract, sections 3.1, 3.2, 4 and 5)."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from expb_tui.core.api.endpoint import same_endpoint
from expb_tui.core.api.failures import ApiProblem, RequestFailure
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.document import Profile
from expb_tui.core.profiles.environment import endpoint_for
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.core.secret import SecretStr
from expb_tui.core.settings import Settings

if TYPE_CHECKING:
    from expb_tui.wire.identity import AgentTokenResult, Principal, Project


async def register_agent(
    session: Session, store: ProfileStore, agent_name: str, profile_name: str, *, description: str = ""
) -> Profile:
    """Create an agent identity and a token, and save both as an agent profile (contract, section 5, sequence 1).

    Raises ``ExpbError`` with code ``agent-exists`` (409), ``agent-forbidden`` (403; the user profile stays),
    ``token-unavailable`` (a replay without the secret) or ``profile-exists``; otherwise as the server said.
    """
    from expb_tui.core.api import identity
    from expb_tui.core.api.transport import repeat_same_key

    await asyncio.to_thread(_refuse_overwriting, store, profile_name, None)
    account_id = session.profile.account_id
    if account_id is None:
        account_id = (await session.principal()).account_id or ""
    agent_key, token_key = str(uuid.uuid4()), str(uuid.uuid4())
    with ExitStack() as room:
        await asyncio.to_thread(room.enter_context, store.reserve())
        try:
            agent = await repeat_same_key(
                lambda: identity.create_agent(session, account_id, agent_name, description, key=agent_key)
            )
        except ApiProblem as problem:
            if problem.outcome_unknown:
                raise await _unanswered(session, account_id, agent_name, problem) from problem
            raise _registration_failed(agent_name, session.profile.name, problem) from problem
        except RequestFailure as failure:
            if not failure.outcome_unknown:
                raise
            raise await _unanswered(session, account_id, agent_name, failure) from failure
        try:
            result = await repeat_same_key(
                lambda: identity.create_token(session, agent.uid, key=token_key, name=profile_name)
            )
        except RequestFailure as failure:
            failure.next_step = f"The agent {agent_name!r} is registered. {_TOKEN_STEP}"
            raise
        if result.token is None:
            raise ExpbError(
                f"The agent {agent_name!r} has a token, but its secret is unavailable",
                cause="the answer that showed it was lost, and it is shown once only",
                next_step=_TOKEN_STEP,
                code="token-unavailable",
            )
        profile = Profile(
            profile_name,
            "agent",
            endpoint=session.endpoint,
            account_id=account_id,
            agent_id=agent.uid,
            token=SecretStr(result.token.get_secret_value()),
            expires_at=result.resource.spec.expires_at,
        )
    return await _save_or_revoke(session, store, profile, result)


_TOKEN_STEP = "Revoke tokens of it that nobody knows under Agents in the browser, and save another with --agent-token"  # noqa: S105 - words


async def save_agent_token(
    store: ProfileStore,
    name: str | None,
    token: SecretStr,
    endpoint: str | None = None,
    *,
    settings: Settings | None = None,
) -> Profile:
    """Check the token at ``/v1/principal`` (it must be an agent's) and save it as an agent profile.

    Without ``name`` it goes to the default profile if that is an agent's, else to ``default``; without ``endpoint`` to
    where ``EXPBENCH_API_SERVER``, the saved profile or the public service is.
    """
    token = SecretStr(token.get_secret_value().strip())
    if not token:
        raise UsageError("The agent token is empty", next_step="Give the token, or - to read it from standard input")
    profiles = await asyncio.to_thread(store.read)
    if name is None:
        default = profiles.by_name.get(profiles.default or "")
        name = default.name if default is not None and default.is_agent else "default"
    address = await asyncio.to_thread(endpoint_for, store, name, endpoint)
    session = Session.open(store, token=token, endpoint=address, settings=settings)
    try:
        principal = await session.principal()
    finally:
        await session.aclose()
    if principal.type != "agent" or not principal.agent_id:
        raise ExpbError(
            "This is not an agent's token",
            cause=f"the server says it is a {principal.type}'s",
            next_step="Nothing was saved; a person signs in with: expb-tui auth login",
            code="not-an-agent",
        )
    return await asyncio.to_thread(_save_agent, store, name, token, session.endpoint, principal)


async def use_project(session: Session, store: ProfileStore, text: str) -> Project:
    """Set the profile's project: ``text`` is a UID, else an exact name over all pages; two matches are an error.

    Raises ``ExpbError`` with code ``unknown-project`` or ``ambiguous-project``; nothing changes then.
    """
    from expb_tui.core.api import identity

    if session.explicit:
        raise UsageError(
            "An explicit token has no project context",
            cause="the context is saved in a profile",
            next_step="Name the project with --project, or use a profile",
        )
    project = await identity.find_project(session, text)
    await asyncio.to_thread(store.set_project, session.profile.name, project.uid, project.metadata.name)
    return project


def _registration_failed(agent_name: str, profile_name: str, problem: ApiProblem) -> ExpbError:
    if problem.status == 409:
        return ExpbError(
            f"The agent {agent_name!r} was not registered",
            cause="the account has an agent of that name already" if problem.code == "already-exists" else str(problem),
            next_step="Choose another name, or save a token of that agent with --agent-token",
            code="agent-exists",
        )
    if problem.status == 403:
        return ExpbError(
            f"The agent {agent_name!r} was not registered",
            cause="that takes an account owner or administrator",
            next_step=f"The profile {profile_name!r} is saved; ask an owner to register the agent",
            code="agent-forbidden",
        )
    return problem


async def _unanswered(session: Session, account_id: str, agent_name: str, failure: RequestFailure) -> ExpbError:
    """The create was sent, and no answer says that it happened: the list of agents does, or does not."""
    from expb_tui.core.api import identity

    cause, name = failure.lines()[0], agent_name.strip().casefold()
    try:
        known = await identity.agents(session, account_id)
    except RequestFailure:
        return ExpbError(
            f"Whether the agent {agent_name!r} is registered is not known",
            cause=cause,
            next_step="Look under Agents in the browser before you try again",
            code="unresolved",
        )
    if any((one.metadata.name or "").strip().casefold() == name for one in known):
        return ExpbError(
            f"The agent {agent_name!r} is registered, and has no profile here",
            cause=cause,
            next_step="Make a token for it under Agents in the browser, and save it with --agent-token",
            code="agent-exists",
        )
    failure.next_step = f"The agent {agent_name!r} is not registered. {failure.next_step}"
    return failure


async def _save_or_revoke(session: Session, store: ProfileStore, profile: Profile, result: AgentTokenResult) -> Profile:
    """Save; a token that cannot be saved is revoked, because nobody could ever use or find it."""
    from expb_tui.core.api import identity

    try:
        return await asyncio.to_thread(secrets.keep, store, profile)
    except ExpbError as error:
        with suppress(RequestFailure):
            await identity.revoke_token(session, result.resource.uid)
            error.next_step = f"The agent exists, its new token was revoked. {error.next_step}".strip()
        raise


def _save_agent(store: ProfileStore, name: str, token: SecretStr, endpoint: str, principal: Principal) -> Profile:
    old = _refuse_overwriting(store, name, principal.agent_id)
    profile = Profile(
        name,
        "agent",
        scope=principal.scope,
        endpoint=endpoint,
        account_id=principal.account_id,
        agent_id=principal.agent_id,
        token=token,
    )
    if old is not None:
        profile = replace(profile, extra=old.extra)
        if same_endpoint(old.endpoint, endpoint) and old.agent_id == principal.agent_id:
            profile = replace(profile, endpoint=old.endpoint, project_id=old.project_id, project_name=old.project_name)
    return secrets.keep(store, profile)


def _refuse_overwriting(store: ProfileStore, name: str, agent_id: str | None) -> Profile | None:
    """The saved profile of that name, if a token of ``agent_id`` may take its place; else ``UsageError``."""
    old = store.read().by_name.get(name)
    if old is not None and old.signed_in and not (old.is_agent and agent_id and old.agent_id == agent_id):
        raise UsageError(
            f"Profile {name!r} holds another credential",
            cause=f"it is {'another agent' if old.is_agent else 'a user'} at {old.endpoint}",
            next_step="Name another profile, or remove or sign out that one first",
            code="profile-exists",
        )
    return old
