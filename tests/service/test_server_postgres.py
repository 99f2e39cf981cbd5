"""What only PostgreSQL brings: locks that others hold, and a clock that is not this host's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime

import psycopg
import pytest
from sqlalchemy import select

from expb_tui.server.identity import authentication
from expb_tui.server.seed import SeededDemo
from expb_tui.server.store import database as database_module
from expb_tui.server.store.research_tables import event_log
from tests.support.api import Api, envelope
from tests.support.postgres import Cluster, fresh_database
from tests.support.server import LocalServer, ServerFactory


@pytest.fixture
def postgres_server(
    postgres_cluster: Cluster, postgres_demo: tuple[str, SeededDemo], server_factory: ServerFactory
) -> Iterator[LocalServer]:
    template, demo = postgres_demo
    with fresh_database(postgres_cluster, template) as url:
        server = server_factory(database=url, demo=demo)
        yield server
        server.stop()


def test_a_project_that_is_held_does_not_hold_up_reading(postgres_server: LocalServer) -> None:
    server = postgres_server
    url = server.services.database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    body = {"project_id": server.project_id, "role": "ideator"}

    def claim(_: int) -> tuple[int, str | None]:
        with Api(server, server.agent_token) as api:
            answer = api.post("/v1/work-packages", body)
            return answer.status_code, answer.headers.get("retry-after")

    with psycopg.connect(url) as holder, ThreadPoolExecutor(10) as pool:
        # What a server that was stopped in the middle of a claim would hold.
        holder.execute("SELECT 1 FROM projects WHERE id = %s FOR UPDATE", [server.project_id])
        holder.execute("SELECT 1 FROM agent_identities WHERE id = %s FOR UPDATE", [server.agent_id])
        claims = [pool.submit(claim, number) for number in range(8)]
        time.sleep(0.3)
        server.pass_time(5)
        with Api(server, server.agent_token) as api:
            assert api.get("/v1/principal").status_code == 200
        assert not all(future.done() for future in claims)
        assert {future.result() for future in claims} == {(503, "1")}
    assert claim(0)[0] == 201


class Slow:
    """Stands in for ``datetime`` on a host whose clock is two minutes behind."""

    @staticmethod
    def now(tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - timedelta(minutes=2)


def test_the_date_is_the_databases(postgres_server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server = postgres_server
    monkeypatch.setattr(database_module, "datetime", Slow)
    monkeypatch.setattr(authentication, "datetime", Slow)
    with Api(server, server.agent_token) as agent:
        claim = agent.post("/v1/work-packages", {"project_id": server.project_id, "role": "ideator"})
        lease = claim.json()["resource"]["status"]["lease"]
    dated = parsedate_to_datetime(claim.headers["date"])
    issued = datetime.fromisoformat(lease["issuedAt"])
    assert abs((dated - issued).total_seconds()) < 2
    assert abs((dated - datetime.now(UTC)).total_seconds()) < 5
    with Api(server, server.sign_in()["access_token"]) as owner:
        owner.make(f"/v1/accounts/{server.account_id}/agent-identities", envelope("agent-identities", name="late"))
    with server.services.database.read() as conn:
        at = conn.execute(select(event_log.c.created_at).order_by(event_log.c.id.desc()).limit(1)).scalar_one()
    assert abs((at - datetime.now(UTC)).total_seconds()) < 5
