"""Finding out why a role has no work: what the service says, and what the credentials at hand can read (hazards 20)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expb_tui.core.api import research
from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.api.work import WorkApi
from expb_tui.core.causes import Answer, Cause
from expb_tui.core.text import clean
from expb_tui.wire.work import EMPTY_CAUSES, canonical_role

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.profiles.session import Session
    from expb_tui.wire.identity import Project
    from expb_tui.wire.research import Hold, Limit, Objective, ResearchRole, ReviewPolicy


_TITLES = {
    "not-authorized": "Authorization",
    "project-inactive": "Project",
    "objective-inactive": "Objectives",
    "role-disabled": "Role",
    "review-gate": "Review gates",
    "hold": "Holds",
    "limit": "Limits",
}
_BLOCKED = {
    "not-authorized": "this agent is not authorized for the role in this project",
    "project-inactive": "the project is not active",
    "objective-inactive": "no objective with work for this role is active",
    "role-disabled": "the role is switched off",
    "review-gate": "a review gate keeps the work back",
    "hold": "a hold keeps the work back",
    "limit": "a limit is used up",
}
_FINE = {
    "project-inactive": "active",
    "objective-inactive": "active",
    "role-disabled": "enabled",
    "review-gate": "not in the way",
    "hold": "not in the way",
    "limit": "not reached",
}
_STEPS = {
    "not-authorized": "Ask a project administrator to authorize the agent for this role",
    "project-inactive": "A project administrator can activate the project",
    "objective-inactive": "A project administrator can activate an objective",
    "role-disabled": "A project administrator can enable the role",
    "review-gate": "Work waits for a reviewer, or the review policy leaves the reviewer nothing to do",
    "hold": "A project administrator can release the hold",
    "limit": "Finish or release what is held, wait, or ask for a higher limit",
}
_GATE_BEFORE = {"experimenter": "hypothesis", "integrator": "result"}
_GATE_OF = {"hypothesis-reviewer": "hypothesis", "results-reviewer": "result"}


@dataclass(frozen=True)
class _Seen:
    """What could be read; None is what this credential may not see."""

    project: Project | None = None
    objectives: list[Objective] | None = None
    roles: list[ResearchRole] | None = None
    policies: list[ReviewPolicy] | None = None
    holds: list[Hold] | None = None
    limits: list[Limit] | None = None

    def or_else(self, other: _Seen) -> _Seen:
        """This, filled up with what another credential sees."""
        return _Seen(
            *(mine if mine is not None else theirs for mine, theirs in zip(self._all(), other._all(), strict=True))  # type: ignore[arg-type]  # field by field
        )

    def _all(self) -> tuple[object, ...]:
        return self.project, self.objectives, self.roles, self.policies, self.holds, self.limits


async def explain(
    session: Session, project_id: str, role: str, *, watcher: Session | None, api: WorkApi | None
) -> list[Cause]:
    """See ``opportunities.explain``."""
    wanted = canonical_role(role)
    item = await _own_word(session, api or WorkApi(), project_id, wanted)
    seen = await _read(session, project_id)
    if watcher is not None and watcher is not session:
        seen = seen.or_else(await _read(watcher, project_id))
    causes = []
    if item is None and not await _granted(session, project_id, wanted):
        causes.append(_cause("not-authorized", Answer.BLOCKING))
    for name in EMPTY_CAUSES:
        detail = _DETAILS[name](seen, project_id, wanted)
        if item is not None:
            answer = Answer.BLOCKING if name in item.blocked_by else Answer.OK
        else:
            answer = _judge(name, seen, project_id, wanted)
        causes.append(_cause(name, answer, detail))
    return causes


def _cause(name: str, answer: Answer, detail: str = "") -> Cause:
    if answer is Answer.BLOCKING:
        return Cause(name, _TITLES[name], answer, detail or _BLOCKED[name], _STEPS[name])
    return Cause(name, _TITLES[name], answer, _FINE.get(name, "") if answer is Answer.OK else "")


async def _own_word(session: Session, api: WorkApi, project_id: str, role: str) -> Offer | None:
    """What the service itself says of this role; None where it does not list roles without work."""
    try:
        page = await api.opportunities(session, project_id=project_id, role=role, every=True, follow=True)
    except ApiProblem as problem:
        if problem.status not in (400, 403, 404):
            raise
        return None
    return next(
        (item for item in page.items if item.project_id == project_id and canonical_role(item.role) == role), None
    )


async def _granted(session: Session, project_id: str, role: str) -> bool:
    """Whether the agent holds the role in the project; a user session holds none and is not told so."""
    who = await session.principal()
    if who.type != "agent" or who.role_grants is None:
        return True
    return role in {canonical_role(word) for word in who.role_grants.get(project_id, [])}


async def _read(session: Session, project_id: str) -> _Seen:
    return _Seen(
        await research.project(session, project_id),
        await research.objectives(session, project_id),
        await research.roles(session, project_id),
        await research.policies(session, project_id),
        await research.holds(session, project_id),
        await research.limits(session, project_id),
    )


def _judge(name: str, seen: _Seen, project_id: str, role: str) -> Answer:
    """Without the service's own word: by the records, and *hidden* where they are not seen or do not decide."""
    if name == "project-inactive":
        if seen.project is None:
            return Answer.HIDDEN
        return Answer.OK if seen.project.status.phase == "active" else Answer.BLOCKING
    if name == "objective-inactive":
        if seen.objectives is None:
            return Answer.HIDDEN
        return Answer.OK if any(one.status.phase == "active" for one in seen.objectives) else Answer.BLOCKING
    if name == "role-disabled":
        setting = _role_setting(seen, role)
        if setting is None or setting.status.effective is None:
            return Answer.HIDDEN
        return Answer.BLOCKING if setting.status.effective.enabled is False else Answer.OK
    if name == "review-gate":
        return _judge_gate(seen, role)
    if name == "hold":
        if seen.holds is None:
            return Answer.HIDDEN
        return Answer.BLOCKING if _holds_all(seen, project_id) else Answer.OK
    if seen.limits is None:
        return Answer.HIDDEN
    return Answer.BLOCKING if _used_up(seen) else Answer.OK


def _judge_gate(seen: _Seen, role: str) -> Answer:
    gate = _GATE_OF.get(role) or _GATE_BEFORE.get(role)
    if gate is None:
        return Answer.OK
    on = _gate_on(seen, gate)
    if on is None:
        return Answer.HIDDEN
    if role in _GATE_OF:
        return Answer.OK if on else Answer.BLOCKING
    # Whether something waits at the gate is not read here: only a gate that is off is surely not in the way.
    return Answer.HIDDEN if on else Answer.OK


def _gate_on(seen: _Seen, gate: str) -> bool | None:
    for policy in seen.policies or []:
        if policy.status.effective is not None:
            return (
                policy.status.effective.hypothesis_review
                if gate == "hypothesis"
                else policy.status.effective.result_review
            )
    return None


def _role_setting(seen: _Seen, role: str) -> ResearchRole | None:
    return next((one for one in seen.roles or [] if canonical_role(one.spec.role or "") == role), None)


def _active_holds(seen: _Seen) -> list[Hold]:
    return [one for one in seen.holds or [] if one.status.phase == "active"]


def _holds_all(seen: _Seen, project_id: str) -> bool:
    targets = {one.spec.target_id for one in _active_holds(seen)}
    active = {one.uid for one in seen.objectives or [] if one.status.phase == "active"}
    return project_id in targets or bool(active and active <= targets)


def _used_up(seen: _Seen) -> list[Limit]:
    full = []
    for one in seen.limits or []:
        most, used = one.status.effective, one.status.usage
        if one.status.over_limit or (most is not None and used is not None and used >= most):
            full.append(one)
    return full


def _project_detail(seen: _Seen, project_id: str, role: str) -> str:
    return f"the project is {clean(seen.project.status.phase)}" if seen.project else ""


def _objective_detail(seen: _Seen, project_id: str, role: str) -> str:
    if seen.objectives is None:
        return ""
    if not seen.objectives:
        return "the project has no objective"
    shown = [f"{clean(one.metadata.name or one.uid)} is {clean(one.status.phase)}" for one in seen.objectives[:3]]
    return ", ".join(shown) + (" and more" if len(seen.objectives) > 3 else "")


def _role_detail(seen: _Seen, project_id: str, role: str) -> str:
    setting = _role_setting(seen, role)
    source = (setting.status.sources or {}).get("enabled") if setting else None
    return f"the role is switched off by the {clean(source)}" if source else ""


def _gate_detail(seen: _Seen, project_id: str, role: str) -> str:
    gate = _GATE_OF.get(role) or _GATE_BEFORE.get(role)
    if gate is None or (on := _gate_on(seen, gate)) is None:
        return ""
    if role in _GATE_OF:
        return "" if on else f"{gate} review is off, so nothing comes to this reviewer"
    return f"{gate} review is on, and work waits for a reviewer" if on else ""


def _hold_detail(seen: _Seen, project_id: str, role: str) -> str:
    shown = [
        f"{clean(one.spec.target_kind)} {clean(one.spec.target_id)}: {clean(one.spec.reason)}"
        for one in _active_holds(seen)[:3]
    ]
    return "held: " + "; ".join(shown) if shown else ""


def _limit_detail(seen: _Seen, project_id: str, role: str) -> str:
    shown = [
        f"{clean(one.metadata.name or one.uid)} {one.status.usage} of {one.status.effective}" for one in _used_up(seen)
    ]
    return ", ".join(shown)


_DETAILS: Mapping[str, Callable[[_Seen, str, str], str]] = {
    "project-inactive": _project_detail,
    "objective-inactive": _objective_detail,
    "role-disabled": _role_detail,
    "review-gate": _gate_detail,
    "hold": _hold_detail,
    "limit": _limit_detail,
}
