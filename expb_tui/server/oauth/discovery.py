"""What a client may know before it signs in (contract, sections 2.1 and 3.6); only what is offered is listed."""

from __future__ import annotations

from starlette.responses import JSONResponse

from expb_tui.server.context import Answer, Call, Exchange
from expb_tui.server.gate import NO_STORE
from expb_tui.server.oauth.grants import GRANTS
from expb_tui.server.routing import Operations, Who
from expb_tui.wire.base import SnakeModel

operations = Operations("discovery")

WELL_KNOWN = "/.well-known/oauth-authorization-server"


class Discovery(SnakeModel):
    """RFC 8414; the code flow is not offered, so there is no authorization endpoint."""

    issuer: str
    device_authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str
    response_types_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]


class ServiceConfiguration(SnakeModel):
    api_versions: list[str]
    oauth_discovery: str
    grants: list[str]
    account_provisioning: str
    sign_in_providers: list[str]


@operations.get(
    WELL_KNOWN,
    "discoverAuthorizationServer",
    "OAuth discovery",
    who=Who.ANYONE,
    raw=True,
    answers={200: Discovery},
)
async def discover(exchange: Exchange) -> JSONResponse:
    issuer = exchange.services.issuer
    document = Discovery(
        issuer=issuer,
        device_authorization_endpoint=f"{issuer}/oauth/device_authorization",
        token_endpoint=f"{issuer}/oauth/token",
        revocation_endpoint=f"{issuer}/oauth/revoke",
        response_types_supported=[],
        grant_types_supported=list(GRANTS),
        token_endpoint_auth_methods_supported=["none"],
    )
    return JSONResponse(document.wire(), headers=NO_STORE)


@operations.get(
    "/v1/service-configuration",
    "readServiceConfiguration",
    "What this service offers",
    who=Who.ANYONE,
    answers={200: ServiceConfiguration},
)
def service_configuration(call: Call) -> Answer:
    configuration = ServiceConfiguration(
        api_versions=["v1"],
        oauth_discovery=call.services.issuer + WELL_KNOWN,
        grants=list(GRANTS),
        account_provisioning=call.services.settings.account_provisioning,
        sign_in_providers=[],
    )
    return Answer(configuration.wire())
