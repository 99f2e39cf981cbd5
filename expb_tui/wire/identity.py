"""Identity and tenancy: principals, projects, agent identities, their tokens and authorizations (section 3)."""

from __future__ import annotations

from pydantic import Field, SecretStr

from expb_tui.wire.base import Instant, Label, Metadata, Resource, SnakeModel, Status, WireModel


class Principal(SnakeModel):
    """``GET /v1/principal``: who a credential speaks for. ``role_grants`` maps a project to an agent's roles in it."""

    type: str
    scope: str = "account"
    account_id: str | None = None
    account_role: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    credential_id: str | None = None
    project_ids: list[str] | None = None
    role_grants: dict[str, list[str]] | None = None
    system_admin: bool = False
    system_entitled: bool = False


class DescriptionSpec(WireModel):
    """Accounts and agent identities."""

    description: str | None = None


class AgentIdentityStatus(Status):
    last_seen_at: Instant | None = None


AgentIdentity = Resource[DescriptionSpec, AgentIdentityStatus]


class AgentTokenSpec(WireModel):
    agent_id: str | None = None
    expires_at: Instant | None = None


AgentToken = Resource[AgentTokenSpec, Status]


class AgentTokenResult(WireModel):
    """The answer of a token create; ``token`` is absent in a replay."""

    resource: AgentToken
    token: SecretStr | None = None


class ProjectSpec(WireModel):
    description: str | None = None
    target: str | None = None


class ProjectStatus(Status):
    current_context_id: str | None = None


Project = Resource[ProjectSpec, ProjectStatus]
Account = Resource[DescriptionSpec, Status]


class AuthorizationSpec(WireModel):
    agent_id: str
    roles: list[Label]


class AuthorizationStatus(Status):
    active_packages: int | None = None


AgentAuthorization = Resource[AuthorizationSpec, AuthorizationStatus]


class Create(WireModel):
    """The body of a create: the server owns everything else."""

    api_version: str
    kind: str
    metadata: Metadata = Field(default_factory=Metadata)
    spec: dict[str, object]


class ProfileAccount(SnakeModel):
    """One row of ``GET /v1/profile/accounts``."""

    account_id: str
    name: str
    role: str
    status: str
