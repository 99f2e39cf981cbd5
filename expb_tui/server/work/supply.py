"""What there is to do for an agent, and why there is nothing (contract, section 6.2.3; hazards 20).

The rules of availability stand here once: assignment and opportunities both ask ``Supply``. A cause is shown where it
shuts a role out altogether, or where it is what keeps queued work from being given out:

- ``project-inactive``: the project is not active;
- ``objective-inactive``: no objective is active, or all queued work belongs to objectives that are not;
- ``role-disabled``: the role is switched off;
- ``review-gate``: a reviewer whose gate is off (nothing passes it); an experimenter or integrator with an empty queue
  while something waits at the gate before them; a reviewer left with only its own work where it may not judge that;
- ``hold``: the project or every active objective is held, or all queued work is;
- ``limit``: a limit that bears on the role is used up.

Several causes may hold at once. None is named where nothing stands in the way but the queue is empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from expb_tui.server.research.settings import ProjectRules, RoleRules

GATES = {"hypothesis-reviewer": "hypothesis", "results-reviewer": "result"}
"""The gate that a reviewing role stands at."""
GATE_BEFORE = {"experimenter": "hypothesis", "integrator": "result"}
"""The gate that the work of a role has to pass first."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use in a project now. Leases that ran out do not count, swept or not."""

    overdue: bool = False
    """Whether there are packages whose lease ran out and that are still to be expired."""
    packages: int = 0
    """Active packages of the agent."""
    experiments: int = 0
    """Experiments in anybody's hands."""
    own_experiments: int = 0
    open_hypotheses: int = 0
    """Not yet tested, rejected or combined."""
    ideas: int = 0
    """Being worked out."""


@dataclass(slots=True)
class Stock:
    """The queue of one role in one project: how many open tasks are free, and what keeps the others back."""

    free: dict[str, int] = field(default_factory=dict)
    """Objective to count."""
    idle: int = 0
    """Of objectives that are not active."""
    held: int = 0
    own: int = 0
    """Of the agent's own output, where that is not for it to review."""

    @property
    def available(self) -> int:
        return sum(self.free.values())

    @property
    def queued(self) -> int:
        return self.available + self.idle + self.held + self.own


@dataclass(frozen=True, slots=True)
class Supply:
    """All that decides about one agent in one project."""

    now: datetime
    project_phase: str
    rules: ProjectRules
    usage: Usage
    active_objectives: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    """Targets of active holds: of the project, objectives, hypotheses."""
    project_id: str = ""
    stocks: Mapping[str, Stock] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Gate to the number of records that wait at it, under active objectives."""
    claims: tuple[datetime, int] | None = None
    """The agent's window of work requests: when it was opened, and how many it counts."""
    last_assignment: Mapping[str, datetime] = field(default_factory=dict)
    capacity: int | None = None
    """Records of the project; None where no limit asks for it."""

    def gate_is_on(self, gate: str) -> bool:
        return self.rules.hypothesis_review if gate == "hypothesis" else self.rules.result_review

    def shut(self, role: str, config: RoleRules) -> bool:
        """Whether the role gets nothing, whatever is queued: switched off, or a reviewer without a gate."""
        return not config.enabled or (role in GATES and not self.gate_is_on(GATES[role]))

    def room(self, role: str, config: RoleRules) -> tuple[int, str]:
        """How many tasks the limits leave to the role, and the name of the tightest limit."""
        rooms = [(config.max_tasks, "")]
        if (most := self.rules.limit("agent-active-packages")) is not None and self.usage.packages >= most:
            rooms.append((0, "agent-active-packages"))
        if role == "experimenter":
            rooms.append((config.concurrent_experiments - self.usage.own_experiments, "concurrent-experiments"))
            if (most := self.rules.limit("concurrent-experiments")) is not None:
                rooms.append((most - self.usage.experiments, "concurrent-experiments"))
        if role == "ideator" and (most := self.rules.limit("open-hypotheses")) is not None:
            rooms.append((most - self.usage.open_hypotheses - self.usage.ideas, "open-hypotheses"))
        if (
            (most := self.rules.limit("total-capacity")) is not None
            and self.capacity is not None
            and self.capacity >= most
        ):
            rooms.append((0, "total-capacity"))
        room, name = min(rooms, key=lambda entry: entry[0])
        return max(0, room), name

    def request_pause(self) -> int:
        """Seconds until the agent may ask for work again, by ``requests-per-minute``; 0 if now."""
        most = self.rules.limit("requests-per-minute")
        if most is None:
            return 0
        period = timedelta(seconds=self.rules.period("requests-per-minute"))
        opened, count = self.claims or (self.now, 0)
        if self.now >= opened + period:
            opened, count = self.now, 0
        return _whole_seconds(opened + period - self.now) if count >= most else 0

    def assignment_pause(self, role: str, config: RoleRules) -> int:
        """Seconds until the agent may be given work in this role again, by the role's interval; 0 if now."""
        last = self.last_assignment.get(role)
        if last is None or not config.assignment_interval_seconds:
            return 0
        return _whole_seconds(last + timedelta(seconds=config.assignment_interval_seconds) - self.now)

    def causes(self, role: str) -> list[str]:
        """Why the role has no work, in the order in which a person should look."""
        config, stock = self.rules.role(role), self.stocks.get(role, Stock())
        found = []
        if self.project_phase != "active":
            found.append("project-inactive")
        if not self.active_objectives or (stock.idle and not stock.available + stock.held + stock.own):
            found.append("objective-inactive")
        if not config.enabled:
            found.append("role-disabled")
        if self._gate_blocks(role, stock):
            found.append("review-gate")
        if self._hold_blocks(stock):
            found.append("hold")
        if self.room(role, config)[0] == 0 or self.request_pause():
            found.append("limit")
        return found

    def _gate_blocks(self, role: str, stock: Stock) -> bool:
        if role in GATES:
            return not self.gate_is_on(GATES[role]) or (stock.own > 0 and not stock.available + stock.held)
        gate = GATE_BEFORE.get(role)
        return gate is not None and not stock.queued and self.gate_is_on(gate) and self.waiting.get(gate, 0) > 0

    def _hold_blocks(self, stock: Stock) -> bool:
        if self.project_id in self.held or (self.active_objectives and self.active_objectives <= self.held):
            return True
        return stock.held > 0 and not stock.available + stock.own

    def offer(self, role: str) -> tuple[int, list[str], int]:
        """For an opportunity: tasks to be had now, their objectives, and seconds to wait before asking."""
        config, stock = self.rules.role(role), self.stocks.get(role, Stock())
        pause = self.request_pause()
        blocked = self.project_phase != "active" or self.shut(role, config) or pause or not self.room(role, config)[0]
        if blocked:
            return 0, [], pause
        return stock.available, sorted(stock.free), self.assignment_pause(role, config)


def _whole_seconds(span: timedelta) -> int:
    return max(0, math.ceil(span.total_seconds()))
