"""Signing in by device authorisation: address, code in large type and QR code, and what the service says meanwhile.

The address comes first and as a link, because over SSH the browser is on another machine (RFC 8628). Nothing here opens
a browser by itself. Esc cancels at any time; a token that arrives after that is revoked by ``DeviceLogin``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.geometry import Size

from expb_tui.core.errors import ExpbError
from expb_tui.core.profiles.browser import open_browser
from expb_tui.core.profiles.login import DeviceCode, DeviceLogin, PollState, browser_refusal
from expb_tui.core.text import clean, speaks_ascii_only
from expb_tui.present.cells import Cell, Tone
from expb_tui.present.large_type import large_width
from expb_tui.present.times import countdown
from expb_tui.tui import clipboard
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.base import FrameScreen
from expb_tui.tui.screens.host import outlive
from expb_tui.tui.screens.signed_in import SignedIn
from expb_tui.tui.widgets.big_text import BigText
from expb_tui.tui.widgets.controls import LineButton, LineInput
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.qr import QrCode
from expb_tui.tui.widgets.words import Words, error_lines, line

if TYPE_CHECKING:
    from expb_tui.core.profiles.document import Profile
    from expb_tui.launch import House

_LEFT = 76
"""Cells of the column with address and code: the code in large type and a margin."""

_LOW = 30
"""Lines below which a long address leaves no room for free lines."""

_SIGNS: dict[str, tuple[str, Tone]] = {
    "pending": ("idle", Tone.INFO),
    "slow_down": ("warn", Tone.WARN),
    "unreachable": ("warn", Tone.WARN),
    "denied": ("bad", Tone.BAD),
    "expired": ("bad", Tone.BAD),
    "approved": ("ok", Tone.OK),
}


class LoginScreen(FrameScreen[str | None]):
    """Dismisses with the name of the profile that was saved, or None.

    With ``profile`` of an existing profile it signs in there at once; otherwise it asks for address and name first.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("login", "dialog")
    BINDINGS = bindings("login", "dialog")
    DEFAULT_CSS = """
    LoginScreen {
        #login-page { width: 1fr; height: 1fr; align: center middle; }
        .login--left { width: 76; max-width: 100%; height: auto; padding: 0 2; }
        .login--left > * { margin: 0 0 1 0; }
        .login--right { height: 1fr; display: none; }
        .login--pair { width: 1fr; height: 1fr; align: center middle; }
        .login--pair > .login--left { height: 1fr; align: left middle; }
        .login--form LineInput { width: 1fr; }
        .login--buttons { height: 1; width: 1fr; }
    }
    LoginScreen.-tight .login--left > * { margin: 0; }
    LoginScreen.-wide .login--right { display: block; }
    LoginScreen.-qr .login--right { display: block; }
    LoginScreen.-qr .login--left { display: none; }
    """

    def __init__(self, house: House, *, profile: str | None = None, endpoint: str | None = None) -> None:
        super().__init__()
        self._house = house
        self._wanted = profile
        self._given_endpoint = endpoint
        self._login: DeviceLogin | None = None
        self._code: DeviceCode | None = None
        self._state: PollState | None = None
        self._saved: Profile | None = None
        self._step = "ask"
        self._gone = False
        """The screen is closed; a poll under way still ends in order: a token that comes too late is revoked."""

    def compose_body(self) -> ComposeResult:
        yield Vertical(id="login-page")

    async def on_mount(self) -> None:
        self.set_interval(1.0, self._tick)
        known = self._house.store.read().by_name.get(self._wanted or "")
        if known is not None and self._given_endpoint in (None, known.endpoint):
            self._begin(known.name, None)
        else:
            await self._ask()

    def on_unmount(self) -> None:
        self._gone = True
        if self._login is not None:
            self._login.cancel()

    # What is possible now

    def can(self, action_id: str) -> bool:
        if action_id in ("login.copy", "login.code"):
            return self._step == "waiting"
        if action_id == "login.swap":
            return self._step == "waiting" and not self.has_class("-wide")
        if action_id == "login.open":
            return self._step == "waiting" and not browser_refusal()
        if action_id == "login.again":
            return self._step == "ended"
        return action_id == "dialog.close"

    def act_dialog_close(self) -> None:
        if self._step == "waiting":
            self.cockpit.say("Sign-in cancelled; nothing was saved", Tone.WARN)
        self.dismiss(self._saved.name if self._saved else None)

    # The steps

    async def _page(self, step: str, *children: Vertical | Horizontal | VerticalScroll) -> None:
        if self._gone:
            return
        self._step = ""  # timers and resizes find nothing to do meanwhile
        page = self.query_one("#login-page", Vertical)
        await page.remove_children()
        await page.mount_all(children)
        self._step = step
        self.set_class(False, "-qr")
        self._arrange(self.size)
        self.cockpit.draw_frame()

    async def _ask(self, problem: ExpbError | None = None) -> None:
        """Which service, and under which name; what is typed is kept when it was wrong."""
        try:
            guess = self._device_login(self._wanted, self._given_endpoint or self._house.chosen.endpoint)
        except ExpbError as error:
            await self._ended(*error.lines())
            return
        endpoint = LineInput(self._given_endpoint or guess.endpoint, widget_id="login-endpoint")
        name = LineInput(self._wanted or guess.profile_name, widget_id="login-profile")
        await guess.aclose()
        await self._page(
            "ask",
            Vertical(
                Words(line("Sign in by device authorisation", Tone.ACCENT)),
                Words(
                    line(
                        "You approve the request in a browser, on this machine or any other. No password is typed here."
                    )
                ),
                Words(line("Address of the service")),
                endpoint,
                Words(
                    line("Name of the profile on this host"),
                    line("Saved with the address; commands use it with --profile.", Tone.DIM),
                ),
                name,
                Words(*(error_lines(problem, self.cockpit.look.glyphs) if problem else ())),
                Horizontal(LineButton("Continue", widget_id="login-continue"), classes="login--buttons"),
                classes="login--left login--form",
            ),
        )
        endpoint.focus() if problem is not None else name.focus()

    @on(LineInput.Submitted)
    @on(LineButton.Pressed, "#login-continue")
    def _continue(self) -> None:
        name = self.query_one("#login-profile", LineInput).value.strip()
        endpoint = self.query_one("#login-endpoint", LineInput).value.strip()
        if not name:
            self.query_one("#login-profile", LineInput).focus()
            return
        self._wanted, self._given_endpoint = name, endpoint or None
        self._begin(name, endpoint or None)

    def _device_login(self, profile: str | None, endpoint: str | None) -> DeviceLogin:
        """Raises ``UsageError`` where a profile of that name cannot be signed in: an agent's has no sign-in."""
        house = self._house
        return DeviceLogin(house.store, profile=profile, endpoint=endpoint, settings=house.settings, clock=house.clock)

    def _begin(self, profile: str, endpoint: str | None) -> None:
        outlive(self._guarded(profile, endpoint))

    async def _guarded(self, profile: str, endpoint: str | None) -> None:
        try:
            await self._sign_in(profile, endpoint)
        except Exception as error:
            self.cockpit.crashed(error, "login")

    async def _sign_in(self, profile: str, endpoint: str | None) -> None:
        try:
            login = self._login = self._device_login(profile, endpoint)
        except ExpbError as error:
            await self._failed(profile, error)
            return
        await self._page(
            "starting",
            Vertical(Words(line(f"Asking {clean(login.endpoint)} for a code"), centred=True), classes="login--left"),
        )
        try:
            self._code = await login.start()
            await self._wait_page(login, self._code)
            async for state in login.poll():
                self._state = state
                self._tick()
                if state.kind == "approved":
                    self._saved = await login.save()
                    await self._house.forget_session(self._saved.name)
                    await self._page("done", SignedIn(self._house, self._saved))
                elif state.kind in ("denied", "expired"):
                    await self._ended(state.text, _NEXT[state.kind])
        except ExpbError as error:
            await self._failed(profile, error)
        finally:
            await login.aclose()

    async def _failed(self, profile: str, error: ExpbError) -> None:
        """Back to the questions where they may be answered otherwise, else an end with its next step."""
        if self._gone:
            return
        if self._step != "waiting" and profile not in self._house.store.read().by_name:
            await self._ask(error)
        else:
            await self._ended(*error.lines())

    async def _wait_page(self, login: DeviceLogin, code: DeviceCode) -> None:
        blocks = not self.cockpit.ascii_only
        address: list[Line] = [
            line("Open this address in any browser and approve the request:"),
            (Cell(code.complete_uri, Tone.LINK),),
        ]
        typed: list[Line] = []
        if code.complete_uri != code.uri:
            typed = [
                line("or point a phone at the QR code, or type the code at", Tone.DIM),
                (Cell(code.uri, Tone.LINK),),
            ]
        hint = self._house.demo_hint
        left = [
            Words(
                (
                    Cell("Sign in as ", Tone.DIM),
                    Cell(clean(login.profile_name), Tone.ACCENT),
                    Cell(f" at {clean(login.endpoint)}", Tone.DIM),
                )
            ),
            Words(*address, *typed),
            BigText(code.user_code, blocks=blocks, widget_id="login-big"),
            Words((Cell("Code  ", Tone.DIM), Cell(code.user_code, Tone.ACCENT)), widget_id="login-code"),
            Words(widget_id="login-state"),
        ]
        if hint is not None and hint.address.rstrip("/") == login.endpoint.rstrip("/"):
            left.append(
                Words(
                    line("Demo: sign in on that page with", Tone.DIM),
                    (Cell("  e-mail    ", Tone.DIM), Cell(hint.email, Tone.TEXT)),
                    (Cell("  password  ", Tone.DIM), Cell(hint.password, Tone.TEXT)),
                )
            )
        await self._page(
            "waiting",
            Horizontal(
                Vertical(*left, classes="login--left"),
                Vertical(
                    QrCode(code.complete_uri, halves=not speaks_ascii_only(os.environ), widget_id="login-qr"),
                    classes="login--right",
                ),
                classes="login--pair",
            ),
        )
        self._tick()

    async def _ended(self, what: str, next_step: str = "") -> None:
        glyphs = self.cockpit.look.glyphs
        lines = [line(f"{glyphs.bad} {clean(what)}", Tone.BAD)]
        if next_step:
            lines.append(line(clean(next_step)))
        again = LineButton("Start again", widget_id="login-restart")
        await self._page(
            "ended",
            Vertical(
                Words(*lines),
                Words(line("Nothing was saved and nothing has changed on this host.", Tone.DIM)),
                Horizontal(again, LineButton("Close", widget_id="login-close"), classes="login--buttons"),
                classes="login--left",
            ),
        )
        again.focus()

    # Keys and buttons

    @on(LineButton.Pressed, "#login-restart")
    def act_login_again(self) -> None:
        self._begin(self._wanted or (self._login.profile_name if self._login else "default"), self._given_endpoint)

    @on(LineButton.Pressed, "#login-done")
    @on(LineButton.Pressed, "#login-close")
    def _close(self) -> None:
        self.act_dialog_close()

    @on(LineButton.Pressed, "#login-use")
    def _use(self) -> None:
        assert self._saved is not None
        try:
            self._house.store.use(self._saved.name)
        except ExpbError as error:
            self.cockpit.complain(error)
            return
        self.cockpit.say(f"{self._saved.name} is the profile in use")
        self.dismiss(self._saved.name)

    @on(LineButton.Pressed, "#login-agent")
    def _register(self) -> None:
        from expb_tui.tui.screens.agent import AgentScreen

        assert self._saved is not None
        self.app.push_screen(AgentScreen(self._house, profile=self._saved.name))

    async def act_login_copy(self) -> None:
        if self._code is not None:
            self.cockpit.say(f"{await clipboard.copy(self.app, self._code.complete_uri)}: the address")

    async def act_login_code(self) -> None:
        if self._code is not None:
            self.cockpit.say(f"{await clipboard.copy(self.app, self._code.user_code)}: the code")

    def act_login_swap(self) -> None:
        self.toggle_class("-qr")
        self.cockpit.draw_frame()

    async def act_login_open(self) -> None:
        if self._code is not None:
            self.cockpit.say(await open_browser(self._code.complete_uri))

    # Drawing

    def on_resize(self) -> None:
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        """Code and QR code side by side where both fit whole, otherwise one of them at a time."""
        wide = False
        if self._step == "waiting" and self._code is not None:
            code = self.query_one("#login-qr", QrCode)
            need = code.least
            left = max(_LEFT, large_width(self._code.user_code) + 4)
            wide = size.width >= left + need.width + 2 and size.height - _CHROME >= need.height
            self.query_one(".login--right").styles.width = code.full.width if wide else "1fr"
            # An address of several lines and the free lines between the parts do not both fit into a low window.
            self.set_class(size.height < _LOW and len(self._code.complete_uri) > _LEFT - 4, "-tight")
        self.set_class(wide, "-wide")
        if wide:
            self.remove_class("-qr")
        self.cockpit.draw_frame()

    def _tick(self) -> None:
        if self._step != "waiting" or self._code is None:
            return
        left = self._code.expires_ticks - self._house.clock.ticks()
        state = self._state
        sign, tone = _SIGNS[state.kind if state else "pending"]
        glyph: str = getattr(self.cockpit.look.glyphs, sign)
        words = clean(state.text) if state else "Waiting for the approval"
        self.query_one("#login-state", Words).set_lines(
            (Cell(f"{glyph} {words}", tone),),
            (Cell(f"  The code is good for {countdown(left).text}", Tone.DIM),),
        )


_CHROME = 3
"""Lines around the body: header, status and keys."""

_NEXT = {
    "denied": "Somebody refused it on the approval page. Start again if that was a mistake.",
    "expired": "Nobody approved it in time. Start again for a new code.",
}
