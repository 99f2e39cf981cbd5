"""The device flow and tokens as typed calls over a ``Transport`` (contract, section 2)."""

from __future__ import annotations

from typing import Any

from expb_tui.core.api.failures import bad_answer
from expb_tui.core.api.reading import read
from expb_tui.core.api.transport import Transport
from expb_tui.core.secret import SecretStr, is_token
from expb_tui.wire.oauth import DEVICE_GRANT, DeviceAuthorization, TokenAnswer

_DEVICE = "/oauth/device_authorization"
_TOKEN = "/oauth/token"  # noqa: S105 - a path
_REVOKE = "/oauth/revoke"

_LONGEST_LIFE = 10 * 366 * 86_400
"""Seconds; no access token lives for years, and dates end somewhere."""


async def authorize_device(transport: Transport, client_id: str, scope: str) -> DeviceAuthorization:
    """Ask for a device code; ``scope`` is ``account`` or ``system``."""
    answer = await transport.send("POST", _DEVICE, form={"client_id": client_id, "preferred_context": scope})
    device = read(DeviceAuthorization, answer.body, f"POST {_DEVICE}")
    if not device.device_code.get_secret_value() or not 0 < len(device.user_code) <= 64 or device.expires_in <= 0:
        raise bad_answer(f"POST {_DEVICE}", "unexpected-shape", "its code cannot be used")
    return device


async def poll_device(transport: Transport, client_id: str, device_code: str, within: float) -> TokenAnswer:
    """One poll. Raises ``ApiProblem`` with the OAuth error as code while it is not approved."""
    form = {"grant_type": DEVICE_GRANT, "client_id": client_id, "device_code": device_code}
    answer = await transport.send("POST", _TOKEN, form=form, within=within)
    return _token(answer.body)


async def refresh(transport: Transport, client_id: str, refresh_token: SecretStr, within: float) -> TokenAnswer:
    """Spend ``refresh_token``: after this call it must never be sent again."""
    form = {
        "grant_type": "refresh_token",
        "client_id": client_id,
        "refresh_token": refresh_token.get_secret_value(),
    }
    answer = await transport.send("POST", _TOKEN, form=form, within=within)
    return _token(answer.body)


async def revoke(transport: Transport, client_id: str, token: SecretStr) -> None:
    """End the session of a token; unknown tokens are accepted too."""
    await transport.send("POST", _REVOKE, form={"client_id": client_id, "token": token.get_secret_value()}, within=15.0)


def _token(body: Any) -> TokenAnswer:
    """Refuses what lacks a token, expiry or scope, or mixes the system scope with an account (section 2.4)."""
    token = read(TokenAnswer, body, f"POST {_TOKEN}")
    if not all(is_token(one.get_secret_value()) for one in (token.access_token, token.refresh_token)):
        raise bad_answer(f"POST {_TOKEN}", "unexpected-shape", "it holds no token that can be used")
    if token.token_type.lower() != "bearer":
        raise bad_answer(f"POST {_TOKEN}", "unexpected-shape", "its token is no bearer token")
    if not 0 < token.expires_in <= _LONGEST_LIFE:
        raise bad_answer(f"POST {_TOKEN}", "unexpected-shape", "its token has expired already, or never will")
    if (token.scope, bool(token.account_id)) not in (("account", True), ("system", False)):
        raise bad_answer(f"POST {_TOKEN}", "unexpected-shape", "its scope and account do not go together")
    return token
