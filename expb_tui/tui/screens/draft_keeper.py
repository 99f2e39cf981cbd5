"""What a person types for one task, kept: debounced while typing, at once on leaving, never in the way of a key."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.drafts import Draft, DraftMoved, beside

if TYPE_CHECKING:
    from expb_tui.core.leases.desk import Desk

PAUSE = 0.25
"""Seconds without a further change after which a draft is written."""
LONGEST = 1.0
"""Seconds after which it is written though the typing goes on."""


class DraftKeeper:
    """Writes the latest values, one write at a time, in the order in which they were typed.

    ``on_change`` is told whether everything is saved, and the error where the journal refused; the values stay here
    and are tried again with the next change or ``flush``. Where another window has changed the draft (``DraftMoved``),
    what is typed here is written beside it until one of both is chosen.
    """

    def __init__(
        self, desk: Desk, package_uid: str, task_id: str, on_change: Callable[[bool, ExpbError | None], None]
    ) -> None:
        self._desk = desk
        self._package_uid = package_uid
        self._task_id = task_id
        self._tell = on_change
        self._waiting: tuple[dict[str, Any], str | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since: float | None = None
        """When the oldest change was typed that no write has begun for."""
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.base: Draft | None = None
        """The version that what is typed here goes on from."""
        self.moved: Draft | None = None
        """What another window has made of the draft, while neither version has been chosen."""
        self._mark = uuid4().hex[:8]

    @property
    def saved(self) -> bool:
        """Nothing waits to be written."""
        return self._waiting is None and not self._writing.locked()

    def note(self, values: Mapping[str, Any], *, text: str | None = None) -> None:
        """Remember; written when the typing pauses. ``text`` is YAML that does not parse yet."""
        self._waiting = (dict(values), text)
        self._tell(False, None)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        if self._since is None:
            self._since = loop.time()
        self._timer = loop.call_at(min(loop.time() + PAUSE, self._since + LONGEST), self._due)

    def _due(self) -> None:
        self._timer = None
        task = asyncio.ensure_future(self._write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Write what waits now. Raises ``ExpbError`` where the journal cannot take it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        error = await self._save()
        if error is not None:
            raise error

    async def _write(self) -> None:
        await self._save()

    async def _save(self) -> ExpbError | None:
        async with self._writing:
            if self._waiting is None:
                return None
            values, text = waiting = self._waiting
            self._since = None
            try:
                self.base = await self._desk.save_draft(
                    self._package_uid, self._task_id, values, text=text, based_on=self.base, mark=self._mark
                )
            except DraftMoved as error:
                known, self.moved = self.moved is not None, error.draft
                if not known:
                    self._tell(False, error)
            except ExpbError as error:
                self._tell(False, error)
                return error
            else:
                self.moved = None
            if self._waiting is waiting:
                self._waiting = None
                self._tell(True, None)
            return None

    def origin(self, version: Draft) -> str:
        """Where a version comes from, in a few words."""
        if version.package_id == self._package_uid:
            return "of another window" if self.moved is not None else "the draft as it is"
        if version.package_id == beside(self._package_uid, self._mark):
            return "typed here"
        if version.package_id.startswith(beside(self._package_uid, "")):
            return "kept beside the draft"
        return "of when it was held before"

    async def versions(self) -> tuple[Draft | None, list[Draft]]:
        """The draft as it is now, and every other version of it, newest first. Raises ``ExpbError``."""
        await self.flush()
        draft = await self._desk.draft(self._package_uid, self._task_id)
        return draft, await self._desk.other_drafts(self._package_uid, self._task_id)

    async def choose(self, version: Draft) -> None:
        """This version goes on as the draft; what it replaces is kept beside it. Raises ``ExpbError``."""
        async with self._writing:
            self.base = await self._desk.take_draft(self._package_uid, version)
            self.moved, self._mark = None, uuid4().hex[:8]
            self._tell(True, None)

    async def drop(self) -> None:
        """Forget the draft: it has been submitted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting = None
        async with self._writing:
            with contextlib.suppress(ExpbError):
                await self._desk.drop_draft(self._package_uid, self._task_id)
