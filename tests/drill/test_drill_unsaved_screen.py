"""A claim that the full disk does not take, in the cockpit: its token is shown once, saved after all, or given back."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from expb_tui.tui.screens.claim import ClaimScreen
from expb_tui.tui.screens.unsaved import UnsavedScreen
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.disk import Disk, small_disk
from tests.support.loopback import FaultyWay, Request, posts
from tests.support.server import LocalServer


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as made:
        yield made


@pytest.fixture
async def cockpit(
    disk: Disk, tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PilotCockpit]:
    """The disk fills up when the claim arrives at the service; the dialog of what cannot be saved is open."""
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path, EXPB_TUI_STATE_DIR=str(disk.folder / "state")).items():
        monkeypatch.setenv(name, value)

    def full(request: Request) -> str:
        if posts("work-packages")(request):
            disk.fill()
        return "pass"

    async with FaultyWay(server.address).running() as way:
        profiles_file(tmp_path, server, endpoint=way.url)
        async with piloted(house_in(tmp_path)) as shown:
            await shown.wait_for("polling", "This host holds no work package")
            way.fault = full
            await shown.press("work.claim")
            await shown.wait(lambda: isinstance(shown.app.screen, ClaimScreen))
            await shown.wait_for("OBJECTIVES", "checkout-latency")
            await shown.press("claim.ask")
            await shown.wait(lambda: isinstance(shown.app.screen, UnsavedScreen), "the token's dialog")
            yield shown


def shown_token(cockpit: PilotCockpit) -> str:
    (line,) = [line for line in cockpit.text.splitlines() if "│ lease token  " in line]
    return line.split("lease token")[1].split()[0]


async def test_the_token_is_shown_once_and_saved_when_there_is_room_again(cockpit: PilotCockpit, disk: Disk) -> None:
    await cockpit.wait_for("Claimed, and not saved", "no space is left", "adopt")
    token = shown_token(cockpit)
    desk = cockpit.app.house.desk
    assert await desk.held() == []
    disk.free()
    await cockpit.press("unsaved.save")
    await cockpit.wait_for("Assigned: 1 task", "in the journal")
    (held,) = await desk.held()
    row = await desk.journal.package(held.uid)
    assert row is not None
    assert row.token is not None
    assert row.token.get_secret_value() == token
    assert token not in cockpit.text


async def test_it_is_given_back(cockpit: PilotCockpit, disk: Disk, server: LocalServer) -> None:
    await cockpit.press("unsaved.return")
    await cockpit.wait_for("given back")
    await cockpit.wait_for("could not save its token")
    with server.client(server.agent_token) as http:
        packages = http.get(f"/v1/projects/{server.project_id}/work-packages").json()["items"]
    assert {one["status"]["phase"] for one in packages} == {"released"}
    disk.free()


async def test_leaving_it_says_what_that_means(cockpit: PilotCockpit, disk: Disk) -> None:
    await cockpit.press("dialog.close")
    await cockpit.wait_for("Leave the package unsaved?", "Its token is gone then", "Nobody can work on the package")
    await cockpit.key("n")
    assert isinstance(cockpit.app.screen, UnsavedScreen)
    disk.free()
