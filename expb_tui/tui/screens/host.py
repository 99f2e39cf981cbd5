"""The short way from a dialog to the application that it stands in, and to work beside the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from expb_tui.core.errors import ExpbError

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from expb_tui.tui.app import CockpitApp


def host(node: Any) -> CockpitApp:
    """The application of a widget or screen."""
    return cast("CockpitApp", node.app)


_outliving: set[asyncio.Task[None]] = set()


def outlive(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Work that goes on when the screen that began it is gone, such as taking back what was just granted."""
    task = asyncio.create_task(work)
    _outliving.add(task)
    task.add_done_callback(_outliving.discard)
    return task


def start(node: DOMNode, work: Callable[[], Awaitable[None]], group: str, *, exclusive: bool = True) -> None:
    """Carry out ``work`` while keys are answered; with ``exclusive`` it replaces what the group was doing.

    An ``ExpbError`` that ``work`` lets through, and a fault of ours, are told; neither ends the cockpit.
    """
    app = host(node)

    async def guarded() -> None:
        try:
            await work()
        except ExpbError as error:
            app.complain(error)
        except Exception as error:
            app.crashed(error, group)

    # The function, not a coroutine: one that is replaced before it began would never be awaited.
    node.run_worker(cast(Any, guarded), group=group, exclusive=exclusive)
