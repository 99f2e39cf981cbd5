"""Requests in bulk: connections are used again, and given up where they are no good any more."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time

import pytest

from expb_tui.core.api.transport import BadAnswer, Transport, Unreachable
from expb_tui.core.secret import SecretStr
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
