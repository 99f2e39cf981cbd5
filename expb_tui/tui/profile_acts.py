"""What can be done with the profiles of this host. What is local can be taken back; what strands leases asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from expb_tui.core.errors import ExpbError
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Tone, plural
from expb_tui.tui.panes.base import PaneParts, sentence
from expb_tui.tui.widgets.lines import Line, words

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.core.profiles.document import Profile
    from expb_tui.core.profiles.secrets import Remembered

_NAMED = 12
"""Profiles or leases that a question names; the rest is counted."""


def use(pane: PaneParts, profile: Profile) -> None:
    """Act as the profile from now on, in commands too."""
    bridge, cockpit = pane.bridge, pane.cockpit
    acting, default = bridge.acting, bridge.profiles.default

    async def back() -> None:
        assert acting is not None
        await bridge.act_as(acting)
        if default is not None and default != acting:
            await asyncio.to_thread(pane.house.store.use, default)
            bridge.read_profiles()

    async def work() -> None:
        await bridge.act_as(profile.name)
        if acting is not None:
            cockpit.undo.push(f"acting as {profile.name}", back)
        cockpit.say(f"Acting as {profile.name}; it is the default profile now")
        if not profile.signed_in:
            cockpit.say(f"{profile.name} is signed out: {pane.key('profile.login')} signs in", Tone.WARN)

    bridge.run(f"use {profile.name}", work)


def project_set(pane: PaneParts, before: Profile) -> None:
    """Another project was chosen for a profile that was ``before``."""

    async def back() -> None:
        store = pane.house.store
        await asyncio.to_thread(store.set_project, before.name, before.project_id, before.project_name)
        await _settle(pane, [before.name])

    pane.bridge.read_profiles()
    pane.bridge.mark("profiles", "link", "work")
    pane.cockpit.undo.push(f"the project of {before.name}", back)


def move_secrets(pane: PaneParts, profiles: Sequence[Profile]) -> None:
    """Move the credentials of each between keyring and file."""
    moved: list[Profile] = []

    async def back() -> None:
        for profile in moved:
            now = pane.bridge.profiles.by_name.get(profile.name)
            if now is not None and now.in_keyring != profile.in_keyring:
                await _move(pane, now)

    async def work() -> None:
        for profile in profiles:
            try:
                await _move(pane, profile)
            except ExpbError as error:
                pane.cockpit.complain(error)
            else:
                moved.append(profile)
        if moved:
            done = f"the move of the credentials of {', '.join(profile.name for profile in moved)}"
            pane.cockpit.undo.push(done, back)

    what = profiles[0].name if len(profiles) == 1 else plural(len(profiles), "profile")
    pane.bridge.run(f"move the credentials of {what}", work)


async def _move(pane: PaneParts, profile: Profile) -> None:
    from expb_tui.core.profiles import secrets

    store = pane.house.store
    if profile.in_keyring:
        await asyncio.to_thread(secrets.unsecure, store, profile.name)
        where = "the 0600 file, where expbctl finds it"
    else:
        state = await asyncio.to_thread(secrets.secure, store, profile.name)
        where = f"the keyring ({clean(state.backend)}); expbctl sees the profile as signed out"
    await pane.house.forget_session(profile.name)
    pane.bridge.read_profiles()
    pane.bridge.mark("profiles")
    pane.cockpit.say(f"The credential of {profile.name} is now in {where}")


def ask_to_sign_out(pane: PaneParts, profiles: Sequence[Profile]) -> None:
    """Ask, naming the leases that would be stranded; end the sessions of users, forget the credentials of all."""
    lines: list[Line] = []
    if any(not profile.is_agent for profile in profiles):
        lines.append(words("A user's session ends on the server, and its credential is deleted here."))
    if any(profile.is_agent for profile in profiles):
        lines.append(words("An agent's token is deleted here only: it stays valid until somebody revokes it."))
    _ask(pane, "Sign out", profiles, lines, _sign_out)


def ask_to_remove(pane: PaneParts, profiles: Sequence[Profile]) -> None:
    """Ask, naming the leases that would be stranded; take the profiles out of the file."""
    which = "The profile and its credential are" if len(profiles) == 1 else "The profiles and their credentials are"
    back = f"{pane.key('app.undo')} brings them back while the cockpit is open."
    lines = [words(f"{which} deleted on this host. Nothing is revoked on the server."), words(back, Tone.DIM)]
    _ask(pane, "Remove", profiles, lines, _remove)


async def _sign_out(pane: PaneParts, profile: Profile) -> Remembered | None:
    from expb_tui.core.profiles import secrets
    from expb_tui.core.profiles.login import sign_out

    store = pane.house.store
    # A user's session has ended on the server: there is nothing to bring back.
    kept = await asyncio.to_thread(secrets.remember, store, profile.name) if profile.is_agent else None
    done = await sign_out(store, profile.name, settings=pane.house.settings)
    if done.problem is not None:
        pane.cockpit.complain(done.problem)
    again = f"; {pane.key('app.undo')} takes that back" if kept is not None else ""
    pane.cockpit.say(f"{profile.name} is signed out{again}")
    return kept


async def _remove(pane: PaneParts, profile: Profile) -> Remembered | None:
    from expb_tui.core.profiles import secrets

    store = pane.house.store
    kept = await asyncio.to_thread(secrets.remember, store, profile.name)
    await asyncio.to_thread(secrets.forget, store, profile.name)
    pane.cockpit.say(f"Profile {profile.name} is removed from this host; {pane.key('app.undo')} brings it back")
    return kept


_Act = Callable[[PaneParts, "Profile"], Awaitable["Remembered | None"]]


def _ask(pane: PaneParts, verb: str, profiles: Sequence[Profile], lines: list[Line], act: _Act) -> None:
    """Name the leases that would be stranded (hazards 6), ask, then do it."""
    from expb_tui.tui.screens.confirm import ConfirmScreen

    if not profiles:
        return
    what = clean(profiles[0].name) if len(profiles) == 1 else plural(len(profiles), "profile")

    async def ask() -> None:
        stranded: list[HeldPackage] = []
        for profile in profiles:
            try:
                stranded += await pane.house.desk.stranded_by(profile.name)
            except ExpbError as error:  # the question must still be possible, and must say what it does not know
                pane.cockpit.complain(error)
        named: list[Line] = [] if len(profiles) == 1 else [(), *_named([clean(one.name) for one in profiles])]
        screen = ConfirmScreen(f"{verb} {what}?", [*lines, *named, *_stranded(stranded)], verb=verb)

        def answered(yes: bool | None) -> None:
            if yes:
                pane.bridge.losses.agreed_to(held.uid for held in stranded)
                _carry_out(pane, verb, what, profiles, act)

        pane.cockpit.push_screen(screen, answered)

    pane.bridge.run(f"look for leases of {what}", ask)


def _carry_out(pane: PaneParts, verb: str, what: str, profiles: Sequence[Profile], act: _Act) -> None:
    kept: list[Remembered] = []

    async def back() -> None:
        from expb_tui.core.profiles import secrets

        names = [remembered.profile.name for remembered in kept]
        try:
            # The default one first: the first profile of an empty file becomes the default.
            for remembered in sorted(kept, key=lambda remembered: not remembered.default):
                await asyncio.to_thread(secrets.bring_back, pane.house.store, remembered)
                kept.remove(remembered)
        finally:
            await _settle(pane, names)

    async def work() -> None:
        for profile in profiles:
            try:
                remembered = await act(pane, profile)
            except ExpbError as error:
                pane.cockpit.complain(error)
                continue
            if remembered is not None:
                kept.append(remembered)
        if kept:
            noun = "sign-out" if verb == "Sign out" else "removal"
            pane.cockpit.undo.push(f"the {noun} of {', '.join(one.profile.name for one in kept)}", back)
        await _settle(pane, [profile.name for profile in profiles])

    pane.bridge.run(f"{verb.lower()} {what}", work)


async def _settle(pane: PaneParts, names: Sequence[str]) -> None:
    """What these profiles can do has changed: read everything that depends on it."""
    bridge = pane.bridge
    for name in names:
        await pane.house.forget_session(name)
    before = bridge.acting
    bridge.read_profiles()
    bridge.mark("profiles", "link", "work")
    await bridge.leases_changed()
    if before in names or bridge.acting in names or bridge.acting is None:
        bridge.follow()


def _named(names: Sequence[str]) -> list[Line]:
    more = len(names) - _NAMED
    lines: list[Line] = [words(f"  {name}", Tone.ACCENT) for name in names[:_NAMED]]
    return [*lines, words(f"  and {more} more", Tone.DIM)] if more > 0 else lines


def _stranded(held: Sequence[HeldPackage]) -> list[Line]:
    if not held:
        return [(), words("No lease depends on it.", Tone.DIM)]
    lines: list[Line] = [
        (),
        sentence((f"{plural(len(held), 'lease')} could no longer be renewed or submitted:", Tone.WARN)),
    ]
    lines += [
        (Cell(f"  {clean(item.role)}", Tone.TEXT), Cell(f"  {clean(item.project_name)}  {item.uid}", Tone.DIM))
        for item in held[:_NAMED]
    ]
    return [*lines, words(f"  and {len(held) - _NAMED} more", Tone.DIM)] if len(held) > _NAMED else lines
