"""The dialogs of the global actions: menu, palette, copy, notices, doctor, help, themes; imported when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expb_tui.present.cells import Tone
from expb_tui.tui import theme
from expb_tui.tui.actions import BY_ID, Action
from expb_tui.tui.screens.palette import PaletteScreen
from expb_tui.tui.widgets.acts import Acts

if TYPE_CHECKING:
    from expb_tui.tui.app import CockpitApp
    from expb_tui.watch.notices import Notice

_IN_EVERY_MENU = ("work.claim", "app.copy", "app.reload")


def menu(app: CockpitApp) -> None:
    """Everything that can be done with the row under the cursor, or with the marked ones."""
    from expb_tui.tui.screens.row_menu import MenuScreen, action_rows

    now = app.actions_now()
    here = [action for action in now if action.scope not in ("global", "list")]
    rest = [action for action in now if action.id in _IN_EVERY_MENU]
    screen = MenuScreen(app.cockpit_screen.active.menu_title(), action_rows([*here, *rest, *_undo(app)], app.keymap))
    app.push_screen(screen, lambda chosen: _perform(app, chosen))


def _undo(app: CockpitApp) -> list[Action]:
    newest = app.undo.newest
    return [BY_ID["app.undo"]._replace(help=f"Take back {newest.done}.")] if newest is not None else []


def palette(app: CockpitApp) -> None:
    """Every action that is possible in some pane: first those of this one, last the ways from pane to pane."""
    from expb_tui.tui.screens.row_menu import action_rows

    actions = [action for action in app.actions_anywhere() if action.scope != "list"]
    here = app.cockpit_screen.active.SCOPES
    actions.sort(key=lambda action: 2 if action.id.startswith("pane.") else 0 if action.scope in here else 1)
    app.push_screen(PaletteScreen(action_rows(actions, app.keymap)), lambda chosen: _perform(app, chosen))


def _perform(app: CockpitApp, action_id: str | None) -> None:
    if action_id is not None:
        app.call_later(app.perform, action_id)


def copies(app: CockpitApp) -> None:
    """What of the row can be copied; what was sent stays readable in the status line."""
    from expb_tui.tui.clipboard import copy
    from expb_tui.tui.screens.row_menu import MenuScreen, copy_rows

    items = app.cockpit_screen.active.to_copy()
    if not items:
        app.say("There is nothing to copy here", Tone.INFO)
        return

    def chosen(key: str | None) -> None:
        if key is None:
            return
        text = items[int(key)].text

        async def send() -> None:
            app.say(f"{await copy(app, text)}: {text}", Tone.INFO)

        app.bridge.run("copy", send)

    app.push_screen(MenuScreen("Copy", copy_rows(items), width=92), chosen)


def notices(app: CockpitApp) -> None:
    """What was told, and read from now on; the chosen one leads to where it happened."""
    from expb_tui.tui.screens.notices import NoticesScreen

    def go(notice: Notice | None) -> None:
        if notice is not None:
            app.cockpit_screen.go_to(notice.pane, notice.row)

    if not isinstance(app.screen, NoticesScreen):
        app.push_screen(NoticesScreen(app.notices), go)


def doctor(app: CockpitApp) -> None:
    """What works here; the terminal itself is not asked, because the cockpit reads from it."""
    from expb_tui.core.doctor.model import Sight
    from expb_tui.tui.screens.doctor import DoctorScreen

    if not isinstance(app.screen, DoctorScreen):
        app.push_screen(DoctorScreen(app.house.circumstances(Sight(True, *app.size))))


def help_here(app: CockpitApp) -> None:
    """Help for what has the focus, then for everything."""
    from expb_tui.tui.screens.help import HelpScreen

    if not isinstance(app.screen, HelpScreen):
        scopes = [scope for node in app.chain() if isinstance(node, Acts) for scope in node.SCOPES]
        app.push_screen(HelpScreen(scopes, app.keymap, app.look.glyphs))


def themes(app: CockpitApp) -> None:
    """Every theme with a live preview; broken ones are told."""
    from expb_tui.tui.screens.palette import ThemeScreen

    palettes, problems = theme.find_all()
    for problem in problems:
        app.complain(problem)

    def kept(name: str | None) -> None:
        if name is not None:
            app.say(f'Theme {name}; to keep it, write theme = "{name}" into config.toml', Tone.INFO)

    app.push_screen(ThemeScreen(palettes, app.palette.name, app.use_theme), kept)
