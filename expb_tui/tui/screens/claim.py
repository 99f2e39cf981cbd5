"""Claiming work by hand: what may be asked for, one confirmation, and every way in which the answer can turn out."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean, coarse
from expb_tui.present import leases, opportunities
from expb_tui.present.cells import Cell, Table, Tone, cell
from expb_tui.present.times import moment
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.controls import LineInput
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.words import Words, error_lines, facts_lines, line

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.keeper.outlook import Outlook
    from expb_tui.core.leases.model import ClaimOutcome
    from expb_tui.core.leases.unsaved import ClaimNotSaved
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House

_MOST_ROWS = 9


class ClaimScreen(Dialog["ClaimOutcome | None"]):
    """Dismisses with the outcome of the last claim, or None. ``project_id`` and ``role`` are only chosen beforehand."""

    SCOPES: ClassVar[tuple[str, ...]] = ("claim", "dialog")
    BINDINGS = bindings("claim", "dialog")
    DEFAULT_CSS = """
    ClaimScreen Words { margin: 0 0 1 0; }
    ClaimScreen LineTable { margin: 0 0 1 0; }
    ClaimScreen LineInput { width: 8; }
    ClaimScreen .claim--row { height: 1; margin: 0 0 1 0; }
    ClaimScreen .claim--row Words { width: auto; padding: 0 2 0 0; margin: 0; }
    ClaimScreen .claim--row #claim-hint { width: 1fr; padding: 0 0 0 2; }
    """

    def __init__(
        self,
        house: House,
        *,
        profile: str | None,
        project_id: str | None = None,
        role: str | None = None,
    ) -> None:
        super().__init__(f"Claim work as {clean(profile)}" if profile else "Claim work", width=96)
        self._house = house
        self._profile = profile
        self._project_id = project_id
        self._role = role
        self._items: dict[str, Offer] = {}
        self._outcome: ClaimOutcome | None = None
        self._step = "form"
        self._typed = "1"
        self._outlook: Outlook | None = None

    def compose_body(self) -> ComposeResult:
        yield from self._form()

    def _form(self) -> list[Widget]:
        table = LineTable(Table(opportunities.COLUMNS, ()), title="What may be requested", id="claim-table")
        table.styles.height = 5
        return [
            Words(line("Asking what this profile may request", Tone.INFO), widget_id="claim-words"),
            table,
            Horizontal(
                Words(line("Tasks, at most")),
                LineInput(self._typed, widget_id="claim-tasks"),
                Words(line("The role decides how many one package may hold.", Tone.DIM), widget_id="claim-hint"),
                classes="claim--row",
            ),
            self._outlook_words(),
        ]

    def _outlook_words(self) -> Words:
        words = Words(widget_id="claim-outlook")
        words.display = False
        return words

    def on_mount(self) -> None:
        self.query_one(LineTable).focus()
        start(self, self._read, "claim")

    def can(self, action_id: str) -> bool:
        if action_id == "claim.ask":
            return self._step == "form" and bool(self._items)
        if action_id == "claim.secret":
            return self._step == "form" and self._outlook is not None and bool(self._outlook.to_file)
        if action_id == "claim.open":
            return self._step == "assigned"
        if action_id == "claim.again":
            return self._step == "end"
        return action_id != "dialog.accept"

    def act_dialog_close(self) -> None:
        if self._step == "asking":
            host(self).say("The request goes on; a package that it brings appears among the leases", Tone.WARN)
        self.dismiss(self._outcome)

    async def _show(self, step: str, *widgets: Widget) -> None:
        self._step = ""
        body = self.query_one("#dialog-body")
        await body.remove_children()
        await body.mount_all(widgets)
        self._step = step
        self.show_keys()

    # What may be asked for

    async def _read(self) -> None:
        """Every granted role of every project, with or without work; the service's own listing where it gives one."""
        from expb_tui.core.api.offers import Offer
        from expb_tui.core.api.work import WorkApi

        words = self.query_one("#claim-words", Words)
        glyphs = host(self).look.glyphs
        settings = self._house.settings
        problem: ExpbError | None = None
        items: list[Offer] = []
        try:
            session = await self._house.session(self._profile)
            api = WorkApi(lease_header=settings.lease_header, routes=settings.routes)
            try:
                items = list((await api.opportunities(session, every=True, follow=True)).items)
            except ExpbError as error:
                problem = error
            who = await session.principal()
        except ExpbError as error:
            words.set_lines(*error_lines(error, glyphs))
            return
        if who.type != "agent":
            words.set_lines(
                line(f"{glyphs.warn} Only an agent identity can claim work.", Tone.WARN),
                line("Choose an agent's profile, or register an agent identity."),
            )
            return
        names = {item.project_id: item.project_name for item in items}
        listed = {(item.project_id, item.role) for item in items}
        for project_id, roles in sorted((who.role_grants or {}).items()):
            items += [
                Offer(project_id=project_id, project_name=names.get(project_id, ""), role=role)
                for role in roles
                if (project_id, role) not in listed
            ]
        self._items = {opportunities.key(item): item for item in items}
        if problem is not None:
            words.set_lines(*error_lines(problem, glyphs), line("The roles below may be requested all the same."))
        elif items:
            words.set_lines(line("A claim may come back empty: work on offer is not reserved.", Tone.DIM))
        else:
            words.set_lines(
                line(f"{glyphs.warn} This agent has no role in any project.", Tone.WARN),
                line("A project's administrator gives it roles under Authorized agents."),
            )
        table = self.query_one("#claim-table", LineTable)
        table.styles.height = 3 + max(1, min(len(items), _MOST_ROWS))
        table.set_table(opportunities.table(items, glyphs=glyphs))
        self._select(table)
        self.show_keys()
        await self._look_ahead()

    async def _look_ahead(self) -> None:
        """Say before the claim what will not be renewed once nobody is logged in, and what mends it (hazards 7)."""
        self._outlook = await self._house.keeping_outlook(self._profile)
        if self._step != "form":
            return
        glyphs, outlook = host(self).look.glyphs, self._outlook
        said = [line(clean(text)) for text in outlook.lines()]
        if said:
            said[0] = (Cell(f"{glyphs.warn} ", Tone.WARN), *line(clean(outlook.lines()[0]), Tone.WARN))
        if outlook.to_file:
            key = host(self).keymap.shown("claim.secret")
            said[1:] = [
                (Cell(f"  {key}", Tone.ACCENT), Cell(" moves it to the 0600 file, where the keeper can read it"))
            ]
        words = self.query_one("#claim-outlook", Words)
        words.set_lines(*said)
        words.display = bool(said)
        self.show_keys()

    def act_claim_secret(self) -> None:
        from expb_tui.tui.screens.confirm import ConfirmScreen

        if self._outlook is None or not (name := self._outlook.to_file):
            return
        lines = [
            line(f"The credential of {clean(name)} is moved from the keyring to the profile file, mode 0600."),
            line("Whoever can read your files can then read it; expbctl finds it there too.", Tone.DIM),
        ]
        screen = ConfirmScreen("Move the credential to the 0600 file?", lines, verb="Move")
        self.app.push_screen(
            screen, lambda yes: start(self, partial(self._move_secret, name), "secret") if yes else None
        )

    async def _move_secret(self, name: str) -> None:
        from expb_tui.core.profiles import secrets

        await asyncio.to_thread(secrets.unsecure, self._house.store, name)
        await self._house.forget_session(name)
        host(self).say(f"The credential of {clean(name)} is in the 0600 file now")
        await self._look_ahead()

    def _select(self, table: LineTable) -> None:
        """The row that was asked for, else the first with work."""
        wanted = [
            key
            for key, item in self._items.items()
            if self._project_id in (None, item.project_id) and self._role in (None, item.role)
        ]
        if self._project_id is None and self._role is None:
            wanted = [key for key, item in self._items.items() if item.available] or wanted
        if wanted:
            table.select(wanted[0])

    # Asking

    @on(LineInput.Submitted)
    def act_claim_ask(self) -> None:
        key = self.query_one("#claim-table", LineTable).current_key
        self._typed = self.query_one("#claim-tasks", LineInput).value.strip()
        if key is None or self._step != "form":
            return
        if not (self._typed.isascii() and self._typed.isdecimal() and 1 <= int(self._typed) <= 10_000):
            self.query_one("#claim-hint", Words).set_lines(line("A whole number of at least 1", Tone.BAD))
            self.query_one("#claim-tasks", LineInput).focus()
            return
        item = self._items[key]
        self._project_id, self._role = item.project_id, item.role
        start(self, partial(self._ask, item, int(self._typed)), "claim")

    async def _ask(self, item: Offer, tasks: int) -> None:
        name = clean(item.project_name or item.project_id)
        await self._show("asking", Words(line(f"Requesting {clean(item.role)} work in {name}", Tone.INFO)))
        from expb_tui.core.leases.unsaved import ClaimNotSaved

        try:
            session = await self._house.session(self._profile)
            outcome = await self._house.desk.request(
                session, item.project_id, item.role, tasks, project_name=item.project_name, keep_unsaved=True
            )
        except ClaimNotSaved as error:
            await self._not_saved(session, error)
            return
        except ExpbError as error:
            await self._show("end", Words(*error_lines(error, host(self).look.glyphs)))
            return
        self._outcome = outcome
        await host(self).bridge.claimed(outcome.held, session)
        if outcome.kind == "assigned":
            await self._assigned(outcome)
        elif outcome.kind == "token-lost":
            await self._show("end", Words(*self._token_lost(outcome)))
        else:
            await self._nothing(item, outcome)

    async def _not_saved(self, session: Session, error: ClaimNotSaved) -> None:
        """The token is held out to a person; what is saved after all is claimed like any other."""
        from expb_tui.core.leases.model import ClaimOutcome
        from expb_tui.tui.screens.unsaved import UnsavedScreen

        held = None
        if error.unsaved is not None:
            screen = UnsavedScreen(self._house, session, error, error.unsaved)
            held = await self.app.push_screen_wait(screen)
            if screen.given_back:
                await self._show("end", Words(line("The package was given back: this host could not save its token.")))
                return
        if held is None:
            await self._show("end", Words(*error_lines(error, host(self).look.glyphs)))
            return
        self._outcome = ClaimOutcome("assigned", held)
        await host(self).bridge.claimed(held, session)
        await self._assigned(self._outcome)

    async def _assigned(self, outcome: ClaimOutcome) -> None:
        held = outcome.held
        assert held is not None
        clock = self._house.clock
        glyphs = host(self).look.glyphs
        ends = held.times.expires_at if held.times else None
        latest = held.times.absolute_expires_at if held.times else None
        await self._show(
            "assigned",
            Words(line(f"{glyphs.ok} Assigned: {len(held.tasks)} task{'s' if len(held.tasks) != 1 else ''}", Tone.OK)),
            Words(
                *facts_lines(
                    [
                        ("role", cell(held.role)),
                        ("project", cell(held.project_name or held.project_id)),
                        ("left", Cell(leases.left(held, clock).text, leases.urgency(held, clock))),
                        ("lease ends", cell(moment(ends, clock.now()))),
                        ("absolute end", cell(moment(latest, clock.now()))),
                        ("package", cell(held.uid, Tone.DIM)),
                    ]
                )
            ),
            Words(line("Package and lease token are in the journal of this host.", Tone.DIM)),
        )

    async def _nothing(self, item: Offer, outcome: ClaimOutcome) -> None:
        """No work is a normal answer; why there is none is worth knowing."""
        glyphs = host(self).look.glyphs
        words = [line(f"{glyphs.idle} No work just now. That is a normal answer.", Tone.INFO)]
        if outcome.why:
            words.append(line(f"  {clean(outcome.why)}"))
        if outcome.retry_after:
            words.append(line(f"  The service asks to wait {coarse(outcome.retry_after)}."))
        table = LineTable(Table(opportunities.CAUSE_COLUMNS, ()), framed=False, id="claim-causes")
        table.styles.height = 7
        await self._show("end", Words(*words), table)
        try:
            from expb_tui.core.opportunities import explain

            session = await self._house.session(self._profile)
            causes = await explain(session, item.project_id, item.role, watcher=await self._house.watcher(session))
        except ExpbError as error:
            await table.remove()
            await self.query_one("#dialog-body").mount(Words(*error_lines(error, glyphs)))
            return
        table.set_table(opportunities.causes_table(causes, glyphs=glyphs))
        blocking = [
            line(f"{clean(cause.title)}: {clean(cause.detail)} {clean(cause.next_step)}".strip())
            for cause in causes
            if cause.answer.value == "blocking"
        ]
        if blocking:
            await self.query_one("#dialog-body").mount(Words(*blocking))

    def _token_lost(self, outcome: ClaimOutcome) -> list[tuple[Cell, ...]]:
        glyphs = host(self).look.glyphs
        held = outcome.held
        until = moment(held.times.expires_at, self._house.clock.now()) if held and held.times else "its end"
        return [
            line(f"{glyphs.lost} Work was assigned, but the answer with its lease token was lost.", Tone.BAD),
            line(f"  The package is listed as token lost until {until}; nobody can work on it meanwhile."),
            line("  A member of the project can withdraw it sooner."),
        ]

    async def act_claim_again(self) -> None:
        await self._show("form", *self._form())
        self.query_one(LineTable).focus()
        start(self, self._read, "claim")

    def act_claim_open(self) -> None:
        from expb_tui.tui.screens.package import PackageScreen

        held = self._outcome.held if self._outcome else None
        app = self.app
        self.dismiss(self._outcome)
        if held is not None:
            app.push_screen(PackageScreen(self._house, package_uid=held.uid))
