"""Requests in bulk: connections are used again, and given up where they are no good any more."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time

import pytest

from expb_tui.core.api import channels
from expb_tui.core.api.transport import BadAnswer, Transport, Unreachable
from expb_tui.core.secret import SecretStr
from tests.support.keeper import until
from tests.support.raw_server import Request, answering, raw_server, response

TOKEN = SecretStr("planted-token")


async def post(transport: Transport, path: str = "/v1/x") -> object:
    return (await transport.send("POST", path, token=TOKEN, json={}, in_bulk=True, within=5.0)).body


async def test_one_connection_serves_one_request_after_the_other_and_many_serve_many_at_once() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        time.sleep(0.05)
        connection.sendall(response("200 OK", b'{"a": 1}'))

    with raw_server(handler) as server:
        transport = Transport(server.address)
        for _ in range(4):
            assert await post(transport) == {"a": 1}
        assert server.connections == 1
        await asyncio.gather(*(post(transport) for _ in range(8)))
        assert 2 <= server.connections <= 8
        await transport.aclose()
        request = server.requests[0]
        assert (request.method, request.target, request.body) == ("POST", "/v1/x", b"{}")
        assert request.headers["authorization"] == "Bearer planted-token"
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert request.headers["accept-encoding"] == "identity"


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(response("200 OK", b"{}"))
        connection.shutdown(socket.SHUT_RDWR)

    with raw_server(handler) as server:
        transport = Transport(server.address)
        for _ in range(3):
            assert await post(transport) == {}
            await asyncio.sleep(0.05)
        assert (server.connections, len(server.requests)) == (3, 3)
        await transport.aclose()


async def test_a_cancelled_exchange_closes_its_connection() -> None:
    ends: list[bytes] = []

    def handler(request: Request, connection: socket.socket) -> None:
        connection.settimeout(5.0)
        ends.append(connection.recv(1))

    with raw_server(handler) as server:
        transport = Transport(server.address)
        with pytest.raises(Unreachable) as caught:
            await transport.send("POST", "/v1/x", token=TOKEN, json={}, in_bulk=True, within=0.2)
        assert (caught.value.code, caught.value.outcome_unknown) == ("timeout", True)
        async with asyncio.timeout(5.0):
            while not ends:
                await asyncio.sleep(0.01)
        assert ends == [b""]
        await transport.aclose()


async def test_a_service_that_compresses_unasked_is_asked_by_the_other_way_from_then_on() -> None:
    packed = gzip.compress(json.dumps({"a": 1}).encode())
    with raw_server(answering(response("200 OK", packed, content_encoding="gzip"))) as server:
        transport = Transport(server.address)
        with pytest.raises(BadAnswer, match="cannot be used"):
            await post(transport)
        assert await post(transport) == {"a": 1}
        await transport.aclose()


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(answering(response("200 OK", b'{"by": "proxy"}'))) as proxy:
        for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.address)
        transport = Transport("http://bench.example.test", insecure_http=True)
        assert await post(transport) == {"by": "proxy"}
        await transport.aclose()
        assert proxy.requests[0].target == "http://bench.example.test/v1/x"


async def test_a_name_of_several_addresses_where_nobody_listens_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    transport = Transport(f"http://localhost:{port}")
    with pytest.raises(Unreachable) as caught:
        await post(transport)
    assert (caught.value.code, caught.value.outcome_unknown) == ("refused", False)
    await transport.aclose()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "again"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b'content-length: 8\r\n\r\n{"a": 1}', True),
        (CHUNKED + b'4\r\n{"a"\r\n4;x=y\r\n: 1}\r\n0\r\n\r\n', True),
        (CHUNKED + b'8\r\n{"a": 1}\r\n0\r\ntrailer: x\r\n\r\n', True),
        (HEAD.replace(b"1.1", b"1.0") + b'content-length: 8\r\n\r\n{"a": 1}', False),
        (HEAD + b'Connection: Close\r\ncontent-length: 8\r\n\r\n{"a": 1}', False),
    ],
)
async def test_each_plain_form_of_an_answer_is_read(sent: bytes, again: bool) -> None:
    with raw_server(answering(sent)) as server:
        transport = Transport(server.address)
        assert [await post(transport), await post(transport)] == [{"a": 1}, {"a": 1}]
        assert server.connections == (1 if again else 2)
        await transport.aclose()


async def test_a_body_that_ends_with_its_connection_is_read() -> None:
    def handler(request: Request, connection: socket.socket) -> None:
        connection.sendall(HEAD + b'\r\n{"a": 1}')
        connection.shutdown(socket.SHUT_RDWR)

    with raw_server(handler) as server:
        transport = Transport(server.address)
        assert await post(transport) == {"a": 1}
        await transport.aclose()


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        HEAD + b"content-length: 8\r\ncontent-length: 9\r\n\r\n" + b'{"a": 1} ',
        HEAD + b"content-length: -8\r\n\r\n",
        HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"a header of an older time\r\n\r\n{}",
        CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
        HEAD + b"x: " + b"y" * 200_000,
    ],
)
async def test_what_is_no_plain_answer_is_not_believed(sent: bytes) -> None:
    with raw_server(answering(sent)) as server:
        transport = Transport(server.address)
        for _ in range(2):
            with pytest.raises((Unreachable, BadAnswer)) as caught:
                await post(transport)
            assert caught.value.outcome_unknown
            assert caught.value.code != "timeout"
        assert server.connections == 2, "a connection that said such a thing is not used again"
        await transport.aclose()


async def test_connections_that_are_not_needed_any_more_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_IDLE", 0.1)
    ends: list[bytes] = []

    def handler(request: Request, connection: socket.socket) -> None:
        time.sleep(0.05)
        connection.sendall(response("200 OK", b"{}"))
        ends.append(connection.recv(1))

    with raw_server(handler) as server:
        transport = Transport(server.address)
        await asyncio.gather(*(post(transport) for _ in range(4)))
        assert await asyncio.to_thread(until, lambda: len(ends), lambda count: count == server.connections)
        assert set(ends) == {b""}
        await transport.aclose()


async def test_of_large_answers_one_is_read_at_a_time() -> None:
    large, first = b'{"a": "' + b"x" * (6 << 20) + b'"}', threading.Event()
    sent: list[int] = []

    def handler(request: Request, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        answer = response("200 OK", large)
        if request.target.endswith("/first"):
            connection.sendall(answer[: 1 << 20])
            first.wait(20)
            connection.sendall(answer[1 << 20 :])
        else:
            connection.sendall(answer)
            sent.append(request.number)

    with raw_server(handler) as server:
        transport = Transport(server.address)
        asked = [asyncio.create_task(post(transport, "/v1/first"))]
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        asked += [asyncio.create_task(post(transport, f"/v1/{number}")) for number in range(4)]
        await asyncio.sleep(0.5)
        assert sent == [], "the others wait for it in the sockets, not in our memory"
        first.set()
        assert all(await asyncio.gather(*asked))
        assert len(sent) == 4
        await transport.aclose()


@pytest.mark.parametrize("size", [b"content-length: 99999999999999999999\r\n\r\n", b"content-length: 40000000\r\n\r\n"])
async def test_what_is_announced_as_too_large_is_not_read(size: bytes) -> None:
    with raw_server(answering(HEAD + size)) as server:
        transport = Transport(server.address)
        with pytest.raises(BadAnswer) as caught:
            await post(transport)
        assert caught.value.code == "too-large"
        await transport.aclose()
