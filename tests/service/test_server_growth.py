"""A week goes by: what is only remembered for a while does not pile up, and nothing gets slower (hazards 14)."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

import httpx
from sqlalchemy import Connection, Table, func, insert, select, text

from expb_tui.server import pruning
from expb_tui.server.config import Lifetimes, RequestLimits
from expb_tui.server.store.research_tables import event_log
from expb_tui.server.store.schema import (
    credentials,
    device_requests,
    idempotency_records,
    sessions,
    sign_in_failures,
    sign_in_tickets,
)
from tests.support.api import Api, envelope
from tests.support.server import CLIENT_ID, LocalServer, ServerFactory

TRANSIENT = (
    idempotency_records,
    credentials,
    sessions,
    device_requests,
    sign_in_tickets,
    sign_in_failures,
    event_log,
)
STEP_HOURS = 2
STEPS_A_DAY = 24 // STEP_HOURS
DAY = 24 * 3600


def count(conn: Connection, table: Table) -> int:
    counted: int = conn.execute(select(func.count()).select_from(table)).scalar_one()
    return counted


def busy_hours(server: LocalServer, agent: Api) -> list[float]:
    """What happens every two hours: sign-ins, refreshes, guesses, tokens, a package; how long the claims took."""
    pair = server.sign_in()
    with server.client() as http:
        for _ in range(2):
            form = {"client_id": CLIENT_ID, "grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
            pair = http.post("/oauth/token", data=form).json()
        started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}).json()
        guess = {"user_code": started["user_code"], "email": f"{uuid4()}@x.example", "password": "guess"}
        assert http.post("/oauth/device", data=guess).status_code == 400
        # Signed in, and then left alone.
        left = {"user_code": started["user_code"], "email": server.email, "password": server.password}
        assert http.post("/oauth/device", data=left).status_code == 200
    with Api(server, pair["access_token"]) as owner:
        soon = server.services.database
        with soon.read() as conn:
            ends = (soon.clock(conn) + timedelta(hours=1)).isoformat()
        owner.make(
            f"/v1/agent-identities/{server.agent_id}/tokens", envelope("agent-identity-tokens", {"expiresAt": ends})
        )
    took = []
    for _ in range(3):
        began = time.perf_counter()
        claim = agent.post("/v1/work-packages", {"project_id": server.project_id, "role": "ideator"})
        took.append(time.perf_counter() - began)
        assert claim.status_code == 201, claim.text
        package = claim.json()["resource"]["metadata"]["uid"]
        lease = {"X-Lease-Token": claim.json()["leaseToken"]}
        for _ in range(2):
            assert agent.post(f"/v1/work-packages/{package}/renewals", {}, **lease).status_code == 200
        released: httpx.Response = agent.http.patch(
            f"/v1/work-packages/{package}", json={"operation": "release"}, headers={**lease, "If-Match": '"3"'}
        )
        assert released.status_code == 200, released.text
    return took


def test_a_week_fits_and_nothing_gets_slower(server_factory: ServerFactory) -> None:
    server = server_factory(
        lifetimes=Lifetimes(refresh_token=DAY, ended_session=DAY),
        limits=RequestLimits(oauth_per_minute=100_000),
        prune_interval=3600.0,
    )
    database = server.services.database
    rows: list[list[int]] = []
    pages: list[int] = []
    took: list[list[float]] = []
    with Api(server, server.agent_token) as agent:
        for _ in range(7):
            today: list[float] = []
            for _ in range(STEPS_A_DAY):
                today += busy_hours(server, agent)
                server.pass_time(STEP_HOURS * 3600)
                for part in pruning.PARTS:
                    while pruning.prune(server.services, part) >= pruning.BATCH:
                        pass
            took.append(today)
            with database.read() as conn:
                rows.append([count(conn, table) for table in TRANSIENT])
                used = conn.execute(text("PRAGMA page_count")).scalar_one()
                pages.append(used - conn.execute(text("PRAGMA freelist_count")).scalar_one())
    by_table = {table.name: [day[index] for day in rows] for index, table in enumerate(TRANSIENT)}
    # From the third day on, when the longest-lived are two days old, every day ends as the one before.
    for name, days in by_table.items():
        assert max(days[3:]) <= days[2], (name, days)
    assert by_table["idempotency_records"][-1] > 0
    # Packages and agent tokens are history and stay, some rows a day; pages of what is pruned are used again.
    growth = [after - before for before, after in pairwise(pages)]
    assert max(growth[2:]) < growth[0], growth
    # The fastest of each day: what the machine was busy with besides says nothing about growth.
    first, last = min(took[0]), min(took[-1])
    assert last <= 2 * first + 0.005, (first, last)


def test_pruning_goes_in_small_batches_beside_the_requests(server_factory: ServerFactory) -> None:
    server = server_factory(prune_interval=0.05)
    database = server.services.database
    with database.write() as conn:
        past = database.clock(conn) - timedelta(seconds=1)
        future = past + timedelta(hours=1)
        many = 3 * pruning.BATCH + 1
        conn.execute(
            insert(idempotency_records),
            [{"scope": uuid4().bytes * 2, "digest": b"d" * 32, "expires_at": past} for _ in range(many)],
        )
        conn.execute(insert(idempotency_records), [{"scope": b"kept" * 8, "digest": b"d" * 32, "expires_at": future}])
    deadline = time.monotonic() + 10
    with Api(server, server.agent_token) as agent:
        while True:
            assert agent.get("/v1/principal").status_code == 200
            with database.read() as conn:
                left = count(conn, idempotency_records)
            if left <= 1:
                break
            assert time.monotonic() < deadline
    with database.read() as conn:
        assert conn.execute(select(idempotency_records.c.scope)).scalar_one() == b"kept" * 8


def test_a_renewals_record_is_short_lived_and_has_no_body(server: LocalServer) -> None:
    with Api(server, server.agent_token) as agent:
        claim = agent.post("/v1/work-packages", {"project_id": server.project_id, "role": "ideator"}).json()
        package = claim["resource"]["metadata"]["uid"]
        lease = {"X-Lease-Token": claim["leaseToken"]}
        path = f"/v1/work-packages/{package}/renewals"
        first = agent.post(path, {}, key="renewal", **lease)
        with server.services.database.read() as conn:
            by_age = select(idempotency_records).order_by(idempotency_records.c.expires_at)
            renewal, claimed = conn.execute(by_age).all()
            now = server.services.database.clock(conn)
        assert (renewal.status, renewal.body) == (200, None)
        assert timedelta(minutes=59) < renewal.expires_at - now <= timedelta(hours=1)
        keep = server.services.settings.lifetimes.idempotency_record
        assert timedelta(seconds=keep - 60) < claimed.expires_at - now <= timedelta(seconds=keep)
        # A repeat reads the package instead, and renews nothing.
        again = agent.post(path, {}, key="renewal", **lease)
        assert again.status_code == 200
        assert again.json() == first.json()
        assert agent.post(path, {}, key="another", **lease).json()["resource"]["status"]["lease"]["renewals"] == 2
