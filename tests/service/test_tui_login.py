"""Signing in from the cockpit: link, code, QR code, every end, and what follows from it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from expb_tui.launch import DemoHint, House, open_house
from expb_tui.server.config import Lifetimes
from expb_tui.tui import theme
from expb_tui.tui.screens.agent import AgentScreen
from expb_tui.tui.screens.login import LoginScreen
from expb_tui.tui.screens.project import ProjectScreen
from expb_tui.tui.widgets.big_text import BigText
from tests.support.cockpit import PilotCockpit, environment, house_in, in_terminal, piloted, profiles_file
from tests.support.filling import paste, press_button
from tests.support.loopback import Loopback, Reply, Request
from tests.support.picture import codes, drawn, image
from tests.support.server import LocalServer, ServerFactory

QUICK = Lifetimes(device_interval=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [
        name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR", "TMUX", "DISPLAY", "WAYL"))
    ]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def server(server_factory: ServerFactory) -> LocalServer:
    return server_factory(lifetimes=QUICK)


@pytest.fixture
def house(folder: Path, server: LocalServer) -> House:
    profiles_file(folder, server)
    return house_in(folder)


def saved(folder: Path) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads((folder / "profiles.json").read_text())["profiles"]
    return entries


async def waiting(cockpit: PilotCockpit, profile: str = "owner") -> str:
    """Begin to sign in as a known profile; returns the code."""
    house = cockpit.app.house
    cockpit.app.push_screen(LoginScreen(house, profile=profile))
    await cockpit.wait_for("waiting for approval")
    return cockpit.app.screen.query_one(BigText).text


async def test_a_person_signs_in_and_uses_the_profile(house: House, server: LocalServer, folder: Path) -> None:
    async with piloted(house) as cockpit:
        await cockpit.press("pane.profiles")
        while "owner" not in str(cockpit.app.cockpit_screen.profiles.current_key):
            await cockpit.press("list.up")
        await cockpit.press("profile.login")
        text = await cockpit.wait_for("waiting for approval", f"{server.address}/oauth/device?user_code=")
        code = cockpit.app.screen.query_one(BigText).text
        # The address comes first, the code can be read and selected as text, and the time left is coarse.
        assert text.index("oauth/device") < text.index(f"Code  {code}")
        assert re.search(r"good for \d+m\b", text)
        await asyncio.to_thread(server.approve, code)
        await cockpit.wait_for("Signed in", "(owner)", "in the profile file (0600)")
        await press_button(cockpit, "Done")
        await cockpit.wait_for("owner", "signed in", without="signed out")
    entry = saved(folder)["owner"]
    assert entry["endpoint"] == server.address
    assert entry["token"]
    assert entry["refresh_token"]


async def test_a_phone_reads_the_complete_address_in_every_theme(house: House, server: LocalServer) -> None:
    async with piloted(house) as cockpit:
        code = await waiting(cockpit)
        address = f"{server.address}/oauth/device?user_code={code}"
        for name in theme.SHIPPED:
            cockpit.app.use_theme(name)
            await cockpit.pilot.pause()
            for color_system in ("truecolor", "standard"):
                screen = drawn(cockpit.app, color_system=color_system)
                for dark_terminal in (True, False):
                    read = codes(image(screen, dark_terminal=dark_terminal))
                    assert read == [address], (name, color_system, dark_terminal)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (200, 60)])
async def test_code_and_qr_code_share_the_screen_or_take_turns(
    house: House, server: LocalServer, columns: int, lines: int
) -> None:
    async with piloted(house, size=(columns, lines)) as cockpit:
        code = await waiting(cockpit)
        address = f"{server.address}/oauth/device?user_code={code}"
        together = columns > 80
        assert (codes(image(drawn(cockpit.app, color_system="truecolor"))) == [address]) is together
        assert address in cockpit.text
        assert f"Code  {code}" in cockpit.text
        if not together:
            await cockpit.press("login.swap")
            assert codes(image(drawn(cockpit.app, color_system="truecolor"))) == [address]
            assert f"Code  {code}" not in cockpit.text
            await cockpit.press("login.swap")
            assert f"Code  {code}" in cockpit.text


async def test_the_demo_names_its_owner(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server)
    hint = DemoHint(server.address, server.email, server.password, "owner")
    async with piloted(open_house(demo_hint=hint)) as cockpit:
        await waiting(cockpit)
        assert server.email in cockpit.text
        assert server.password in cockpit.text


async def test_a_refusal_is_said_and_one_may_start_again(house: House, server: LocalServer, folder: Path) -> None:
    async with piloted(house) as cockpit:
        first = await waiting(cockpit)
        await asyncio.to_thread(server.deny, first)
        await cockpit.wait_for("Nothing was saved", "refused it on the approval page")
        await cockpit.press("login.again")
        await cockpit.wait_for("waiting for approval")
        assert cockpit.app.screen.query_one(BigText).text != first
    assert "token" not in saved(folder)["owner"]


async def test_a_code_that_nobody_approved_expires(folder: Path, server_factory: ServerFactory) -> None:
    server = server_factory(lifetimes=Lifetimes(device_interval=1, device_code=2))
    profiles_file(folder, server)
    async with piloted(house_in(folder)) as cockpit:
        await waiting(cockpit)
        await cockpit.wait_for("Nobody approved it in time", "Start again")


async def test_what_the_poll_says_is_said(folder: Path) -> None:
    """Unreachable is a state too, and the code stays on the screen."""
    answers: list[str | None] = [None, "slow_down"]

    async def answer(request: Request) -> Reply | None:
        if request.path == "/oauth/device_authorization":
            base = f"http://{request.headers['host']}/oauth/device"
            started = {
                "device_code": "d" * 43,
                "user_code": "K7Q2M-W9_XPA",
                "verification_uri": base,
                "expires_in": 600,
                "interval": 1,
            }
            return Reply(200, started)
        if request.path == "/oauth/token":
            said = answers.pop(0)
            return Reply(400, {"error": said}) if said else None
        return Reply(401, {"code": "unauthenticated", "status": 401})

    async with Loopback(answer).running() as service:
        owner = {"type": "user", "scope": "account", "endpoint": service.url}
        (folder / "profiles.json").write_text(json.dumps({"profiles": {"owner": owner}}))
        async with piloted(house_in(folder), settled=None) as cockpit:
            await waiting(cockpit)
            await cockpit.wait_for("K7Q2M-W9_XPA", without="waiting for approval")
            await cockpit.wait_for("slow", "K7Q2M-W9_XPA")


async def test_esc_cancels_at_any_time(house: House, server: LocalServer, folder: Path) -> None:
    async with piloted(house) as cockpit:
        code = await waiting(cockpit)
        await cockpit.press("dialog.close")
        await cockpit.wait(lambda: not isinstance(cockpit.app.screen, LoginScreen))
        await cockpit.wait_for("cancelled")
        await asyncio.to_thread(server.approve, code)
    assert "token" not in saved(folder)["owner"]


async def test_a_token_that_comes_after_esc_is_revoked(folder: Path) -> None:
    asked, granted, revoked = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Reply | None:
        if request.path == "/oauth/device_authorization":
            base = f"http://{request.headers['host']}/oauth/device"
            return Reply(
                200,
                {
                    "device_code": "d" * 43,
                    "user_code": "K7Q2M",
                    "verification_uri": base,
                    "expires_in": 60,
                    "interval": 1,
                },
            )
        if request.path == "/oauth/token":
            asked.set()
            await granted.wait()
            tokens = {"access_token": "a" * 43, "refresh_token": "r" * 43, "expires_in": 900, "token_type": "Bearer"}
            return Reply(200, tokens | {"scope": "account", "account_id": "acc-1"})
        if request.path == "/oauth/revoke":
            assert b"r" * 43 in request.content
            revoked.set()
            return Reply(200, {})
        return Reply(401, {"code": "unauthenticated", "status": 401})

    async with Loopback(answer).running() as service:
        owner = {"type": "user", "scope": "account", "endpoint": service.url}
        (folder / "profiles.json").write_text(json.dumps({"profiles": {"owner": owner}}))
        async with piloted(house_in(folder), settled=None) as cockpit:
            await waiting(cockpit)
            await asyncio.wait_for(asked.wait(), 10)
            await cockpit.press("dialog.close")
            await cockpit.wait(lambda: not isinstance(cockpit.app.screen, LoginScreen))
            granted.set()
            await asyncio.wait_for(revoked.wait(), 10)
    assert "token" not in saved(folder)["owner"]


async def test_a_new_profile_names_service_and_itself(house: House, server: LocalServer, folder: Path) -> None:
    async with piloted(house) as cockpit:
        await cockpit.press("pane.profiles", "profile.add")
        await cockpit.wait_for("Address of the service")
        screen = cockpit.app.screen
        screen.query_one("#login-endpoint").focus()
        await cockpit.key("ctrl+u")
        await paste(cockpit, "http://127.0.0.1:9\x1b[31m\n")
        await cockpit.key("tab", "ctrl+u")
        await cockpit.type("lab")
        await cockpit.key("enter")
        # What was typed is still there to be corrected.
        await cockpit.wait_for("cannot be reached", "lab", "http://127.0.0.1:9")
        await cockpit.key("ctrl+u")
        await paste(cockpit, server.address + "/")
        await cockpit.key("enter")
        await cockpit.wait_for("waiting for approval")
        await asyncio.to_thread(server.approve, cockpit.app.screen.query_one(BigText).text)
        await cockpit.wait_for("Signed in", "lab")
    assert saved(folder)["lab"]["endpoint"] == server.address


async def test_an_agent_profile_is_told_that_it_has_no_sign_in(house: House) -> None:
    async with piloted(house) as cockpit:
        cockpit.app.push_screen(LoginScreen(house, profile="researcher"))
        await cockpit.wait_for("agent", "Close")
        assert cockpit.app.is_running


async def test_an_agent_identity_is_registered_and_kept(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server, signed_in=True, default="owner")
    async with piloted(house_in(folder)) as cockpit:
        cockpit.app.push_screen(AgentScreen(cockpit.app.house, profile="owner"))
        await cockpit.wait_for("Name of the agent identity")
        await cockpit.type("researcher")
        await cockpit.key("enter")
        await cockpit.type("lab")
        await cockpit.key("enter", "enter")
        await cockpit.wait_for("was not registered: the account has an")
        await cockpit.type("2")
        await cockpit.key("enter", "enter", "enter")
        await cockpit.wait_for("Saved as profile lab", "Next: a project")
        await press_button(cockpit, "Use this profile")
        await cockpit.wait(lambda: not isinstance(cockpit.app.screen, AgentScreen))
    entries = saved(folder)
    assert entries["lab"]["type"] == "agent"
    with server.client(entries["lab"]["token"]) as http:
        assert http.get("/v1/principal").json()["agent_id"] == entries["lab"]["agent_id"]


async def test_a_token_is_checked_and_saved_and_never_shown(house: House, server: LocalServer, folder: Path) -> None:
    async with piloted(house) as cockpit:
        cockpit.app.push_screen(AgentScreen(house, mode="token", endpoint=server.address))
        await cockpit.wait_for("Token")
        await cockpit.type("lab")
        await cockpit.key("enter", "enter")
        await paste(cockpit, "x" * 43)
        await cockpit.key("enter")
        await cockpit.wait_for("\u2717")
        assert "lab" not in saved(folder)
        await cockpit.key("ctrl+u")
        await paste(cockpit, f" {server.agent_token}\n")
        assert server.agent_token[:8] not in cockpit.text
        await cockpit.key("enter")
        await cockpit.wait_for("Saved as profile lab", server.agent_id)
        assert server.agent_token[:8] not in cockpit.text
    assert saved(folder)["lab"]["token"] == server.agent_token


async def test_the_project_is_chosen_from_a_filtered_list(house: House, folder: Path) -> None:
    async with piloted(house) as cockpit:
        cockpit.app.push_screen(ProjectScreen(house, profile="researcher"))
        await cockpit.wait_for("checkout-latency", "search-relevance")
        await cockpit.press("list.filter")
        await cockpit.type("search")
        await cockpit.key("enter")
        await cockpit.press("dialog.accept")
        await cockpit.wait(lambda: not isinstance(cockpit.app.screen, ProjectScreen))
    assert saved(folder)["researcher"]["project_name"] == "search-relevance"


# In a real terminal


def test_link_clipboard_and_code_reach_a_real_terminal(folder: Path, server: LocalServer) -> None:
    profiles_file(folder, server)
    environ = environment(folder, SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22", DISPLAY=":0")
    with in_terminal(environ, columns=80, lines=24, settled="online") as cockpit:
        cockpit.press("pane.profiles", "list.up", "profile.login")
        text = cockpit.wait_for("waiting for approval")
        (code,) = re.findall(r"Code  (\S+)", text)
        address = f"{server.address}/oauth/device?user_code={code}"
        output = bytes(cockpit.terminal.output)
        assert re.search(rb"\x1b\]8;[^;]*;" + re.escape(address.encode()) + rb"\x1b\\", output)
        assert "Browser" not in text  # over SSH no browser can be opened from here
        cockpit.press("login.swap")
        cockpit.terminal.settle()
        assert cockpit.terminal.codes() == [address]
        cockpit.press("login.copy")
        cockpit.wait_for("Sent to the terminal")
        assert b"\x1b]52;c;" in cockpit.terminal.output
        # The window grows: both are shown, nothing is cut.
        cockpit.terminal.resize(120, 40)
        cockpit.wait_for(f"Code  {code}")
        cockpit.terminal.settle()
        assert cockpit.terminal.codes() == [address]
        server.approve(code)
        cockpit.wait_for("Signed in")
