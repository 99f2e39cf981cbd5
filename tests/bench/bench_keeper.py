"""The keeper with 2,000 leases of 60 seconds: none lost, and how much of a processor core it takes.

The real program, ``expb-tui keeper``, over a journal that holds the leases; what it costs is read from the system, its
start left out. The service is a small one of its own process that speaks the real protocol: the real server would be
what is measured, and its work is not the keeper's. It answers after a second, and fails three requests of ten by a
seeded choice, at most six in a row for a package: it refuses, breaks off before or after the renewal was carried out,
cuts its answer short. It alone says what was lost: a lease that had run out when a renewal came, or at the end.

Prints one JSON object. All leases begin in the same second, so that they fall due in the same second; with ``--short``
they are spread as they are after some hours, for two cycles in place of ten. Exit code 1 where a lease was lost or the
processor's share is above 10% (15% with ``--short``: a busy machine's core is a slower one).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from expb_tui.core.clock import SYSTEM_CLOCK, boot_id
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import SAFETY, LeaseTimes
from expb_tui.core.leases.schema import PackageRow, Pin
from expb_tui.core.leases.statements import merge
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.keeper import keeper, keeper_environment, state_folder

LEASES, LENGTH = 2000, 60.0
RENEW_AT = 1 / 3
FAILING, IN_A_ROW = 0.3, 6
DELAY = 1.0
BOUND, SLACK = 0.10, 1.5
TOKEN = "identity-token-of-the-bench"
KINDS = ("refused", "broken before", "broken after", "cut short")
AGENT, ACCOUNT, PROJECT = "agt-1", "acc-1", "prj-1"
INPUT = {"instructions": ["Read what is there and say what follows from it. " * 4] * 8}


class Service:
    """Two thousand packages, their leases, and the faults; the truth about what was lost."""

    def __init__(self, seed: int) -> None:
        self.ends: list[float] = []
        self.renewals = Counter[int]()
        self.versions: list[int] = []
        self.lost: set[int] = set()
        self.told = Counter[str]()
        self.shortest = LENGTH
        self._random = random.Random(seed)
        self._row = Counter[int]()

    def begin(self, left: list[float]) -> None:
        """Issue leases with so many seconds left."""
        now = time.monotonic()
        self.ends = [now + seconds for seconds in left]
        self.versions = [1] * len(left)

    def fault(self, number: int) -> str | None:
        """How this request of a package fails, if it does."""
        if self._random.random() >= FAILING or self._row[number] >= IN_A_ROW:
            self._row[number] = 0
            return None
        self._row[number] += 1
        return self._random.choice(KINDS)

    def renew(self, number: int) -> bool:
        """Carry out a renewal that came now; False where the lease had run out."""
        left = self.ends[number] - time.monotonic()
        if left < 0:
            self.lost.add(number)
            return False
        self.shortest = min(self.shortest, left)
        self.ends[number] = time.monotonic() + LENGTH
        self.renewals[number] += 1
        self.versions[number] += 1
        return True

    def package(self, number: int) -> dict[str, Any]:
        """The envelope."""
        end = datetime.now(UTC) + timedelta(seconds=self.ends[number] - time.monotonic())
        lease = {
            "expiresAt": end.isoformat(),
            "absoluteExpiresAt": (end + timedelta(hours=12)).isoformat(),
            "leaseSeconds": int(LENGTH),
            "renewals": self.renewals[number],
        }
        task = {"taskId": f"task-{number}", "role": "ideator", "phase": "assigned", "input": INPUT}
        return {
            "apiVersion": "exp-bench.sre-norns.com/v1",
            "kind": "work-packages",
            "metadata": {"uid": f"wp-{number}", "project": PROJECT, "version": self.versions[number]},
            "spec": {"role": "ideator", "agentId": AGENT},
            "status": {"phase": "active", "lease": lease, "tasks": [task]},
        }

    def summary(self) -> dict[str, Any]:
        """What it has seen until now."""
        now = time.monotonic()
        over = {number for number, end in enumerate(self.ends) if end < now}
        return {
            "lost": len(self.lost | over),
            "fewest_renewals": min((self.renewals[number] for number in range(len(self.ends))), default=0),
            "renewals": self.renewals.total(),
            "shortest_left": round(self.shortest, 1),
            **self.told,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if not await self._answer(writer, method, target, headers, body):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bool:
        """False ends the connection."""
        if target == "/begin":
            self.begin(json.loads(body))
            return await _reply(writer, 200, {})
        if target == "/summary":
            return await _reply(writer, 200, self.summary())
        if target == "/v1/principal":
            who = {"type": "agent", "account_id": ACCOUNT, "agent_id": AGENT, "credential_id": "cred-1"}
            return await _reply(writer, 200, {**who, "role_grants": {PROJECT: ["ideator"]}})
        number = int(target.split("/")[3].removeprefix("wp-"))
        if method == "GET":
            self.told["reads"] += 1
            return await _reply(writer, 200, self.package(number))
        self.told["requests"] += 1
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert headers["x-lease-token"] == lease_token(number)
        fault = self.fault(number)
        if fault:
            self.told[fault] += 1
        done = fault in (None, "broken after", "cut short") and self.renew(number)
        answer = {"resource": self.package(number)}
        await asyncio.sleep(DELAY)
        if fault == "refused":
            return await _reply(writer, 503, {"status": 503, "code": "temporarily-unavailable", "title": "Busy"})
        if fault in ("broken before", "broken after"):
            return False
        if not done:
            return await _reply(writer, 409, {"status": 409, "code": "lease-expired", "title": "Over"})
        return await _reply(writer, 200, answer, cut=fault == "cut short")


async def _reply(writer: asyncio.StreamWriter, status: int, body: Any, *, cut: bool = False) -> bool:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} x\r\ndate: {formatdate(usegmt=True)}\r\ncontent-type: application/json\r\n"
        f"x-request-id: req-1\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + (content[: len(content) // 2] if cut else content))
    await writer.drain()
    return not cut


def lease_token(number: int) -> str:
    """The token of a package's lease."""
    return f"lease-token-of-package-{number:06d}-0123456789"


async def serve(seed: int) -> None:
    """The service's process: prints its port, and goes on until it is killed."""
    server = await asyncio.start_server(Service(seed).serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def ask(address: str, target: str, body: Any = None) -> Any:
    """What the service itself knows."""
    import urllib.request

    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address + target, data=data), timeout=30) as answer:
        return json.load(answer)


async def hold(environ: dict[str, str], address: str, left: list[float]) -> None:
    """Journal the leases, as if they had just been claimed, with so many seconds left; the service is told of them."""
    store = ProfileStore(Path(environ["EXPBENCH_PROFILES"]))
    identity = SecretStr(TOKEN)
    store.put(Profile("bench", "agent", endpoint=address, account_id=ACCOUNT, agent_id=AGENT, token=identity))
    pin = Pin(address, ACCOUNT, AGENT, "cred-1", "bench", str(store.path))
    journal = Journal(state_folder(environ) / "journal.db")
    document = {"status": {"tasks": [{"taskId": "task", "role": "ideator", "phase": "assigned", "input": INPUT}]}}
    now, ticks = datetime.now(UTC), SYSTEM_CLOCK.ticks()
    rows = []
    for number, seconds in enumerate(left):
        end = now + timedelta(seconds=seconds + SAFETY)
        times = LeaseTimes(end, end + timedelta(hours=12), LENGTH, now, now, ticks, boot_id())
        uid, token = f"wp-{number}", SecretStr(lease_token(number))
        rows.append(PackageRow(pin, uid, PROJECT, "bench", "ideator", 1, "active", token, document, times, 0, now, now))
    ask(address, "/begin", left)
    await journal._door.write(lambda db: [merge(db, row) for row in rows])  # one transaction: all at one moment
    await journal.aclose()


def processor_seconds(pid: int) -> float:
    """What a process has used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """The memory of a process that is in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(folder: Path, address: str, *, short: bool, seed: int) -> dict[str, Any]:
    """One keeper over all leases, until each has been through its cycles."""
    cycles = 2 if short else 10
    spread = random.Random(seed)
    first = LENGTH * RENEW_AT + 4.0  # the keeper has to begin meanwhile
    left = [spread.uniform(first, LENGTH) if short else LENGTH for _ in range(LEASES)]
    environ = keeper_environment(folder)
    asyncio.run(hold(environ, address, left))
    with keeper(environ) as process:
        process.at_work()
        pid = process.process.pid
        time.sleep(3.0)
        began, used = time.monotonic(), processor_seconds(pid)
        length = cycles * LENGTH * (1 - RENEW_AT)
        time.sleep(length)
        share = (processor_seconds(pid) - used) / (time.monotonic() - began)
        memory = resident_mib(pid)
        summary: dict[str, Any] = ask(address, "/summary")
        state = process.state
    return {
        "leases": LEASES,
        "cycles": cycles,
        "processor_share": round(share, 4),
        "ms_a_request": round(share * length * 1000 / max(1, summary["requests"]), 2),
        "resident_mib": round(memory, 1),
        "keeps": state.keeps,
        "journal_problem": state.journal_problem,
        **summary,
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.seed))
    command = [sys.executable, __file__, "--serve", "--seed", str(arguments.seed)]
    with (
        tempfile.TemporaryDirectory(prefix="bench-keeper-") as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service,
    ):
        try:
            assert service.stdout is not None
            address = f"http://127.0.0.1:{int(service.stdout.readline())}"
            result = run(Path(folder), address, short=arguments.short, seed=arguments.seed)
        finally:
            service.kill()
    print(json.dumps(result))
    enough = result["processor_share"] <= BOUND * (SLACK if arguments.short else 1.0)
    return 0 if enough and not result["lost"] and result["keeps"] == LEASES else 1


if __name__ == "__main__":
    sys.exit(main())
