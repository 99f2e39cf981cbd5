"""Work on offer for the acting agent, how old that knowledge is, and why there is none where there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.text import clean
from expb_tui.present import opportunities as rows
from expb_tui.present.cells import Glyphs, Table, Tone, plural
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import (
    Copyable,
    Preview,
    TablePane,
    error_lines,
    invitation,
    ordered,
    sentence,
    stale_note,
)
from expb_tui.tui.widgets.lines import Line, words
from expb_tui.watch.link import LinkState, reason

if TYPE_CHECKING:
    from expb_tui.core.api.offers import Offer
    from expb_tui.core.opportunities import Cause

_PAUSE = 0.2
"""Seconds that the cursor must rest on a row before the service is asked why it has no work."""


class WorkPane(TablePane):
    """One row a project and role. Rows without work are explained below the table, cause by cause."""

    SCOPES: ClassVar[tuple[str, ...]] = ("work", "list")
    BINDINGS = bindings("work")
    topics = frozenset({"work", "link", "profiles"})

    def __init__(self) -> None:
        super().__init__(number="2", title="Work", id="work")
        self._all = False
        self._made_of: tuple[tuple[Offer, ...], bool, Glyphs | None] = ((), False, None)
        self._by_key: dict[str, Offer] = {}
        self._causes: dict[tuple[str, int], list[Cause] | ExpbError] = {}
        self._asking: asyncio.Task[None] | None = None
        self._asked: tuple[str, int] | None = None
        self._wanted: str | None = None
        """The row that a person has asked about, whether it has work or not."""
        self._last: tuple[str, tuple[Line, ...]] = ("", ())

    def present(self) -> float | None:
        snapshot = self.bridge.work
        change: float | None = None
        self.state = ()
        items: tuple[Offer, ...] = ()
        if snapshot is not None:
            fresh = rows.freshness(snapshot, self.clock, self.glyphs)
            change = fresh.next_change
            items = snapshot.items
            count = plural(sum(item.available for item in items), "task")
            self.state = self.count(count, fresh.cell) if snapshot.taken_at else (fresh.cell,)
        self.empty = self._why_empty()
        self._show(items)
        self.say_below(*self._stale())
        return change

    def _show(self, items: tuple[Offer, ...]) -> None:
        """Make the rows, where there are other offers than before or other ones are wanted."""
        made_of = (items, self._all, self.glyphs)
        if made_of[0] is self._made_of[0] and made_of[1:] == self._made_of[1:]:
            return
        self._made_of = made_of
        self._by_key = {rows.key(item): item for item in items}
        work = tuple(item for item in items if item.available > 0)
        self.set_table(_arranged(rows.table(items if self._all or not work else work, glyphs=self.glyphs)))

    def _stale(self) -> tuple[Line, ...]:
        """Rows stay when the service is silent; below them stands as of when they are and what happens next."""
        snapshot = self.bridge.work
        if snapshot is None or snapshot.state.value in ("fresh", "loading"):
            return ()
        then = f"It is asked again by itself; {self.key('app.reload')} asks now."
        if isinstance(snapshot.error, SignInNeeded):
            then += " What is held with this credential cannot be renewed or submitted either."
        else:
            then += " What you hold is not touched by this."
        return stale_note("These offers", snapshot.taken_at, self.clock.now(), snapshot.error, then)

    def _why_empty(self) -> tuple[Line, ...]:
        bridge = self.bridge
        link, snapshot, profile = bridge.link, bridge.work, bridge.profile
        if link.state is LinkState.NOBODY and bridge.profiles_problem is not None:
            return invitation(
                "Work is offered to agents, and the profiles cannot be read.",
                (self.key("pane.profiles"), "goes to the profiles: what is wrong, and what mends it"),
                (self.key("app.reload"), "reads the file again"),
            )
        if link.state is LinkState.NOBODY:
            return invitation(
                "Work is offered to agents, and no profile is chosen.",
                (self.key("pane.profiles"), "goes to the profiles"),
                (self.key("profile.login"), "signs in, there"),
            )
        troubled = link.state in (LinkState.SIGNED_OUT, LinkState.LOST, LinkState.REFUSED)
        if troubled and (snapshot is None or snapshot.taken_at is None):
            what, step = reason(link)
            signs_in = link.state is LinkState.SIGNED_OUT
            return invitation(
                what or "The service does not answer.",
                (self.key("app.reload"), "asks again now; it is also asked by itself"),
                *(((self.key("pane.profiles"), "goes to the profiles, where one signs in"),) if signs_in else ()),
                ("!", "lists what went wrong, with the next step"),
                tone=Tone.BAD,
                more=(step,) if step else (),
            )
        unknown = snapshot is None or snapshot.taken_at is None
        if link.state in (LinkState.OPENING, LinkState.ASKING) or (link.state is LinkState.WAITING and unknown):
            where = clean(profile.endpoint) if profile is not None else "the service"
            return (sentence((f"Asking {where} what there is to do.", Tone.DIM)),)
        if profile is not None and profile.type == "user":
            return invitation(
                f"Work is offered to agents; {clean(profile.name)} is a user profile.",
                (self.key("pane.profiles"), "goes to the profiles; Enter on an agent acts as it"),
                (self.key("profile.agent"), "registers an agent, there"),
            )
        return invitation(
            "No project has authorised this agent for any role.",
            (self.key("app.reload"), "asks again now; it is also asked by itself"),
            more=("A member of a project grants roles to an agent; the work then appears here.",),
        )

    @property
    def chosen(self) -> Offer | None:
        """The opportunity under the cursor."""
        key = self.current_key
        return None if key is None else self._by_key.get(key)

    def can(self, action_id: str) -> bool:
        return super().can(action_id) and (action_id != "work.explain" or self.chosen is not None)

    def copyables(self) -> list[Copyable]:
        item = self.chosen
        if item is None:
            return []
        body = f'{{"project_id":"{item.project_id}","role":"{item.role}","max_tasks":1}}'
        return [
            Copyable("project id", item.project_id),
            Copyable("role", item.role),
            Copyable("claim command", f"printf '%s' '{body}' | expb-tui agent work request --file -"),
        ]

    # Why a row has no work, and what else is known of it

    def preview(self) -> Preview | None:
        item = self.chosen
        if item is None:
            return None
        does = rows.ROLES.get(item.role)
        notes: list[Line] = [words(does), ()] if does else []
        return Preview(f"Role {clean(item.role)}", rows.facts(item, glyphs=self.glyphs), (*notes, *self._why(item)))

    def _why(self, item: Offer) -> tuple[Line, ...]:
        """What is known of the causes; asks for them where a role has no work, once the cursor rests on it."""
        snapshot = self.bridge.work
        if snapshot is None:
            return ()
        wanted = self._wanted == rows.key(item)
        if item.available and not wanted:
            if self.cockpit.read_only:
                return (sentence(("This cockpit is read-only: nothing is claimed from it.", Tone.DIM)),)
            return (
                sentence((self.key("work.claim"), Tone.ACCENT), " asks for a package of this role."),
                sentence(("An offer reserves nothing: the answer may be empty if somebody is quicker.", Tone.DIM)),
            )
        key = (rows.key(item), snapshot.serial)
        known = self._causes.get(key)
        if known is not None:
            self._last = (
                key[0],
                error_lines(known) if isinstance(known, ExpbError) else self._cause_lines(item, known),
            )
            return self._last[1]
        if key != self._asked:
            self._asked = key
            self._ask(key, item, 0.0 if wanted else _PAUSE)
        # The answer of an earlier snapshot stays until the new one is there, so that nothing flickers.
        return self._last[1] if self._last[0] == key[0] else (sentence(("Asking why there is no work.", Tone.DIM)),)

    def _ask(self, key: tuple[str, int], item: Offer, pause: float) -> None:
        """One question at a time: the one before is cancelled when the cursor moves on."""
        if self._asking is not None:
            self._asking.cancel()
        self._asking = asyncio.create_task(self._find_out(key, item, pause))

    async def _find_out(self, key: tuple[str, int], item: Offer, pause: float) -> None:
        from expb_tui.core.opportunities import explain

        await asyncio.sleep(pause)
        try:
            session = await self.house.session(self.bridge.acting)
            watcher = await self.bridge.watcher(session)
            answer: list[Cause] | ExpbError = await explain(session, item.project_id, item.role, watcher=watcher)
        except ExpbError as error:
            answer = error
        if len(self._causes) > 200:
            self._causes.clear()
        self._causes[key] = answer
        self.bridge.mark("work")

    def _cause_lines(self, item: Offer, causes: list[Cause]) -> tuple[Line, ...]:
        glyphs = self.glyphs
        blocking = [cause for cause in causes if cause.answer.value == "blocking"]
        hidden = [cause for cause in causes if cause.answer.value not in ("ok", "blocking")]
        lines: list[Line] = []
        if item.available:
            key = "" if self.cockpit.read_only else f": {self.key('work.claim')}"
            lines.append(sentence(f"{plural(item.available, 'task')} to claim", (key, Tone.ACCENT), "."))
        elif blocking:
            lines.append(sentence(f"Why there is no work for the {clean(item.role)}:"))
        elif hidden:
            lines.append(sentence("No cause can be seen with this credential; open tasks may simply be done."))
        else:
            lines.append(sentence(f"Nothing stops the {clean(item.role)}: there is no open task just now."))
        for cause in blocking:
            detail = f": {clean(cause.detail)}" if cause.detail else ""
            lines.append(sentence((f"  {glyphs.bad} ", Tone.BAD), clean(cause.title), detail))
            if cause.next_step:
                lines.append(sentence((f"    {clean(cause.next_step)}", Tone.INFO)))
        if hidden and not item.available:
            names = ", ".join(clean(cause.title) for cause in hidden)
            lines.append(sentence((f"  {glyphs.lost} not visible: {names}", Tone.DIM)))
        return tuple(lines)

    def on_line_table_highlighted(self) -> None:
        """The cursor moved: explain that row instead."""
        self._wanted = None
        self.say_below(*self._stale())

    # What the keys do

    def act_work_explain(self) -> None:
        item = self.chosen
        if item is not None:
            self._wanted = rows.key(item)
            self._asked = None
            self.say_below(*self._stale())
            self.bridge.mark("selection")

    def act_work_all(self) -> None:
        self._all = not self._all
        self.cockpit.say("Roles without work are shown too" if self._all else "Only roles with work are shown")
        self.present()


def _arranged(table: Table) -> Table:
    """Role and work first; the project only where there is more than one."""
    if len({row.cells[0] for row in table.rows}) > 1:
        return ordered(table, "ROLE", "WORK", "PROJECT", "STATE")
    return ordered(table, "ROLE", "WORK", "HELD", "STATE", "OBJECTIVES")
