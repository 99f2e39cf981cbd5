"""Text that no database holds, through every door; and a failing database, in the shape of each door."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from expb_tui.server.store.database import Database
from tests.support.api import Api, envelope, problem
from tests.support.server import CLIENT_ID, DEVICE_GRANT, LocalServer


def test_unstorable_text_is_refused_at_every_door(either_server: LocalServer) -> None:
    server = either_server
    pair = server.sign_in()
    with Api(server, pair["access_token"]) as owner:
        place = f"/v1/accounts/{server.account_id}/agent-identities"
        for text in ("a\0b", "a\\ud800b"):
            raw = json.dumps(envelope("agent-identities", {"description": "X"}, name="x")).replace(
                "X", text.replace("\0", "\\u0000")
            )
            headers = {"Idempotency-Key": str(uuid4()), "Content-Type": "application/json"}
            assert owner.http.post(place, content=raw, headers=headers).status_code in (400, 422)
        for name in ("name", "labels", "fields", "cursor", "from"):
            assert owner.http.get(f"{place}?{name}=a%00b").status_code == 400
            assert owner.http.get(f"{place}?{name}=a%ED%A0%80b").status_code == 400
        assert owner.get(place, limit=1).status_code == 200
        cursor = owner.get(place, limit=1).json().get("next", "")
        mark = json.loads(base64.urlsafe_b64decode(cursor + "==="))["o"] if cursor else ""
        for key in (
            ["2026-01-01T00:00:00Z", "\ud800"],
            ["2026-01-01T00:00:00Z", "a\0"],
            ["2026-01-01T00:00:00Z", 5],
            "x",
            [],
            None,
        ):
            forged = base64.urlsafe_b64encode(json.dumps({"o": mark, "k": key}).encode()).decode().rstrip("=")
            problem(owner.get(place, cursor=forged), 400, "invalid-cursor")
        for path in (f"{place}/%00", "/v1/agent-identities/%00", "/v1/agent-identities/%ED%A0%80"):
            assert owner.http.get(path).status_code == 404
    switch = {"grant_type": "account_switch", "refresh_token": pair["refresh_token"], "account_id": "a\0b"}
    forms: list[tuple[str, dict[str, str]]] = [
        ("/oauth/token", switch),
        ("/oauth/token", {"grant_type": DEVICE_GRANT, "device_code": "\0"}),
        ("/oauth/device_authorization", {"preferred_context": "\0"}),
        ("/oauth/revoke", {"token": "a\0"}),
        ("/oauth/device", {"email": "a\0b", "password": "x"}),
        ("/oauth/device", {"user_code": "\0", "email": server.email, "password": server.password}),
    ]
    with server.client() as http:
        for path, fields in forms:
            answer = http.post(path, data={"client_id": CLIENT_ID, **fields})
            assert answer.status_code == 400, (path, answer.text)
        # A header is bytes; what it says is stored as it came.
        odd = [(b"User-Agent", "caf\u00e9 \u00ff".encode("latin-1"))]
        started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}, headers=odd)
        assert started.status_code == 200


class Gone(Exception):
    sqlstate = "57P01"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OperationalError("SELECT 'secret'", {}, Gone("secret")), 503),
        (ProgrammingError("SELECT 'secret'", {}, Gone("secret")), 500),
    ],
)
def test_a_failing_database_is_told_in_the_shape_of_the_door(
    server: LocalServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: DBAPIError,
    status: int,
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    access = server.sign_in()["access_token"]
    monkeypatch.setattr(Database, "write", broken)
    monkeypatch.setattr(Database, "read", broken)
    code = "unavailable" if status == 503 else "internal-error"
    with Api(server, access) as api:
        for answer in (
            api.get("/v1/principal"),
            api.get("/v1/events"),
            api.post("/v1/accounts", envelope("accounts", name="x")),
        ):
            problem(answer, status, code)
            assert ("retry-after" in answer.headers) == (status == 503)
        token = api.http.post(
            "/oauth/token", data={"client_id": CLIENT_ID, "grant_type": DEVICE_GRANT, "device_code": "x"}
        )
        assert (token.status_code, token.json()["error"]) == (status, "server_error")
        page = api.http.post("/oauth/device", data={"email": "a@b.example", "password": "x"})
        assert page.status_code == status
        assert page.headers["content-type"].startswith("text/html")
        for answer in (token, page):
            assert answer.headers["cache-control"] == "no-store"
    assert "secret" not in caplog.text
    monkeypatch.undo()
