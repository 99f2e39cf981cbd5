"""An agent identity as a profile: register a new one, or save a token that one already has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from expb_tui.core.errors import ExpbError
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.login import register_agent, save_agent_token
from expb_tui.core.secret import SecretStr
from expb_tui.core.text import clean
from expb_tui.present.cells import Tone, cell
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.controls import LineButton, LineInput
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.words import Words, error_lines, facts_lines, line

if TYPE_CHECKING:
    from expb_tui.core.profiles.document import Profile
    from expb_tui.launch import House

Mode = Literal["register", "token"]


class AgentScreen(Dialog[str | None]):
    """Dismisses with the name of the agent profile that was saved, or None.

    ``register`` needs ``profile``, the name of a user's profile whose account gets the identity; ``token`` checks
    the token with the service before anything is saved.
    """

    DEFAULT_CSS = """
    AgentScreen Words { margin: 0 0 1 0; }
    AgentScreen LineInput { margin: 0 0 1 0; }
    AgentScreen .agent--label { margin: 0; }
    AgentScreen Horizontal { height: 1; }
    """

    def __init__(
        self, house: House, *, profile: str | None = None, mode: Mode = "register", endpoint: str | None = None
    ) -> None:
        super().__init__("Register an agent identity" if mode == "register" else "Save an agent token")
        self._house = house
        self._profile = profile
        self._mode = mode
        self._endpoint = endpoint
        self._saved: Profile | None = None

    def compose_body(self) -> ComposeResult:
        if self._mode == "register":
            yield Words(
                line("An identity and a token for it are made in this account; the token is saved as its own profile."),
                line("Making it gives no access: a project's administrator then authorises it for roles.", Tone.DIM),
            )
            yield _label(line("Name of the agent identity"))
            yield LineInput(widget_id="agent-name")
            yield _label(line("Name of the profile on this host"), line("Left empty it is the agent's name.", Tone.DIM))
            yield LineInput(widget_id="agent-profile")
            yield _label(line("Description, if you like"))
            yield LineInput(widget_id="agent-description")
        else:
            yield Words(
                line("For a token that was shown once when it was made. It is checked with the service and then saved.")
            )
            yield _label(line("Name of the profile on this host"))
            yield LineInput(self._profile or "", widget_id="agent-profile")
            yield _label(line("Address of the service"))
            yield LineInput(self._endpoint or self._default_endpoint(), widget_id="agent-endpoint")
            yield _label(line("Token"), line("Typed or pasted; it is not shown.", Tone.DIM))
            yield LineInput(password=True, widget_id="agent-token")
        yield Words(widget_id="agent-words")
        with Horizontal(id="agent-buttons"):
            yield LineButton("Register" if self._mode == "register" else "Check and save", widget_id="agent-go")

    def _default_endpoint(self) -> str:
        from expb_tui.core.profiles.login import DeviceLogin

        return DeviceLogin(self._house.store, settings=self._house.settings, clock=self._house.clock).endpoint

    def on_mount(self) -> None:
        self.query_one("#agent-name" if self._mode == "register" else "#agent-profile", LineInput).focus()

    def can(self, action_id: str) -> bool:
        return action_id != "dialog.accept"

    def act_dialog_close(self) -> None:
        self.dismiss(self._saved.name if self._saved else None)

    def _typed(self, widget_id: str) -> str:
        return self.query_one(widget_id, LineInput).value.strip()

    @on(LineInput.Submitted)
    def _next(self, event: LineInput.Submitted) -> None:
        inputs = list(self.query(LineInput))
        index = inputs.index(event.input)  # type: ignore[arg-type]  # one of these inputs sent it
        if index + 1 < len(inputs):
            inputs[index + 1].focus()
        else:
            self._go()

    @on(LineButton.Pressed, "#agent-go")
    def _go(self) -> None:
        needed = "#agent-name" if self._mode == "register" else "#agent-token"
        if not self._typed(needed):
            self._say(line("This is needed.", Tone.WARN))
            self.query_one(needed, LineInput).focus()
            return
        start(self, self._act, "agent")

    def _say(self, *lines: Line) -> None:
        self.query_one("#agent-words", Words).set_lines(*lines)

    async def _act(self) -> None:
        self._say(line("Waiting for the service", Tone.INFO))
        store = self._house.store
        try:
            if self._mode == "register":
                name = self._typed("#agent-name")
                session = await self._house.session(self._profile)
                profile = await register_agent(
                    session,
                    store,
                    name,
                    self._typed("#agent-profile") or name,
                    description=self._typed("#agent-description"),
                )
            else:
                profile = await save_agent_token(
                    store,
                    self._typed("#agent-profile") or None,
                    SecretStr(self._typed("#agent-token")),
                    self._typed("#agent-endpoint") or None,
                    settings=self._house.settings,
                )
        except ExpbError as error:
            self._say(*error_lines(error, host(self).look.glyphs))
            self.query_one("#agent-name" if self._mode == "register" else "#agent-token", LineInput).focus()
            return
        self._saved = profile
        await self._house.forget_session(profile.name)
        await self._done(profile)

    async def _done(self, profile: Profile) -> None:
        place = await asyncio.to_thread(secrets.whereabouts, profile)
        glyphs = host(self).look.glyphs
        body = self.query_one("#dialog-body")
        await body.remove_children()
        done = LineButton("Done", widget_id="agent-done")
        await body.mount(
            Words(line(f"{glyphs.ok} Saved as profile {clean(profile.name)}", Tone.OK)),
            Words(
                *facts_lines(
                    [("agent", cell(profile.agent_id)), ("service", cell(profile.endpoint)), ("secret", cell(place))]
                )
            ),
            Words(
                line("Next: a project's administrator opens the project, Authorized agents, Authorize agent,"),
                line("and gives it the roles that it needs. Until then it sees no work, which is normal."),
            ),
            Horizontal(done, LineButton("Use this profile", widget_id="agent-use")),
        )
        done.focus()

    @on(LineButton.Pressed, "#agent-done")
    def _close(self) -> None:
        self.act_dialog_close()

    @on(LineButton.Pressed, "#agent-use")
    def _use(self) -> None:
        assert self._saved is not None
        try:
            self._house.store.use(self._saved.name)
        except ExpbError as error:
            self._say(*error_lines(error, host(self).look.glyphs))
            return
        self.dismiss(self._saved.name)


def _label(*lines: Line) -> Words:
    words = Words(*lines)
    words.add_class("agent--label")
    return words
