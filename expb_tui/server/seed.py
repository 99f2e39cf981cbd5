"""The demo: an account with two research projects, made by playing their history through the real work loop.

Every record comes from an assignment and a submission, dated back with the database's clock, so that the demo can hold
nothing that the server would not have accepted. Deterministic apart from ids, tokens and the password.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, select, update

from expb_tui.server import seed_story as story
from expb_tui.server.config import ServerError
from expb_tui.server.context import Actor, Services, Unit
from expb_tui.server.identity.accounts import create_account, user_actor
from expb_tui.server.identity.agents import issue_token
from expb_tui.server.identity.kinds import AGENT_AUTHORIZATIONS, AGENT_IDENTITIES
from expb_tui.server.identity.people import create_user
from expb_tui.server.identity.projects import create_project
from expb_tui.server.research.kinds import HOLDS, POLICIES_KIND, ROLES_KIND
from expb_tui.server.research.objectives import create_objective, drive_objective
from expb_tui.server.resources import Kind, RowOf, name_key
from expb_tui.server.seed_story import Finding, Idea
from expb_tui.server.store.database import Database
from expb_tui.server.store.research_tables import research_settings
from expb_tui.server.store.schema import accounts, agent_identities, projects, users
from expb_tui.server.work.assignment import assign
from expb_tui.server.work.expiry import lock_project
from expb_tui.server.work.submissions import submit
from expb_tui.wire.research import Constraint, ObjectiveSpec
from expb_tui.wire.work import ROLES, Submission

Output = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From a task's input to the output that the story has for it."""


@dataclass(frozen=True, slots=True)
class SeededDemo:
    """What one needs to use the demo; the two secrets are not shown by ``repr``."""

    email: str
    account_id: str
    account_name: str
    project_id: str
    project_name: str
    agent_id: str
    agent_name: str
    password: str = field(repr=False)
    agent_token: str = field(repr=False)


def seed_demo(services: Services, *, password: str | None = None) -> SeededDemo:
    """Put the demo into the database and return its credentials; blocks, and is for before the server serves.

    Where the demo is there already nothing is added: the owner gets the (new) password and the agent one more token.
    """
    password = password or secrets.token_urlsafe(12)
    password_hash = services.passwords.hash(password)
    database = services.database
    with database.write() as conn:
        unit = Unit(conn, database)
        owner = unit.one(select(users).where(users.c.email_key == name_key(story.OWNER_EMAIL)))
        if owner is not None:
            conn.execute(update(users).where(users.c.id == owner.id).values(password_hash=password_hash))
        else:
            _play_all(conn, database, password_hash)
        return _credentials(Unit(conn, database), password)


def _play_all(conn: Connection, database: Database, password_hash: str) -> None:
    offset = database.clock_offset
    play = _Play(conn, database)
    try:
        play.begin(password_hash)
        _play_checkout(play)
        _play_ranking(play)
    finally:
        database.clock_offset = offset


def _credentials(unit: Unit, password: str) -> SeededDemo:
    account = unit.one(select(accounts).where(accounts.c.name == story.ACCOUNT))
    account_id = None if account is None else account.id
    project = unit.one(select(projects).where(projects.c.account_id == account_id, projects.c.name == story.CHECKOUT))
    agent = unit.one(
        select(agent_identities).where(
            agent_identities.c.account_id == account_id, agent_identities.c.name == story.AGENT
        )
    )
    if account is None or project is None or agent is None:
        raise ServerError(
            "The demo in this database was changed",
            cause="its account, its first project or its agent has another name now",
            next_step="Start without --seed-demo, or give another --database",
            code="demo-changed",
        )
    _, token = issue_token(unit, agent, name="demo")
    return SeededDemo(
        email=story.OWNER_EMAIL,
        account_id=account.id,
        account_name=account.name,
        project_id=project.id,
        project_name=project.name,
        agent_id=agent.id,
        agent_name=agent.name,
        password=password,
        agent_token=token,
    )


class _Play:
    """Acts out the story: who does what, at which time before now."""

    def __init__(self, conn: Connection, database: Database) -> None:
        self._conn = conn
        self._database = database
        self._offset = database.clock_offset
        self._ago = timedelta(0)
        self.owner: Actor = user_actor("")
        self.account_id = ""
        self.agents: dict[str, str] = {}

    def unit(self, actor: Actor | None = None) -> Unit:
        """The story's transaction at its present time; by default the owner acts."""
        self._database.clock_offset = self._offset - self._ago
        return Unit(self._conn, self._database, actor=actor or self.owner)

    def at(self, *, days: float = 0, hours: float = 0, minutes: float = 0) -> None:
        """Let the story be so long before now."""
        self._ago = timedelta(days=days, hours=hours, minutes=minutes)

    def passes(self, minutes: float) -> None:
        """Let time go on in the story."""
        self._ago -= timedelta(minutes=minutes)

    def begin(self, password_hash: str) -> None:
        """Account, owner and agents."""
        self.at(days=12)
        unit = self.unit()
        user = create_user(unit, email=story.OWNER_EMAIL, password_hash=password_hash, display_name=story.OWNER_NAME)
        self.owner = unit.actor = user_actor(user.id)
        self.account_id = create_account(unit, user.id, name=story.ACCOUNT).id
        self.owner = unit.actor = Actor("user", user.id, "account-administrator")
        for name, about in story.AGENTS.items():
            agent = unit.insert(AGENT_IDENTITIES, name=name, account_id=self.account_id, description=about)
            self.agents[name] = agent.id

    def project(self, name: str, about: str, target: str, grants: Mapping[str, tuple[str, ...]]) -> _Project:
        """A project in which the agents are authorized for these roles."""
        unit = self.unit()
        row = create_project(
            unit, self.owner.id or "", account_id=self.account_id, name=name, description=about, target=target
        )
        self.owner = unit.actor = Actor("user", self.owner.id, "project-administrator")
        for agent, roles in grants.items():
            unit.insert(
                AGENT_AUTHORIZATIONS,
                account_id=self.account_id,
                project_id=row.id,
                agent_id=self.agents[agent],
                roles=list(roles),
            )
        return _Project(self, row)


class _Project:
    """One project of the story."""

    def __init__(self, play: _Play, row: RowOf) -> None:
        self.play = play
        self.row = row

    def setting(self, kind: Kind, subject: str, spec: dict[str, Any]) -> None:
        """What the project sets of a role or its policy."""
        unit = self.play.unit()
        table = research_settings.c
        found = kind.select.where(table.project_id == self.row.id, table.subject == subject)
        unit.update(kind, unit.conn.execute(found).one(), spec=spec, configured=True)

    def objective(self, name: str, spec: ObjectiveSpec, *verbs: str) -> RowOf:
        """An objective that went through these verbs."""
        unit = self.play.unit()
        lock_project(unit, self.row.id)
        row = create_objective(unit, self.row, spec, name=name)
        for verb in verbs:
            row = drive_objective(unit, row, verb)
        return row

    def work(self, agent: str, role: str, output: Output, *, minutes: float = 40) -> RowOf:
        """The agent takes the next task of the role and submits; returns the record made of it."""
        agent_id = self.play.agents[agent]
        actor = Actor("agent", agent_id, "research-agent")
        unit = self.play.unit(actor)
        given = assign(
            unit,
            account_id=self.row.account_id,
            project_id=self.row.id,
            agent_id=agent_id,
            role=role,
            max_tasks=1,
            self_review=True,
        )
        if given.package is None:
            raise RuntimeError(f"the story has no {role} task for {agent}")
        self.play.passes(min(minutes, 14.0))
        task = given.package.tasks[0]
        submission = Submission(task_id=task["taskId"], outcome="completed", output=output(task["input"]))
        unit = self.play.unit(actor)
        outcome = submit(unit, given.package.id, agent_id, given.token, submission).outcome
        if outcome is None:
            raise RuntimeError("the story has no failures")
        self.play.passes(6)
        return outcome.record

    def propose(self, idea: Idea, agent: str = story.PROPOSER) -> RowOf:
        """A hypothesis."""
        return self.work(agent, "ideator", lambda task: _proposal(idea, task), minutes=9)

    def review(self, verdict: str, rationale: str, **more: Any) -> RowOf:
        """A review of the hypothesis that waits longest."""

        def output(task: Mapping[str, Any]) -> dict[str, Any]:
            review = {"hypothesisId": task["hypothesis"]["metadata"]["uid"], "verdict": verdict, "rationale": rationale}
            if verdict == "combine":
                review["combineWith"] = [task["candidates"][0]["uid"]]
            return {"review": {**review, **more}}

        return self.work(story.CRITIC, "hypothesis-reviewer", output, minutes=7)

    def run(self, name: str, finding: Finding) -> RowOf:
        """An experiment on the hypothesis that waits longest."""
        digest = hashlib.sha256(f"{name}{finding.value}".encode()).hexdigest()
        evidence = story.evidence(name, finding, digest, self.row.target)
        return self.work(story.PROPOSER, "experimenter", lambda task: _report(finding, evidence, task))

    def judge(self, verdict: str, rationale: str, **more: Any) -> RowOf:
        """A review of the result that waits longest."""

        def output(task: Mapping[str, Any]) -> dict[str, Any]:
            uid = task["result"]["metadata"]["uid"]
            return {"review": {"resultId": uid, "verdict": verdict, "rationale": rationale, **more}}

        return self.work(story.CRITIC, "results-reviewer", output, minutes=8)


def _proposal(idea: Idea, task: Mapping[str, Any]) -> dict[str, Any]:
    objective = task["objective"]
    return {
        "hypothesis": {
            "objectiveId": objective["metadata"]["uid"],
            "statement": idea.statement,
            "rationale": idea.rationale,
            "expectedEffect": {"value": idea.effect, "unit": objective["spec"]["measure"]["unit"]},
            "plan": idea.plan,
            "risks": list(idea.risks),
        }
    }


def _report(finding: Finding, evidence: list[dict[str, Any]], task: Mapping[str, Any]) -> dict[str, Any]:
    spec = task["objective"]["spec"]
    measure = spec["measure"]
    constraints = [Constraint.model_validate(constraint) for constraint in spec["constraints"]]
    return {
        "result": {
            "experimentId": task["experiment"]["metadata"]["uid"],
            "conclusion": finding.conclusion,
            "summary": finding.summary,
            "measurement": {
                "name": measure["name"],
                "value": finding.value,
                "unit": measure["unit"],
                "baseline": measure["baseline"],
                "samples": finding.samples,
                "uncertainty": finding.uncertainty,
            },
            "constraints": [
                {
                    "name": constraint.name,
                    "value": value,
                    "unit": constraint.unit,
                    "satisfied": constraint.holds(value),
                }
                for constraint, value in zip(constraints, finding.constraints, strict=True)
            ],
            "evidence": evidence,
        }
    }


def _integration(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "integration": {
            "resultIds": [task["results"][0]["metadata"]["uid"]],
            "summary": story.CACHE_INTEGRATION,
            "changeSet": {
                "target": task["target"],
                "baseRevision": "9f2c1ab",
                "changes": story.CACHE_CHANGES,
                "reference": {"uri": f"{task['target']}/pull/77", "revision": "c0ffee1"},
            },
            "verification": story.CACHE_VERIFIED,
        }
    }


def _play_checkout(play: _Play) -> None:
    """Both gates on; in the end there is open work for all five roles."""
    play.at(days=11, hours=3)
    team = {
        story.AGENT: ROLES,
        story.PROPOSER: ("ideator", "experimenter", "integrator"),
        story.CRITIC: ("hypothesis-reviewer", "results-reviewer"),
    }
    project = play.project(story.CHECKOUT, story.CHECKOUT_ABOUT, story.CHECKOUT_TARGET, team)
    project.setting(POLICIES_KIND, "", {"hypothesisReview": True, "resultReview": True})
    project.setting(ROLES_KIND, "ideator", {"instructions": story.IDEATOR_INSTRUCTIONS})
    project.setting(ROLES_KIND, "hypothesis-reviewer", {"maxTasks": 4})
    project.setting(ROLES_KIND, "experimenter", {"instructions": story.EXPERIMENTER_INSTRUCTIONS})
    project.setting(ROLES_KIND, "results-reviewer", {"maxTasks": 2})
    project.setting(ROLES_KIND, "integrator", {"instructions": story.INTEGRATOR_INSTRUCTIONS})
    project.objective("p95-latency", story.LATENCY, "activate")
    project.objective("throughput-per-replica", story.THROUGHPUT, "activate", "pause")

    play.at(days=10, hours=9)
    project.propose(story.POOL)
    project.review("reject", story.POOL_REJECTED)
    play.at(days=9, hours=7)
    project.propose(story.FRAUD)
    project.review("accept", story.FRAUD_ACCEPTED)
    project.run("fraud-after-answer", story.FRAUD_FOUND)
    project.judge("accept", story.FRAUD_REVIEWED)

    play.at(days=7, hours=8)
    project.propose(story.PRICES)
    project.propose(story.STOCK)
    project.review(
        "combine",
        story.CACHE_COMBINED,
        refinement={"statement": story.CACHE_STATEMENT, "plan": story.CACHE_PLAN},
    )
    play.at(days=6, hours=5)
    project.run("lookup-cache-1", story.CACHE_FIRST)
    project.judge("request-evidence", story.CACHE_REQUEST, evidenceRequests=story.CACHE_REQUESTS)
    play.at(days=5, hours=4)
    project.run("lookup-cache-2", story.CACHE_SECOND)
    project.judge("accept", story.CACHE_REVIEWED)
    play.at(days=4, hours=6)
    project.work(story.PROPOSER, "integrator", _integration)

    play.at(days=3, hours=10)
    project.propose(story.TAX)
    project.review("accept", story.TAX_ACCEPTED)
    project.run("tax-on-last-step", story.TAX_FOUND)
    project.judge("accept", story.TAX_REVIEWED)
    play.at(days=1, hours=9)
    project.propose(story.POOLED_JSON)
    project.review("accept", story.ENCODER_ACCEPTED)
    project.run("compiled-encoder", story.ENCODER_FOUND)
    play.at(hours=20)
    project.propose(story.KEEPALIVE)
    project.review("accept", story.KEEPALIVE_ACCEPTED)
    play.at(hours=6)
    project.propose(story.PREFETCH)
    play.at(hours=2)
    project.propose(story.BATCH_READS)


def _play_ranking(play: _Play) -> None:
    """Only results are reviewed; one hypothesis is held."""
    play.at(days=8, hours=2)
    team = {
        story.AGENT: ("ideator", "experimenter", "results-reviewer"),
        story.PROPOSER: ("ideator", "experimenter"),
        story.CRITIC: ("results-reviewer",),
    }
    project = play.project(story.RANKING, story.RANKING_ABOUT, story.RANKING_TARGET, team)
    project.setting(POLICIES_KIND, "", {"resultReview": True})
    project.objective("ndcg-at-10", story.RELEVANCE, "activate")
    play.at(days=3, hours=4)
    project.propose(story.SYNONYMS)
    project.run("query-synonyms", story.SYNONYMS_FOUND)
    play.at(days=2, hours=1)
    project.propose(story.RECENCY)
    held = project.propose(story.EMBEDDINGS)
    unit = play.unit()
    unit.insert(
        HOLDS,
        account_id=held.account_id,
        project_id=held.project_id,
        target_kind="hypothesis",
        target_id=held.id,
        reason=story.EMBEDDINGS_HOLD,
    )
