"""Reads of research records and settings (contract, section 6.2.8); what a credential may not see is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.api.lists import every
from expb_tui.wire.base import WireModel
from expb_tui.wire.identity import Project
from expb_tui.wire.research import Hold, Limit, Objective, ResearchRole, ReviewPolicy

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session

ModelT = TypeVar("ModelT", bound=WireModel)


async def project(session: Session, project_id: str) -> Project | None:
    """The project, or None where this credential does not see it."""
    from expb_tui.core.api import identity

    try:
        return await identity.project(session, project_id)
    except ApiProblem as problem:
        if _unseen(problem):
            return None
        raise


async def objectives(session: Session, project_id: str) -> list[Objective] | None:
    """The project's objectives."""
    return await _listed(session, project_id, "objectives", Objective)


async def roles(session: Session, project_id: str) -> list[ResearchRole] | None:
    """The project's role settings, with what is in effect and where it comes from."""
    return await _listed(session, project_id, "research-roles", ResearchRole)


async def policies(session: Session, project_id: str) -> list[ReviewPolicy] | None:
    """The project's review policy."""
    return await _listed(session, project_id, "review-policies", ReviewPolicy)


async def holds(session: Session, project_id: str) -> list[Hold] | None:
    """The project's holds, released ones too."""
    return await _listed(session, project_id, "holds", Hold)


async def limits(session: Session, project_id: str) -> list[Limit] | None:
    """The project's limits with their usage."""
    return await _listed(session, project_id, "limits", Limit)


async def _listed(session: Session, project_id: str, collection: str, model: type[ModelT]) -> list[ModelT] | None:
    try:
        items = await every(session, f"/v1/projects/{quote(project_id, safe='')}/{collection}")
    except ApiProblem as problem:
        if _unseen(problem):
            return None
        raise
    found = []
    for item in items:
        try:
            found.append(model.model_validate(item))
        except ValidationError:
            continue  # a record of a later contract
    return found


def _unseen(problem: ApiProblem) -> bool:
    return problem.status in (403, 404, 405)
