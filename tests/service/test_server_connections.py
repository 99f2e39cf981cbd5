"""Clients that connect and dawdle: they are dropped, and others are served meanwhile (hazards 14)."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from expb_tui.server.config import RequestLimits
from tests.support.server import LocalServer, ServerFactory

FILES = 200
SERVE = """
import sys
from expb_tui.server.run import serve
from tests.support.server import settings_for
serve(settings_for(sys.argv[1]), ready=lambda address: print(address.port, flush=True))
"""


def connect(port: int, text: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    sock.sendall(text)
    return sock


def closed_after(sock: socket.socket) -> float:
    """Seconds until the other side ended the connection; what it said first is read and dropped."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(65536):
            pass
    sock.close()
    return time.monotonic() - began


@pytest.fixture
def hasty(server_factory: ServerFactory) -> LocalServer:
    return server_factory(limits=RequestLimits(head_seconds=0.3, body_seconds=0.3))


@pytest.mark.parametrize("text", [b"", b"GET /v1/principal HT", b"POST /oauth/token HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_come(hasty: LocalServer, text: bytes) -> None:
    assert 0.2 < closed_after(connect(hasty.running.address.port, text)) < 3


def test_a_second_head_that_does_not_come(hasty: LocalServer) -> None:
    port = hasty.running.address.port
    sock = connect(port, f"GET /oauth/device HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\nGET /v1".encode())
    assert closed_after(sock) < 3


def test_a_body_that_does_not_come(hasty: LocalServer) -> None:
    port = hasty.running.address.port
    head = f"Host: 127.0.0.1:{port}\r\nContent-Length: 100\r\n"
    form = f"POST /oauth/token HTTP/1.1\r\n{head}Content-Type: application/x-www-form-urlencoded\r\n\r\nclient_id"
    bearer = f"Authorization: Bearer {hasty.agent_token}\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\n"
    for text in (form, f"POST /v1/work-packages HTTP/1.1\r\n{head}{bearer}\r\n{{"):
        sock = connect(port, text.encode())
        assert sock.recv(12) == b"HTTP/1.1 408"
        assert closed_after(sock) < 3


def test_a_patient_request_is_not_cut_off(hasty: LocalServer) -> None:
    with hasty.client(hasty.agent_token) as http:
        for _ in range(3):
            assert http.get("/v1/principal").status_code == 200
            time.sleep(0.2)


def test_what_is_no_http_gets_a_problem(server: LocalServer) -> None:
    port = server.running.address.port
    for text in (b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"):
        with connect(port, text) as sock:
            answer = b""
            while chunk := sock.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"application/problem+json" in head
        assert json.loads(body)["code"] == "invalid-request"


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server that may open few files, and its port."""
    root = Path(__file__).parents[2]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE, f"sqlite:///{tmp_path}/x.sqlite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
    )
    assert server.stdout is not None
    yield server, int(server.stdout.readline())
    server.kill()
    server.communicate()


def test_a_flood_of_connections_is_survived_in_silence(few_files: tuple[subprocess.Popen[str], int]) -> None:
    server, port = few_files
    flood = []
    for _ in range(FILES + 100):
        with contextlib.suppress(OSError):
            flood.append(connect(port, b"POST /oauth/token HTTP/1.1\r\n"))
    assert len(flood) > FILES
    # Those who came too late are dropped at once; the last of them shows that all have had their turn.
    assert closed_after(flood.pop()) < 10
    for sock in flood[:10]:
        sock.close()
    deadline = time.monotonic() + 10
    answered = False
    while not answered and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError), httpx.Client(verify=False, timeout=3) as http:
            answered = http.get(f"http://127.0.0.1:{port}/v1/service-configuration").status_code == 200
    assert answered
    for sock in flood:
        sock.close()
    server.terminate()
    _, said = server.communicate(timeout=20)
    assert len(said.splitlines()) < 10, said[-2000:]
