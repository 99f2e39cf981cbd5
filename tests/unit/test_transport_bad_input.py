"""Servers that misbehave for real: each in words, with its code, nothing repeated busily."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.api.transport import (
    Answer,
    ApiProblem,
    BadAnswer,
    Redirected,
    RequestFailure,
    TlsFailure,
    Transport,
    Unreachable,
    repeat_same_key,
)
from expb_tui.core.errors import UsageError
from expb_tui.core.secret import SecretStr
from tests.support.raw_server import Handler, Request, answering, raw_server, response

TOKEN = SecretStr("planted-token")


@pytest.fixture(params=["by httpx", "in bulk"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to a server say the same of it."""
    send = Transport.send
    in_bulk = request.param == "in bulk"
    monkeypatch.setattr(
        Transport, "send", lambda self, *arguments, **more: send(self, *arguments, in_bulk=in_bulk, **more)
    )


async def ask(address: str, method: str = "GET", *, within: float = 5.0, **more: Any) -> Answer:
    transport = Transport(address, timeout=within)
    try:
        return await transport.send(method, "/v1/principal", token=TOKEN, **more)
    finally:
        await transport.aclose()


async def failing(handler: Handler, method: str = "GET", **more: Any) -> tuple[RequestFailure, int]:
    """What a request to such a server ends in, and how many requests it took."""
    with raw_server(handler) as server:
        with pytest.raises(RequestFailure) as caught:
            await ask(server.address, method, **more)
        failure = caught.value
        assert "planted-token" not in str(failure)
        assert failure.next_step
        assert failure.cause
        return failure, len(server.requests)


def problem(status: str, code: str, **more: Any) -> bytes:
    headers = more.pop("headers", {})
    body = {"title": "Title", "status": int(status[:3]), "code": code, "detail": "The detail.", "requestId": "req-7"}
    headers = {"content_type": "application/problem+json"} | headers
    return response(status, json.dumps(body | more).encode(), **headers)


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable) as caught:
        await ask(f"http://127.0.0.1:{port}", "POST")
    assert (caught.value.code, caught.value.outcome_unknown) == ("refused", False)
    assert f"127.0.0.1:{port}" in caught.value.what


async def test_the_name_is_unknown() -> None:
    with pytest.raises(Unreachable) as caught:
        await ask("https://no-such-host.invalid", within=8.0)
    assert (caught.value.code, caught.value.outcome_unknown) == ("dns", False)
    assert "no-such-host.invalid" in caught.value.cause


@pytest.mark.parametrize("way", ["silence", "a drop", "a slow body", "a slow head"])
async def test_a_request_whose_answer_never_comes_has_an_unknown_outcome(way: str) -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        if way == "a drop":
            connection.shutdown(socket.SHUT_RDWR)
            return
        if way.startswith("a slow"):
            whole = response("200 OK", b'{"type": "agent"}')
            for byte in whole if way == "a slow head" else whole[-17:]:
                connection.sendall(bytes([byte]))
                time.sleep(0.2)
        time.sleep(3)

    began = time.monotonic()
    failure, requests = await failing(handler, "POST", within=0.6)
    assert isinstance(failure, Unreachable)
    assert failure.code == ("network" if way == "a drop" else "timeout")
    assert failure.outcome_unknown
    assert requests == 1  # a mutation is never repeated by itself
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("unknown authority", "tls-unknown-authority", "not trusted here"),
        ("expired", "tls-expired", "has expired"),
        ("wrong name", "tls-name", "for another"),
        ("no tls", "tls", ""),
    ],
)
async def test_a_certificate_that_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: str, words: str
) -> None:
    from tests.support.certificates import authority

    trusted = authority(tmp_path)
    if kind != "unknown authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted.path))
    tls: ssl.SSLContext | None = trusted.server()
    if kind == "expired":
        tls = trusted.server(ends=timedelta(days=-1))
    elif kind == "wrong name":
        tls = trusted.server("127.0.0.9")
    elif kind == "no tls":
        tls = None
    greeting = b"" if tls else b"220 mail.example.test ESMTP\r\n"
    with raw_server(answering(response("200 OK", b"{}")), tls=tls, greeting=greeting) as server:
        with pytest.raises(TlsFailure) as caught:
            await ask(server.address.replace("http:", "https:"))
        assert server.requests == []
    assert caught.value.code == code
    assert words in caught.value.cause
    assert caught.value.next_step


async def test_a_certificate_that_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.certificates import authority

    trusted = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.path))
    with raw_server(answering(response("200 OK", b'{"a": 1}')), tls=trusted.server()) as server:
        assert (await ask(server.address)).body == {"a": 1}


async def test_a_redirect_is_reported_and_not_followed() -> None:
    with raw_server(answering(response("200 OK", b"{}"))) as other:
        target = f"{other.address}/v1/\x1b[31mx?token=leak".replace("\x1b", "%1b")
        failure, requests = await failing(answering(response("307 Temporary Redirect", location=target)))
        assert other.requests == []
    assert isinstance(failure, Redirected)
    assert requests == 1
    assert other.address in failure.what
    assert "leak" not in str(failure)


@pytest.mark.parametrize("location", ["http://[::1", "https://a:b/", "/v1/\x01?token=leak", "http://exa mple/", ""])
async def test_a_redirect_to_an_address_that_is_none_is_a_redirect(location: str) -> None:
    failure, requests = await failing(answering(response("302 Found", location=location)), "POST")
    assert isinstance(failure, Redirected)
    assert requests == 1
    assert "leak" not in str(failure)
    assert str(failure).isprintable()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<!doctype html><title>Hotel sign-in</title>", "html"),
        (b'{"items": [{"uid": "a"}, {"ui', "truncated"),
        (b"hello", "not-json"),
        (b"[" * 100_000, "not-json"),
        (b'{"a": "\xff\xfe"}', "not-json"),
    ],
)
async def test_an_answer_that_is_not_the_promised_json(body: bytes, code: str) -> None:
    failure, requests = await failing(answering(response("200 OK", body)))
    assert isinstance(failure, BadAnswer)
    assert (failure.code, requests) == (code, 1)


async def test_a_connection_that_ends_in_the_middle_of_the_answer() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(response("200 OK", b'{"items": [', content_length="5000"))
        connection.shutdown(socket.SHUT_RDWR)

    failure, _ = await failing(handler, "POST")
    assert (failure.code, failure.outcome_unknown) == ("truncated", True)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_answer_of_33_mib_is_not_read(announced: bool) -> None:
    sent = 0

    def handler(request: Request, connection: socket.socket) -> None:
        nonlocal sent
        size = 33 * 1024 * 1024
        head = "HTTP/1.1 200 OK\r\nconnection: close\r\n"
        connection.sendall((head + (f"content-length: {size}\r\n\r\n" if announced else "\r\n")).encode())
        while sent < size:
            sent += connection.send(b" " * min(65_536, size - sent))
        connection.shutdown(socket.SHUT_RDWR)

    failure, requests = await failing(handler, within=20.0)
    assert isinstance(failure, BadAnswer)
    assert (failure.code, requests) == ("too-large", 1)
    if announced:
        assert sent < 16 * 1024 * 1024


async def test_unknown_fields_and_content_types_pass_through() -> None:
    body = {"type": "agent", "tomorrow": {"x": [None, 1.5, "ü"]}}
    handler = answering(
        response(
            "299 Strange", json.dumps(body).encode(), content_type="text/plain", date="Mon, 05 Oct 2026 09:00:00 GMT"
        )
    )
    with raw_server(handler) as server:
        answer = await ask(server.address)
    assert (answer.status, answer.body) == (299, body)
    assert answer.date is not None
    assert answer.date.isoformat() == "2026-10-05T09:00:00+00:00"


async def test_no_content_is_no_error() -> None:
    with raw_server(answering(response("204 No Content"))) as server:
        assert (await ask(server.address)).body is None


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("401 Unauthorized", "unauthenticated", "Sign in again"),
        ("403 Forbidden", "forbidden", "owner or administrator"),
        ("403 Forbidden", "role-not-authorized", "grant the role"),
        ("404 Not Found", "not-found", "Check the id"),
        ("409 Conflict", "lease-expired", "drop the work"),
        ("409 Conflict", "lease-conflict", "do not report"),
        ("409 Conflict", "lease-limit", "absolute end"),
        ("409 Conflict", "task-closed", "read the package"),
        ("409 Conflict", "limit-exceeded", "queued work stays"),
        ("409 Conflict", "project-inactive", "active again"),
        ("409 Conflict", "already-exists", "another name"),
        ("409 Conflict", "idempotency-conflict", "anew"),
        ("409 Conflict", "idempotency-in-progress", "wait a second"),
        ("409 Conflict", "concurrent-update", "Read it again"),
        ("409 Conflict", "code-of-tomorrow", "present state"),
        ("412 Precondition Failed", "precondition-failed", "Read it again"),
        ("412 Precondition Failed", "stale-version", "Read it again"),
        ("418 Teapot", "short-and-stout", "request id"),
        ("422 Unprocessable Content", "validation", "Correct the named fields"),
        ("428 Precondition Required", "precondition-required", "Read it again"),
        ("500 Internal Server Error", "internal-error", "Try again later"),
    ],
)
async def test_each_refusal_says_what_why_and_what_next(status: str, code: str, words: str) -> None:
    failure, requests = await failing(answering(problem(status, code, fields={"spec.a": "is wrong"})), "POST")
    assert isinstance(failure, ApiProblem)
    assert (failure.status, failure.code, requests) == (int(status[:3]), code, 1)
    assert (failure.request_id, failure.documented) == ("req-7", True)
    assert words in failure.next_step
    for part in (status[:3], code, "The detail", "req-7", "spec.a: is wrong"):
        assert part in str(failure)
    assert failure.outcome_unknown == (failure.status >= 500)


@pytest.mark.parametrize(("headers", "wait"), [({}, 60.0), ({"retry_after": "7"}, 7.0)])
async def test_too_many_requests_names_the_wait_and_is_not_repeated(headers: dict[str, str], wait: float) -> None:
    failure, requests = await failing(answering(problem("429 Too Many", "rate-limited", headers=headers)))
    assert isinstance(failure, ApiProblem)
    assert (failure.retry_after, requests) == (wait, 1)
    assert f"{wait:.0f} s" in failure.next_step


async def test_retry_after_as_a_date_counts_from_the_servers_clock() -> None:
    headers = {"retry_after": "Mon, 05 Oct 2026 09:02:00 GMT", "date": "Mon, 05 Oct 2026 09:00:30 GMT"}
    failure, _ = await failing(answering(problem("429 Too Many", "rate-limited", headers=headers)))
    assert isinstance(failure, ApiProblem)
    assert failure.retry_after == 90.0


async def test_refusals_without_a_problem_document_are_refusals_all_the_same() -> None:
    html = response("404 Not Found", b"<h1>nginx</h1>", content_type="text/html", x_request_id="id-\x1b9")
    failure, _ = await failing(answering(html))
    assert isinstance(failure, ApiProblem)
    assert (failure.code, failure.documented, failure.request_id) == ("http-error", False, "id-\N{SYMBOL FOR ESCAPE}9")
    oauth, _ = await failing(answering(response("400 Bad", b'{"error": "invalid_client"}')), "POST")
    assert oauth.code == "invalid_client"
    assert "client_id" in oauth.next_step


async def test_hostile_text_of_a_server_is_cleaned() -> None:
    hostile = "\x1b]52;c;cm0=\x07 \u202egnp.exe"
    body = problem("409 Conflict", f"code{hostile}", detail=hostile, fields={hostile: hostile})
    failure, _ = await failing(answering(body), "POST")
    assert not set(str(failure)) & set("\x1b\x07\u202e")


async def test_reads_are_repeated_a_few_times_with_pauses_and_then_recover() -> None:
    busy, good = response("503 Busy"), response("200 OK", b'{"a": 1}')
    with raw_server(answering(busy, busy, good)) as server:
        began = time.monotonic()
        assert (await ask(server.address)).body == {"a": 1}
        assert len(server.requests) == 3
        assert time.monotonic() - began > 0.4
    failure, requests = await failing(answering(busy))
    assert (failure.code, requests) == ("http-error", 3)
    failure, requests = await failing(answering(response("503 Busy", retry_after="30")))
    assert requests == 1


async def test_mutations_are_repeated_only_by_the_helper_with_one_key_and_the_same_bytes() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        if request.number == 1:
            connection.shutdown(socket.SHUT_RDWR)
        elif request.number == 2:
            connection.sendall(problem("409 Conflict", "idempotency-in-progress", headers={"retry_after": "0"}))
        elif request.number == 3:
            connection.sendall(response("503 Busy"))
        else:
            connection.sendall(response("201 Created", b'{"resource": {}}'))

    with raw_server(handler) as server:
        answer = await repeat_same_key(
            lambda: ask(server.address, "POST", json={"a": [1]}, headers={"idempotency-key": "k1"})
        )
        assert answer.status == 201
        assert {(one.headers["idempotency-key"], one.body) for one in server.requests} == {("k1", b'{"a":[1]}')}
    with raw_server(answering(problem("429 Too Many", "rate-limited"))) as server:
        with pytest.raises(ApiProblem):
            await repeat_same_key(lambda: ask(server.address, "POST"))
        assert len(server.requests) == 1


async def test_connections_are_used_again() -> None:
    with raw_server(answering(response("200 OK", b"{}"))) as server:
        transport = Transport(server.address)
        for _ in range(5):
            await transport.send("GET", "/v1/principal")
        await transport.aclose()
        assert (len(server.requests), server.connections) == (5, 1)


async def test_a_cancelled_request_leaves_the_transport_usable() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        if request.number == 1:
            time.sleep(1)
        connection.sendall(response("200 OK", b"{}"))

    with raw_server(handler) as server:
        transport = Transport(server.address)
        task = asyncio.create_task(transport.send("GET", "/v1/a"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await transport.send("GET", "/v1/b")).status == 200
        await transport.aclose()


async def test_a_proxy_of_the_environment_never_sees_a_loopback_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(answering(response("200 OK", b"{}"))) as proxy, raw_server(answering(response("204 OK"))) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("ALL_PROXY", proxy.address)
        assert (await ask(server.address)).status == 204
        assert proxy.requests == []


async def test_a_token_with_a_line_break_is_not_sent() -> None:
    with raw_server(answering(response("200 OK", b"{}"))) as server:
        transport = Transport(server.address)
        with pytest.raises(UsageError) as caught:
            await transport.send("GET", "/v1/principal", token=SecretStr("secret\r\nx: y"))
        await transport.aclose()
        assert server.requests == []
        assert "secret" not in str(caught.value)


async def test_a_stream_is_judged_by_its_head_and_a_break_is_a_failure_in_words() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        if request.target == "/v1/refused":
            connection.sendall(problem("403 Forbidden", "forbidden"))
        elif request.target == "/v1/moved":
            connection.sendall(response("302 Found", location="https://elsewhere.example.test/"))
        else:
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.sendall(head.encode() + b"8\r\ndata: 1\n\r\n")
            connection.shutdown(socket.SHUT_RDWR)

    async def lines_of(path: str) -> list[str]:
        async with transport.stream(path, token=TOKEN) as answer:
            return [line async for line in answer.aiter_lines()]

    with raw_server(handler) as server:
        transport = Transport(server.address)
        for path, kind in (("/v1/refused", ApiProblem), ("/v1/moved", Redirected), ("/v1/events", BadAnswer)):
            with pytest.raises(kind):
                await lines_of(path)
        await transport.aclose()
        assert len(server.requests) == 3
