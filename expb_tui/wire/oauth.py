"""The device flow, tokens and their errors (section 2)."""

from __future__ import annotations

from pydantic import SecretStr

from expb_tui.wire.base import SnakeModel

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_CLIENT_ID = "expbctl"
DEFAULT_INTERVAL = 5
"""Seconds between polls where the server names none (RFC 8628, section 3.2)."""
SLOW_DOWN_STEP = 5
"""Seconds that each ``slow_down`` adds (RFC 8628, section 3.5)."""


class DeviceAuthorization(SnakeModel):
    """The answer to ``POST /oauth/device_authorization``; ``expires_in`` and ``interval`` are seconds."""

    device_code: SecretStr
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: int = 600
    interval: int | None = None


class TokenAnswer(SnakeModel):
    """The answer of the token endpoint; ``account_id`` is there exactly when ``scope`` is ``account``."""

    access_token: SecretStr
    refresh_token: SecretStr
    token_type: str = "Bearer"  # noqa: S105 - the name of the scheme
    expires_in: int
    scope: str
    account_id: str | None = None


class OAuthError(SnakeModel):
    """``{"error": …}``; the status is 400 whatever the code."""

    error: str
    error_description: str | None = None
