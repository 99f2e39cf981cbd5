"""Choosing the project that a profile works in: everything that its credential sees, with a live filter."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Column, Row, Table, Tone, cell
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.words import Words, error_lines, line

if TYPE_CHECKING:
    from expb_tui.launch import House
    from expb_tui.wire.identity import Project

_COLUMNS = (Column("PROJECT", 24), Column("PHASE", 12), Column("ID", 36), Column("DESCRIPTION", 40))


class ProjectScreen(Dialog[str | None]):
    """Dismisses with the id of the project that was set, or None."""

    BINDINGS = bindings("dialog")
    DEFAULT_CSS = """
    ProjectScreen Words { margin: 0 0 1 0; }
    ProjectScreen LineTable { height: 12; max-height: 1fr; }
    """

    def __init__(self, house: House, *, profile: str) -> None:
        super().__init__(f"Project of {profile}", width=100)
        self._house = house
        self._profile = profile
        self._projects: dict[str, Project] = {}
        self._choosing = False

    def compose_body(self) -> ComposeResult:
        yield Words(line("Asking the service for its projects", Tone.INFO), widget_id="project-words")
        yield LineTable(Table(_COLUMNS, ()), title="Projects", id="project-table")

    def on_mount(self) -> None:
        self.query_one(LineTable).focus()
        start(self, self._read, "projects")

    def can(self, action_id: str) -> bool:
        return action_id != "dialog.accept" or bool(self._projects)

    async def _read(self) -> None:
        from expb_tui.core.api import identity

        words = self.query_one("#project-words", Words)
        try:
            session = await self._house.session(self._profile)
            found = await identity.projects(session)
        except ExpbError as error:
            words.set_lines(*error_lines(error, host(self).look.glyphs))
            return
        self._projects = {project.uid: project for project in found if project.uid}
        current = self._house.store.select(self._profile).project_id
        rows = tuple(
            Row(
                uid,
                (
                    cell(project.metadata.name or uid, Tone.ACCENT if uid == current else Tone.TEXT),
                    cell(project.status.phase, Tone.OK if project.status.phase == "active" else Tone.DIM),
                    cell(uid, Tone.DIM),
                    cell(project.spec.description, Tone.DIM),
                ),
            )
            for uid, project in sorted(
                self._projects.items(), key=lambda item: (item[1].metadata.name or item[0]).casefold()
            )
        )
        if rows:
            words.set_lines(line("The project that commands and panes use for this profile.", Tone.DIM))
        else:
            words.set_lines(
                line("This profile sees no project."),
                line("A project's administrator adds a user as a member, or authorises an agent for roles.", Tone.DIM),
            )
        table = self.query_one(LineTable)
        table.set_table(Table(_COLUMNS, rows))
        if current:
            table.select(current)
        self.show_keys()

    def act_dialog_accept(self) -> None:
        key = self.query_one(LineTable).current_key
        if key is None or self._choosing:
            return
        self._choosing = True
        start(self, partial(self._choose, self._projects[key]), "choose", exclusive=False)

    async def _choose(self, project: Project) -> None:
        name = project.metadata.name or project.uid
        try:
            await asyncio.to_thread(self._house.store.set_project, self._profile, project.uid, name)
        except ExpbError as error:
            self._choosing = False
            self.query_one("#project-words", Words).set_lines(*error_lines(error, host(self).look.glyphs))
            return
        await self._house.forget_session(self._profile)
        host(self).say(f"{self._profile} works in {clean(name)}")
        self.dismiss(project.uid)
