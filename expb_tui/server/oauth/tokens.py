"""The JSON endpoints of OAuth: start a device request, get tokens, end a session (contract, section 2)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse

from expb_tui.server.context import Exchange, Services, Unit
from expb_tui.server.oauth.forms import FormError, Refusal, failure, invalid_request, read_form, success
from expb_tui.server.oauth.grants import Client, check_client, grant_tokens, revoke_token, start_device
from expb_tui.server.routing import Operations, Who
from expb_tui.wire.base import SnakeModel
from expb_tui.wire.oauth import DeviceAuthorization, TokenAnswer

operations = Operations("oauth")

DEVICE_PAGE = "/oauth/device"


class DeviceForm(SnakeModel):
    client_id: str
    preferred_context: str = ""


class TokenForm(SnakeModel):
    client_id: str
    grant_type: str
    device_code: str = ""
    refresh_token: str = ""
    account_id: str = ""
    scope: str = ""


class RevokeForm(SnakeModel):
    client_id: str
    token: str


class Nothing(SnakeModel):
    """An empty object."""


@operations.post(
    "/oauth/device_authorization",
    "startDeviceAuthorization",
    "Start a device authorization",
    who=Who.ANYONE,
    raw=True,
    failure=failure,
    body=DeviceForm,
    answers={200: DeviceAuthorization},
)
async def device_authorization(exchange: Exchange) -> JSONResponse:
    return await _answer(exchange, _start_device)


@operations.post(
    "/oauth/token",
    "issueTokens",
    "Poll a device authorization, refresh a session, or move it to another account",
    who=Who.ANYONE,
    raw=True,
    failure=failure,
    body=TokenForm,
    answers={200: TokenAnswer},
)
async def token(exchange: Exchange) -> JSONResponse:
    return await _answer(exchange, _issue_tokens)


@operations.post(
    "/oauth/revoke",
    "revokeSession",
    "End the session of a token",
    who=Who.ANYONE,
    raw=True,
    failure=failure,
    body=RevokeForm,
    answers={200: Nothing},
)
async def revoke(exchange: Exchange) -> JSONResponse:
    return await _answer(exchange, _revoke)


async def _answer(exchange: Exchange, work: Any) -> JSONResponse:
    services = exchange.services
    try:
        fields = await read_form(exchange)
    except FormError as error:
        return error.refusal.response()
    refusal = check_client(services.settings, fields)
    if refusal is not None:
        return refusal.response()
    client = Client(exchange.client_address, exchange.request.headers.get("user-agent", ""))
    answer = await services.database.run_write(work, services, fields, client)
    return answer.response() if isinstance(answer, Refusal) else success(answer)


def _start_device(services: Services, fields: dict[str, str], client: Client) -> dict[str, Any] | Refusal:
    if fields.get("preferred_context", "") not in ("", "account", "system"):
        return invalid_request("preferred_context must be account or system")
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        answer = start_device(unit, services.settings.lifetimes, fields, client)
    page = services.issuer + DEVICE_PAGE
    return {
        **answer,
        "verification_uri": page,
        "verification_uri_complete": f"{page}?user_code={quote(str(answer['user_code']))}",
    }


def _issue_tokens(services: Services, fields: dict[str, str], client: Client) -> dict[str, Any] | Refusal:
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        answer = grant_tokens(unit, services.settings.lifetimes, fields, client)
    if isinstance(answer, Refusal):
        return answer
    return {
        **answer.wire(),
        "access_token": answer.access_token.get_secret_value(),
        "refresh_token": answer.refresh_token.get_secret_value(),
    }


def _revoke(services: Services, fields: dict[str, str], client: Client) -> dict[str, Any] | Refusal:
    with services.database.write() as conn:
        return revoke_token(Unit(conn, services.database), fields) or {}
