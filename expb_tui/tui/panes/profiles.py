"""Profiles of the shared file: who the cockpit can act as, and the state of each credential."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present import profiles as rows
from expb_tui.present.cells import Cell, Table, Tone, plural
from expb_tui.tui import profile_acts
from expb_tui.tui.actions import bindings
from expb_tui.tui.panes.base import (
    Copyable,
    Preview,
    TablePane,
    error_lines,
    invitation,
    key_lines,
    sentence,
    stale_note,
)
from expb_tui.tui.widgets.lines import Line, words

if TYPE_CHECKING:
    from expb_tui.core.profiles.document import Profile


class ProfilesPane(TablePane):
    """Enter acts as the profile under the cursor."""

    SCOPES: ClassVar[tuple[str, ...]] = ("profiles", "list")
    BINDINGS = bindings("profiles")
    BULK = frozenset({"profile.secret", "profile.logout", "profile.remove"})
    topics = frozenset({"profiles"})

    def __init__(self) -> None:
        super().__init__(number="1", title="Profiles", id="profiles")

    def present(self) -> float | None:
        bridge = self.bridge
        now = self.clock.now()
        table = rows.pane(bridge.profiles, now, selected=bridge.acting, refused=bridge.refused, glyphs=self.glyphs)
        problem = bridge.profiles_problem
        broken = (Cell(f"{self.glyphs.bad} file", Tone.BAD),) if problem else ()
        self.state = self.count(plural(len(table.rows), "profile"), *broken) if table.rows else broken
        self.empty = self._unreadable(problem) if problem else self._welcome()
        first = not self.table.rows
        self.set_table(table)
        if first and bridge.acting:
            self.select(bridge.acting)
        self._say_what_is_known()
        return table.next_change

    def _welcome(self) -> tuple[Line, ...]:
        return invitation(
            "No profile on this host yet.",
            (self.key("profile.login"), "signs in: a code appears, you approve it in a browser on any device"),
            (self.key("profile.token"), "saves an agent token that you already have"),
            (self.key("app.help"), "explains what a profile is"),
        )

    def _unreadable(self, problem: ExpbError) -> tuple[Line, ...]:
        return (*error_lines(problem), (), *key_lines((self.key("app.reload"), "reads the file again")))

    def _say_what_is_known(self) -> None:
        """What is wrong with the file, where rows are shown that were read before."""
        problem = self.bridge.profiles_problem
        if problem is None:
            self.say_below()
            return
        then = "They are read again as soon as the file changes."
        self.say_below(*stale_note("These profiles", self.bridge.profiles_read_at, self.clock.now(), problem, then))

    def on_line_table_highlighted(self) -> None:
        """The cursor moved."""
        self._say_what_is_known()

    def preview(self) -> Preview | None:
        profile = self.chosen
        if profile is None:
            return self._first_steps() if not self.table.rows and not self.bridge.profiles_problem else None
        now = self.clock.now()
        default = profile.name == self.bridge.profiles.default
        refused = profile.name in self.bridge.refused
        table = rows.details(profile, now, default=default, refused=refused, glyphs=self.glyphs)
        notes = [*self._leases_of(profile), *self._next_for(profile)]
        return Preview(f"Profile {clean(profile.name)}", table, tuple(notes), rows.expires(profile, now).next_change)

    def _first_steps(self) -> Preview:
        """For who opens the cockpit for the first time."""
        steps = (
            (self.key("profile.login"), "Sign in to an Exp-Bench service, as its user."),
            (self.key("profile.agent"), "Register an agent of your account; a project grants it roles."),
            (self.key("work.claim"), "Claim a work package for that agent: its lease is kept renewed from then on."),
            (self.key("lease.submit"), "Fill in its tasks and submit them. Drafts are saved as you type."),
        )
        notes = (
            words("A cockpit for people who run AI research agents against an Exp-Bench service."),
            (),
            *key_lines(*steps),
            (),
            sentence("The command ", ("expb-tui demo", Tone.ACCENT), " shows all of it on a local server."),
            sentence((self.key("app.help"), Tone.ACCENT), " explains the pane that you are in."),
        )
        return Preview("Welcome", Table((), ()), notes)

    def _leases_of(self, profile: Profile) -> list[Line]:
        held = [item for item in self.bridge.held or () if item.profile_name == profile.name and item.live]
        if not held:
            return []
        needs = "needs" if len(held) == 1 else "need"
        return [sentence((plural(len(held), "live lease"), Tone.INFO), f" of this host {needs} its credential."), ()]

    def _next_for(self, profile: Profile) -> list[Line]:
        """What one does with it from here."""
        key = self.key
        refused = profile.name in self.bridge.refused
        if refused or not profile.signed_in:
            how = "profile.token" if profile.is_agent else "profile.login"
            does = (
                " saves a new token for it."
                if profile.is_agent
                else " signs in again: the service refuses what is saved."
                if refused
                else " signs in; nothing is asked with it until then."
            )
            return [sentence((key(how), Tone.ACCENT), does)]
        if profile.name == self.bridge.acting:
            acts = "The cockpit acts as this profile: " + (
                "work and claims are its." if profile.is_agent else "it administers, and an agent of it does the work."
            )
        else:
            acts = ""
        lines = [words(acts)] if acts else [sentence((key("profile.use"), Tone.ACCENT), " acts as this profile.")]
        if not profile.is_agent:
            lines.append(sentence((key("profile.agent"), Tone.ACCENT), " registers an agent of its account."))
        lines.append(sentence((key("profile.project"), Tone.ACCENT), " chooses the project that it works in."))
        return lines

    @property
    def chosen(self) -> Profile | None:
        """The profile under the cursor."""
        key = self.current_key
        return self.bridge.profiles.by_name.get(key) if key else None

    def _targets(self) -> list[Profile]:
        """The marked profiles, else the one under the cursor."""
        known = self.bridge.profiles.by_name
        return [known[name] for name in self.chosen_keys if name in known]

    def can(self, action_id: str) -> bool:
        if not super().can(action_id):
            return False
        profile = self.chosen
        if action_id in ("profile.login", "profile.add", "profile.token") or not action_id.startswith("profile."):
            return True
        if profile is None:
            return False
        if action_id == "profile.use":
            return profile.name != self.bridge.acting
        if action_id == "profile.agent":
            return profile.type == "user" and profile.signed_in
        if action_id == "profile.project":
            return profile.signed_in
        if action_id in ("profile.secret", "profile.logout"):
            return any(target.signed_in for target in self._targets())
        return True

    def copyables(self) -> list[Copyable]:
        profile = self.chosen
        if profile is None:
            return []
        found = [
            Copyable("name", profile.name),
            Copyable("endpoint", profile.endpoint),
            Copyable("command", f"expb-tui --profile={profile.name} auth status"),
        ]
        for label, value in (
            ("account", profile.account_id), ("agent", profile.agent_id), ("project", profile.project_id)
        ):  # fmt: skip
            if value:
                found.append(Copyable(label, value))
        return found

    # What the keys do

    def act_profile_use(self) -> None:
        if (profile := self.chosen) is not None:
            profile_acts.use(self, profile)

    def act_profile_details(self) -> None:
        from expb_tui.core.profiles import secrets
        from expb_tui.tui.screens.details import DetailsScreen

        profile = self.chosen
        if profile is not None:
            default = profile.name == self.bridge.profiles.default
            refused = profile.name in self.bridge.refused
            table = rows.details(profile, self.clock.now(), default=default, refused=refused, glyphs=self.glyphs)
            screen = DetailsScreen(f"Profile {clean(profile.name)}", table)
            self.cockpit.push_screen(screen)

            async def find_out() -> None:
                place = await asyncio.to_thread(secrets.whereabouts, profile)
                screen.say("secret kept in", place.removeprefix("in "))

            self.bridge.run("look where the secret is", find_out)

    def act_profile_login(self) -> None:
        from expb_tui.tui.screens.login import LoginScreen

        profile = self.chosen
        screen = LoginScreen(
            self.house, profile=profile.name if profile else None, endpoint=profile.endpoint if profile else None
        )
        self.cockpit.push_screen(screen, self._signed_in)

    def act_profile_add(self) -> None:
        from expb_tui.tui.screens.login import LoginScreen

        self.cockpit.push_screen(LoginScreen(self.house), self._signed_in)

    def act_profile_token(self) -> None:
        self._agent("token")

    def act_profile_agent(self) -> None:
        self._agent("register")

    def _agent(self, mode: str) -> None:
        from expb_tui.tui.screens.agent import AgentScreen

        profile = self.chosen
        name = profile.name if profile else None
        if mode == "register":
            self.cockpit.push_screen(AgentScreen(self.house, profile=name, mode="register"), self._signed_in)
        else:
            self.cockpit.push_screen(AgentScreen(self.house, profile=name, mode="token"), self._signed_in)

    def _signed_in(self, name: str | None) -> None:
        """A dialog has saved a profile: show it, and act as it where nothing else can be acted as."""
        if name is None:
            return

        async def settle() -> None:
            await self.house.forget_session(name)
            self.bridge.read_profiles()
            acting = self.bridge.profile
            if acting is None or not acting.signed_in or acting.name == name:
                await self.bridge.act_as(name)
            self.bridge.mark("profiles", "link")
            await self.bridge.leases_changed()
            self.present()
            self.select(name)
            self.cockpit.say(f"Profile {name} is signed in")

        self.bridge.run(f"save {name}", settle)

    def act_profile_project(self) -> None:
        from expb_tui.tui.screens.project import ProjectScreen

        profile = self.chosen
        if profile is not None:
            screen = ProjectScreen(self.house, profile=profile.name)
            self.cockpit.push_screen(screen, lambda uid: profile_acts.project_set(self, profile) if uid else None)

    def act_profile_secret(self) -> None:
        profile_acts.move_secrets(self, [profile for profile in self._targets() if profile.signed_in])

    def act_profile_logout(self) -> None:
        profile_acts.ask_to_sign_out(self, [profile for profile in self._targets() if profile.signed_in])

    def act_profile_remove(self) -> None:
        profile_acts.ask_to_remove(self, self._targets())
