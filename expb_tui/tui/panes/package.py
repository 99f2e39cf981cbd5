"""The package under the leases' cursor: its facts, its tasks, and what the chosen task asks for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present import packages as rows
from expb_tui.present import tasks as reading
from expb_tui.present.cells import Cell, Table, Tone
from expb_tui.tui import lease_acts
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import Copyable, PaneParts, sentence
from expb_tui.tui.widgets.facts import fact_lines
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line, fitted, width_of, words

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage, HeldTask

_SIDE_BY_SIDE = 116
"""Cells from which facts and reading stand beside each other."""
_FACTS = 52
_READING = 100
_PAUSE = 0.3
"""Seconds that the selection must rest before the service is asked about the package."""
_OLD = 60.0
"""Seconds after which what the journal knows of a package is worth a question."""


class PackagePane(PaneParts, LineText):
    """It reads from the journal at once, so it follows the cursor without flicker, and asks the service afterwards."""

    SCOPES: ClassVar[tuple[str, ...]] = ("package", "list")
    BINDINGS = bindings("package")
    topics = frozenset({"leases", "selection"})

    def __init__(self) -> None:
        super().__init__(number="4", title="Package", id="package")
        self._uid: str | None = None
        self._place = 0
        self._asking: asyncio.Task[None] | None = None

    @property
    def shown(self) -> HeldPackage | None:
        """The package that is shown."""
        return next((item for item in self.bridge.held or () if item.uid == self._uid), None)

    @property
    def chosen(self) -> HeldTask | None:
        """The chosen task."""
        held = self.shown
        return held.tasks[min(self._place, len(held.tasks) - 1)] if held is not None and held.tasks else None

    def follow(self, uid: str | None) -> None:
        """Another package is selected."""
        if uid == self._uid:
            return
        self._uid, self._place, self.top = uid, 0, 0
        held = self.shown
        if held is not None:
            self._place = next((place for place, task in enumerate(held.tasks) if task.open), 0)
        self.bridge.mark("selection")  # a held key must not lay out a package for every row that it passes
        if self._asking is not None:
            self._asking.cancel()
        if held is not None and held.usable:
            self._asking = asyncio.create_task(self._ask(held))

    async def _ask(self, held: HeldPackage) -> None:
        await asyncio.sleep(_PAUSE)
        if (self.clock.now() - held.last_answer_at).total_seconds() < _OLD:
            return
        try:
            await self.house.desk.show(await self.bridge.session_for(held), held.uid)
        except ExpbError:
            return  # the header tells of a lost connection; Enter asks again and says what is wrong
        await self.bridge.leases_changed()

    def present(self) -> float | None:
        held = self.shown
        task = self.chosen
        self.state = ()
        if held is not None and len(held.tasks) > 1 and task is not None:
            place = held.tasks.index(task) + 1
            self.state = words(f"task {place} of {len(held.tasks)}", Tone.DIM)
        self.empty = (sentence(("The package under the cursor of the leases is shown here.", Tone.DIM)),)
        self.rewrap()
        facts = self._facts()
        return facts.next_change if facts is not None else None

    # Laying out

    def _facts(self) -> Table | None:
        held, keeper = self.shown, self.bridge.keeper
        if held is None:
            return None
        keeping, why = keeper.keeping(held), keeper.why_not(held)
        return rows.facts(held, self.clock, glyphs=self.glyphs, keeping=keeping, why_no_keeper=why)

    def wrapped(self, width: int) -> list[Line]:
        held, facts = self.shown, self._facts()
        if held is None or facts is None:
            return []
        if width < _SIDE_BY_SIDE:
            return [*fact_lines(facts, width), *self._task_lines(held, width), (), *self._reading(held, width)]
        side = min(_FACTS, width * 2 // 5)
        left = [*fact_lines(facts, side), *self._task_lines(held, side)]
        right = self._reading(held, min(_READING, width - side - 3))
        return _beside(left, right, side, self.look.frame.vertical)

    def _task_lines(self, held: HeldPackage, width: int) -> list[Line]:
        if len(held.tasks) < 2:
            return []
        lines: list[Line] = [(), words("Tasks", Tone.ACCENT)]
        for place, task in enumerate(held.tasks):
            here = place == min(self._place, len(held.tasks) - 1)
            state = rows.task_state(task, self.glyphs)
            draft = ("  draft" if task.has_draft else "  older draft" if task.draft_before else "") if task.open else ""
            lines.append(
                (
                    Cell(f"{self.glyphs.arrow if here else ' '} ", Tone.ACCENT),
                    Cell(f"{place + 1}  ", Tone.ACCENT if here else Tone.DIM),
                    Cell(f"{state.text:<12}", state.tone),
                    Cell(draft, Tone.INFO),
                    Cell(f"  {clean(task.task_id)}"[: max(0, width - 17 - len(draft))], Tone.DIM),
                )
            )
        return lines

    def _reading(self, held: HeldPackage, width: int) -> list[Line]:
        from expb_tui.core.submissions.task_view import sections

        task = self.chosen
        if task is None:
            return [sentence(("The service has not described any task of this package.", Tone.DIM))]
        lines = reading.toned_lines(sections(task.role or held.role, task.input), width, glyphs=self.glyphs)
        return fitted(lines, width)

    # What the keys do

    def can(self, action_id: str) -> bool:
        if not action_id.startswith("package."):
            return True
        held, task = self.shown, self.chosen
        if held is None:
            return False
        if action_id in ("package.next_task", "package.previous_task"):
            return len(held.tasks) > 1
        if action_id == "package.submit":
            return held.usable and task is not None and task.open
        if action_id == "package.renew":
            return held.renewable
        if action_id == "package.keep":
            return held.renewable and not self.cockpit.read_only
        if action_id == "package.release":
            return held.usable and held.has_token
        return True

    def copyables(self) -> list[Copyable]:
        held, task = self.shown, self.chosen
        if held is None:
            return []
        found = [Copyable("package id", held.uid)]
        if task is not None:
            found.append(Copyable("task id", task.task_id))
            if task.record_id:
                found.append(Copyable("record id", task.record_id))
        found.append(Copyable("command", f"expb-tui --profile={held.profile_name} agent work show {held.uid}"))
        return found

    def _turn(self, step: int) -> None:
        held = self.shown
        if held is not None and held.tasks:
            self._place = (min(self._place, len(held.tasks) - 1) + step) % len(held.tasks)
            self.top = 0
            self.present()

    def act_package_next_task(self) -> None:
        self._turn(1)

    def act_package_previous_task(self) -> None:
        self._turn(-1)

    def act_package_open(self) -> None:
        if (held := self.shown) is not None:
            lease_acts.open_package(self, held)

    def act_package_submit(self) -> None:
        held, task = self.shown, self.chosen
        if held is not None and task is not None:
            lease_acts.submit_open_task(self, held, task.task_id)

    def act_package_renew(self) -> None:
        if (held := self.shown) is not None:
            lease_acts.ask_to_renew(self, [held])

    def act_package_keep(self) -> None:
        if (held := self.shown) is not None:
            lease_acts.toggle_keeping(self, [held])

    def act_package_release(self) -> None:
        if (held := self.shown) is not None:
            lease_acts.ask_to_release(self, [held])

    def act_package_page(self) -> None:
        from expb_tui.tui.editor import page

        held, task = self.shown, self.chosen
        if held is None or task is None:
            return
        text = "\n".join("".join(cell.text for cell in line) for line in self._reading(held, 100))

        async def read() -> None:
            await page(self.cockpit, text, name=f"{held.role}-task")

        self.bridge.run("pager", read)


def _beside(left: list[Line], right: list[Line], width: int, bar: str) -> list[Line]:
    lines: list[Line] = []
    for place in range(max(len(left), len(right))):
        first = left[place] if place < len(left) else ()
        second = right[place] if place < len(right) else ()
        used = sum(width_of(cell.text) for cell in first)
        lines.append((*first, Cell(" " * max(0, width - used)), Cell(f" {bar} ", Tone.DIM), *second))
    return lines
