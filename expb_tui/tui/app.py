"""The cockpit's application: look, keys, notices and bridge, and what the global actions do."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from signal import Signals
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.screen import Screen
from textual.widget import Widget

from expb_tui.core import faults
from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.signals import (
    EXIT_HANGUP,
    FROM_THE_KEYBOARD,
    end_at_the_latest,
    install,
    remove,
    stop_process,
)
from expb_tui.core.text import wants_ascii
from expb_tui.present.cells import Tone
from expb_tui.tui import bell, heading, theme
from expb_tui.tui.actions import ACTIONS, BY_ID, Action, Keymap, bindings
from expb_tui.tui.driver import CockpitDriver
from expb_tui.tui.global_acts import GlobalActs
from expb_tui.tui.painted import PaintedApp
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.cockpit import CockpitScreen
from expb_tui.tui.screens.palette import PaletteScreen
from expb_tui.tui.screens.plan import PANES
from expb_tui.tui.undo import Undo
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.line_panel import LinePanel
from expb_tui.tui.widgets.look import Look
from expb_tui.tui.widgets.one_line import HeadLine, StatusLine
from expb_tui.watch.bridge import Bridge
from expb_tui.watch.faults import kept
from expb_tui.watch.notices import Notice, Notices, of_error
from expb_tui.watch.pace import View

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from expb_tui.first_line import FirstLine
    from expb_tui.launch import House

_PANES_ONLY = frozenset(
    {action.id for action in ACTIONS if action.id.startswith("pane.")}
    | {"work.claim", "app.menu", "app.copy", "app.reload", "app.back", "app.palette"}
)
_GRACE = 3.0
"""Seconds that requests under way have to be journaled after the terminal is gone."""


class _Frame:
    """The bridge's view for header and status line."""

    topics = frozenset({"link", "profiles", "leases", "status"})

    def __init__(self, app: CockpitApp) -> None:
        self._app = app

    def present(self) -> float | None:
        self._app.cockpit_screen.lay_out()
        return self._app.draw_frame()


class CockpitApp(GlobalActs, Acts, PaintedApp[None], inherit_bindings=False):
    """``CockpitApp(house).run()``; the exit code is ``return_code``."""

    TITLE = "expb-tui"
    SCOPES: ClassVar[tuple[str, ...]] = ("global",)
    BINDINGS = bindings("global")
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 0

    def __init__(self, house: House, *, line: FirstLine | None = None) -> None:
        """``line`` stands on the screen until the cockpit has it."""
        self.house = house
        self._line = line
        settings = house.settings
        self.read_only = settings.read_only
        self.keymap = Keymap(settings.keys)
        self.ascii_only = settings.icons == "ascii" or wants_ascii(os.environ)
        self.wants_mouse = settings.mouse == "on" or (settings.mouse == "auto" and not _remote())
        self.notices = Notices()
        self.undo = Undo()
        self.in_editor = False
        """Set while an editor or pager has the terminal."""
        problems: list[ExpbError] = []
        palette = self._first_palette(settings.theme, problems)
        self.look = Look.of(palette, ascii_only=self.ascii_only)
        self.bridge = Bridge(house, self)
        self._frame_asked = False
        self._keys_asked = False
        # Our mono theme uses no colour; Textual's filters would take the QR code's black and white as well.
        no_color = os.environ.pop("NO_COLOR", None)
        try:
            super().__init__(driver_class=CockpitDriver)
        finally:
            if no_color is not None:
                os.environ["NO_COLOR"] = no_color
        self.animation_level = "none"
        self.register_theme(palette.textual())
        self.theme = palette.textual().name
        self.set_keymap({name: ",".join(keys) for name, keys in self.keymap.changed.items()})
        self.bridge.read_profiles()
        self._tell_of_the_demo()
        self._tell_of_exposure()
        for problem in problems:
            self.notices.add(of_error(problem, house.clock.now(), tone=Tone.WARN))
        for text in self.keymap.problems:
            self.notices.add(Notice(house.clock.now(), Tone.WARN, text, next_step="Correct [keys] in config.toml"))

    def _first_palette(self, name: str, problems: list[ExpbError]) -> theme.Palette:
        """The theme of the settings; a broken one is told and replaced by the terminal's default."""
        if name:
            try:
                return theme.find(name)
            except ExpbError as problem:
                problems.append(problem)
        return theme.find(theme.default_name())

    def _tell_of_the_demo(self) -> None:
        hint = self.house.demo_hint
        if hint is not None:
            text = f"Demo: {hint.user_profile} is {hint.email}, password {hint.password}"
            step = f"{self.keymap.shown('profile.login')} in the profiles signs in"
            self.notices.add(Notice(self.house.clock.now(), Tone.INFO, text, next_step=step))

    def _tell_of_exposure(self) -> None:
        store = self.house.store
        if who := store.exposed():
            text = f"{who} {store.path}, which holds credentials"
            step = f"chmod 600 {shlex.quote(str(store.path))}"
            self.notices.add(Notice(self.house.clock.now(), Tone.WARN, text[0].upper() + text[1:], next_step=step))

    @property
    def palette(self) -> theme.Palette:
        """The theme in force."""
        return self.look.palette

    # Life

    async def on_event(self, event: events.Event) -> None:
        """A key that is text for a list goes there at once, before the keys that came after it are looked at."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            # A screen that is not mounted yet has no focus: what is typed ahead is its own to take.
            taker = self.focused or self.screen
            if isinstance(taker, LinePanel | PaletteScreen) and taker.take_key(event.key, event.character):
                return
        await super().on_event(event)

    def get_default_screen(self) -> Screen[Any]:
        """The cockpit is the only screen at the start: nothing else is mounted before the first frame."""
        return CockpitScreen()

    @property
    def cockpit_screen(self) -> CockpitScreen:
        """The screen at the bottom of the stack."""
        screen = self.screen_stack[0]
        assert isinstance(screen, CockpitScreen)
        return screen

    def on_load(self) -> None:
        """Before the terminal is touched: whatever ends us from here on gives it back."""
        install(asyncio.get_running_loop(), self._end_by)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        self._faults_were_told = faults.tell_places(lambda place: loop.call_soon_threadsafe(self._fault, place))
        faults.watch(loop)
        self.call_after_refresh(self.bridge.start)  # the first frame waits for nothing

    def _fault(self, place: str) -> None:
        self.tell(Notice(self.house.clock.now(), Tone.BAD, "A fault of expb-tui in the background", place))

    async def on_unmount(self) -> None:
        faults.tell_places(self._faults_were_told)
        remove(asyncio.get_running_loop())
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE if self.return_code == EXIT_HANGUP else None):
                await self.bridge.aclose()

    def end_now(self, code: int) -> None:
        """A signal, or a terminal that is gone."""
        if code == EXIT_HANGUP and not self.is_headless:
            end_at_the_latest(2 * _GRACE, code)
        self.exit(return_code=code)

    @property
    def leaving(self) -> bool:
        """Told to end, and ending."""
        return self._exit

    def _end_by(self, number: Signals) -> None:
        if not (self.in_editor and number in FROM_THE_KEYBOARD):
            self.end_now(128 + number)

    def has_screen(self) -> None:
        """The driver has the terminal: the first line is painted over."""
        super().has_screen()
        if self._line is not None:
            self._line.hand_over()

    def _handle_exception(self, error: Exception) -> None:
        """While everything is taken down, parts of a widget go before its last events: that changes no exit code."""
        if self.leaving:
            kept(error)
        else:
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """A fault of ours ends the cockpit: a file gets the traceback, without values, and the terminal one line."""
        error = sys.exc_info()[1]
        if error is not None:
            self._exit_renderables.append(f"expb-tui: a fault ended the cockpit: {kept(error)}")
        self._close_messages_no_wait()

    # Telling

    def say(self, text: str, tone: Tone = Tone.OK) -> None:
        """Tell the operator in the status line and in the list of notices."""
        self.tell(Notice(self.house.clock.now(), tone, text))

    def complain(self, error: ExpbError) -> None:
        """Tell what failed, why, and what to do."""
        pane = "profiles" if isinstance(error, SignInNeeded) else ""
        self.tell(of_error(error, self.house.clock.now(), pane=pane))

    def tell(self, notice: Notice) -> None:
        """Keep a notice and show it."""
        self.notices.add(notice)
        if self.is_running:
            self.bridge.mark("status")
            if self.covered:
                self.draw_frame_soon()

    def alarm(self, notice: Notice) -> None:
        """Tell what must not be missed, with a bell; where an editor or pager has the terminal, there too."""
        self.tell(notice)
        if self.in_editor:
            bell.ring()
        else:
            self.bell()

    def crashed(self, error: BaseException, doing: str) -> None:
        """A fault of ours in the background."""
        self.tell(
            Notice(
                self.house.clock.now(),
                Tone.BAD,
                f"A fault of expb-tui stopped '{doing}'",
                type(error).__name__,
                kept(error),
            )
        )

    # Frame

    @property
    def covered(self) -> bool:
        """Whether a dialog stands over the panes: they are repainted more seldom then."""
        return not isinstance(self.screen, FrameScreen)

    def show_views(self, views: Iterable[View]) -> None:
        """These are on top now; header, status and keys always are."""
        self.bridge.show_in([*views, _Frame(self)])

    def draw_frame_soon(self) -> None:
        """Draw the frame once, after what is being handled now."""
        if not self._frame_asked:
            self._frame_asked = True
            self.call_later(self._draw_asked_frame)

    def _draw_asked_frame(self) -> None:
        self._frame_asked = False
        self.draw_frame()

    def draw_keys_soon(self) -> None:
        """Another row, another focus: other actions may be possible. The rest of the frame does not depend on it."""
        if not self._keys_asked:
            self._keys_asked = True
            self.call_later(self._draw_asked_keys)

    def _draw_asked_keys(self) -> None:
        self._keys_asked = False
        if isinstance(self.screen, FrameScreen) and self.screen.is_mounted:
            self.screen.show_keys(self.actions_now())

    def draw_frame(self) -> float | None:
        """Header, status and keys of the full screen that is on top, or under the dialogs.

        Returns the seconds until the header changes. Under a dialog the keys stay as they are.
        """
        frame = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, FrameScreen)), None)
        if frame is None or not frame.is_mounted:
            return None
        glyphs = self.look.glyphs
        header = heading.header(self.bridge, glyphs, read_only=self.read_only)
        frame.query_one("#head", HeadLine).show(header.left, header.right)
        cancel = self.keymap.shown("app.cancel")
        status = heading.status(self.bridge.running, cancel, self.notices.last, glyphs)
        frame.query_one("#status", StatusLine).show(*status)
        if frame is self.screen:
            frame.show_keys(self.actions_now())
        else:
            frame.show_unread()
        return header.change

    # Actions

    def chain(self) -> list[DOMNode]:
        """From the focused node outwards to the application; not beyond a dialog."""
        focused = self.screen.focused
        nodes: list[DOMNode] = list(focused.ancestors_with_self) if focused is not None else [self.screen, self]
        for place, node in enumerate(nodes):
            if node.is_modal:
                return nodes[: place + 1]
        return nodes

    def actions_now(self) -> list[Action]:
        """What is possible here and now, in the registry's order; keys that would be typed as text are left out."""
        nodes = [node for node in self.chain() if isinstance(node, Acts)]
        possible = {action.id: action for node in nodes for action in node.actions_here()}
        focused = self.screen.focused
        return [possible[one.id] for one in ACTIONS if one.id in possible and not self._typed(one, focused)]

    def _typed(self, action: Action, focused: Widget | None) -> bool:
        if focused is None or action.urgent:
            return False
        key = self.keymap.keys(action.id)[0]
        return focused.check_consume_key(key, key if len(key) == 1 else {"comma": ",", "space": " "}.get(key))

    def can(self, action_id: str) -> bool:
        """What is about the panes is possible only where they are."""
        here = isinstance(self.screen, CockpitScreen) if self.screen_stack else False
        return here or action_id not in _PANES_ONLY

    def actions_anywhere(self) -> list[Action]:
        """What is possible in any pane: what the palette offers."""
        here = self.actions_now()
        known = {action.id for action in here}
        for pane in self.cockpit_screen.panes:
            here += [action for action in pane.actions_here() if action.id not in known]
            known |= {action.id for action in here}
        return here

    async def perform(self, action_id: str) -> None:
        """Carry out an action where it belongs: at the focus, else in the pane that offers it."""
        nodes: list[DOMNode] = self.chain()
        if not self.covered:
            nodes += self.cockpit_screen.panes
        for node in nodes:
            if isinstance(node, Acts) and BY_ID[action_id].scope in node.SCOPES and node.can_act(action_id):
                if node.id in PANES and not node.has_pseudo_class("focus"):
                    self.cockpit_screen.go(node.id)
                result = node.action_act(action_id)
                if result is not None:
                    await result
                return

    def use_theme(self, name: str) -> None:
        """Show everything in another theme. Raises ``FileProblem`` where it is broken."""
        if name == self.palette.name:
            return
        palette = theme.find(name)
        self.look = Look.of(palette, ascii_only=self.ascii_only)
        textual = palette.textual()
        self.register_theme(textual)
        self.theme = textual.name

    def act_app_suspend(self) -> None:
        if self.in_editor or self._driver is None or not self._driver.can_suspend:
            return
        with self.suspend(), self.house.journal.still():
            stop_process()
        self.draw_all()


def _remote() -> bool:
    return any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))
