"""Work on offer: what the cockpit asks for first, so it is read without the wire models and what they import.

An offer is also small: a work list may hold ten thousand of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import bad_answer
from expb_tui.core.api.lists import pages

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Answer
    from expb_tui.core.profiles.session import Session

OPPORTUNITIES = "/v1/work-opportunities"
"""The path of the list, where the settings name no other."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An opportunity of the contract (6.2.1): work for one role in one project; it reserves nothing."""

    project_id: str
    role: str
    project_name: str = ""
    available: int = 0
    active_packages: int = 0
    objective_ids: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    """Why there is none, in the contract's words; unknown ones pass through."""
    retry_after_seconds: int = 0


@dataclass(frozen=True)
class OfferPage:
    """One page, or all of them; ``raw_items`` are the items as the server gave them."""

    items: tuple[Offer, ...]
    raw_items: tuple[dict[str, Any], ...]
    next: str | None
    total: int | None
    answer: Answer


async def offer_pages(
    session: Session,
    path: str = OPPORTUNITIES,
    *,
    project_id: str | None = None,
    role: str | None = None,
    every: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
    fields: str | None = None,
) -> AsyncIterator[OfferPage]:
    """Work on offer, page by page. ``every`` lists what is empty too, with ``blocked_by``.

    Items of a later contract are passed over; a list of nothing else is a ``BadAnswer``. Raises what a request raises.
    """
    query: dict[str, Any] = {
        "project_id": project_id, "role": role, "limit": limit, "cursor": cursor, "fields": fields,
    }  # fmt: skip
    if every:
        query["all"] = "true"
    came = understood = 0
    async for page in pages(session, path, query):
        items = tuple(offer for item in page.items if (offer := offer_of(item)) is not None)
        came, understood = came + len(page.items), understood + len(items)
        if came and not understood and page.next is None:
            raise bad_answer(page.answer.request, "unexpected-shape", "none of its items is an opportunity")
        yield OfferPage(items, tuple(page.items), page.next, page.total, page.answer)


def offer_of(item: Mapping[str, Any]) -> Offer | None:
    """The offer that an item of the list tells of, in snake_case or camelCase; None where it is none."""
    try:
        return Offer(
            _text(_of(item, "project_id", "projectId")),
            _text(item.get("role")),
            _text(_of(item, "project_name", "projectName", "")),
            _count(_of(item, "available", "available", 0)),
            _count(_of(item, "active_packages", "activePackages", 0)),
            _texts(_of(item, "objective_ids", "objectiveIds", ())),
            _texts(_of(item, "blocked_by", "blockedBy", ())),
            _count(_of(item, "retry_after_seconds", "retryAfterSeconds", 0)),
        )
    except TypeError:
        return None


def _of(item: Mapping[str, Any], snake: str, camel: str, absent: object = None) -> object:
    value = item.get(snake)
    value = item.get(camel) if value is None else value
    return absent if value is None else value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(one) for one in value)
