"""Every package that this host holds, whoever claimed it: time left, state, who keeps it, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.leases.keeping import Keeping, last_lease
from expb_tui.core.text import clean
from expb_tui.present import leases as rows
from expb_tui.present import packages
from expb_tui.present.cells import Tone, plural
from expb_tui.present.times import moment
from expb_tui.tui import lease_acts
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import Copyable, Preview, TablePane, error_lines, invitation, sentence, stale_note
from expb_tui.tui.widgets.lines import Line, words

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage


class LeasesPane(TablePane):
    """Countdown first; the row under the cursor is what the package pane shows."""

    SCOPES: ClassVar[tuple[str, ...]] = ("leases", "list")
    BINDINGS = bindings("leases")
    BULK: ClassVar[frozenset[str]] = frozenset({"lease.renew", "lease.release", "lease.withdraw", "lease.keep"})
    topics = frozenset({"leases", "selection"})

    def __init__(self) -> None:
        super().__init__(number="3", title="Leases", id="leases")
        self._rows = rows.LeaseRows()
        self._known: tuple[tuple[HeldPackage, ...], dict[str, HeldPackage]] = ((), {})

    def present(self) -> float | None:
        bridge = self.bridge
        held = bridge.held or ()
        if held is not self._known[0]:
            self._known = (held, {item.uid: item for item in held})
        live = sum(1 for item in held if not rows.over(item))
        self.state = self.count(plural(live, "lease"), bridge.keeper.words()) if held else ()
        self.empty = self._why_empty()
        table = self._rows.table(
            held, self.clock, glyphs=self.glyphs, keeping=bridge.keeper.keeping, selected=self.current_key
        )
        self.set_table(table)
        self._explain()
        return self._rows.next_change(self.clock)

    def _why_empty(self) -> tuple[Line, ...]:
        if self.bridge.held_problem is not None:
            return error_lines(self.bridge.held_problem)
        if self.bridge.held is None:
            return (sentence(("Reading this host's journal.", Tone.DIM)),)
        claims = [(self.key("work.claim"), "asks for one, for the agent that you act as")]
        return invitation(
            "This host holds no work package.",
            *(claims if not self.cockpit.read_only else ()),
            (self.key("lease.receipts"), "shows what was submitted from here before"),
            more=("What a command or another cockpit claims on this host appears here too.",),
        )

    def _explain(self) -> None:
        """Below the rows: why the lease under the cursor is not as it should be, and what to do."""
        held, bridge = self.chosen, self.bridge
        lines: list[Line] = []
        if bridge.held_problem is not None and self._known[0]:
            then = "It is read again by itself; the keeper goes on renewing meanwhile."
            read_at = bridge.leases.read_at
            lines += stale_note("These leases", read_at, self.clock.now(), bridge.held_problem, then)
        if held is not None:
            lines += self._about(held)
        self.say_below(*lines)

    def preview(self) -> Preview | None:
        """For terminals that do not show the package beside."""
        held = self.chosen
        if held is None:
            return None
        keeping, why = self.bridge.keeper.keeping(held), self.bridge.keeper.why_not(held)
        facts = packages.facts(held, self.clock, glyphs=self.glyphs, keeping=keeping, why_no_keeper=why)
        return Preview(f"Package of the {clean(held.role)}", facts)

    def _about(self, held: HeldPackage) -> list[Line]:
        lines: list[Line] = []
        keeping = self.bridge.keeper.keeping(held)
        if keeping is Keeping.KEEPER and not held.renewable:
            lines += [
                words("No profile holds its token: the keeper renews it as long as that runs.", Tone.WARN),
                words("Act for it with that token: in EXPBENCH_AGENT_TOKEN, or saved in a profile.", Tone.INFO),
            ]
            return lines
        beside = self.cockpit.cockpit_screen.previews  # else the package's facts stand below, and say it
        if held.reason and beside:
            lines.append(words(clean(held.reason), Tone.WARN))
        if held.next_step and beside:
            lines.append(words(clean(held.next_step), Tone.INFO))
        why = clean(self.bridge.keeper.why_not(held))
        if keeping is Keeping.OFF:
            off = ("Keeping is off: it runs out unless you renew it. ", Tone.WARN)
            lines.append(sentence(off, (self.key("lease.keep"), Tone.ACCENT), " keeps it again."))
        elif keeping is Keeping.NOBODY:
            lines.append(words(f"Nothing renews it: {why}.", Tone.WARN))
        elif keeping is Keeping.COCKPIT and why:
            lines.append(words(f"This cockpit renews it while it is open: {why}.", Tone.DIM))
        if held.renewable and last_lease(held, self.clock) and held.times is not None:
            end = moment(held.times.absolute_expires_at, self.clock.now())
            lines.append(words(f"No renewal leads beyond {end}, its absolute end: submit before that.", Tone.WARN))
        return lines

    def on_line_table_highlighted(self) -> None:
        """The cursor moved."""
        self._explain()

    @property
    def chosen(self) -> HeldPackage | None:
        """The package under the cursor."""
        return self._held(self.current_key)

    def _held(self, uid: str | None) -> HeldPackage | None:
        return self._known[1].get(uid) if uid is not None else None

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
        if action_id == "lease.keep":
            return not self.cockpit.read_only and any(held.renewable for held in targets)
        if action_id == "lease.release":
            return any(held.usable and held.has_token for held in targets)
        if action_id == "lease.withdraw":
            return any(held.state.value == "token lost" for held in targets)
        if action_id == "lease.keeper":
            return self.bridge.may_start_keeper
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

    def act_lease_keeper(self) -> None:
        self.bridge.run("start the keeper", self.bridge.start_keeper)

    def act_lease_open(self) -> None:
        held = self.chosen
        if held is not None:
            lease_acts.open_package(self, held)

    def act_lease_keep(self) -> None:
        lease_acts.toggle_keeping(self, self._targets())

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
