"""Many at once, deaths in the middle, and the moment of expiry, on both databases (hazards 11)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import create_engine, func, select, update

from expb_tui.server.identity.agents import issue_token
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS, AGENT_IDENTITIES
from expb_tui.server.problems import Problem
from expb_tui.server.store.research_tables import hypotheses, results, work_packages, work_tasks
from expb_tui.server.store.schema import agent_identities
from tests.support import answers
from tests.support.research import Desk, Held, Lab
from tests.support.server import ServerFactory

SUBMISSIONS = int(os.environ.get("EXPB_RACE_SUBMISSIONS", "200"))
"""How many submissions fall around an expiry; 10,000 in the long form."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'race.sqlite'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def race(url: str) -> Iterator[Lab]:
    lab = Lab.open(url, workers=24)
    yield lab
    lab.database.close()


def agents(desk: Desk, count: int) -> list[str]:
    """Agents that may do everything in the project."""
    with desk.lab.unit() as unit:
        found = []
        for number in range(count):
            uid = unit.insert(AGENT_IDENTITIES, name=f"agent-{number}", account_id=desk.lab.account_id).id
            grant = {"account_id": desk.lab.account_id, "project_id": desk.id, "agent_id": uid}
            unit.insert(AGENT_AUTHORIZATIONS, **grant, roles=["ideator", "experimenter"])
            found.append(str(uid))
    return found


def all_at_once(calls: Sequence[Callable[[], None]]) -> None:
    """Run every call in a thread of its own, started together; the first unexpected error is raised."""
    gate = threading.Barrier(len(calls))
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        gate.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def attempt(call: Callable[..., Any], *args: Any) -> tuple[Any, Problem | None]:
    """What a call returns, or how it is refused."""
    try:
        return call(*args), None
    except Problem as problem:
        return None, problem


def test_two_hundred_clients_get_a_thousand_tasks_each_once(race: Lab) -> None:
    desk = race.project()
    desk.role("experimenter", concurrentExperiments=1000, maxTasks=16)
    for limit in ("agent-active-packages", "concurrent-experiments"):
        desk.limit(limit, 1000)
    desk.experiments(desk.objective(), 1000)
    given: list[str] = []

    def client(agent: str) -> Callable[[], None]:
        sizes = random.Random(agent)

        def work() -> None:
            while (held := desk.claim(agent, "experimenter", sizes.randint(2, 16))) is not None:
                given.extend(held.task_ids)

        return work

    all_at_once([client(agent) for agent in agents(desk, 200)])
    assert len(given) == len(set(given)) == 1000
    assert race.count(work_tasks, work_tasks.c.role == "experimenter", work_tasks.c.phase == "assigned") == 1000


@pytest.mark.parametrize("limit", ["agent-active-packages", "concurrent-experiments", "open-hypotheses"])
def test_two_hundred_clients_never_pass_a_limit_of_three(race: Lab, limit: str) -> None:
    desk = race.project()
    role = "ideator" if limit == "open-hypotheses" else "experimenter"
    desk.role(role, concurrentExperiments=200)
    desk.limit(limit, 3)
    objective = desk.objective()
    if role == "experimenter":
        desk.experiments(objective, 20)
    one = limit == "agent-active-packages"
    hands = agents(desk, 1) * 200 if one else agents(desk, 200)
    outcomes: list[str] = []

    def client(agent: str) -> Callable[[], None]:
        def work() -> None:
            held, refusal = attempt(desk.claim, agent, role)
            assert refusal is None or refusal.fields == {"limit": limit}
            outcomes.append(refusal.code if refusal else "given" if held else "empty")

        return work

    all_at_once([client(agent) for agent in hands])
    assert outcomes.count("given") == 3
    assert set(outcomes) <= {"given", "limit-exceeded", "empty"}
    assert race.count(work_packages, work_packages.c.phase == "active") == 3


def test_submissions_around_expiry_give_one_result_a_task(race: Lab) -> None:
    """Each package is submitted twice within 50 ms of its end, while others take over what expired and submit that."""
    wave = min(SUBMISSIONS // 4, 50)
    for number in range(max(1, SUBMISSIONS // (4 * wave))):
        _race_expiry(race, race.project(f"wave-{number}"), number, wave)


def _race_expiry(race: Lab, desk: Desk, number: int, wave: int) -> None:
    desk.role("experimenter", concurrentExperiments=wave, maxTasks=1)
    desk.limit("concurrent-experiments", 2 * wave)
    desk.experiments(desk.objective(), wave)
    with race.unit() as unit:
        hands = []
        for index in range(2 * wave):
            uid = unit.insert(AGENT_IDENTITIES, name=f"wave-{number}-{index}", account_id=race.account_id).id
            grant = {"account_id": race.account_id, "project_id": desk.id, "agent_id": uid}
            unit.insert(AGENT_AUTHORIZATIONS, **grant, roles=["experimenter"])
            hands.append(str(uid))
    packages = [desk.must_claim(agent, "experimenter") for agent in hands[:wave]]
    with race.unit() as unit:
        # All at one moment, however long it took to give them out.
        end = unit.now + timedelta(seconds=1)
        unit.conn.execute(update(work_packages).where(work_packages.c.project_id == desk.id).values(expires_at=end))
        skew = unit.now.timestamp() - time.time()
    taken: list[str] = []
    dice = random.Random(number)

    def submitter(held: Held, shift: float) -> Callable[[], None]:
        def work() -> None:
            time.sleep(max(0.0, end.timestamp() + shift - skew - time.time()))
            receipt, refusal = attempt(desk.submit, held, answers.report(held.tasks[0]["input"]))
            assert refusal is None or refusal.code in ("lease-expired", "task-closed")
            if receipt is not None:
                taken.append(receipt.outcome.record.id)

        return work

    def successor(agent: str) -> Callable[[], None]:
        def work() -> None:
            time.sleep(max(0.0, end.timestamp() + 0.05 - skew - time.time()))
            while (held := desk.claim(agent, "experimenter")) is not None:
                taken.append(desk.work_on(held).id)

        return work

    calls = [submitter(held, dice.uniform(-0.05, 0.05)) for held in packages for _ in range(2)]
    all_at_once([*calls, *(successor(agent) for agent in hands[wave:])])
    for agent in hands[:4]:
        successor(agent)()
    with race.database.read() as conn:
        of_project = results.c.project_id == desk.id
        counts = conn.execute(select(func.count()).where(of_project).group_by(results.c.experiment_id)).scalars().all()
        recorded = set(conn.execute(select(results.c.id).where(of_project)).scalars())
    assert counts == [1] * wave
    assert recorded == set(taken)
    assert len(taken) == wave


def test_mutations_of_every_kind_do_not_block_each_other(race: Lab) -> None:
    """Claims, renewals, submissions, failures, releases and withdrawals at once: no deadlock, no lost task."""
    desk = race.project(hypothesisReview=True)
    desk.role("ideator", maxTasks=4)
    desk.limit("open-hypotheses", 1000)
    for index in range(4):
        desk.objective(f"objective-{index}")
    accepted: list[str] = []

    def client(agent: str) -> Callable[[], None]:
        dice = random.Random(agent)

        def work() -> None:
            for _ in range(8):
                held = desk.claim(agent, "ideator", 2)
                if held is None:
                    continue
                desk.renew(held)
                act = dice.random()
                if act < 0.5:
                    accepted.append(desk.work_on(held).id)
                elif act < 0.6:
                    desk.submit(held)
                else:
                    desk.release(held)

        return work

    all_at_once([client(agent) for agent in agents(desk, 12)])
    assert race.count(hypotheses) == len(set(accepted)) == len(accepted)
    assert desk.open_tasks("hypothesis-reviewer") == len(accepted)


async def test_clients_race_over_http_too(server_factory: ServerFactory) -> None:
    server = server_factory(seed_demo=False)
    lab = Lab(server.services.database)
    desk = lab.project()
    desk.role("experimenter", concurrentExperiments=8)
    desk.limit("concurrent-experiments", 100)
    desk.experiments(desk.objective(), 60)
    tokens = []
    for agent in agents(desk, 40):
        with lab.unit() as unit:
            tokens.append(issue_token(unit, unit.fetch(AGENT_IDENTITIES, agent), name="race")[1])
    given: list[str] = []

    async def client(token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=server.address, headers=headers, verify=False, timeout=30) as http:
            while True:
                answer = await http.post(
                    f"/v1/projects/{desk.id}/work-packages",
                    json={"role": "experimenter"},
                    headers={"Idempotency-Key": str(uuid4())},
                )
                if answer.status_code != 201:
                    assert answer.status_code in (200, 409), answer.text
                    return
                given.extend(task["taskId"] for task in answer.json()["resource"]["status"]["tasks"])

    await asyncio.gather(*(client(token) for token in tokens))
    assert len(given) == len(set(given)) == 60


class Killer:
    """Requests in processes that die at a chosen point (see ``tests/support/killed.py``)."""

    def __init__(self, url: str) -> None:
        program = Path(__file__).parents[1] / "support" / "killed.py"
        self._process = subprocess.Popen(
            # -P: the folder of the program has modules named like those of the standard library.
            [sys.executable, "-P", str(program), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def send(self, request: dict[str, Any], kill_at: int | None = None) -> dict[str, Any]:
        """The answer, with a null status where the process died; without ``kill_at`` it is one that goes on living."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request, "kill_at": kill_at}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def test_a_server_killed_at_any_statement_has_done_the_request_wholly_or_not_at_all(url: str) -> None:
    """kill -9 before each statement, at the commit and after it; then the same key again."""
    lab = Lab.open(url)
    desk = lab.project()
    desk.role("experimenter", concurrentExperiments=200)
    for limit in ("agent-active-packages", "concurrent-experiments"):
        desk.limit(limit, 200)
    desk.experiments(desk.objective(), 150)
    agent = agents(desk, 1)[0]
    with lab.unit() as unit:
        token = issue_token(unit, unit.fetch(AGENT_IDENTITIES, agent), name="drill")[1]
        # Seen in the future: otherwise the runs differ by one statement, by whether a second has passed.
        unit.conn.execute(update(agent_identities).values(last_seen_at=unit.now + timedelta(days=1)))
    lab.database.close()
    killer = Killer(url)
    bearer = {"authorization": f"Bearer {token}"}
    onlooker = create_engine(url)

    def counts() -> tuple[int, int, int]:
        assigned = select(func.count()).where(work_tasks.c.phase == "assigned")
        with onlooker.connect() as conn:
            packages, recorded = (
                conn.execute(select(func.count()).select_from(table)).scalar_one() for table in (work_packages, results)
            )
            return packages, conn.execute(assigned).scalar_one(), recorded

    def claim_request() -> dict[str, Any]:
        headers = {**bearer, "idempotency-key": str(uuid4())}
        path, params = f"/v1/projects/{desk.id}/work-packages", {"project": desk.id}
        body = {"role": "experimenter"}
        return {"operation": "requestWorkPackage", "path": path, "params": params, "headers": headers, "body": body}

    def submit_request() -> dict[str, Any]:
        given = killer.send(claim_request())["body"]
        package = given["resource"]
        task = package["status"]["tasks"][0]
        body = {"taskId": task["taskId"], "outcome": "completed", "output": answers.report(task["input"])}
        headers = {**bearer, "idempotency-key": str(uuid4()), "x-lease-token": given["leaseToken"]}
        uid = package["metadata"]["uid"]
        return {
            "operation": "submitTask",
            "path": f"/v1/work-packages/{uid}/submissions",
            "params": {"uid": uid},
            "headers": headers,
            "body": body,
        }

    try:
        for make, change in ((claim_request, (1, 1, 0)), (submit_request, (0, -1, 1))):
            killer.send(make())  # the first result is the objective's best, which is one statement more
            unharmed = killer.send(make())
            assert unharmed["status"] == 201
            assert unharmed["points"] > 12, "the points of an unharmed run are the drill's plan"
            visited = 0
            for point in range(1, unharmed["points"] + 1):
                request = make()
                before = counts()
                assert killer.send(request, kill_at=point)["status"] is None, f"nobody died at point {point}"
                visited += 1
                between = tuple(now - then for now, then in zip(counts(), before, strict=True))
                assert between == (change if point == unharmed["points"] else (0, 0, 0)), f"point {point}"
                again = killer.send(request, kill_at=0)
                assert again["status"] == 201, again
                after = tuple(now - then for now, then in zip(counts(), before, strict=True))
                assert after == change, f"point {point}"
            assert visited == unharmed["points"]
    finally:
        killer.close()
        onlooker.dispose()
