"""Settings that contradict each other or are unsafe do not start a server."""

from __future__ import annotations

from typing import Any

import pytest

from expb_tui.server.config import RequestLimits, ServerError, ServerSettings, is_loopback

SQLITE = "sqlite:////tmp/never-opened.sqlite"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"database": "mysql://x"}, "database-address"),
        ({"host": "0.0.0.0"}, "insecure-http"),
        ({"host": "192.0.2.7"}, "insecure-http"),
        ({"host": "192.0.2.7", "issuer": "http://bench.example.test"}, "issuer"),
        ({"host": "0.0.0.0", "insecure_http": True}, "issuer-missing"),
        ({"host": "0.0.0.0", "issuer": "https://bench.example.test"}, "insecure-http"),
        ({"issuer": "https://bench.example.test/path"}, "issuer"),
        ({"issuer": "https://user@bench.example.test"}, "issuer"),
        ({"issuer": "ftp://bench.example.test"}, "issuer"),
        ({"trusted_proxy": "proxy.example.test"}, "server"),
        ({"limits": RequestLimits(oauth_per_minute=9)}, "rate"),
    ],
)
def test_unsafe_or_impossible(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ServerError) as caught:
        ServerSettings(**{"database": SQLITE, **changes}).check()
    assert caught.value.code == code


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"host": "::1"},
        {"host": "0.0.0.0", "issuer": "https://bench.example.test", "trusted_proxy": "10.0.0.1"},
        {"host": "192.0.2.7", "insecure_http": True},
        {"issuer": "http://localhost:8080"},
        {"trusted_proxy": "10.0.0.0/8"},
        {"database": "postgresql+psycopg://u@h/n"},
    ],
)
def test_what_may_start(changes: dict[str, Any]) -> None:
    ServerSettings(**{"database": SQLITE, **changes}).check()


def test_loopback() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost"))
    assert not any(is_loopback(host) for host in ("127.0.0.1.example.test", "0.0.0.0", "192.0.2.1", ""))
