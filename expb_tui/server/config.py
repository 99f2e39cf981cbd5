"""What the operator of the local server decides. Everything has a default that is safe on a loopback address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from expb_tui.wire.oauth import DEFAULT_CLIENT_ID


class ServerError(Exception):
    """The server cannot start or go on; told to the operator in words.

    ``what`` happened, ``cause`` why, ``next_step`` what to do. The command line turns it into its own error.
    """

    def __init__(self, what: str, *, cause: str = "", next_step: str = "", code: str = "server") -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.next_step = next_step
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds. Sources: contract, section 2.5, and hazards 14 for the records of idempotency keys and events."""

    access_token: int = 900
    refresh_token: int = 30 * 24 * 3600
    device_code: int = 600
    device_interval: int = 5
    sign_in_ticket: int = 600
    invitation: int = 7 * 24 * 3600
    longest_lease: int = 24 * 3600
    """No role may have an absolute lease beyond this; idempotency records outlive it by a day."""
    renewal_record: int = 3600
    event: int = 3600
    ended_session: int = 7 * 24 * 3600
    """How long a session that ended stays listed."""

    @property
    def idempotency_record(self) -> int:
        return self.longest_lease + 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Bytes, seconds, and requests per minute. Sources: contract, sections 1.9 and 2.8."""

    body: int = 1024 * 1024
    form: int = 16 * 1024
    head_seconds: float = 20.0
    """A connection without a complete request head after this long is dropped."""
    body_seconds: float = 30.0
    """A request without its complete body after this long is refused."""
    oauth_per_minute: int = 120
    sign_in_failures: int = 10
    """Wrong passwords for one e-mail address within the window, before further tries are refused unseen."""
    sign_in_window: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordCost:
    """argon2id parameters; ``memory`` in KiB. One lane, so that two workers are two threads and no more.

    Source: OWASP Password Storage Cheat Sheet, the first of its equivalent settings.
    """

    time: int = 1
    memory: int = 47_104
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of one server process. ``check`` raises where they contradict each other."""

    database: str
    """``sqlite:///path/to/file`` or ``postgresql+psycopg://…``."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    issuer: str | None = None
    """The origin that people and clients use, without a trailing slash; None: the bound loopback address."""
    trusted_proxy: str | None = None
    """An address or network (CIDR) whose ``X-Forwarded-For`` and ``X-Forwarded-Host`` are believed."""
    insecure_http: bool = False
    """Allow plain http beyond the loopback interface."""
    client_ids: tuple[str, ...] = (DEFAULT_CLIENT_ID,)
    account_provisioning: Literal["self-service", "system-admin-only"] = "self-service"
    system_admins: tuple[str, ...] = ()
    """E-mail addresses of the users who may open system sessions; every start grants and takes away."""
    allow_self_review: bool = True
    """Whether an agent with several roles may review its own proposals and results (contract, section 6.2.8)."""
    synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    """SQLite's durability; OFF is for tests."""
    workers: int = 8
    """Threads, and connections, per process: readers on SQLite (which has one writer), all of them on PostgreSQL."""
    event_heartbeat_seconds: float = 15.0
    event_stream_seconds: float = 1800.0
    event_streams_per_session: int = 10
    prune_interval: float = 60.0
    """Seconds between two rounds of pruning."""
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    limits: RequestLimits = field(default_factory=RequestLimits)
    password_cost: PasswordCost = field(default_factory=PasswordCost)

    def check(self) -> None:
        """Raises ``ServerError`` where the settings are unsafe or impossible."""
        if not self.database.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ServerError(
                "The database address is not usable",
                cause=f"it must begin with sqlite:/// or postgresql+psycopg://, not {self.database.split(':', 1)[0]}:",
                next_step="Give --database sqlite:///FILE or --database postgresql+psycopg://USER@HOST/NAME",
                code="database-address",
            )
        if self.trusted_proxy is not None:
            try:
                ipaddress.ip_network(self.trusted_proxy, strict=False)
            except ValueError as error:
                raise ServerError(
                    "The trusted proxy is not an address", cause=str(error), next_step="Give an IP address or a network"
                ) from error
        if not 10 <= self.limits.oauth_per_minute <= 100_000:
            raise ServerError(
                "The rate for OAuth requests is out of range", cause="10 to 100000 a minute are allowed", code="rate"
            )
        if self.issuer is not None:
            _check_issuer(self.issuer, insecure=self.insecure_http)
        behind_tls = (self.issuer or "").startswith("https://") and self.trusted_proxy is not None
        if not is_loopback(self.host) and not self.insecure_http and not behind_tls:
            raise ServerError(
                f"Will not serve plain http on {self.host}",
                cause="passwords and tokens would cross the network in the clear",
                next_step="Put a TLS proxy in front and name it with --issuer https://… and --trusted-proxy ADDRESS "
                "(nobody else is then served), or accept the risk with --insecure-http",
                code="insecure-http",
            )
        if self.issuer is None and self.host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
            raise ServerError(
                "The server does not know its own address",
                cause="it listens on every interface, so the address in links is a matter of choice",
                next_step="Name it with --issuer",
                code="issuer-missing",
            )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is the machine itself."""
    bare = host.strip("[]").lower()
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def _check_issuer(issuer: str, *, insecure: bool) -> None:
    parts = urlsplit(issuer)
    wrong = ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        wrong = "it must be an http or https origin"
    elif parts.path or parts.query or parts.fragment or parts.username or parts.password:
        wrong = "it must be an origin only: no path, query, fragment or user"
    elif parts.scheme == "http" and not is_loopback(parts.hostname) and not insecure:
        wrong = "plain http is only for the loopback interface (or with --insecure-http)"
    if wrong:
        raise ServerError(
            "The issuer is not usable", cause=wrong, next_step="Give --issuer https://HOST", code="issuer"
        )
