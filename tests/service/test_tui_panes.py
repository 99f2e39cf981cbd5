"""What panes say when there is nothing, when something is broken, and when rows are old; details beside them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from expb_tui.launch import House
from expb_tui.watch import pace
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.server import LocalServer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def house(folder: Path, server: LocalServer) -> House:
    profiles_file(folder, server)
    return house_in(folder)


async def claim(cockpit: PilotCockpit) -> None:
    house = cockpit.app.house
    session = await house.session("researcher")
    assert session.profile.project_id is not None
    await house.desk.request(session, session.profile.project_id, "experimenter", 1, project_name="checkout-latency")
    await cockpit.wait_for("lease 14m")


async def test_details_follow_the_cursor_and_the_focus(house: House) -> None:
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling", "Profile researcher", "The cockpit acts as this profile")
        await cockpit.press("list.top")
        await cockpit.wait_for("Profile owner", "L signs in; nothing is asked with it until then")
        await cockpit.press("pane.work")
        await cockpit.wait_for("Role experimenter", "Runs the experiment", "C asks for a package")
        await cockpit.press("list.down")
        await cockpit.wait_for("Role hypothesis-reviewer", "Judges a hypothesis")
        await cockpit.press("pane.leases")
        await cockpit.wait_for("4 Package", without="Role hypothesis-reviewer")


async def test_where_there_is_no_room_beside_details_stand_below(house: House) -> None:
    async with piloted(house, size=(80, 24)) as cockpit:
        await cockpit.wait_for("researcher", "secret kept in", "c chooses the project")
        await cockpit.press("pane.work")
        await cockpit.wait_for("Runs the experiment", "project id")
        await claim(cockpit)
        await cockpit.press("pane.leases")
        await cockpit.wait_for("absolute end", "renewed")
        await cockpit.pilot.resize_terminal(120, 40)
        await cockpit.wait_for("4 Package")
        assert "absolute end" not in str(cockpit.app.cockpit_screen.leases.tail)


async def test_a_filter_that_hides_everything_says_so_and_not_that_there_is_nothing(house: House) -> None:
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling")
        await cockpit.press("list.filter")
        await cockpit.type("nowhere")
        text = await cockpit.wait_for("No row contains nowhere.", "Esc shows all again")
        assert "No profile on this host yet" not in text
        await cockpit.key("escape")
        await cockpit.wait_for("researcher *", without="No row contains")


async def test_a_profile_file_that_broke_leaves_the_rows_and_says_as_of_when(house: House, folder: Path) -> None:
    path = folder / "profiles.json"
    whole = path.read_text()
    async with piloted(house) as cockpit:
        path.write_text("{")
        await cockpit.wait_for("These profiles are as they were at", "line 1 column 2", "researcher *")
        path.write_text(whole)
        await cockpit.wait_for("2 profiles", without="These profiles are")


async def test_a_profile_file_that_was_never_read_says_what_is_wrong_and_which_key_reads_it_again(
    house: House, folder: Path
) -> None:
    (folder / "profiles.json").write_text("{")
    async with piloted(house, settled=None) as cockpit:
        await cockpit.wait_for("line 1 column 2", "r  reads the file again")


async def test_old_offers_stay_and_say_as_of_when_why_and_what_comes_next(house: House, server: LocalServer) -> None:
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling")
        await asyncio.to_thread(server.stop)
        await cockpit.press("pane.work", "app.reload")
        text = await cockpit.wait_for("stale", "These offers are as they were at", "cannot be reached", "r asks now")
        assert "hypothesis-reviewer" in text


async def test_a_service_that_never_answered_is_an_error_with_keys_and_not_an_empty_list(folder: Path) -> None:
    entry = {"scope": "account", "type": "agent", "endpoint": "http://127.0.0.1:9", "token": "planted", "agent_id": "a"}
    document = {"default": "far", "profiles": {"far": {**entry, "account_id": "b"}}}
    (folder / "profiles.json").write_text(json.dumps(document))
    (folder / "profiles.json").chmod(0o600)
    async with piloted(house_in(folder), settled="no answer") as cockpit:
        await cockpit.wait_for("cannot be reached", "asks again now", "lists what went wrong")


async def test_panes_go_on_under_a_dialog(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "COVERED_PACE", 0.05)
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling")
        await cockpit.press("app.palette")
        assert cockpit.app.covered
        await claim(cockpit)
        await cockpit.wait(lambda: bool(cockpit.app.cockpit_screen.leases.rows), "the lease")
        cockpit.app.say("Told under a dialog")
        await cockpit.wait_for("Told under a dialog", "lease 14m", "1 lease")
        assert cockpit.app.covered
