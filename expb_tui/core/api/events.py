"""Live invalidations over server-sent events (contract, section 6.2.9): "read this again", never content."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from expb_tui.core.api.failures import BadAnswer
from expb_tui.core.text import clean

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.wire.events import Invalidation

ROUTE = "/v1/events"
LONGEST_EVENT = 65_536
"""Characters; an event names one record, a longer one is not read."""


@dataclass(frozen=True)
class Event:
    """``invalidate`` names what changed; ``reset`` means re-read everything; ``end`` means connect again."""

    kind: Literal["invalidate", "reset", "end"]
    id: str = ""
    change: Invalidation | None = None


@asynccontextmanager
async def follow(
    session: Session, *, project_id: str | None = None, last_id: str | None = None
) -> AsyncIterator[AsyncIterator[Event]]:
    """The events of a user session, from the moment that the stream is open.

    Raises ``ApiProblem`` (403 for agents), ``BadAnswer`` for what is no event stream, and ``Unreachable`` where the
    connection breaks. Comments, unknown events and unreadable ones are passed over.
    """
    from httpx_sse import EventSource, SSEError

    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    if last_id:
        headers["last-event-id"] = last_id
    query = {"project_id": project_id} if project_id else None
    async with session.stream(ROUTE, query=query, headers=headers) as response:
        source = EventSource(response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise BadAnswer(
                "The answer is not an event stream",
                cause=f"it is {clean(response.headers.get('content-type', 'without a type'))}",
                code="not-events",
            )
        try:
            yield _events(source)
        except SSEError as error:
            raise BadAnswer("The event stream cannot be read", cause=clean(str(error)), code="not-events") from error


async def _events(source: object) -> AsyncIterator[Event]:
    from httpx_sse import EventSource
    from pydantic import ValidationError

    from expb_tui.wire.events import Invalidation

    assert isinstance(source, EventSource)
    async for event in source.aiter_sse():
        if event.event == "reset":
            yield Event("reset", event.id)
        elif event.event == "end":
            yield Event("end", event.id)
        elif event.event == "invalidate" and len(event.data) <= LONGEST_EVENT:
            try:
                yield Event("invalidate", event.id, Invalidation.model_validate_json(event.data))
            except ValidationError:
                continue
