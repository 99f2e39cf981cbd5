"""The address of a service: one spelling, and no credential over an open wire."""

from __future__ import annotations

import pytest

from expb_tui.core.api.endpoint import check_endpoint, is_loopback, same_endpoint, same_origin
from expb_tui.core.errors import UsageError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://Bench.Example.test/", "https://bench.example.test"),
        ("https://bench.example.test/v1/", "https://bench.example.test"),
        ("https://bench.example.test:443/prefix/v1", "https://bench.example.test/prefix"),
        ("HTTPS://bench.example.test:8443", "https://bench.example.test:8443"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://bench.localhost", "http://bench.localhost"),
    ],
)
def test_one_spelling(written: str, meant: str) -> None:
    assert check_endpoint(written) == meant
    assert same_endpoint(written, meant + "/")


@pytest.mark.parametrize(
    "refused",
    [
        "bench.example.test",
        "ftp://bench.example.test",
        "https://",
        "https://user:hunter2@bench.example.test",
        "https://bench.example.test?token=hunter2",
        "https://bench.example.test/#",
        "https://bench.example.test?",
        "https://bench.example.test\n",
        "https://bench .example.test",
        "https://bench.example.test:99999",
        "https://[::1",
        "http://bench.example.test",
        "http://127.0.0.1.example.test",
        "http://localhost.example.test",
    ],
)
def test_what_is_no_address_of_a_service(refused: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_endpoint(refused)
    assert caught.value.code == "endpoint"
    assert "hunter2" not in str(caught.value)
    assert "\n" not in caught.value.what


def test_open_http_needs_to_be_asked_for() -> None:
    assert check_endpoint("http://bench.example.test", insecure_http=True) == "http://bench.example.test"


def test_this_host() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST."))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "127.0.0.1.nip.io", "10.0.0.1", "", "::ffff:10.0.0.1"))


def test_origins() -> None:
    assert same_origin("https://bench.example.test/oauth/device?user_code=A", "https://bench.example.test/prefix")
    for other in (
        "http://bench.example.test/oauth/device",
        "https://bench.example.test:8443/",
        "https://bench.example.test@evil.test/",
        "https://bench.example.test.evil.test/",
        "javascript:alert(1)",
        "//bench.example.test/",
    ):
        assert not same_origin(other, "https://bench.example.test")
