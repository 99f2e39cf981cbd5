"""What a look at the journal gives: values of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from expb_tui.core.clock import Clock
from expb_tui.core.leases.model import HeldPackage, Receipt
from expb_tui.core.leases.schema import Intent, PackageRow
from expb_tui.core.leases.states import held_of


@dataclass(frozen=True)
class Overview:
    """Everything that a list of held packages is made of, of one moment."""

    packages: list[PackageRow]
    intents: list[Intent]
    receipts: list[Receipt]
    """Of these packages, newest first."""
    drafted: frozenset[tuple[str, str, str]]
    """Endpoint, package and task id of every draft on this host, of whatever package: a task may come again."""

    def held(self, row: PackageRow, clock: Clock, credential_problem: str) -> HeldPackage:
        """The package as a face sees it."""
        return held_of(
            row,
            clock=clock,
            credential_problem=credential_problem,
            receipts=self._receipts.get(row.uid, {}),
            drafted=self._drafts.get((row.pin.endpoint, row.uid), frozenset()),
            drafted_before=self._drafted_tasks.get(row.pin.endpoint, frozenset()),
            sending=any(intent.package_uid == row.uid for intent in self.intents),
        )

    @cached_property
    def _receipts(self) -> dict[str, dict[str, Receipt]]:
        found: dict[str, dict[str, Receipt]] = {}
        for receipt in self.receipts:
            found.setdefault(receipt.package_id, {}).setdefault(receipt.task_id, receipt)
        return found

    @cached_property
    def _drafts(self) -> dict[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for endpoint, package, task in self.drafted:
            found.setdefault((endpoint, package), set()).add(task)
        return found

    @cached_property
    def _drafted_tasks(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for endpoint, _, task in self.drafted:
            found.setdefault(endpoint, set()).add(task)
        return found


@dataclass(frozen=True)
class Changes:
    """Packages, without their documents, that were written after a number; ``number`` is the newest write's."""

    packages: list[PackageRow]
    number: int
    rows: int
    """How many packages there are in all: fewer than before where some were forgotten."""
