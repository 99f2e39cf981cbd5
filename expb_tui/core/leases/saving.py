"""Confirmed renewals on their way to the journal: many in one transaction, and kept in memory where it takes nothing.

A keeper hears fifty answers a second; a transaction for each would be fifty syncs. What arrives within a tenth of a
second is written together, and whoever renewed waits for that: until then nobody else may use the package's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from expb_tui.core.errors import ExpbError, FileProblem, place_of
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.model import NotJournaled
from expb_tui.core.leases.schema import PackageRow, merged, tasks_in

_GATHER = 0.1
"""Seconds in which answers come together."""
_PATIENCE = 1.0
"""Seconds after which the journal counts as not to be written (hazards 5)."""
_AGAIN = 0.5
"""Seconds between two tries with a journal that takes nothing."""


class Saver:
    """Journals the answers of one renewer; for use inside one event loop."""

    def __init__(
        self,
        journal: Journal,
        begin: Callable[[Coroutine[Any, Any, None]], object],
        *,
        on_saved: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``begin`` starts a task that outlives the caller; ``on_saved`` hears the id of each row that is safe now."""
        self.unsaved: dict[int, PackageRow] = {}
        """By id: what the journal should hold and does not yet."""
        self.problem: ExpbError | None = None
        """Why the journal takes nothing, while that is so."""
        self._journal = journal
        self._begin = begin
        self._on_saved = on_saved
        self._waiting: dict[int, asyncio.Future[PackageRow]] = {}
        self._told: dict[int, object] = {}
        """By id: what the last answer said of the tasks. The same once more is not written again."""
        self._writing = False

    async def save(self, told: PackageRow, known: PackageRow) -> PackageRow:
        """Journal the answer ``told`` about ``known`` and give the package as it is now.

        Raises ``NotJournaled`` where that takes longer than a second; the answer is then kept and offered again.
        """
        tasks = _tasks_of(told)
        row = merged(known, replace(told, document=None) if self._told.get(known.id) == tasks else told)
        self.unsaved[known.id] = row
        done = self._waiting[known.id] = asyncio.get_running_loop().create_future()
        if not self._writing:
            self._writing = True
            self._begin(self._write())
        try:
            if self.problem is not None:
                raise NotJournaled(self.problem, row)
            kept: PackageRow = await done
        finally:
            if self._waiting.get(known.id) is done:
                del self._waiting[known.id]
        self._told[known.id] = tasks
        return kept

    def forget(self, row_id: int) -> None:
        """The package is no longer of interest."""
        self._told.pop(row_id, None)

    async def _write(self) -> None:
        try:
            while self.unsaved and not self._journal.closed:
                await asyncio.sleep(_GATHER)
                await self._write_once()
        finally:
            self._writing = False

    async def _write_once(self) -> None:
        batch = dict(self.unsaved)
        writing = asyncio.ensure_future(self._journal.merge_renewals(batch.values()))
        done, _ = await asyncio.wait({writing}, timeout=_PATIENCE)
        if not done:
            self._refuse(_slow(self._journal))
        try:
            kept = await writing
        except ExpbError as problem:
            self._refuse(problem)
            await asyncio.sleep(_AGAIN)
            return
        except Exception as defect:  # whoever waits must hear of a fault of ours, and renewals go on
            what = f"The journal {self._journal.path} cannot be written"
            self._refuse(FileProblem(what, cause=f"internal error: {place_of(defect)}", next_step="Please report this"))
            await asyncio.sleep(_AGAIN)
            return
        self.problem = None
        for (row_id, row), now in zip(batch.items(), kept, strict=True):
            if self.unsaved.get(row_id) is row:
                del self.unsaved[row_id]
                waiting = self._waiting.get(row_id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(now or row)
                self._on_saved(row_id)

    def _refuse(self, problem: ExpbError) -> None:
        self.problem = problem
        for row_id, waiting in self._waiting.items():
            if not waiting.done():
                waiting.set_exception(NotJournaled(problem, self.unsaved[row_id]))


def _slow(journal: Journal) -> FileProblem:
    return FileProblem(
        f"The journal {journal.path} is busy",
        cause=f"it has taken nothing for {_PATIENCE:.0f} s; another process holds it, or the disk does not answer",
        next_step="Continue or end the process that was stopped; renewals go on meanwhile and are kept in memory",
        code="busy-journal",
    )


def _tasks_of(row: PackageRow) -> object:
    """Everything about the tasks that can change while they are held; what they ask for does not."""
    return tuple(
        tuple((key, value) for key, value in task.items() if not isinstance(value, dict | list))
        for task in tasks_in(row.document or {})
    )
