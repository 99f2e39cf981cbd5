"""The research half of the server without HTTP: a database with projects and agents, and the work loop's calls."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from expb_tui.server.context import Actor, Unit
from expb_tui.server.identity.accounts import create_account, user_actor
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS, AGENT_IDENTITIES, PROJECTS
from expb_tui.server.identity.people import create_user
from expb_tui.server.identity.projects import create_project
from expb_tui.server.research.flow import start_experiment
from expb_tui.server.research.gates import open_gates
from expb_tui.server.research.kinds import HOLDS, HYPOTHESES, LIMITS_KIND, OBJECTIVES, POLICIES_KIND, ROLES_KIND
from expb_tui.server.research.objectives import create_objective, drive_objective
from expb_tui.server.resources import Kind, RowOf
from expb_tui.server.store.columns import metadata
from expb_tui.server.store.database import Database
from expb_tui.server.store.migrate import migrate
from expb_tui.server.store.research_tables import research_settings, work_tasks
from expb_tui.server.store.schema import agent_authorizations, projects
from expb_tui.server.work import leases
from expb_tui.server.work.assignment import assign
from expb_tui.server.work.expiry import lock_project
from expb_tui.server.work.opportunities import opportunities
from expb_tui.server.work.packages import WORK_PACKAGES, package_envelope
from expb_tui.server.work.queue import forgive
from expb_tui.server.work.submissions import Receipt, submit
from expb_tui.wire.research import Constraint, Measure, ObjectiveSpec
from expb_tui.wire.work import ROLES, Submission
from tests.support import answers

LATENCY = ObjectiveSpec(
    description="Lower checkout latency",
    measure=Measure(name="p95_ms", unit="ms", direction="minimize", baseline=455.0, target=380.0),
    constraints=[Constraint(name="error_rate", operator="<=", value=0.01, unit="ratio")],
)


@dataclass(frozen=True)
class Held:
    """A package in an agent's hands."""

    agent_id: str
    uid: str
    token: str
    tasks: list[dict[str, Any]]

    @property
    def task_ids(self) -> list[str]:
        return [task["taskId"] for task in self.tasks]


class Lab:
    """One account on one database."""

    def __init__(self, database: Database, name: str = "Lab") -> None:
        self.database = database
        with database.write() as conn:
            unit = Unit(conn, database)
            user = create_user(unit, email=f"{name}@example.test".replace(" ", "-"), password_hash="-")
            self.owner: Actor = user_actor(user.id)
            unit.actor = self.owner
            self.account_id: str = create_account(unit, user.id, name=name).id

    @classmethod
    def open(cls, url: str, *, workers: int = 8) -> Lab:
        """A migrated, otherwise empty database; SQLite does not wait for the disk."""
        database = Database(url, workers=workers, synchronous="OFF")
        migrate(database)
        return cls(database)

    @contextmanager
    def unit(self, actor: Actor | None = None) -> Iterator[Unit]:
        """A writing transaction."""
        with self.database.write() as conn:
            yield Unit(conn, self.database, actor=actor or self.owner)

    def later(self, seconds: float) -> None:
        """Let time pass for everybody on this database."""
        self.database.clock_offset += timedelta(seconds=seconds)

    def project(self, name: str = "checkout", **gates: bool) -> Desk:
        """An active project; ``gates`` are ``hypothesisReview`` and ``resultReview``."""
        with self.unit() as unit:
            row = create_project(
                unit, self.owner.id or "", account_id=self.account_id, name=name, target="https://git.example.test/shop"
            )
        desk = Desk(self, row)
        if gates:
            desk.set(POLICIES_KIND, "", **gates)
        return desk

    def agent(self, name: str, *desks: Desk, roles: Sequence[str] = ROLES) -> str:
        """An agent with these roles in the projects; returns its id."""
        with self.unit() as unit:
            uid = unit.insert(AGENT_IDENTITIES, name=name, account_id=self.account_id).id
            for desk in desks:
                unit.insert(
                    AGENT_AUTHORIZATIONS,
                    account_id=self.account_id,
                    project_id=desk.id,
                    agent_id=uid,
                    roles=list(roles),
                )
        return str(uid)

    def opportunities(self, agent_id: str, **options: Any) -> list[dict[str, Any]]:
        """What the agent is offered."""
        grant = agent_authorizations.c
        query = (
            select(projects, grant.roles)
            .join(agent_authorizations, grant.project_id == projects.c.id)
            .where(grant.agent_id == agent_id, grant.phase == "active")
        )
        with self.database.read() as conn:
            return opportunities(conn, conn.execute(query).all(), agent_id, self.database.clock(conn), **options)

    def count(self, table: Table, *where: Any) -> int:
        """Rows of a table."""
        with self.database.read() as conn:
            return int(conn.execute(select(func.count()).select_from(table).where(*where)).scalar_one())

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """All research rows of the account, to see that nothing in it changed."""
        tables = [table for table in metadata.sorted_tables if {"project_id", "account_id"} <= set(table.c.keys())]
        with self.database.read() as conn:
            found = [conn.execute(select(table).where(table.c.account_id == self.account_id)) for table in tables]
            return [sorted(tuple(map(str, row)) for row in rows) for rows in found]

    def row(self, kind: Kind, uid: str) -> RowOf:
        """A record as it is stored."""
        with self.database.read() as conn:
            return Unit(conn, self.database).fetch(kind, uid)


@cache
def migrated_file() -> bytes:
    """An empty SQLite database at the newest revision; migrating takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        database = Database(f"sqlite:///{path}", synchronous="OFF")
        migrate(database)
        database.close()  # the last connection brings the write-ahead log home
        return path.read_bytes()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A laboratory on a SQLite file of its own."""
    path = tmp_path / "server.sqlite"
    path.write_bytes(migrated_file())
    made = Lab.open(f"sqlite:///{path}")
    yield made
    made.database.close()


class Desk:
    """One project, and work in it."""

    def __init__(self, lab: Lab, row: RowOf) -> None:
        self.lab = lab
        self.row = row
        self.id: str = row.id

    def set(self, kind: Kind, subject: str, **spec: Any) -> None:
        """What the project sets of a role, its policy or a limit; gates are not opened by it."""
        with self.lab.unit() as unit:
            table = research_settings.c
            query = kind.select.where(table.project_id == self.id, table.subject == subject)
            found = unit.conn.execute(query).one()
            unit.update(kind, found, spec={**found.spec, **spec}, configured=True)

    def role(self, role: str, **spec: Any) -> None:
        self.set(ROLES_KIND, role, **spec)

    def limit(self, name: str, value: int) -> None:
        self.set(LIMITS_KIND, name, value=value)

    def phase(self, phase: str) -> None:
        """Put the project into a phase."""
        with self.lab.unit() as unit:
            unit.update(PROJECTS, unit.fetch(PROJECTS, self.id), phase=phase)

    def objective(self, name: str = "p95", *verbs: str, spec: ObjectiveSpec = LATENCY) -> str:
        """An active objective (or one that went through ``verbs``); returns its id."""
        with self.lab.unit() as unit:
            lock_project(unit, self.id)
            row = create_objective(unit, self.row, spec, name=name)
            for verb in verbs or ("activate",):
                row = drive_objective(unit, row, verb)
        return str(row.id)

    def open_gates(self) -> None:
        """Do what a change of the policy does."""
        with self.lab.unit() as unit:
            lock_project(unit, self.id)
            open_gates(unit, self.lab.account_id, self.id)

    def drive(self, objective_id: str, verb: str) -> None:
        """A lifecycle verb of an objective."""
        with self.lab.unit() as unit:
            lock_project(unit, self.id)
            drive_objective(unit, unit.fetch(OBJECTIVES, objective_id), verb)

    def hold(self, kind: str, target_id: str) -> str:
        """An active hold; returns its id."""
        with self.lab.unit() as unit:
            row = unit.insert(
                HOLDS,
                account_id=self.row.account_id,
                project_id=self.id,
                target_kind=kind,
                target_id=target_id,
                reason="wait",
            )
        return str(row.id)

    def release_hold(self, uid: str) -> None:
        """What a member does about a hold."""
        with self.lab.unit() as unit:
            row = unit.fetch(HOLDS, uid)
            forgive(unit, row.target_kind, row.target_id)
            unit.update(HOLDS, row, phase="released")

    def experiments(self, objective_id: str, count: int) -> None:
        """Ready hypotheses with queued experiments, by the hundreds where wanted."""
        with self.lab.unit() as unit:
            for index in range(count):
                hypothesis = unit.insert(
                    HYPOTHESES,
                    phase="ready",
                    spec={"objectiveId": objective_id, "statement": f"Idea {index}", "parentIds": []},
                    account_id=self.row.account_id,
                    project_id=self.id,
                    objective_id=objective_id,
                )
                start_experiment(unit, hypothesis)

    def claim(self, agent_id: str, role: str, max_tasks: int = 1, *, self_review: bool = True) -> Held | None:
        """Request work; None for the empty package."""
        with self.lab.unit(Actor("agent", agent_id, "research-agent")) as unit:
            given = assign(
                unit,
                account_id=self.row.account_id,
                project_id=self.id,
                agent_id=agent_id,
                role=role,
                max_tasks=max_tasks,
                self_review=self_review,
            )
        if given.package is None:
            return None
        return Held(agent_id, given.package.id, given.token, given.package.tasks)

    def must_claim(self, agent_id: str, role: str, max_tasks: int = 1) -> Held:
        held = self.claim(agent_id, role, max_tasks)
        assert held is not None, f"no work for {role}"
        return held

    def submit(self, held: Held, output: Mapping[str, Any] | None = None, task: int = 0, reason: str = "") -> Receipt:
        """Submit an output, or a failure with its reason."""
        outcome = "failed" if output is None else "completed"
        body = {"taskId": held.tasks[task]["taskId"], "outcome": outcome}
        body |= {"reason": reason or "the rig was down"} if output is None else {"output": output}
        with self.lab.unit(Actor("agent", held.agent_id, "research-agent")) as unit:
            return submit(unit, held.uid, held.agent_id, held.token, Submission.model_validate(body))

    def work(self, agent_id: str, role: str, **options: Any) -> RowOf:
        """Claim one task, submit the usual output (with ``options``) and return the record made of it."""
        return self.work_on(self.must_claim(agent_id, role), **options)

    def work_on(self, held: Held, **options: Any) -> RowOf:
        """Submit the usual output for the first task of a package."""
        task = held.tasks[0]
        outcome = self.submit(held, answers.USUAL[task["role"]](task["input"], **options)).outcome
        assert outcome is not None
        return outcome.record

    def renew(self, held: Held) -> RowOf:
        with self.lab.unit(Actor("agent", held.agent_id, "research-agent")) as unit:
            return leases.renew(unit, held.uid, held.agent_id, held.token)

    def release(self, held: Held) -> RowOf:
        with self.lab.unit(Actor("agent", held.agent_id, "research-agent")) as unit:
            row = leases.lock_package(unit, held.uid, held.agent_id)
            leases.check_token(row, held.token)
            return leases.release(unit, row)

    def package(self, held: Held) -> dict[str, Any]:
        """The package as a read shows it now."""
        with self.lab.database.read() as conn:
            unit = Unit(conn, self.lab.database)
            return package_envelope(unit.fetch(WORK_PACKAGES, held.uid), unit.now)

    def offered(self, agent_id: str, role: str, **options: Any) -> dict[str, Any]:
        """The opportunity of one role, empty or not."""
        items = self.lab.opportunities(agent_id, all_roles=True, **options)
        return next(item for item in items if item["role"] == role and item["project_id"] == self.id)

    def open_tasks(self, role: str) -> int:
        return self.lab.count(
            work_tasks, work_tasks.c.project_id == self.id, work_tasks.c.role == role, work_tasks.c.phase == "open"
        )
