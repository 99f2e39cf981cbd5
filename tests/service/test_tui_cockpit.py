"""The cockpit on a real server: what it shows, what its keys do, and what becomes of it when things go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from expb_tui.launch import House
from expb_tui.tui.widgets.dialog import Dialog
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.loopback import FaultyWay, once, posts
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


@pytest.fixture
async def cockpit(house: House) -> AsyncIterator[PilotCockpit]:
    async with piloted(house) as shown:
        await shown.wait_for("polling")
        yield shown


async def claim(cockpit: PilotCockpit, role: str = "experimenter") -> str:
    """Claim through the desk, as the claim dialog does; returns the package's id."""
    house = cockpit.app.house
    session = await house.session("researcher")
    project = session.profile.project_id
    assert project is not None
    outcome = await house.desk.request(session, project, role, 1, project_name="checkout-latency")
    assert outcome.held is not None
    await cockpit.wait_for(role, "1 lease")
    return outcome.held.uid


async def test_the_first_frame_shows_the_profiles_and_the_rest_follows(house: House) -> None:
    async with piloted(house, settled=None) as cockpit:
        assert "researcher" in cockpit.text
        await cockpit.wait_for("online", "hypothesis-reviewer", "This host holds no work package.")


async def test_no_profile_at_all_explains_itself_and_names_the_keys(folder: Path) -> None:
    profiles_file(folder)
    async with piloted(house_in(folder), settled="no profile") as cockpit:
        text = cockpit.text
        assert "No profile on this host yet." in text
        assert "L  signs in" in text
        assert "Work is offered to agents, and no" in text


async def test_a_claimed_package_is_counted_down_renewed_and_released_by_keys(cockpit: PilotCockpit) -> None:
    uid = await claim(cockpit)
    await cockpit.press("pane.leases")
    await cockpit.wait_for(uid, "1 lease", "Instructions")
    await cockpit.press("lease.renew")
    text = await cockpit.wait_for("Renew the experimenter package?", uid)
    assert "its absolute end" in text
    await cockpit.key("enter")
    await cockpit.wait_for("experimenter: renewed")
    await cockpit.press("lease.release")
    await cockpit.wait_for("Release the experimenter package?", "1 open task can then be assigned")
    await cockpit.key("escape")
    await cockpit.wait_for("14m", without="Release the")
    await cockpit.press("lease.release")
    await cockpit.key("y")
    await cockpit.wait_for("released; its open tasks are on offer again", "0 leases")
    [held] = await cockpit.app.house.desk.held()
    assert held.state.value == "released"


async def test_the_lease_token_is_never_on_the_screen(cockpit: PilotCockpit, folder: Path) -> None:
    await claim(cockpit)
    [journal] = (folder / "state").rglob("journal.db")
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as connection:
        dump = "\n".join(connection.iterdump())
    shown = [cockpit.text]
    for pane in ("pane.profiles", "pane.work", "pane.leases", "pane.package"):
        await cockpit.press(pane, "pane.full")
        shown.append(cockpit.text)
        await cockpit.press("pane.full")
    await cockpit.press("app.copy")
    shown.append(cockpit.text)
    words = {word for text in shown for word in text.split() if len(word) >= 40}
    assert not [word for word in words if word in dump and not word.startswith(("http", "\u2502"))]


async def test_a_role_without_work_is_explained_cause_by_cause(house: House, server: LocalServer, folder: Path) -> None:
    profiles_file(folder, server, signed_in=True)
    with server.client(server.sign_in()["access_token"]) as http:
        roles = http.get(f"/v1/projects/{server.project_id}/research-roles").json()["items"]
        ideator = next(item for item in roles if "ideator" in (item["metadata"]["name"], item["spec"].get("role")))
        answer = http.patch(
            f"/v1/research-roles/{ideator['metadata']['uid']}",
            json={"spec": {"enabled": False}},
            headers={"If-Match": f'"{ideator["metadata"]["version"]}"'},
        )
        assert answer.status_code == 200, answer.text
    async with piloted(house) as cockpit:
        await cockpit.wait_for("live events")
        await cockpit.press("pane.work", "work.all")
        cockpit.app.cockpit_screen.work.select(f"{server.project_id}/ideator")
        await cockpit.wait_for("Why there is no work for the ideator:", "switched off")


async def test_a_package_whose_token_is_lost_says_so_and_a_member_withdraws_it(
    server: LocalServer, folder: Path
) -> None:
    async with FaultyWay(server.address).running() as way:
        profiles_file(folder, server, signed_in=True, endpoint=way.url)
        house = house_in(folder)
        async with piloted(house) as cockpit:
            way.fault = once(posts("work-packages"), "cut")
            outcome = await house.desk.request(await house.session("researcher"), server.project_id, "experimenter")
            assert outcome.held is not None
            await cockpit.press("pane.leases")
            await cockpit.wait_for("token lost", outcome.held.uid)
            await cockpit.press("lease.renew")
            assert not cockpit.app.covered
            await cockpit.press("lease.withdraw")
            await cockpit.wait_for("Withdraw the experimenter package?", "its token never arrived")
            await cockpit.key("y")
            await cockpit.wait_for("withdrawn; its tasks are on offer again", "revoked")


async def test_a_lost_connection_is_a_state_of_the_header_with_its_time(
    cockpit: PilotCockpit, server: LocalServer
) -> None:
    await asyncio.to_thread(server.stop)
    await cockpit.press("app.reload")
    text = await cockpit.wait_for("no answer since")
    assert not cockpit.app.covered
    assert "experimenter" in text


async def test_profiles_that_another_program_writes_appear_by_themselves(cockpit: PilotCockpit, folder: Path) -> None:
    path = folder / "profiles.json"
    document = json.loads(path.read_text())
    document["profiles"]["visitor"] = {"scope": "account", "endpoint": "http://127.0.0.1:9", "type": "user"}
    fresh = folder / "profiles.new"
    fresh.write_text(json.dumps(document))
    fresh.rename(path)
    await cockpit.wait_for("visitor")
    path.write_text("{")
    await cockpit.wait_for("line 1 column 2")
    assert "visitor" in cockpit.text


async def test_another_profile_is_used_with_enter_and_becomes_the_default(cockpit: PilotCockpit, folder: Path) -> None:
    await cockpit.press("pane.profiles")
    cockpit.app.cockpit_screen.profiles.select("owner")
    await cockpit.press("profile.use")
    await cockpit.wait_for("owner is signed out: L signs in", "owner *")
    assert json.loads((folder / "profiles.json").read_text())["default"] == "owner"


async def test_removing_a_profile_names_the_leases_that_it_strands(cockpit: PilotCockpit, folder: Path) -> None:
    uid = await claim(cockpit)
    await cockpit.press("pane.profiles")
    cockpit.app.cockpit_screen.profiles.select("researcher")
    await cockpit.press("profile.remove")
    await cockpit.wait_for("Remove researcher?", "1 lease could no longer be renewed or submitted", uid)
    await cockpit.key("n")
    assert "researcher" in json.loads((folder / "profiles.json").read_text())["profiles"]
    await cockpit.press("profile.remove")
    await cockpit.wait_for("Remove researcher?")
    await cockpit.key("enter")
    # The words are not covered by a notice of what was just agreed to.
    await cockpit.wait_for("removed from this host; u brings it back", "no credential")
    assert "researcher" not in json.loads((folder / "profiles.json").read_text())["profiles"]


async def test_details_show_where_the_secret_is_kept_and_nothing_secret(
    cockpit: PilotCockpit, server: LocalServer
) -> None:
    await cockpit.press("pane.profiles", "profile.details")
    text = await cockpit.wait_for("secret kept in", "the profile file (0600)", server.agent_id)
    assert server.agent_token not in text


async def test_read_only_hides_whatever_changes_the_server(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server)
    async with piloted(house_in(folder, read_only=True)) as cockpit:
        text = await cockpit.wait_for("read-only", "polling")
        assert "C Claim" not in text
        assert "asks for one" not in text
        await cockpit.press("pane.work")
        assert "C asks" not in await cockpit.wait_for("read-only: nothing is claimed from it")
        await cockpit.press("work.claim")
        assert not cockpit.app.covered
        await cockpit.press("app.palette")
        await cockpit.type("claim")
        assert "Ask for a work package" not in cockpit.text


async def test_ctrl_c_cancels_what_runs_and_twice_asks_to_leave(cockpit: PilotCockpit) -> None:
    started = asyncio.Event()

    async def long() -> None:
        started.set()
        await asyncio.sleep(60)

    cockpit.app.bridge.run("a long operation", long)
    await started.wait()
    await cockpit.wait_for("a long operation", "Ctrl+c cancels")
    await cockpit.press("app.cancel")
    await cockpit.wait_for("Cancelled: a long operation")
    await cockpit.press("app.cancel")
    await cockpit.wait_for("Leave expb-tui?", "This host holds no live lease.")
    await cockpit.key("enter")
    await cockpit.wait(lambda: not cockpit.app.is_running, "the end")


async def test_leaving_says_what_becomes_of_the_leases(cockpit: PilotCockpit) -> None:
    await claim(cockpit)
    await cockpit.press("app.back")
    await cockpit.wait_for("Leave expb-tui?", "1 lease runs out, the first in", "Only this cockpit renews it", "is off")
    await cockpit.key("escape")
    await cockpit.wait_for("3 Leases", without="Leave expb-tui?")


async def test_the_menu_offers_what_is_possible_and_does_it(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.work", "app.menu")
    text = await cockpit.wait_for("All roles", "Explain")
    assert "Renew" not in text.split("All roles")[1].split("Choose")[0]
    await cockpit.key("down", "enter")
    await cockpit.wait_for("Roles without work are shown too")


async def test_the_palette_finds_actions_of_other_panes(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.leases", "app.palette")
    await cockpit.type("all roles")
    await cockpit.key("enter")
    await cockpit.wait_for("Roles without work are shown too")
    assert cockpit.app.cockpit_screen.active.id == "work"


async def test_a_theme_is_previewed_and_kept_or_left(cockpit: PilotCockpit) -> None:
    await cockpit.press("app.theme")
    await cockpit.wait_for("Light: paper white")
    await cockpit.key("down")
    await cockpit.wait(lambda: cockpit.app.palette.name == "light", "the preview")
    await cockpit.key("escape")
    assert cockpit.app.palette.name == "dark"
    await cockpit.press("app.theme")
    await cockpit.key("down", "down", "enter")
    await cockpit.wait_for('theme = "high-contrast"')
    assert cockpit.app.palette.name == "high-contrast"


async def test_small_terminals_show_one_pane_at_a_time(house: House) -> None:
    async with piloted(house, size=(80, 24)) as cockpit:
        await cockpit.wait_for("1 Profiles   2 Work", "NAME")
        await cockpit.press("pane.leases")
        text = await cockpit.wait_for("\u25b83 Leases", "This host holds no work package.")
        assert "NAME" not in text
        await cockpit.press("pane.next")
        await cockpit.wait_for("\u25b84 Package")
        await cockpit.pilot.resize_terminal(120, 40)
        await cockpit.wait_for("NAME", "ROLE", without="1 Profiles   2 Work")


async def test_screen_modes_and_the_way_back(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.work", "pane.full")
    text = await cockpit.wait_for("2 Work", without="1 Profiles")
    assert "OBJECTIVES" in text
    await cockpit.press("app.back")
    await cockpit.wait_for("1 Profiles", "2 Work")
    await cockpit.press("pane.grow")
    await cockpit.wait(lambda: cockpit.app.cockpit_screen.work.size.width == 72, "half")
    await cockpit.press("pane.shrink")
    await cockpit.wait(lambda: cockpit.app.cockpit_screen.work.size.width == 48, "normal")


@pytest.mark.parametrize(("settings", "words"), [('icons = "ascii"\n', "+> 1 Profiles"), ("", "\u25b8 1 Profiles")])
async def test_ascii_icons_leave_no_other_character(
    folder: Path, server: LocalServer, settings: str, words: str
) -> None:
    profiles_file(folder, server)
    (folder / "config").mkdir()
    (folder / "config" / "config.toml").write_text(settings)
    async with piloted(house_in(folder)) as cockpit:
        text = await cockpit.wait_for(words, "polling")
        assert text.isascii() == bool(settings)


async def test_keys_are_remapped_by_the_settings_and_nonsense_is_told(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server)
    (folder / "config").mkdir()
    (folder / "config" / "config.toml").write_text('theme = "nowhere"\n[keys]\n"app.notices" = "w"\n"app.menu" = "C"\n')
    async with piloted(house_in(folder)) as cockpit:
        await cockpit.wait_for("! 2 new")
        await cockpit.key("w")
        await cockpit.wait_for("There is no theme nowhere", "C of app.menu is the key of work.claim")
        await cockpit.key("escape", "exclamation_mark")
        assert not cockpit.app.covered


async def test_what_is_copied_is_offered_and_said(cockpit: PilotCockpit, server: LocalServer) -> None:
    await cockpit.press("pane.work", "app.copy")
    await cockpit.wait_for("project id", server.project_id, "claim command")
    await cockpit.key("enter")
    await cockpit.wait_for("Sent to", server.project_id, without="claim command")


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_signal_while_a_dialog_opens_ends_as_a_signal_does(house: House, turns: int) -> None:
    async with piloted(house) as cockpit:
        cockpit.app.push_screen(Dialog[None]("Opening"))
        for _ in range(turns):
            await asyncio.sleep(0)
        cockpit.app.end_now(143)
    assert cockpit.app.return_code == 143
