"""One package on the whole screen: its facts, its tasks, what the chosen one asks for, and all that can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present import leases as rows
from expb_tui.present.cells import Cell
from expb_tui.tui import clipboard
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.package import PackagePane
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.host import start
from expb_tui.tui.screens.task_form import Outcome, TaskFormScreen
from expb_tui.tui.widgets.lines import Line

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.launch import House


class WholePackage(PackagePane):
    """The package pane with what only fits a screen of its own: the form, the editor, receipts."""

    SCOPES: ClassVar[tuple[str, ...]] = ("package", "whole", "list")
    BINDINGS = bindings("whole")

    def __init__(self, uid: str) -> None:
        super().__init__()
        self.number = ""
        self._uid = uid

    @property
    def shown(self) -> HeldPackage | None:
        screen = self.screen
        assert isinstance(screen, PackageScreen)
        return super().shown or screen.held

    @property
    def state(self) -> Line:
        """What the pane says, and the countdown, which must be in sight whatever is scrolled."""
        held = self.shown if self.is_attached else None
        if held is None:
            return self._state
        left = f"{rows.left(held, self.clock).text} left  " if rows.left(held, self.clock).next_change else ""
        return (
            *self._state,
            *((Cell("  "),) if self._state else ()),
            *((Cell(left, rows.urgency(held, self.clock, self.bridge.keeper.keeping(held))),) if left else ()),
            rows.state(held, self.glyphs),
        )

    @state.setter
    def state(self, state: Line) -> None:
        self._state = state

    @property
    def title(self) -> str:
        held = self.shown if self.is_attached else None
        return f"Package of the {clean(held.role)}" if held is not None else "Package"

    @title.setter
    def title(self, title: str) -> None:
        """The pane's own; this one is named after the role."""

    def can(self, action_id: str) -> bool:
        task, held = self.chosen, self.shown
        if action_id == "package.edit":
            return held is not None and task is not None and not task.submitted and (task.open or task.has_draft)
        if action_id == "package.fail":
            return held is not None and held.usable and task is not None and task.open and not task.submitted
        if action_id == "package.receipts":
            return held is not None
        return super().can(action_id)

    def _open(self, *, outcome: Outcome | None = None, edit: bool = False, review: bool = False) -> None:
        held, task = self.shown, self.chosen
        if held is None or task is None:
            return
        screen = TaskFormScreen(
            self.house, package_uid=held.uid, task_id=task.task_id, outcome=outcome, edit=edit, review=review
        )
        self.cockpit.push_screen(screen)

    def act_package_open(self) -> None:
        self._open()

    def act_package_edit(self) -> None:
        self._open(edit=True)

    def act_package_submit(self) -> None:
        self._open(review=True)

    def act_package_fail(self) -> None:
        self._open(outcome="failed")

    def act_package_receipts(self) -> None:
        from expb_tui.tui.screens.submit import ReceiptsScreen

        if (held := self.shown) is not None:
            self.cockpit.push_screen(ReceiptsScreen(self.house, package_uid=held.uid))

    def act_whole_back(self) -> None:
        self.screen.dismiss(None)

    async def act_whole_copy(self) -> None:
        if (held := self.shown) is not None:
            try:
                self.cockpit.say(f"{await clipboard.copy(self.cockpit, held.uid)}: {clean(held.uid)}")
            except ExpbError as error:
                self.cockpit.complain(error)


class PackageScreen(FrameScreen[None]):
    """Read from the journal at once, and from the service where it answers."""

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog",)
    BINDINGS = bindings("dialog")

    def __init__(self, house: House, *, package_uid: str) -> None:
        super().__init__()
        self._house = house
        self._uid = package_uid
        self.held: HeldPackage | None = None
        """As read here; the bridge's own picture leaves out what ended long ago."""
        self._package = WholePackage(package_uid)

    def compose_body(self) -> ComposeResult:
        yield self._package

    def on_mount(self) -> None:
        self._package.present()
        self._package.focus()
        start(self, self._read, "read", exclusive=False)

    def on_screen_resume(self) -> None:
        """A form above is gone: the package may be another one now."""
        start(self, self._journal, "read", exclusive=False)

    async def _journal(self) -> None:
        try:
            self.held = await self._house.desk.get(self._uid)
        except ExpbError as error:
            self.cockpit.complain(error)
            return
        self._package.present()
        self.cockpit.draw_frame()

    async def _read(self) -> None:
        """From the journal, then from the service: whoever else acted on the package, it is shown as it is."""
        await self._journal()
        held = self.held
        if held is None or not held.usable:
            return
        try:
            session = await self.cockpit.bridge.session_for(held)
            self.held = (await self._house.desk.show(session, held.uid)).held
        except ExpbError as error:
            self.cockpit.complain(error)
            return
        await self.cockpit.bridge.leases_changed()
        self._package.present()

    def can(self, action_id: str) -> bool:
        return action_id == "dialog.close"

    def act_dialog_close(self) -> None:
        self.dismiss(None)
