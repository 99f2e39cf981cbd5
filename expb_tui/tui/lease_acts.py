"""What can be done with held packages, for the panes that show them: each act asks and names its target first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.text import clean
from expb_tui.present import leases as rows
from expb_tui.present.cells import Cell, Tone, plural
from expb_tui.present.times import moment
from expb_tui.tui.panes.base import PaneParts, sentence
from expb_tui.tui.widgets.lines import Line, words

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage


def open_package(pane: PaneParts, held: HeldPackage) -> None:
    """Show the package as the server has it; a loss is then seen."""
    pane.bridge.losses.seen(held.uid)
    pane.bridge.mark("link")
    from expb_tui.tui.screens.package import PackageScreen

    pane.cockpit.push_screen(PackageScreen(pane.house, package_uid=held.uid), lambda _: _settle(pane))


def toggle_keeping(pane: PaneParts, targets: list[HeldPackage]) -> None:
    """Have these leases kept, or not any more where all of them are; local, and undo takes it back."""
    targets = [held for held in targets if held.renewable]
    kept = not all(held.kept for held in targets)
    changed = [held for held in targets if held.kept is not kept]
    if not changed:
        return
    one = f"the {clean(changed[0].role)}" if len(changed) == 1 else plural(len(changed), "lease")
    first = rows.left(rows.soonest(changed, pane.clock) or changed[0], pane.clock).text
    several = len(changed) > 1

    async def work() -> None:
        await pane.bridge.set_kept(changed, kept)
        pane.cockpit.undo.push(f"keeping of {one} was turned {'on' if kept else 'off'}", back, means)
        if kept:
            pane.cockpit.say(f"Kept: {one} {'are' if several else 'is'} renewed until done or at the absolute end")
        else:
            undo = pane.key("app.undo")
            ends = f"{one} run out, the first in {first}," if several else f"{one} runs out in {first}"
            pane.cockpit.say(f"Not kept any more: {ends} unless you renew; {undo} undoes", Tone.INFO)

    async def back() -> None:
        await pane.bridge.set_kept(changed, not kept)

    def means() -> bool:
        uids = {held.uid for held in changed}
        return any(held.uid in uids and held.renewable for held in pane.bridge.held or ())

    pane.bridge.run(f"change the keeping of {one}", work)


def submit_open_task(pane: PaneParts, held: HeldPackage, task_id: str | None = None) -> None:
    """Open the form of a task: the one named, else the first that waits for a submission."""
    from expb_tui.tui.screens.task_form import TaskFormScreen

    task = held.task(task_id) if task_id else next((task for task in held.tasks if task.open), None)
    if task is not None:
        screen = TaskFormScreen(pane.house, package_uid=held.uid, task_id=task.task_id)
        pane.cockpit.push_screen(screen, lambda _: _settle(pane))


def ask_to_renew(pane: PaneParts, targets: list[HeldPackage]) -> None:
    """Ask, naming each lease and what it would have then; renew what is confirmed."""
    lines: list[Line] = []
    for held in targets:
        end = held.times.absolute_expires_at if held.times else None
        until = moment(end, pane.clock.now())
        lines += [_named(held, pane), sentence((f"    never beyond {until}, its absolute end", Tone.DIM))]
    lines += [(), words("The service extends each lease by its usual length, from now.")]
    _ask(pane, "Renew", targets, lines, _renew)


def ask_to_release(pane: PaneParts, targets: list[HeldPackage]) -> None:
    """Ask, naming each package and what is given up; release what is confirmed."""
    lines: list[Line] = []
    for held in targets:
        drafts = sum(task.has_draft for task in held.tasks)
        lines.append(_named(held, pane))
        given_up = plural(held.open, "open task") + " can then be assigned to another agent"
        lines.append(sentence((f"    {given_up}", Tone.DIM)))
        if drafts:
            lines.append(sentence((f"    {plural(drafts, 'draft')} of yours stays on this host, unsent", Tone.WARN)))
    _ask(pane, "Release", targets, lines, _release)


def ask_to_withdraw(pane: PaneParts, targets: list[HeldPackage]) -> None:
    """Ask, naming each package whose token is lost; withdraw it with the profile of a member (hazards 16)."""
    lines: list[Line] = []
    for held in targets:
        lines += [
            _named(held, pane),
            sentence(("    its token never arrived: nobody can renew or submit it", Tone.DIM)),
        ]
    lines += [(), words("A signed-in user profile of the same account withdraws it; its tasks are on offer again.")]
    _ask(pane, "Withdraw", targets, lines, _withdraw)


def _ask(
    pane: PaneParts,
    verb: str,
    targets: list[HeldPackage],
    lines: list[Line],
    act: Callable[[PaneParts, HeldPackage], Awaitable[None]],
) -> None:
    from expb_tui.tui.screens.confirm import ConfirmScreen

    if not targets:
        return
    what = f"the {clean(targets[0].role)} package" if len(targets) == 1 else plural(len(targets), "package")

    async def work() -> None:
        for held in targets:
            try:
                await act(pane, held)
            except ExpbError as error:
                pane.cockpit.complain(error)
        await pane.bridge.leases_changed()

    def answered(yes: bool | None) -> None:
        if yes:
            pane.bridge.run(f"{verb.lower()} {what}", work)

    pane.cockpit.push_screen(ConfirmScreen(f"{verb} {what}?", lines, verb=verb), answered)


async def _renew(pane: PaneParts, held: HeldPackage) -> None:
    session = await pane.bridge.session_for(held)
    outcome = await pane.house.desk.renew(session, held.uid)
    said = {
        "renewed": (f"{held.role}: renewed", Tone.OK),
        "capped": (f"{held.role}: the lease already reaches its absolute end; submit in time", Tone.WARN),
        "ended": (f"{held.role}: the package has ended, there is nothing to renew", Tone.INFO),
    }
    pane.cockpit.say(*said[outcome.kind])


async def _release(pane: PaneParts, held: HeldPackage) -> None:
    session = await pane.bridge.session_for(held)
    await pane.house.desk.release(session, held.uid)
    pane.cockpit.say(f"{held.role}: released; its open tasks are on offer again")


async def _withdraw(pane: PaneParts, held: HeldPackage) -> None:
    member = await pane.bridge.watcher(await pane.bridge.session_for(held))
    if member is None:
        raise SignInNeeded(
            f"The package of the {held.role} cannot be withdrawn from here",
            cause="no user profile of the same service and account is signed in",
            next_step="Sign in as a member of the project, or let the lease run out",
        )
    await pane.house.desk.withdraw(member, held.uid)
    pane.cockpit.say(f"{held.role}: withdrawn; its tasks are on offer again")


def _settle(pane: PaneParts) -> None:
    pane.bridge.run("read the leases", pane.bridge.leases_changed)


def _named(held: HeldPackage, pane: PaneParts) -> Line:
    left = rows.left(held, pane.clock)
    return (
        Cell(f"  {clean(held.role)}", Tone.ACCENT),
        Cell(f"  {clean(held.project_name or held.project_id)}"),
        Cell(f"  {left.text} left", rows.urgency(held, pane.clock)),
        Cell(f"  {held.uid}", Tone.DIM),
    )
