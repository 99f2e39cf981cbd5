"""What a sign-in brought, for the end of the login screen: who, where, and where the credential is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from expb_tui.core.errors import ExpbError
from expb_tui.core.profiles import secrets
from expb_tui.present.cells import Tone, cell
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.controls import LineButton
from expb_tui.tui.widgets.words import Words, facts_lines, line

if TYPE_CHECKING:
    from expb_tui.core.profiles.document import Profile
    from expb_tui.launch import House


class SignedIn(Vertical):
    """Shows the profile at once and asks the service who it speaks for meanwhile."""

    def __init__(self, house: House, profile: Profile) -> None:
        super().__init__(classes="login--left")
        self._house = house
        self._profile = profile
        self._facts = Words()
        self._user = ""
        self._account = profile.account_id or ""
        self._place = ""

    def compose(self) -> ComposeResult:
        yield Words(line(f"{host(self).look.glyphs.ok} Signed in", Tone.OK))
        yield self._facts
        yield Words(
            line("An agent identity asks for work with a token of its own. You can register one now.", Tone.DIM)
        )
        with Horizontal(classes="login--buttons"):
            yield LineButton("Done", widget_id="login-done")
            if self._house.store.read().default != self._profile.name:
                yield LineButton("Use this profile", widget_id="login-use")
            yield LineButton("Register an agent identity", widget_id="login-agent")

    def on_mount(self) -> None:
        self._show()
        self.query_one("#login-done", LineButton).focus()
        start(self, self._ask, "who", exclusive=False)
        start(self, self._find, "where", exclusive=False)

    def _show(self) -> None:
        facts = [
            ("profile", self._profile.name),
            ("user", self._user),
            ("account", self._account),
            ("service", self._profile.endpoint),
            ("secret", self._place),
        ]
        self._facts.set_lines(*facts_lines([(label, cell(value)) for label, value in facts if value]))

    async def _ask(self) -> None:
        try:
            who = await (await self._house.session(self._profile.name)).principal()
        except ExpbError as error:
            host(self).complain(error)
            return
        self._user = who.user_id or ""
        self._account = f"{who.account_id or '-'} ({who.account_role or 'member'})"
        self._show()

    async def _find(self) -> None:
        self._place = await asyncio.to_thread(secrets.whereabouts, self._profile)
        self._show()
