"""The work request: from a file or from options, and the project it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expb_tui.cli import inputs
from expb_tui.core.errors import UsageError

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House
    from expb_tui.wire.work import WorkRequest


def read_request(source: str | None, role: str | None, max_tasks: int | None) -> WorkRequest:
    """The request of ``--file``, or of ``--role`` and ``--max-tasks``. Raises ``UsageError`` naming each wrong key."""
    from pydantic import ValidationError

    from expb_tui.core.submissions.words import words_for
    from expb_tui.wire.work import WorkRequest, canonical_role

    if (source is None) == (role is None):
        raise UsageError(
            "Say what to request, once",
            cause="one of --file and --role is needed",
            next_step="An example for each role: expb-tui agent work request --help",
        )
    if source is None:
        return WorkRequest(role=canonical_role(role or ""), max_tasks=max_tasks or 1)
    if max_tasks is not None:
        raise UsageError("--max-tasks and --file do not go together", next_step="Write max_tasks into the file")
    document = inputs.read_mapping(source)
    try:
        request = WorkRequest.model_validate(document, extra="forbid")
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {words_for(one)}" for one in error.errors())
        raise UsageError(
            f"{inputs.name_of(source)} is not a work request",
            cause=wrong,
            next_step="Its keys are project_id, role and max_tasks",
        ) from None
    return request.model_copy(update={"role": canonical_role(request.role)})


async def settle_project(house: House, session: Session, project_id: str | None) -> tuple[str, str | None]:
    """Id and known name of the project: from the request, else ``--project``, else the profile's context."""
    context = session.profile
    if project_id is not None:
        return project_id, context.project_name if context.project_id == project_id else None
    if house.chosen.project is not None:
        from expb_tui.core.api import identity

        found = await identity.find_project(session, house.chosen.project)
        return found.uid, found.metadata.name
    if context.project_id is not None:
        return context.project_id, context.project_name
    raise UsageError(
        "No project is named",
        cause="neither the request nor --project nor the profile's context names one",
        next_step="Set one for the profile: expb-tui context use PROJECT",
    )
