"""What the global keys do: panes, claiming, the windows that open over everything, undo, leaving."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from expb_tui.core.errors import ExpbError
from expb_tui.present.cells import Tone, plural
from expb_tui.tui import heading, windows
from expb_tui.tui.screens.plan import PANES

if TYPE_CHECKING:
    from expb_tui.tui.app import CockpitApp

_TWICE = 2.0
"""Seconds within which a second ctrl+c asks to leave."""


class GlobalActs:
    """Mixed into the application, which says when each is possible."""

    _last_cancel = 0.0

    @property
    def _app(self) -> CockpitApp:
        return cast("CockpitApp", self)

    def act_pane_profiles(self) -> None:
        self._app.cockpit_screen.go("profiles")

    def act_pane_work(self) -> None:
        self._app.cockpit_screen.go("work")

    def act_pane_leases(self) -> None:
        self._app.cockpit_screen.go("leases")

    def act_pane_package(self) -> None:
        self._app.cockpit_screen.go("package")

    def _step_pane(self, step: int) -> None:
        screen = self._app.cockpit_screen
        place = PANES.index(screen.active.id or PANES[0])
        screen.go(PANES[(place + step) % len(PANES)])

    def act_pane_next(self) -> None:
        self._step_pane(1)

    def act_pane_previous(self) -> None:
        self._step_pane(-1)

    def act_pane_full(self) -> None:
        screen = self._app.cockpit_screen
        screen.set_mode("normal" if screen.mode == "full" else "full")

    def act_pane_grow(self) -> None:
        self._app.cockpit_screen.step_mode(1)

    def act_pane_shrink(self) -> None:
        self._app.cockpit_screen.step_mode(-1)

    def act_work_claim(self) -> None:
        from expb_tui.tui.screens.claim import ClaimScreen

        item = self._app.cockpit_screen.work.chosen
        profile = self._app.bridge.profile
        screen = ClaimScreen(
            self._app.house,
            profile=self._app.bridge.acting,
            project_id=item.project_id if item else (profile.project_id if profile else None),
            role=item.role if item else None,
        )
        self._app.push_screen(screen, self._claimed)

    def _claimed(self, outcome: Any) -> None:
        if outcome is None:
            return

        async def show() -> None:
            await self._app.bridge.leases_changed()
            self._app.bridge.reload()
            if outcome.held is not None:
                screen = self._app.cockpit_screen
                screen.leases.present()
                screen.leases.select(outcome.held.uid)
                screen.go("leases")
                tasks = plural(len(outcome.held.tasks), "task")
                self._app.say(f"Claimed {tasks} for the {outcome.held.role} in {outcome.held.project_name}")

        self._app.bridge.run("read the leases", show)

    def act_app_menu(self) -> None:
        windows.menu(self._app)

    def act_app_palette(self) -> None:
        windows.palette(self._app)

    def act_app_copy(self) -> None:
        windows.copies(self._app)

    def act_app_reload(self) -> None:
        self._app.draw_all()
        self._app.bridge.reload()
        self._app.say("Asking again", Tone.INFO)

    def act_app_notices(self) -> None:
        self._app.bridge.losses.seen()
        self._app.bridge.mark("link")
        windows.notices(self._app)

    def act_app_undo(self) -> None:
        async def take_back() -> None:
            step = self._app.undo.pop()
            if step is None:
                text = "Nothing to take back: only what was done on this host can be, not what a server was asked"
                self._app.say(text, Tone.INFO)
                return
            try:
                await step.back()
            except ExpbError:
                self._app.undo.push(*step)
                raise
            self._app.say(f"Taken back: {step.done}")

        self._app.bridge.run("take back what was done last", take_back)

    def act_app_help(self) -> None:
        windows.help_here(self._app)

    def act_app_doctor(self) -> None:
        windows.doctor(self._app)

    def act_app_theme(self) -> None:
        windows.themes(self._app)

    def act_app_cancel(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last_cancel < _TWICE:
            self._last_cancel = 0.0
            self._ask_to_leave()
            return
        self._last_cancel = now
        if not self._app.bridge.cancel():
            self._app.say("Nothing is running; Ctrl+c again asks to leave", Tone.INFO)

    def act_app_back(self) -> None:
        if not self._app.cockpit_screen.back():
            self._ask_to_leave()

    def _ask_to_leave(self) -> None:
        from expb_tui.tui.screens.leave import LeaveScreen

        if not any(isinstance(screen, LeaveScreen) for screen in self._app.screen_stack):
            question = LeaveScreen(self._app.bridge, lambda: heading.leaving(self._app.bridge))
            self._app.push_screen(question, lambda yes: self._app.exit() if yes else None)

    def act_app_quit(self) -> None:
        self._app.exit(message=heading.farewell(self._app.bridge))
