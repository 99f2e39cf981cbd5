"""Local acts in the cockpit are taken back with one key; marks make an act about many rows."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.profiles.document import Profiles
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.launch import House
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


@pytest.fixture
async def cockpit(house: House) -> AsyncIterator[PilotCockpit]:
    async with piloted(house) as shown:
        await shown.wait_for("polling")
        yield shown


def profiles(folder: Path) -> Profiles:
    return ProfileStore(folder / "profiles.json").read()


def saved(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "profiles.json").read_text())
    return found


async def test_a_removed_profile_comes_back_whole_with_the_default_and_the_work(
    cockpit: PilotCockpit, folder: Path
) -> None:
    before = profiles(folder)
    cockpit.app.cockpit_screen.profiles.select("researcher")
    await cockpit.press("profile.remove")
    await cockpit.wait_for("Remove researcher?", "u brings them back while the cockpit is open")
    await cockpit.key("y")
    await cockpit.wait_for("removed from this host; u brings it back", "no profile")
    assert "researcher" not in saved(folder)["profiles"]
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back: the removal of researcher", "online", "polling")
    assert profiles(folder) == before
    await cockpit.press("app.undo")
    await cockpit.wait_for("Nothing to take back")


async def test_several_marked_profiles_are_removed_and_brought_back_at_once(
    cockpit: PilotCockpit, folder: Path
) -> None:
    before = profiles(folder)
    await cockpit.press("list.top", "list.mark", "list.mark")
    await cockpit.wait_for("2 marked", "Sign out 2")
    await cockpit.press("app.copy")
    await cockpit.wait_for("2 marked", "owner researcher")
    await cockpit.key("escape")
    await cockpit.press("app.menu")
    await cockpit.wait_for("Remove 2")
    await cockpit.key("escape")
    await cockpit.press("profile.remove")
    await cockpit.wait_for("Remove 2 profiles?", "  owner", "  researcher", "No lease depends")
    await cockpit.key("y")
    await cockpit.wait_for("No profile on this host yet.", "Profile researcher is removed", without="Ctrl+c cancels")
    assert saved(folder)["profiles"] == {}
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back: the removal of owner, researcher")
    assert profiles(folder) == before


async def test_an_agent_that_was_signed_out_is_signed_in_again(
    cockpit: PilotCockpit, folder: Path, server: LocalServer
) -> None:
    cockpit.app.cockpit_screen.profiles.select("researcher")
    await cockpit.press("profile.logout")
    await cockpit.wait_for("Sign out researcher?", "An agent's token is deleted here only")
    await cockpit.key("y")
    await cockpit.wait_for("researcher is signed out; u takes that back")
    assert "token" not in saved(folder)["profiles"]["researcher"]
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back: the sign-out of researcher", "online")
    assert saved(folder)["profiles"]["researcher"]["token"] == server.agent_token


async def test_a_profile_signed_in_anew_is_not_replaced_by_an_undo(
    cockpit: PilotCockpit, folder: Path, server: LocalServer
) -> None:
    cockpit.app.cockpit_screen.profiles.select("researcher")
    await cockpit.press("profile.logout")
    await cockpit.wait_for("Sign out researcher?")
    await cockpit.key("y")
    await cockpit.wait_for("researcher is signed out")
    document = saved(folder)
    document["profiles"]["researcher"]["token"] = "a-newer-one"
    (folder / "profiles.json").write_text(json.dumps(document))
    await cockpit.press("app.undo")
    await cockpit.wait_for("has been signed in anew since")
    assert saved(folder)["profiles"]["researcher"]["token"] == "a-newer-one"
    assert cockpit.app.undo.newest is not None


async def test_acting_as_another_profile_is_taken_back(cockpit: PilotCockpit, folder: Path) -> None:
    cockpit.app.cockpit_screen.profiles.select("owner")
    await cockpit.press("profile.use")
    await cockpit.wait_for("owner *", "signed out: L signs in")
    assert saved(folder)["default"] == "owner"
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back: acting as owner", "researcher *", "online")
    assert saved(folder)["default"] == "researcher"


async def test_another_project_is_taken_back(cockpit: PilotCockpit, folder: Path) -> None:
    before = saved(folder)
    cockpit.app.cockpit_screen.profiles.select("researcher")
    await cockpit.press("profile.project")
    await cockpit.wait_for("search-relevance", "The project that commands and panes use")
    await cockpit.key("down", "enter")
    await cockpit.wait_for("researcher works in search-relevance")
    assert saved(folder)["profiles"]["researcher"]["project_name"] == "search-relevance"
    await cockpit.press("app.undo")
    await cockpit.wait_for("Taken back: the project of researcher")
    assert saved(folder) == before


async def test_filter_and_marks_that_esc_cleared_are_had_again(cockpit: PilotCockpit) -> None:
    work = cockpit.app.cockpit_screen.work
    await cockpit.press("pane.work", "list.mark", "list.filter")
    await cockpit.type("ideator")
    await cockpit.key("enter")
    await cockpit.wait_for("/ideator", "2 of 8")
    await cockpit.press("app.back", "app.back")
    assert (work.filter, work.marks) == ("", frozenset())
    await cockpit.press("app.undo")
    await cockpit.wait(lambda: len(work.marks) == 1, "the marks")
    await cockpit.press("app.undo")
    await cockpit.wait_for("/ideator", "2 of 8")
