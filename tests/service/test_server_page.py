"""The approval page by HTTP: its steps, what it refuses, what it counts, how it is fenced in (hazards 13)."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from expb_tui.server.config import RequestLimits
from expb_tui.server.context import Unit
from expb_tui.server.identity.accounts import create_account
from expb_tui.server.identity.people import create_user
from expb_tui.server.store.schema import users
from tests.support.postgres import fresh_database
from tests.support.server import CLIENT_ID, DEVICE_GRANT, LocalServer, ServerFactory, hidden_fields


class Walk:
    """One person, one browser without script, one device request."""

    def __init__(self, server: LocalServer, http: httpx.Client) -> None:
        self.server, self.http = server, http
        started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}).json()
        self.code: str = started["user_code"]
        self.device_code: str = started["device_code"]

    def send(self, **fields: str) -> httpx.Response:
        return self.http.post("/oauth/device", data={"user_code": self.code, **fields})

    def sign_in(self, **fields: str) -> httpx.Response:
        return self.send(email=self.server.email, password=self.server.password, **fields)

    def state(self) -> str:
        """What the device hears; polled far apart."""
        self.server.pass_time(20)
        form = {"client_id": CLIENT_ID, "grant_type": DEVICE_GRANT, "device_code": self.device_code}
        answer = self.http.post("/oauth/token", data=form)
        return "approved" if answer.status_code == 200 else str(answer.json()["error"])


@pytest.fixture
def walk(server: LocalServer) -> Walk:
    return Walk(server, server.client())


def said(answer: httpx.Response, status: int, words: str) -> str:
    assert answer.status_code == status, answer.text
    assert words in answer.text
    return answer.text


def test_the_page_is_fenced_in(walk: Walk) -> None:
    for answer in (walk.http.get("/oauth/device"), walk.sign_in(), walk.send(email="x", password="y")):
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        for rule in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
            assert rule in policy
        assert "<script" not in answer.text


def test_nothing_in_the_address_signs_in_or_approves(walk: Walk) -> None:
    query = {
        "user_code": walk.code,
        "email": walk.server.email,
        "password": walk.server.password,
        "decision": "approve",
    }
    page = said(walk.http.get("/oauth/device", params=query), 200, walk.code)
    assert walk.server.email not in page
    assert walk.server.password not in page
    assert walk.state() == "authorization_pending"


def test_the_question_names_who_asks(walk: Walk) -> None:
    walk.server.pass_time(130)
    page = said(walk.sign_in(), 200, "Allow this sign-in?")
    for part in (walk.code, CLIENT_ID, "127.0.0.1", "2 minutes ago", walk.server.email, "Northlight Lab", "owner"):
        assert part in page
    assert "Approve only if you started this yourself." in page
    assert walk.state() == "authorization_pending"


def test_approval_needs_the_explicit_word(walk: Walk) -> None:
    page = walk.sign_in().text
    for decision in ({}, {"decision": "yes"}):
        page = said(walk.http.post("/oauth/device", data={**hidden_fields(page), **decision}), 200, "Allow this")
        assert walk.state() == "authorization_pending"
    said(walk.http.post("/oauth/device", data={**hidden_fields(page), "decision": "approve"}), 200, "Approved")
    assert walk.state() == "approved"


def test_denying_needs_a_sign_in_too(walk: Walk) -> None:
    said(walk.send(decision="deny"), 200, "Sign in a terminal")
    said(walk.send(email=walk.server.email, password="wrong", decision="deny"), 400, "is wrong")
    assert walk.state() == "authorization_pending"
    said(walk.sign_in(decision="deny"), 200, "Denied")
    assert walk.state() == "access_denied"
    said(walk.sign_in(decision="approve"), 400, "used already")
    assert walk.state() == "access_denied"


def test_a_program_may_post_credentials_and_decision_together(walk: Walk) -> None:
    said(walk.sign_in(decision="approve"), 200, "Approved")
    assert walk.state() == "approved"


def test_a_ticket_is_good_once_for_one_code_and_person(walk: Walk) -> None:
    form = hidden_fields(walk.sign_in().text)
    other = Walk(walk.server, walk.http)
    for changed in ({"user_code": other.code}, {"email": "somebody@else.example"}, {"auth_ticket": "x" * 43}):
        said(walk.http.post("/oauth/device", data={**form, **changed, "decision": "approve"}), 400, "sign in again")
    said(walk.http.post("/oauth/device", data=form), 200, "Allow this sign-in?")
    said(walk.http.post("/oauth/device", data={**form, "decision": "approve"}), 400, "sign in again")
    assert walk.state() == other.state() == "authorization_pending"


def test_a_ticket_expires(walk: Walk) -> None:
    form = hidden_fields(walk.sign_in().text)
    walk.server.pass_time(600)
    said(walk.http.post("/oauth/device", data={**form, "decision": "approve"}), 400, "sign in again")


def test_codes_that_do_not_count(walk: Walk) -> None:
    credentials = {"email": walk.server.email, "password": walk.server.password}
    said(walk.http.post("/oauth/device", data={"user_code": "NOSUCHCODE12", **credentials}), 400, "not known")
    said(walk.http.post("/oauth/device", data=credentials), 400, "not known")
    walk.server.pass_time(600)
    said(walk.sign_in(), 400, "has expired")


def test_several_accounts_are_a_choice(walk: Walk) -> None:
    database = walk.server.services.database
    with database.write() as conn:
        unit = Unit(conn, database)
        user = conn.execute(users.select().where(users.c.email == walk.server.email)).one()
        second = create_account(unit, user.id, name="Second <b>Lab</b>").id
        stranger = create_user(unit, email="x@y.example", password_hash="!")
        foreign = create_account(unit, stranger.id, name="Foreign").id
    page = said(walk.sign_in(), 200, "Account to sign in to")
    assert "owner of &#x2068;Second &lt;b&gt;Lab&lt;/b&gt;&#x2069;" in page
    page = said(
        walk.http.post("/oauth/device", data={**hidden_fields(page), "decision": "approve"}), 200, "Choose an account"
    )
    form = hidden_fields(page)
    said(walk.http.post("/oauth/device", data={**form, "authority_context": second}), 200, "Second &lt;b&gt;Lab")
    assert walk.state() == "authorization_pending"
    for fields in (
        {"authority_context": foreign},
        {"account_id": foreign},
        {"authority_context": "system"},
        {"scope": "system"},
    ):
        assert walk.sign_in(decision="approve", **fields).status_code == 400
    said(walk.sign_in(decision="approve", account_id=second), 200, "Approved")
    assert walk.state() == "approved"


def test_failures_are_counted_per_address_known_or_not(server_factory: ServerFactory) -> None:
    server = server_factory(limits=RequestLimits(sign_in_failures=3))
    walk = Walk(server, server.client())
    for email in (server.email, "nobody@nowhere.example"):
        for _ in range(3):
            said(walk.send(email=email, password="wrong"), 400, "is wrong")
        said(walk.send(email=email.upper(), password="wrong"), 429, "Too many tries")
    said(walk.sign_in(), 429, "Too many tries")
    server.pass_time(800)
    said(walk.sign_in(), 429, "Too many tries")
    server.pass_time(100)
    fresh = Walk(server, walk.http)
    said(fresh.sign_in(), 200, "Allow this sign-in?")


def test_a_success_starts_the_count_again(server_factory: ServerFactory) -> None:
    server = server_factory(limits=RequestLimits(sign_in_failures=3))
    walk = Walk(server, server.client())
    for _ in range(3):
        for _ in range(2):
            said(walk.send(email=server.email, password="wrong"), 400, "is wrong")
        said(walk.sign_in(), 200, "Allow this sign-in?")


def test_parallel_guesses_are_counted_before_they_are_checked(
    request: pytest.FixtureRequest, server_factory: ServerFactory
) -> None:
    template, demo = request.getfixturevalue("postgres_demo")
    limits = RequestLimits(sign_in_failures=3)
    with fresh_database(request.getfixturevalue("postgres_cluster"), template) as url:
        for server in (server_factory(limits=limits), server_factory(database=url, demo=demo, limits=limits)):
            walk = Walk(server, server.client())
            for email in (server.email, "nobody@nowhere.example"):
                with ThreadPoolExecutor(8) as pool:
                    guess = partial(walk.send, email=email, password="guess")
                    answers = list(pool.map(lambda _, send=guess: send(), range(12)))
                assert sorted(answer.status_code for answer in answers) == [400] * 3 + [429] * 9
            server.stop()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_forms_of_other_sites_are_refused(walk: Walk, headers: dict[str, str], status: int) -> None:
    form = {"user_code": walk.code, "email": walk.server.email, "password": walk.server.password}
    answer = walk.http.post("/oauth/device", data=form, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    own = walk.http.post("/oauth/device", data=form, headers={"Origin": walk.server.address})
    assert own.status_code == 200


def raw_get(server: LocalServer, path: str, host: str) -> str:
    """The status line that a request with this Host gets, by socket."""
    address = server.running.address
    with socket.create_connection((address.host, address.port), timeout=10) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    return answer.split(b"\r\n", 1)[0].decode()


def test_a_foreign_host_is_misdirected(server: LocalServer) -> None:
    port = server.running.address.port
    for path in ("/oauth/device", "/v1/principal", "/openapi.json"):
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", f"x@127.0.0.1:{port}", "", "127.0.0.1"):
            assert " 421 " in raw_get(server, path, host), (path, host)
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert " 200 " in raw_get(server, "/oauth/device", host), host


def test_what_people_type_is_escaped(walk: Walk) -> None:
    hostile = '"><b>x</b>'
    page = walk.http.post("/oauth/device", data={"user_code": hostile, "email": hostile, "password": "x"}).text
    assert not re.search(r"<b>", page, re.IGNORECASE)
    page = walk.http.get("/oauth/device", params={"user_code": hostile}).text
    assert not re.search(r"<b>", page, re.IGNORECASE)
