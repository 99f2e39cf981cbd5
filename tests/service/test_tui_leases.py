"""Leases in the cockpit: kept or not, by whom, lost loudly, and what the header says of a service that hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from expb_tui.core.api import transport
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.keeping import face_renews
from expb_tui.core.leases.model import HeldPackage
from expb_tui.core.profiles import secrets
from expb_tui.launch import House
from expb_tui.present.cells import Tone
from expb_tui.server.store.schema import agent_tokens
from expb_tui.tui import bell
from expb_tui.tui.screens.submit import SubmitScreen
from expb_tui.tui.screens.task_form import TaskFormScreen
from expb_tui.watch.notices import Notice
from tests.support.cockpit import PROGRAM, PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.filling import fill, question
from tests.support.keeper import keeper, no_keeper_left, until_async
from tests.support.keyrings import keyring_backends
from tests.support.loopback import FaultyWay
from tests.support.server import LocalServer

HOST = "host-one"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR", "TMUX"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path, EXPB_TUI_MACHINE_ID=HOST).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def house(folder: Path, server: LocalServer) -> House:
    profiles_file(folder, server)
    return house_in(folder)


@pytest.fixture
async def cockpit(house: House) -> AsyncIterator[PilotCockpit]:
    async with piloted(house) as shown:
        await shown.wait_for("polling")
        yield shown


async def claim(cockpit: PilotCockpit, role: str = "ideator") -> HeldPackage:
    house = cockpit.app.house
    session = await house.session("researcher")
    assert session.profile.project_id is not None
    outcome = await house.desk.request(session, session.profile.project_id, role, project_name="checkout-latency")
    assert outcome.held is not None
    await cockpit.app.bridge.leases_changed()
    await cockpit.wait(lambda: outcome.held is not None and shows(cockpit, outcome.held))
    return outcome.held


def shows(cockpit: PilotCockpit, held: HeldPackage) -> bool:
    return any(row.key == held.uid for row in cockpit.app.cockpit_screen.leases.rows)


def cells(cockpit: PilotCockpit, held: HeldPackage) -> dict[str, tuple[str, Tone]]:
    """The row of a lease by column."""
    table = cockpit.app.cockpit_screen.leases.table
    row = next(row for row in table.rows if row.key == held.uid)
    return {column.title: (cell.text, cell.tone) for column, cell in zip(table.columns, row.cells, strict=True)}


async def lose(house: House, held: HeldPackage, reason: str = "somebody else holds it now") -> None:
    """Another process, such as a keeper, finds that the lease is lost."""
    journal = Journal(house.journal.path)
    try:
        row = await journal.package(held.uid)
        assert row is not None
        await journal.lose(row.id, "lease-conflict", reason, token=row.token)
    finally:
        await journal.aclose()


# Keeping


async def test_keeping_is_turned_off_and_taken_back(cockpit: PilotCockpit) -> None:
    held = await claim(cockpit)
    assert cells(cockpit, held)["KEPT BY"][0] == "cockpit"
    assert cells(cockpit, held)["LEFT"][1] is Tone.OK
    await cockpit.press("pane.leases", "lease.keep")
    await cockpit.wait_for("Keeping is off", "runs out")
    assert not (await cockpit.app.house.desk.get(held.uid)).kept
    assert (cells(cockpit, held)["RENEW"], cells(cockpit, held)["KEPT BY"][0]) == (("off", Tone.WARN), "off")
    assert cells(cockpit, held)["LEFT"][1] is Tone.WARN
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back", without="Keeping is off")
    assert (await cockpit.app.house.desk.get(held.uid)).kept
    assert cells(cockpit, held)["KEPT BY"][0] == "cockpit"


async def test_the_keeping_of_a_lease_that_is_over_is_not_taken_back(cockpit: PilotCockpit) -> None:
    held = await claim(cockpit)
    await cockpit.press("pane.leases", "lease.keep")
    await cockpit.wait_for("Not kept any more")
    await lose(cockpit.app.house, held)
    await cockpit.wait_for("1 lease lost")
    await cockpit.press("app.undo")
    await cockpit.wait_for("Nothing to take back", without="Taken back")


async def test_other_processes_know_that_an_open_cockpit_renews(cockpit: PilotCockpit) -> None:
    held = await claim(cockpit)

    def listed() -> str:
        done = subprocess.run([PROGRAM, "agent", "work", "list"], capture_output=True, text=True, check=True)
        return done.stdout

    assert " cockpit " in await asyncio.to_thread(listed)
    folder = cockpit.app.house.journal.folder
    await cockpit.app.bridge.aclose()
    assert not face_renews(folder)
    assert " nobody " in await asyncio.to_thread(listed)
    assert held.uid in await asyncio.to_thread(listed)


async def test_of_marked_leases_all_are_kept_again_if_one_was_not(cockpit: PilotCockpit) -> None:
    first, second = await claim(cockpit), await claim(cockpit, "experimenter")
    desk = cockpit.app.house.desk
    await cockpit.app.bridge.set_kept([first], False)
    await cockpit.press("pane.leases", "list.top", "list.mark", "list.mark", "lease.keep")
    await cockpit.wait_for("is renewed until done")
    assert [(await desk.get(one.uid)).kept for one in (first, second)] == [True, True]
    await cockpit.press("lease.keep")
    await cockpit.wait_for("Not kept any more: 2 leases run out")
    assert [(await desk.get(one.uid)).kept for one in (first, second)] == [False, False]


async def test_read_only_neither_keeps_nor_offers_to(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server)
    async with piloted(house_in(folder)) as cockpit:
        held = await claim(cockpit)
    async with piloted(house_in(folder, read_only=True)) as cockpit:
        await cockpit.wait(lambda: shows(cockpit, held))
        await cockpit.press("pane.leases")
        await cockpit.wait_for("Nothing renews it")
        assert cells(cockpit, held)["KEPT BY"] == ("nobody", Tone.WARN)
        assert not cockpit.app.cockpit_screen.leases.can_act("lease.keep")


async def test_a_keeper_keeps_and_the_cockpit_takes_over_when_it_is_killed(
    house: House, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keeper(dict(os.environ)) as process:
        await until_async(process.at_work, bool)
        async with piloted(house) as cockpit:
            held = await claim(cockpit)
            await cockpit.wait(lambda: cells(cockpit, held)["KEPT BY"][0] == "keeper", "the keeper keeps it")
            assert not cockpit.app.bridge.keeper.left_to_us(held)
            await cockpit.wait_for("keeper on")
            await cockpit.press("app.back")
            await cockpit.wait_for("Leave expb-tui?", "1 lease goes on: the keeper renews it without you.")
            await cockpit.press("dialog.close")
            process.send(signal.SIGKILL)
            await cockpit.wait(lambda: cells(cockpit, held)["KEPT BY"][0] == "cockpit", "the cockpit keeps it")
            assert cockpit.app.bridge.keeper.left_to_us(held)
            await cockpit.wait(lambda: any("keeper has ended" in one.text for one in notices(cockpit)))


async def test_the_cockpit_starts_a_keeper_that_outlives_it(
    folder: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPB_TUI_KEEPER", "auto")
    profiles_file(folder, server)
    house = house_in(folder)
    with no_keeper_left(dict(os.environ)):
        async with piloted(house) as cockpit:
            await cockpit.wait(lambda: house.keeper().running, "a keeper")
            held = await claim(cockpit)
            await cockpit.wait(lambda: cells(cockpit, held)["KEPT BY"][0] == "keeper", "the keeper keeps it")
        assert house.keeper().running


async def test_after_a_stop_the_question_before_leaving_starts_a_keeper(
    folder: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPB_TUI_KEEPER", "auto")
    profiles_file(folder, server)
    house = house_in(folder)
    with no_keeper_left(dict(os.environ)):
        async with piloted(house) as cockpit:
            held = await claim(cockpit)
            await cockpit.wait(lambda: cells(cockpit, held)["KEPT BY"][0] == "keeper", "the keeper keeps it")
            assert not cockpit.app.bridge.may_start_keeper
            await asyncio.to_thread(subprocess.run, [PROGRAM, "keeper", "stop", "--yes"], check=True)
            await cockpit.wait(lambda: cells(cockpit, held)["KEPT BY"][0] == "cockpit", "nobody else does")
            await cockpit.press("app.back")
            await cockpit.wait_for("1 lease runs out", "Only this cockpit renews it")
            await cockpit.press("leave.keeper")
            await cockpit.wait_for("1 lease goes on: the keeper renews it without you", without="Start keeper")
            await cockpit.key("escape")
            assert house.keeper().running


async def test_before_a_claim_it_is_said_what_ends_with_the_keeper_and_mended(
    folder: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A credential in a keyring that only a desktop opens (hazards 7)."""
    vault = {
        "PYTHON_KEYRING_BACKEND": "keyring_backends.OnDesktop",
        "EXPB_TEST_KEYRING": str(folder / "vault"),
        "PYTHONPATH": str(Path(keyring_backends.__file__).parent),
        "EXPB_TUI_KEYRING": "auto",
        "EXPB_TUI_KEEPER": "auto",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent",
    }
    for name, value in vault.items():
        monkeypatch.setenv(name, value)
    profiles_file(folder, server)
    house = house_in(folder)
    await asyncio.to_thread(secrets.secure, house.store, "researcher")
    with no_keeper_left(dict(os.environ)):
        async with piloted(house) as cockpit:
            await cockpit.press("work.claim")
            await cockpit.wait_for("Renewal ends with the keeper that runs now", "moves it to the 0600 file")
            await cockpit.press("claim.secret")
            await cockpit.wait_for("Move the credential to the 0600 file?")
            await cockpit.press("dialog.accept")
            await cockpit.wait_for("is in the 0600 file now", without="Renewal ends")
        assert house.store.select("researcher").token is not None


def notices(cockpit: PilotCockpit) -> list[Notice]:
    return cockpit.app.notices.newest_first()


# Losses


async def test_a_lost_lease_is_loud_once_and_says_why(cockpit: PilotCockpit, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(type(cockpit.app), "bell", lambda app: rung.append(True))
    held = await claim(cockpit)
    await lose(cockpit.app.house, held)
    await cockpit.wait_for("1 lease lost", "The lease of the ideator in checkout-latency is lost", "somebody else")
    assert rung == [True]
    await cockpit.app.bridge.leases_changed()
    await cockpit.pilot.pause(0.3)
    assert rung == [True]
    assert cells(cockpit, held)["STATE"][1] is Tone.BAD
    await cockpit.press("app.notices")
    await cockpit.wait_for("Drafts stay")
    await cockpit.press("dialog.close")
    await cockpit.wait(lambda: "1 lease lost" not in cockpit.text, "it has been seen")


async def test_a_lost_lease_stops_the_form_and_keeps_the_draft(cockpit: PilotCockpit) -> None:
    held = await claim(cockpit)
    desk = cockpit.app.house.desk
    await cockpit.press("pane.leases", "lease.submit")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, TaskFormScreen))
    await cockpit.wait_for("Outcome")
    await cockpit.press("task.fill")
    await cockpit.wait(lambda: question(cockpit) is not None)
    await fill(cockpit, {"statement": "A cache lowers p95."})
    await lose(cockpit.app.house, held)
    await cockpit.wait_for("The lease of this package is lost", "What you typed is kept", "draft kept, read only")
    screen = cockpit.app.screen
    assert isinstance(screen, TaskFormScreen)
    assert not screen.sendable
    possible = {action.id for action in cockpit.app.actions_now()}
    assert not possible & {"task.submit", "task.fail", "task.fill", "form.review"}
    assert "task.editor" in possible
    await cockpit.type("zz")  # goes nowhere
    (task,) = held.tasks
    draft = await desk.draft(held.uid, task.task_id)
    assert draft is not None
    assert draft.values["statement"] == "A cache lowers p95."
    # It can be read again later, too.
    await cockpit.press("task.back")
    await cockpit.wait(lambda: not isinstance(cockpit.app.screen, TaskFormScreen))
    await cockpit.press("lease.open")
    await cockpit.wait_for("Package of the ideator")
    await cockpit.press("package.open")
    await cockpit.wait_for("The lease of this package is lost", "A cache lowers p95.")


async def test_a_lost_lease_stops_a_submission_that_waits_for_its_enter(cockpit: PilotCockpit) -> None:
    held = await claim(cockpit)
    await cockpit.press("pane.leases", "lease.submit")
    await cockpit.wait_for("Outcome")
    await cockpit.press("task.fill")
    await cockpit.wait(lambda: question(cockpit) is not None)
    answer = {"statement": "s", "rationale": "r", "expected_effect": "415", "plan": "p", "risks": "r"}
    await fill(cockpit, answer)
    await cockpit.press("form.review")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, SubmitScreen))
    await cockpit.wait_for("What is sent")
    await lose(cockpit.app.house, held)
    await cockpit.wait_for("The lease is lost", "Nothing has been sent")
    assert not cockpit.app.screen.can_act("submit.send")  # type: ignore[attr-defined]  # every dialog of ours has it
    await cockpit.press("submit.send")
    assert not await cockpit.app.house.desk.receipts()


async def test_a_loss_while_an_editor_has_the_terminal_rings_there(
    cockpit: PilotCockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[bool] = []
    monkeypatch.setattr(bell, "ring", lambda: rung.append(True))
    held = await claim(cockpit)
    cockpit.app.in_editor = True
    await lose(cockpit.app.house, held)
    await cockpit.wait(lambda: bool(rung), "the bell")
    cockpit.app.in_editor = False
    assert rung == [True]


async def test_a_lease_that_ends_by_itself_is_lost_at_that_moment(folder: Path, server: LocalServer) -> None:
    """No write of any process tells of it: the time alone does."""
    profiles_file(folder, server)
    house = house_in(folder)
    async with piloted(house) as cockpit:
        held = await claim(cockpit)
        await cockpit.app.bridge.set_kept([held], False)
        assert held.times is not None
        row = await house.journal.package(held.uid)
        assert row is not None
        assert row.times is not None
        soon = replace(row.times, lease_seconds=3.0, sent_ticks=house.clock.ticks())
        await house.journal.merge(replace(row, times=soon, version=row.version + 1))
        await cockpit.wait_for("1 lease lost", "has run out", "keeping was off")


# The connection


async def test_a_service_that_hangs_is_not_online(folder: Path, server: LocalServer) -> None:
    async with FaultyWay(server.address).running() as way:
        profiles_file(folder, server, endpoint=way.url)
        async with piloted(house_in(folder)) as cockpit:
            await cockpit.wait_for("online")
            way.fault = lambda request: "hold"
            await cockpit.press("app.reload")
            await cockpit.wait_for("no answer yet", without="online")
            way.fault = lambda request: "pass"
            way.open.set()
            await cockpit.wait_for("online", without="no answer")


async def test_a_service_that_hangs_from_the_start_or_for_a_user_is_not_online_either(
    folder: Path, server: LocalServer
) -> None:
    async with FaultyWay(server.address).running() as way:
        profiles_file(folder, server, endpoint=way.url, signed_in=True, default="owner")
        async with piloted(house_in(folder)) as cockpit:
            await cockpit.wait_for("online")
            way.fault = lambda request: "hold"
            await cockpit.press("app.reload")
            await cockpit.wait_for("no answer yet", without="online")
        way.open.set()
    async with FaultyWay(server.address).running() as way:
        way.fault = lambda request: "hold"
        profiles_file(folder, server, endpoint=way.url)
        async with piloted(house_in(folder), settled="no answer yet") as cockpit:
            assert "online" not in cockpit.text
            way.open.set()
            await cockpit.wait_for("online")


async def test_a_stream_that_falls_silent_is_not_relied_on(
    folder: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two polls, a minute apart beside events, only the stream's heartbeat tells that the service answers."""
    monkeypatch.setattr(transport, "STREAM_SILENCE", 1.0)
    profiles_file(folder, server, signed_in=True)
    async with piloted(house_in(folder)) as cockpit:
        await cockpit.wait_for("live events")
        first = cockpit.app.bridge.link.ticks
        assert first is not None
        await cockpit.wait_for("polling", without="live events")
        await cockpit.wait(lambda: (cockpit.app.bridge.link.ticks or 0.0) > first, "it was asked again")


# A credential that the service refuses


async def test_a_refused_credential_is_every_lease_s_state_at_once_and_over_when_it_works_again(
    cockpit: PilotCockpit, server: LocalServer
) -> None:
    held = await claim(cockpit)
    app = cockpit.app
    revoked(server, "revoked")
    await cockpit.press("pane.leases", "lease.renew")
    await cockpit.wait_for("never beyond")
    await cockpit.key("enter")
    await cockpit.wait(lambda: cells(cockpit, held)["STATE"][0] == "? no credential", "the lease's own state")
    await cockpit.wait(lambda: app.cockpit_screen.profiles.table.rows[-1].cells[2].text == "✗ refused")
    await cockpit.wait_for("the service refuses the credential of researcher", "no credential")
    told = [one.word for one in await house_in(Path.cwd()).desk.held()]
    assert told == ["no credential"], "what other processes see"
    await cockpit.press("app.back")
    assert "1 lease runs out" in await cockpit.wait_for("Leave")
    await cockpit.key("escape")
    revoked(server, "active")
    await cockpit.press("app.reload")
    await cockpit.wait(lambda: cells(cockpit, held)["STATE"][0] == "▸ active")
    await cockpit.wait(lambda: app.cockpit_screen.profiles.table.rows[-1].cells[2].text == "✓ signed in")


def revoked(server: LocalServer, phase: str) -> None:
    """The agent's tokens on the server."""
    with server.services.database.write() as conn:
        conn.execute(agent_tokens.update().values(phase=phase))
