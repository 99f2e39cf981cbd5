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
    drafted: frozenset[tuple[str, str]]
    """Package and task ids that have a draft."""

    def held(self, row: PackageRow, clock: Clock, credential_problem: str) -> HeldPackage:
        """The package as a face sees it."""
        return held_of(
            row,
            clock=clock,
            credential_problem=credential_problem,
            receipts=self._receipts.get(row.uid, {}),
            drafted=self._drafts.get(row.uid, frozenset()),
            sending=any(intent.package_uid == row.uid for intent in self.intents),
        )

    @cached_property
    def _receipts(self) -> dict[str, dict[str, Receipt]]:
        found: dict[str, dict[str, Receipt]] = {}
        for receipt in self.receipts:
            found.setdefault(receipt.package_id, {}).setdefault(receipt.task_id, receipt)
        return found

    @cached_property
    def _drafts(self) -> dict[str, frozenset[str]]:
        packages = {package for package, _ in self.drafted}
        return {uid: frozenset(task for package, task in self.drafted if package == uid) for uid in packages}


@dataclass(frozen=True)
class Changes:
    """Packages, without their documents, that were written after a number; ``number`` is the newest write's."""

    packages: list[PackageRow]
    number: int
    rows: int
    """How many packages there are in all: fewer than before where some were forgotten."""
