"""A claim that this host cannot write down: its token is shown once, and it is saved again or given back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Tone, cell
from expb_tui.present.times import moment
from expb_tui.tui import clipboard
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.words import Words, error_lines, facts_lines, line

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.leases.unsaved import ClaimNotSaved, UnsavedClaim
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House


class UnsavedScreen(Dialog["HeldPackage | None"]):
    """Dismisses with the package once it is in the journal, otherwise with None."""

    SCOPES: ClassVar[tuple[str, ...]] = ("unsaved", "dialog")
    BINDINGS = bindings("unsaved", "dialog")
    LABELS: ClassVar[dict[str, str]] = {"dialog.close": "Leave it"}
    DEFAULT_CSS = """
    UnsavedScreen Words { margin: 0 0 1 0; }
    """

    def __init__(self, house: House, session: Session, problem: ClaimNotSaved, unsaved: UnsavedClaim) -> None:
        super().__init__("Claimed, and not saved", width=100)
        self._house = house
        self._session = session
        self._problem: ExpbError = problem
        self._unsaved = unsaved
        self._busy = False
        self.given_back = False

    def compose_body(self) -> ComposeResult:
        claim, now = self._unsaved, self._house.clock.now()
        yield Words(*error_lines(self._problem, host(self).look.glyphs), widget_id="unsaved-problem")
        yield Words(
            *facts_lines(
                [
                    ("package", cell(claim.package_id)),
                    ("role", cell(claim.role)),
                    ("project", cell(claim.project_name)),
                    ("lease ends", cell(moment(claim.expires_at, now))),
                    # Shown because nothing else on this host holds it: whoever has it can submit the work.
                    ("lease token", Cell(clean(claim.token.get_secret_value()), Tone.WARN)),
                ]
            )
        )
        yield Words(
            line("The token is shown here once and is written down nowhere."),
            line("Make room and save it again, or copy it and take it in later: expb-tui agent work adopt FILE."),
        )

    def can(self, action_id: str) -> bool:
        return action_id != "dialog.accept" and not (self._busy and action_id.startswith("unsaved."))

    def act_unsaved_save(self) -> None:
        start(self, partial(self._try, self._save), "unsaved")

    def act_unsaved_return(self) -> None:
        start(self, partial(self._try, self._give_back), "unsaved")

    async def act_unsaved_copy(self) -> None:
        try:
            way = await clipboard.copy(self.app, self._unsaved.answer_text())
        except ExpbError as error:
            host(self).complain(error)
        else:
            host(self).say(f"{way}: what agent work adopt takes, token included", Tone.WARN)

    def act_dialog_close(self) -> None:
        from expb_tui.tui.screens.confirm import ConfirmScreen

        until = moment(self._unsaved.expires_at, self._house.clock.now())
        lines = [
            line("Its token is gone then, unless you have copied it.", Tone.WARN),
            line(f"Nobody can work on the package until its lease ends ({until}), or a member withdraws it."),
        ]
        screen = ConfirmScreen("Leave the package unsaved?", lines, verb="Leave it")

        def answered(yes: bool | None) -> None:
            if yes:
                self.dismiss(None)

        self.app.push_screen(screen, answered)

    async def _try(self, work: object) -> None:
        assert callable(work)
        self._busy = True
        self.show_keys()
        try:
            await work()
        except ExpbError as error:
            self._problem = error
            self.query_one("#unsaved-problem", Words).set_lines(*error_lines(error, host(self).look.glyphs))
        finally:
            self._busy = False
            self.show_keys()

    async def _save(self) -> None:
        held: HeldPackage = await self._house.desk.save_unsaved(self._unsaved)
        self.dismiss(held)

    async def _give_back(self) -> None:
        await self._house.desk.give_back(self._session, self._unsaved)
        self.given_back = True
        host(self).say(f"{clean(self._unsaved.role)}: given back; its tasks are on offer again")
        self.dismiss(None)
