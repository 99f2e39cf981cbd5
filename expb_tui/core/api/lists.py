"""Lists, page by page, to their end (contract, section 1.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import bad_answer

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Answer
    from expb_tui.core.profiles.session import Session

_MOST_PAGES = 1_000


@dataclass(frozen=True)
class ListPage:
    """One page; ``next`` is None on the last one."""

    items: list[dict[str, Any]]
    next: str | None
    total: int | None
    answer: Answer


async def pages(session: Session, path: str, query: Mapping[str, Any] | None = None) -> AsyncIterator[ListPage]:
    """Every page from the one that ``query`` names. Raises ``BadAnswer`` for what is no page, and for no end."""
    asked, seen = dict(query or {}), set[str]()
    while len(seen) < _MOST_PAGES:
        answer = await session.request("GET", path, query=asked)
        page = _page(answer)
        yield page
        if page.next is None:
            return
        if page.next in seen:
            break
        seen.add(page.next)
        asked["cursor"] = page.next
    raise bad_answer(answer.request, "unexpected-shape", "the list has no end")


async def every(session: Session, path: str, query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """All items of a list."""
    return [item async for page in pages(session, path, query) for item in page.items]


def _page(answer: Answer) -> ListPage:
    body = answer.body if isinstance(answer.body, dict) else {}
    items, following, total = body.get("items"), body.get("next"), body.get("total")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise bad_answer(answer.request, "unexpected-shape", "it is not a page of items")
    return ListPage(
        items,
        following if isinstance(following, str) and following else None,
        total if isinstance(total, int) and not isinstance(total, bool) else None,
        answer,
    )
