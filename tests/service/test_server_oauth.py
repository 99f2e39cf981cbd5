"""The device flow, rotation and reuse, revocation, rates: over HTTP, on both databases where it is transactional."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from expb_tui.server.config import RequestLimits
from expb_tui.server.context import Unit
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.store.schema import account_memberships, accounts, credentials, device_requests, sessions, users
from tests.support.api import Api, problem
from tests.support.server import CLIENT_ID, DEVICE_GRANT, LocalServer, ServerFactory


def post(server: LocalServer, path: str, **fields: str) -> httpx.Response:
    with server.client() as http:
        return http.post(f"/oauth/{path}", data={"client_id": CLIENT_ID, **fields})


def start(server: LocalServer, **fields: str) -> dict[str, Any]:
    answer = post(server, "device_authorization", **fields)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def poll(server: LocalServer, device_code: str, **fields: str) -> httpx.Response:
    return post(server, "token", grant_type=DEVICE_GRANT, device_code=device_code, **fields)


def refresh(server: LocalServer, token: str, **fields: str) -> httpx.Response:
    return post(server, "token", grant_type="refresh_token", refresh_token=token, **fields)


def error(answer: httpx.Response) -> str:
    """The OAuth error of an answer, which is 400 whatever the code and never kept by a cache."""
    assert answer.status_code == 400, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["pragma"] == "no-cache"
    assert answer.json()["error_description"]
    code: str = answer.json()["error"]
    return code


def works(server: LocalServer, access_token: str) -> bool:
    with Api(server, access_token) as api:
        return api.get("/v1/principal").status_code == 200


def test_discovery_offers_what_is_there(server: LocalServer) -> None:
    with server.client() as http:
        answer = http.get("/.well-known/oauth-authorization-server")
        assert answer.headers["cache-control"] == "no-store"
        document = answer.json()
        assert document["issuer"] == server.address
        assert document["grant_types_supported"] == [DEVICE_GRANT, "refresh_token", "account_switch"]
        assert "authorization_endpoint" not in document
        for name in ("device_authorization_endpoint", "token_endpoint", "revocation_endpoint"):
            assert http.post(document[name], data={"client_id": "nobody"}).json()["error"] == "invalid_client"
        configuration = http.get("/v1/service-configuration").json()
    assert configuration["oauth_discovery"] == f"{server.address}/.well-known/oauth-authorization-server"
    assert configuration["api_versions"] == ["v1"]


def test_the_whole_flow(either_server: LocalServer) -> None:
    server = either_server
    started = start(server)
    assert len(started["device_code"]) == 43
    assert len(started["user_code"]) == 12
    assert started["user_code"] == started["user_code"].upper()
    assert started["verification_uri"] == f"{server.address}/oauth/device"
    assert started["verification_uri_complete"].endswith(f"?user_code={started['user_code']}")
    assert (started["expires_in"], started["interval"]) == (600, 5)
    assert error(poll(server, started["device_code"])) == "authorization_pending"
    server.approve(started["user_code"].lower())
    server.pass_time(5)
    answer = poll(server, started["device_code"])
    assert answer.status_code == 200, answer.text
    tokens = answer.json()
    assert (tokens["scope"], tokens["account_id"], tokens["token_type"]) == ("account", server.account_id, "Bearer")
    assert tokens["expires_in"] == 900
    assert works(server, tokens["access_token"])
    server.pass_time(5)
    assert error(poll(server, started["device_code"])) == "invalid_grant"


def test_polling_errors_in_their_order(server: LocalServer) -> None:
    assert error(poll(server, "x" * 43)) == "invalid_grant"
    assert error(post(server, "token", grant_type=DEVICE_GRANT)) == "invalid_request"
    assert error(post(server, "token", grant_type="password")) == "unsupported_grant_type"
    assert error(post(server, "token")) == "invalid_request"
    assert error(post(server, "token", client_id="other", grant_type=DEVICE_GRANT)) == "invalid_client"
    denied = start(server)
    server.deny(denied["user_code"])
    assert error(poll(server, denied["device_code"])) == "access_denied"
    assert error(poll(server, denied["device_code"])) == "access_denied"
    late = start(server)
    server.pass_time(600)
    assert error(poll(server, late["device_code"])) == "expired_token"
    # Expiry is tested before denial.
    assert error(poll(server, denied["device_code"])) == "expired_token"


def test_slow_down_adds_five_seconds_each_time(server: LocalServer) -> None:
    code = start(server)["device_code"]
    assert error(poll(server, code)) == "authorization_pending"
    assert error(poll(server, code)) == "slow_down"
    server.pass_time(9)
    assert error(poll(server, code)) == "slow_down"  # 10 s by now, counted from the last poll
    server.pass_time(14)
    assert error(poll(server, code)) == "slow_down"
    server.pass_time(20)
    assert error(poll(server, code)) == "authorization_pending"


def test_slow_down_comes_before_success(server: LocalServer) -> None:
    started = start(server)
    assert error(poll(server, started["device_code"])) == "authorization_pending"
    server.approve(started["user_code"])
    assert error(poll(server, started["device_code"])) == "slow_down"
    server.pass_time(10)
    assert poll(server, started["device_code"]).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"client_id": "unknown"}, 400, "invalid_client"),
        ({"preferred_context": "both"}, 400, "invalid_request"),
        ({"client_id": CLIENT_ID, "padding": "x" * 17_000}, 413, "invalid_request"),
    ],
)
def test_starting_wrongly(server: LocalServer, fields: Mapping[str, str], status: int, code: str) -> None:
    answer = post(server, "device_authorization", **fields)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


def test_a_form_is_a_form(server: LocalServer) -> None:
    with server.client() as http:
        assert error(http.post("/oauth/token", json={"client_id": CLIENT_ID})) == "invalid_request"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        twice = http.post("/oauth/token", content=b"client_id=expbctl&client_id=expbctl", headers=form)
        assert error(twice) == "invalid_request"
        assert error(http.post("/oauth/token", content=b"client_id=%FF", headers=form)) == "invalid_request"
        assert error(http.post("/oauth/token", content=b"\xff=1", headers=form)) == "invalid_request"


def test_refresh_rotates_and_kills_the_earlier_pair(either_server: LocalServer) -> None:
    server = either_server
    first = server.sign_in()
    second = refresh(server, first["refresh_token"]).json()
    assert not works(server, first["access_token"])
    assert works(server, second["access_token"])
    with Api(server, second["access_token"]) as api:
        [session] = [item for item in api.items("/v1/sessions") if item["status"]["phase"] == "active"]
    # The thirty days run from the sign-in and are not prolonged.
    server.pass_time(30 * 24 * 3600)
    assert error(refresh(server, second["refresh_token"])) == "invalid_grant"
    assert session["status"]["clientId"] == CLIENT_ID


def test_a_spent_refresh_token_ends_the_session(either_server: LocalServer) -> None:
    server = either_server
    first = server.sign_in()
    second = refresh(server, first["refresh_token"]).json()
    assert error(refresh(server, first["refresh_token"], client_id="expbctl2")) == "invalid_client"
    assert works(server, second["access_token"])
    assert error(refresh(server, first["refresh_token"])) == "invalid_grant"
    assert not works(server, second["access_token"])
    assert error(refresh(server, second["refresh_token"])) == "invalid_grant"


def test_another_registered_client_cannot_use_or_end_a_session(server_factory: ServerFactory) -> None:
    server = server_factory(client_ids=(CLIENT_ID, "other"))
    tokens = server.sign_in()
    assert error(refresh(server, tokens["refresh_token"], client_id="other")) == "invalid_grant"
    assert post(server, "revoke", client_id="other", token=tokens["refresh_token"]).json() == {}
    started = start(server)
    assert error(poll(server, started["device_code"], client_id="other")) == "invalid_grant"
    assert works(server, tokens["access_token"])
    assert refresh(server, tokens["refresh_token"]).status_code == 200


def test_of_parallel_refreshes_one_wins_and_reuse_is_seen(either_server: LocalServer) -> None:
    server = either_server
    token = server.sign_in()["refresh_token"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: refresh(server, token), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    [won] = [answer.json() for answer in answers if answer.status_code == 200]
    assert not works(server, won["access_token"])


def test_refresh_keeps_scope_and_account(server: LocalServer) -> None:
    tokens = server.sign_in()
    assert error(refresh(server, tokens["refresh_token"], scope="system")) == "invalid_request"
    assert error(refresh(server, tokens["refresh_token"], account_id="another")) == "invalid_request"
    answer = refresh(server, tokens["refresh_token"], scope="account", account_id=server.account_id)
    assert answer.status_code == 200


def test_an_access_token_lasts_fifteen_minutes(server: LocalServer) -> None:
    tokens = server.sign_in()
    server.pass_time(899)
    assert works(server, tokens["access_token"])
    server.pass_time(1)
    with Api(server, tokens["access_token"]) as api:
        answer = api.get("/v1/principal")
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert refresh(server, tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_revoking_either_token_ends_both(server: LocalServer, which: str) -> None:
    tokens = server.sign_in()
    assert post(server, "revoke", token="unknown").json() == {}
    assert error(post(server, "revoke")) == "invalid_request"
    answer = post(server, "revoke", token=tokens[which])
    assert (answer.status_code, answer.json()) == (200, {})
    assert not works(server, tokens["access_token"])
    assert error(refresh(server, tokens["refresh_token"])) == "invalid_grant"


def second_account(server: LocalServer) -> str:
    with server.services.database.write() as conn:
        unit = Unit(conn, server.services.database)
        user = conn.execute(select(users.c.id).where(users.c.email == server.email)).scalar_one()
        account_id: str = create_account(unit, user, name="Second").id
    return account_id


def test_a_switch_moves_the_session_to_another_account(server: LocalServer) -> None:
    other = second_account(server)
    tokens = server.sign_in(account_id=server.account_id)
    same = post(server, "token", grant_type="account_switch", refresh_token=tokens["refresh_token"])
    assert error(same) == "invalid_request"
    switch = {"grant_type": "account_switch", "refresh_token": tokens["refresh_token"]}
    assert error(post(server, "token", **switch, account_id=server.account_id)) == "invalid_request"
    assert error(post(server, "token", **switch, account_id="b" * 36)) == "invalid_grant"
    moved = post(server, "token", **switch, account_id=other).json()
    assert moved["account_id"] == other
    assert not works(server, tokens["access_token"])
    with Api(server, moved["access_token"]) as api:
        assert api.get("/v1/principal").json()["account_id"] == other
        problem(api.get(f"/v1/accounts/{server.account_id}"), 404, "not-found")
        assert [row["name"] for row in api.items("/v1/profile/accounts")] == ["Northlight Lab", "Second"]


@pytest.mark.parametrize("table", [users, accounts, account_memberships])
def test_whoever_is_no_longer_active_is_out_at_once(server: LocalServer, table: Any) -> None:
    tokens = server.sign_in()
    started = start(server)
    server.approve(started["user_code"])
    with server.services.database.write() as conn:
        conn.execute(table.update().values(phase="inactive"))
    assert not works(server, tokens["access_token"])
    assert error(refresh(server, tokens["refresh_token"])) == "invalid_grant"
    assert error(poll(server, started["device_code"])) == "access_denied"


def test_the_server_keeps_verifiers_only(server: LocalServer) -> None:
    started = start(server)
    server.approve(started["user_code"])
    tokens = poll(server, started["device_code"]).json()
    secrets = [started["device_code"], started["user_code"], tokens["access_token"], tokens["refresh_token"]]
    with server.services.database.read() as conn:
        rows = [
            *conn.execute(select(credentials)),
            *conn.execute(select(device_requests)),
            *conn.execute(select(sessions)),
        ]
    text = repr(rows)
    assert rows
    assert not [secret for secret in [*secrets, server.agent_token] if secret in text]


def test_too_many_requests_from_one_address(server_factory: ServerFactory) -> None:
    server = server_factory(limits=RequestLimits(oauth_per_minute=10))
    with server.client() as http:
        statuses = [http.get("/oauth/device").status_code for _ in range(5)]
        statuses += [http.post("/oauth/token", data={}).status_code for _ in range(5)]
        refused = http.post("/oauth/token", data={})
        assert statuses == [200] * 5 + [400] * 5
        assert (refused.status_code, refused.json()["error"]) == (429, "rate-limited")
        assert "retry-after" not in refused.headers
        # Discovery and the API are not counted.
        assert http.get("/.well-known/oauth-authorization-server").status_code == 200
        assert http.get("/v1/service-configuration").status_code == 200


def test_a_trusted_proxy_says_who_is_calling(server_factory: ServerFactory) -> None:
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}
    plain = server_factory(limits=RequestLimits(oauth_per_minute=10))
    with plain.client() as http:
        codes = [http.post("/oauth/token", data={}, headers={"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(11)]
    assert codes[-1].status_code == 429
    trusting = server_factory(trusted_proxy="127.0.0.1", issuer="https://bench.example.test")
    with trusting.client() as http:
        problem(http.get("/v1/service-configuration"), 421, "misdirected-request")
        public = {**forwarded, "X-Forwarded-Host": "bench.example.test"}
        started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}, headers=public).json()
        assert started["verification_uri"] == "https://bench.example.test/oauth/device"
        # What the client says of itself stands before what the proxy says, on whatever line.
        lines = [("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-For", "[2001:db8::7]:4711")]
        hosts = [("X-Forwarded-Host", "bench.example.test"), ("X-Forwarded-Host", "evil.example")]
        problem(http.get("/v1/service-configuration", headers=hosts), 421, "misdirected-request")
        http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}, headers=[*lines, *reversed(hosts)])
        ported = [("X-Forwarded-For", "192.0.2.1:567"), *reversed(hosts)]
        http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}, headers=ported)
    with trusting.services.database.read() as conn:
        seen = conn.execute(select(device_requests.c.ip_address).order_by(device_requests.c.created_at)).scalars()
        assert list(seen) == ["203.0.113.9", "2001:db8::7", "192.0.2.1"]


def test_one_ipv6_network_is_one_caller(server_factory: ServerFactory) -> None:
    server = server_factory(trusted_proxy="127.0.0.1", limits=RequestLimits(oauth_per_minute=10))
    with server.client() as http:

        def ask(address: str) -> int:
            return http.get("/oauth/device", headers={"X-Forwarded-For": address}).status_code

        assert [ask(f"2001:db8:1:2::{number:x}") for number in range(12)] == [200] * 10 + [429] * 2
        assert ask("2001:db8:1:3::1") == 200
        assert [ask(f"::ffff:192.0.2.{number}") for number in range(12)] == [200] * 12
