"""Claims per second through HTTP with 16 clients, against the same SQL without a server around it, in one run.

A claim's statements are recorded from the real server code, then repeated over the plain driver with fresh ids: the
bare transaction, which does the same work in the database and nothing else. SQLite has one writer, so there one
connection repeats them; PostgreSQL gets 16. The claims must reach a fifth of the bare rate. Prints one JSON object;
with ``--short`` fewer claims, and exit code 1 where a ratio is below two thirds of its bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[2]))

from sqlalchemy import event, select
from sqlalchemy.engine import make_url

from expb_tui.server.config import PasswordCost, ServerSettings
from expb_tui.server.context import Services
from expb_tui.server.identity.agents import issue_token
from expb_tui.server.identity.authentication import verifier
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS, AGENT_IDENTITIES
from expb_tui.server.identity.passwords import Passwords
from expb_tui.server.run import RunningServer
from expb_tui.server.store.database import Database
from expb_tui.server.store.research_tables import work_tasks
from expb_tui.server.transaction import Incoming, perform
from expb_tui.server.work import routes
from tests.support.postgres import fresh_database, running_cluster
from tests.support.research import Lab

CLIENTS = 16
BOUND = 1 / 5
SLACK = 1.5
ROLE = "experimenter"
PLENTY = 1_000_000
CLAIMS_OF_AN_AGENT = 12
"""Below the limit of packages that an agent may hold."""

Statement = tuple[str, Any]
"""The driver's SQL and its parameters."""


@dataclass
class Stage:
    """A database with queued experiments and agents to claim them."""

    url: str
    project_id: str
    agents: list[tuple[str, str]]
    """Id and token; each is taken once for ``CLAIMS_OF_AN_AGENT`` claims, bare or through HTTP."""

    def hands(self) -> Iterator[tuple[str, str]]:
        """An agent for each further claim."""
        while self.agents:
            agent = self.agents.pop()
            for _ in range(CLAIMS_OF_AN_AGENT):
                yield agent


def prepare(url: str, experiments: int) -> Stage:
    """Fill an empty database."""
    lab = Lab.open(url)
    desk = lab.project()
    desk.role(ROLE, concurrentExperiments=PLENTY)
    desk.limit("concurrent-experiments", PLENTY)
    agents = []
    with lab.unit() as unit:
        for number in range(experiments // CLAIMS_OF_AN_AGENT + 1):
            agent = unit.insert(AGENT_IDENTITIES, name=f"agent-{number}", account_id=lab.account_id)
            grant = {"account_id": lab.account_id, "project_id": desk.id, "agent_id": agent.id, "roles": [ROLE]}
            unit.insert(AGENT_AUTHORIZATIONS, **grant)
            agents.append((agent.id, issue_token(unit, agent, name="bench")[1]))
    desk.experiments(desk.objective(), experiments)
    if lab.database.postgres:
        # What autovacuum does a minute later: without it, plans are made for empty tables.
        with lab.unit() as unit:
            unit.conn.exec_driver_sql("ANALYZE")
    lab.database.close()
    return Stage(url, desk.id, agents)


def _settings(url: str) -> ServerSettings:
    return ServerSettings(database=url, workers=CLIENTS, password_cost=PasswordCost(time=1, memory=8, lanes=1))


def record(stage: Stage) -> tuple[list[Statement], list[Statement]]:
    """The statements of two claims, the second and the third of the database, as the driver gets them."""
    settings = _settings(stage.url)
    database = Database(settings.database, workers=settings.workers)
    services = Services(settings, database, Passwords(settings.password_cost))
    operation = next(op for op in routes.operations.all if op.id == "requestWorkPackage")
    log: list[Statement] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        rows = parameters if many else [parameters]
        log.extend((statement, row) for row in rows)

    async def claim() -> list[Statement]:
        log.clear()
        headers = {"authorization": f"Bearer {stage.agents[0][1]}", "idempotency-key": str(uuid4())}
        path, body = f"/v1/projects/{stage.project_id}/work-packages", json.dumps({"role": ROLE}).encode()
        answer = await perform(
            services,
            Incoming(operation, path, {"project": stage.project_id}, {}, headers, body, str(uuid4())),
        )
        if answer.status != 201:
            raise SystemExit(f"a claim answered {answer.status}: {answer.body!r}")
        return list(log)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        asyncio.run(claim())
        return asyncio.run(claim()), asyncio.run(claim())
    finally:
        services.passwords.close()
        database.close()


class Bare:
    """Repeats a recorded claim with fresh ids."""

    def __init__(self, stage: Stage, one: list[Statement], other: list[Statement]) -> None:
        if [text for text, _ in one] != [text for text, _ in other]:
            raise SystemExit("two claims do not run the same statements")
        # The driver is told when to begin and commit; on SQLite the server says it as a statement of its own.
        self.statements = [entry for entry in one if not entry[0].startswith("BEGIN")]
        pairs = zip(one, other, strict=True)
        changing = {value for (_, a), (_, b) in pairs for value in _scalars(a) if value not in set(_scalars(b))}
        database = Database(stage.url)
        with database.read() as conn:
            rows = conn.execute(select(work_tasks).where(work_tasks.c.role == ROLE)).all()
        database.close()
        ids = [(row.queued_at, row.id, row.experiment_id, row.hypothesis_id) for row in rows if row.phase == "open"]
        taken = next(row for row in rows if row.phase == "assigned" and row.id in changing)
        self._recorded_task = (taken.id, taken.experiment_id, taken.hypothesis_id)
        self._fresh = [
            value for value in changing if isinstance(value, (str, bytes)) and value not in self._recorded_task
        ]
        self._recorded_agent = stage.agents[0]
        self._agents = stage.hands()
        # The newest first: the server gives out the oldest meanwhile.
        self._tasks = iter(sorted(ids, reverse=True))
        self._lock = threading.Lock()

    def claim(self) -> Iterator[Statement]:
        """The statements of one more claim."""
        with self._lock:
            task, agent = next(self._tasks), next(self._agents)
        change: dict[Any, Any] = dict(zip(self._recorded_task, task[1:], strict=True))
        change[self._recorded_agent[0]] = agent[0]
        change[verifier(self._recorded_agent[1])] = verifier(agent[1])
        for value in self._fresh:
            change[value] = secrets.token_bytes(32) if isinstance(value, bytes) else str(uuid4())
        for text, parameters in self.statements:
            if isinstance(parameters, dict):
                yield text, {name: _swap(value, change) for name, value in parameters.items()}
            else:
                yield text, tuple(_swap(value, change) for value in parameters)


def _scalars(parameters: Any) -> list[Any]:
    values = parameters.values() if isinstance(parameters, dict) else parameters
    return [value for value in values if isinstance(value, (str, bytes)) and len(value) in (32, 36)]


def _swap(value: Any, change: dict[Any, Any]) -> Any:
    return change.get(value, value) if isinstance(value, (str, bytes)) else value


@contextmanager
def sqlite_workers(stage: Stage, bare: Bare) -> Iterator[list[Callable[[], None]]]:
    """The bare transaction over the standard library's driver."""
    path = make_url(stage.url).database
    connection = sqlite3.connect(str(path), isolation_level=None, cached_statements=512, check_same_thread=False)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}")

    def once() -> None:
        connection.execute("BEGIN IMMEDIATE")
        for text, parameters in bare.claim():
            connection.execute(text, parameters).fetchall()
        connection.execute("COMMIT")

    yield [once]
    connection.close()


@contextmanager
def postgres_workers(stage: Stage, bare: Bare) -> Iterator[list[Callable[[], None]]]:
    """The bare transaction over psycopg, on 16 connections."""
    import psycopg

    url = make_url(stage.url).set(drivername="postgresql").render_as_string(hide_password=False)
    connections = [psycopg.connect(url) for _ in range(CLIENTS)]

    def worker(connection: Any) -> Callable[[], None]:
        def once() -> None:
            with connection.cursor() as cursor:
                for text, parameters in bare.claim():
                    cursor.execute(text, parameters)
                    if cursor.description is not None:
                        cursor.fetchall()
            connection.commit()

        return once

    yield [worker(connection) for connection in connections]
    for connection in connections:
        connection.close()


def _timed(workers: Sequence[Callable[[], None]], claims: int) -> float:
    """Calls per second of all workers together."""
    each = max(1, claims // len(workers))
    threads = [threading.Thread(target=lambda call=worker: [call() for _ in range(each)]) for worker in workers]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each * len(workers) / (time.perf_counter() - started)


async def _client(host: str, port: int, stage: Stage, tokens: Iterator[str], claims: int, go: asyncio.Barrier) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    body = json.dumps({"project_id": stage.project_id, "role": ROLE, "max_tasks": 1}).encode()
    head = (
        f"POST /v1/projects/{stage.project_id}/work-packages HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    ).encode()
    await go.wait()
    for _ in range(claims):
        writer.write(
            head + f"Authorization: Bearer {next(tokens)}\r\nIdempotency-Key: {uuid4()}\r\n\r\n".encode() + body
        )
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 201"):
            raise SystemExit(answer.decode())
        length = int(answer.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
    writer.close()


async def _clients(host: str, port: int, stage: Stage, claims: int) -> float:
    """Claims per second of 16 clients together."""
    go = asyncio.Barrier(CLIENTS + 1)
    each = max(1, claims // CLIENTS)
    tokens = (token for _, token in stage.hands())
    tasks = [asyncio.create_task(_client(host, port, stage, tokens, each, go)) for _ in range(CLIENTS)]
    await go.wait()
    started = time.perf_counter()
    await asyncio.gather(*tasks)
    return each * CLIENTS / (time.perf_counter() - started)


@contextmanager
def running_server(stage: Stage) -> Iterator[tuple[str, int]]:
    """A server in a process of its own, and where it listens."""
    server = subprocess.Popen([sys.executable, __file__, "--serve", stage.url], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        host, port = server.stdout.readline().split()
        yield host, int(port)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def serve(url: str) -> None:
    """Serve a database and print where."""
    server = RunningServer(_settings(url))
    server.run(lambda address: print(address.host, address.port, flush=True))


def measure(url: str, claims: int, rounds: int) -> dict[str, object]:
    """The median of both rates and of their ratio on one empty database; they take turns, so that a slow moment of the
    machine hits both."""
    stage = prepare(url, 2 * claims * (rounds + 1) + 200)
    bare = Bare(stage, *record(stage))
    workers_of = sqlite_workers if url.startswith("sqlite") else postgres_workers
    pairs = []
    with workers_of(stage, bare) as workers, running_server(stage) as (host, port):
        for number in range(rounds + 1):
            warm = number == 0
            part = claims // 2 if warm else claims
            pair = _timed(workers, part), asyncio.run(_clients(host, port, stage, part))
            if not warm:
                pairs.append(pair)
    return {
        "statements": len(bare.statements),
        "rounds": rounds,
        "claims_each": claims,
        "bare_per_second": round(statistics.median(pair[0] for pair in pairs), 1),
        "http_per_second": round(statistics.median(pair[1] for pair in pairs), 1),
        "ratio": round(statistics.median(http / alone for alone, http in pairs), 3),
        "bound": BOUND,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="fewer claims; fail beyond one and a half times the bound")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    size = (160, 5) if given.short else (480, 9)
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        results["sqlite"] = measure(f"sqlite:///{Path(folder, 'bench.sqlite')}", *size)
    # As an operator would run it: with PostgreSQL's own, durable settings.
    with running_cluster(settings=()) as cluster:
        if cluster is not None:
            with fresh_database(cluster) as url:
                results["postgresql"] = measure(url, *size)
    print(json.dumps({"bench": "claims", "clients": CLIENTS, "processors": os.cpu_count(), **results}, indent=2))
    if given.short and any(float(str(result["ratio"])) < BOUND / SLACK for result in results.values()):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
