"""Every package that this host holds, whoever claimed it: time left, state, tasks, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.text import clean
from expb_tui.present import leases as rows
from expb_tui.present.cells import Table, Tone, plural
from expb_tui.tui import lease_acts
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import Copyable, TablePane, error_lines, ordered, sentence
from expb_tui.tui.widgets.lines import Line, words

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage


class LeasesPane(TablePane):
    """Countdown first; the row under the cursor is what the package pane shows."""

    SCOPES: ClassVar[tuple[str, ...]] = ("leases", "list")
    BINDINGS = bindings("leases")
    topics = frozenset({"leases"})

    def __init__(self) -> None:
        super().__init__(number="3", title="Leases", id="leases")

    def present(self) -> float | None:
        bridge = self.bridge
        held = bridge.held or ()
        table = _arranged(held, rows.pane(held, self.clock, glyphs=self.glyphs))
        live = sum(1 for item in held if not item.state.ended)
        self.state = words(plural(live, "lease"), Tone.DIM) if held else ()
        if bridge.held_problem is not None:
            self.empty = error_lines(bridge.held_problem)
        elif bridge.held is None:
            self.empty = (sentence(("Reading this host's journal.", Tone.DIM)),)
        else:
            self.empty = (
                sentence("This host holds no work package."),
                (),
                sentence((self.key("work.claim"), Tone.ACCENT), " asks for one, for the agent that you act as."),
            )
        self.set_table(table)
        self._explain()
        self.update()
        return table.next_change

    def _explain(self) -> None:
        held = self.chosen
        lines: list[Line] = []
        if held is not None and held.reason:
            lines.append(words(clean(held.reason), Tone.WARN))
        if held is not None and held.next_step:
            lines.append(words(clean(held.next_step), Tone.INFO))
        self.tail = tuple(lines)

    def on_line_table_highlighted(self) -> None:
        """The cursor moved."""
        self._explain()
        self.update()

    @property
    def chosen(self) -> HeldPackage | None:
        """The package under the cursor."""
        return self._held(self.current_key)

    def _held(self, uid: str | None) -> HeldPackage | None:
        return next((item for item in self.bridge.held or () if item.uid == uid), None)

    def _targets(self) -> list[HeldPackage]:
        return [held for uid in self.chosen_keys if (held := self._held(uid)) is not None]

    def can(self, action_id: str) -> bool:
        if not super().can(action_id):
            return False
        if not action_id.startswith("lease."):
            return True
        targets = self._targets()
        if action_id == "lease.submit":
            held = self.chosen
            return held is not None and held.usable and held.open > 0
        if action_id == "lease.renew":
            return any(held.renewable for held in targets)
        if action_id == "lease.release":
            return any(held.usable and held.has_token for held in targets)
        if action_id == "lease.withdraw":
            return any(held.state.value == "token lost" for held in targets)
        return bool(targets) or action_id == "lease.receipts"

    def copyables(self) -> list[Copyable]:
        held = self.chosen
        if held is None:
            return []
        return [
            Copyable("package id", held.uid),
            Copyable("command", f"expb-tui --profile={held.profile_name} agent work show {held.uid}"),
            Copyable("project id", held.project_id),
            Copyable("service", held.endpoint),
        ]

    # What the keys do

    def act_lease_open(self) -> None:
        held = self.chosen
        if held is not None:
            lease_acts.open_package(self, held)

    def act_lease_withdraw(self) -> None:
        lease_acts.ask_to_withdraw(self, [held for held in self._targets() if held.state.value == "token lost"])

    def act_lease_receipts(self) -> None:
        from expb_tui.tui.screens.submit import ReceiptsScreen

        self.cockpit.push_screen(ReceiptsScreen(self.house))

    def act_lease_submit(self) -> None:
        held = self.chosen
        if held is not None:
            lease_acts.submit_open_task(self, held)

    def act_lease_renew(self) -> None:
        lease_acts.ask_to_renew(self, [held for held in self._targets() if held.renewable])

    def act_lease_release(self) -> None:
        lease_acts.ask_to_release(self, [held for held in self._targets() if held.usable and held.has_token])


def _arranged(held: Sequence[HeldPackage], table: Table) -> Table:
    """What must be seen first; the project only where there is more than one."""
    project = ["PROJECT"] if len({item.project_id for item in held}) > 1 else []
    return ordered(table, "LEFT", "LEASE", "STATE", "ROLE", *project, "TASKS", "ENDS")
