"""The list of notices: times, counts, next steps, what is told while one looks, copying, and the way to the place."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from expb_tui.core.errors import ExpbError
from expb_tui.present.cells import Tone
from expb_tui.watch.notices import Notice
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.server import LocalServer

ERROR = ExpbError("The desk is closed", cause="it is night", next_step="Come back tomorrow", code="shut")


@pytest.fixture
async def cockpit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: LocalServer) -> AsyncIterator[PilotCockpit]:
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    profiles_file(tmp_path, server)
    async with piloted(house_in(tmp_path)) as shown:
        await shown.wait_for("polling")
        yield shown


async def test_an_error_is_counted_and_told_whole_with_its_next_step(cockpit: PilotCockpit) -> None:
    cockpit.app.complain(ERROR)
    await cockpit.wait_for("The desk is closed: it is night", "! 1 new")
    cockpit.app.say("Something else")
    cockpit.app.complain(ERROR)
    await cockpit.wait_for("! 1 new")
    await cockpit.press("app.notices")
    text = await cockpit.wait_for("next  Come back tomorrow", "code  shut", "told  2 times, first at")
    assert text.index("desk is closed") < text.index("Something else")
    assert "Go there" not in text
    await cockpit.key("escape")
    await cockpit.wait_for("Commands", without="1 new")


async def test_what_is_told_meanwhile_appears_and_the_cursor_stays(cockpit: PilotCockpit) -> None:
    cockpit.app.complain(ERROR)
    await cockpit.press("app.notices")
    await cockpit.wait_for("code  shut")
    cockpit.app.say("News from elsewhere", Tone.WARN)
    text = await cockpit.wait_for("News from elsewhere", "code  shut")
    assert "1 new" not in text
    await cockpit.press("list.up")
    await cockpit.wait_for("News from elsewhere", without="code  shut")
    await cockpit.key("escape")
    assert cockpit.app.notices.unread == 0


async def test_a_notice_leads_to_its_row_though_a_filter_hides_it(cockpit: PilotCockpit) -> None:
    app = cockpit.app
    await cockpit.press("list.filter")
    await cockpit.type("researcher")
    await cockpit.key("enter")
    await cockpit.press("pane.leases")
    app.tell(Notice(app.house.clock.now(), Tone.WARN, "About the owner", pane="profiles", row="owner"))
    await cockpit.press("app.notices")
    await cockpit.wait_for("Enter Go there")
    await cockpit.press("notice.open")
    await cockpit.wait_for("Profile owner")
    assert app.cockpit_screen.active.id == "profiles"
    assert app.cockpit_screen.profiles.current_key == "owner"


async def test_a_notice_is_copied_whole(cockpit: PilotCockpit) -> None:
    cockpit.app.complain(ERROR)
    await cockpit.press("app.notices")
    await cockpit.wait_for("code  shut")
    await cockpit.press("notice.copy")
    await cockpit.wait_for("the notice")


async def test_an_empty_list_says_what_it_is_for(cockpit: PilotCockpit) -> None:
    await cockpit.press("app.notices")
    await cockpit.wait_for("Nothing has been told yet.", "newest first")
