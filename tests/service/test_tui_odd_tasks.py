"""Tasks that a hostile or a newer service sends: shown as text, answered all the same."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from expb_tui.tui.screens.package import PackageScreen
from expb_tui.tui.screens.submit import ReceiptScreen, SubmitScreen
from expb_tui.tui.screens.task_form import TaskFormScreen
from expb_tui.tui.widgets.controls import ProseArea
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted
from tests.support.filling import fill
from tests.support.picture import drawn
from tests.support.upstream import ACCOUNT_ID, AGENT_ID, Upstream

EVIL = "x\x1b]0;evil\x07\x1b[31m\u202e\u2028key: live\x85\x9b2J[bold]markup[/bold] \u200b"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@asynccontextmanager
async def holding(
    folder: Path, role: str, task_input: dict[str, Any], size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[PilotCockpit, Upstream, str]]:
    """A cockpit that holds a package of such a task."""
    service = Upstream()
    async with service.running():
        entry = {
            "type": "agent",
            "scope": "account",
            "endpoint": service.url,
            "account_id": ACCOUNT_ID,
            "agent_id": AGENT_ID,
            "token": "a" * 43,
        }
        (folder / "profiles.json").write_text(json.dumps({"default": "lab", "profiles": {"lab": entry}}))
        uid = service.new_package()
        package = service.packages[uid]
        package["spec"]["role"] = package["status"]["tasks"][0]["role"] = role
        package["status"]["tasks"][0]["input"] = task_input
        house = house_in(folder)
        await house.desk.adopt(await house.session("lab"), {"resource": package, "leaseToken": service.tokens[uid]})
        async with piloted(house, size=size, settled=None) as cockpit:
            yield cockpit, service, uid


def clean(text: str) -> bool:
    return all(char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp") for char in text)


def hostile(value: Any) -> Any:
    """Every text of a JSON value made hostile."""
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return f"{EVIL}{value}" if isinstance(value, str) else value


TASK = {
    "instructions": ["Warm up."],
    "objective": {
        "metadata": {"uid": "obj-1", "name": "latency"},
        "spec": {
            "description": "Lower it.",
            "measure": {"name": "p95", "unit": "ms", "direction": "minimize", "baseline": 455.0},
            "constraints": [{"name": "error_rate", "operator": "<=", "value": 0.01, "unit": "ratio"}],
        },
    },
    "hypothesis": {"metadata": {"uid": "hyp-1"}, "spec": {"statement": "It helps.", "risks": ["stale"]}},
    "candidates": [{"uid": "hyp-2", "statement": "Another.", "phase": "in-review"}],
}


@pytest.mark.parametrize("role", ["hypothesis-reviewer", "experimenter"])
async def test_nothing_of_a_hostile_task_reaches_the_terminal_as_control(folder: Path, role: str) -> None:
    async with holding(folder, role, hostile(TASK)) as (cockpit, _, uid):
        house = cockpit.app.house
        cockpit.app.push_screen(PackageScreen(house, package_uid=uid))
        await cockpit.wait_for("evil")
        assert clean(cockpit.text)
        await cockpit.press("package.open")
        await cockpit.wait_for("Outcome", "evil")
        assert clean(cockpit.text)
        assert "[bold]markup" in cockpit.text, "markup is text"
        screen = cockpit.app.screen
        assert isinstance(screen, TaskFormScreen)
        draft = screen._panel.text(screen._text.sections)
        live = [one for one in draft.splitlines() if one.strip() and not one.lstrip().startswith("#")]
        assert not [one for one in live if one.startswith("key:")]
        await cockpit.press("task.fill")
        for _ in range(6):
            await cockpit.key("tab")
            assert clean(cockpit.text)


async def test_what_is_sent_is_shown_cleaned(folder: Path) -> None:
    async with holding(folder, "ideator", TASK) as (cockpit, _, uid):
        house = cockpit.app.house
        body = {"taskId": "t", "outcome": "failed", "reason": EVIL}
        cockpit.app.push_screen(SubmitScreen(house, package_uid=uid, body=body))
        await cockpit.wait_for("What is sent", "reason")
        assert clean(cockpit.text)


async def test_a_role_of_a_later_service_is_answered_as_yaml(folder: Path) -> None:
    async with holding(folder, "alchemist", {"metal": "lead"}) as (cockpit, service, uid):
        house = cockpit.app.house
        held = await house.desk.get(uid)
        task_id = held.tasks[0].task_id
        cockpit.app.push_screen(TaskFormScreen(house, package_uid=uid, task_id=task_id))
        await cockpit.wait_for("No form for the role alchemist", "outcome: completed", "lead")
        await cockpit.press("task.fill")
        area = cockpit.app.screen.query_one(ProseArea)
        await cockpit.wait(lambda: area.has_focus)
        # A slip is said and nothing is sent.
        area.text = f"taskId: {task_id}\noutcome: done\noutput: {{}}\n"
        await cockpit.press("form.review")
        await cockpit.wait_for("outcome must be")
        area.text = f"taskId: {task_id}\noutcome: completed\noutput:\n  gold: 3\n"
        await cockpit.pilot.pause()
        await cockpit.wait(lambda: cockpit.app.screen._keeper.saved)  # type: ignore[attr-defined]  # the task screen's
        draft = await house.desk.draft(uid, task_id)
        assert draft is not None
        assert draft.text == area.text
        await cockpit.press("form.review")
        await cockpit.wait_for("What is sent", "gold: 3")
        await cockpit.press("submit.send")
        await cockpit.wait(lambda: isinstance(cockpit.app.screen, ReceiptScreen))
        (sent,) = service.seen("POST", "submissions")
        assert sent.body == {"taskId": task_id, "outcome": "completed", "output": {"gold": 3}}
        assert await house.desk.draft(uid, task_id) is None


async def test_a_task_without_a_word_is_still_answered(folder: Path) -> None:
    async with holding(folder, "ideator", {}) as (cockpit, service, uid):
        house = cockpit.app.house
        held = await house.desk.get(uid)
        cockpit.app.push_screen(TaskFormScreen(house, package_uid=uid, task_id=held.tasks[0].task_id))
        await cockpit.wait_for("Objective id")
        await cockpit.press("task.fill")
        await fill(cockpit, {"objective_id": "obj-9", "statement": "s", "rationale": "r", "plan": "p"})
        await cockpit.press("form.review")
        await cockpit.wait_for("What is sent", "obj-9")
        await cockpit.press("submit.send")
        await cockpit.wait(lambda: isinstance(cockpit.app.screen, ReceiptScreen))
        (sent,) = service.seen("POST", "submissions")
        assert sent.body["output"]["hypothesis"]["objectiveId"] == "obj-9"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_wide_letters_and_endless_words_stay_inside_their_frame(folder: Path, size: tuple[int, int]) -> None:
    task = {"x" * 300: "word", "metal" * 60: ["\u9285" * 200, "lead"], "instructions": ["\u8abf\u67fb" * 90]}
    async with holding(folder, "alchemist", task, size=size) as (cockpit, _, uid):
        house = cockpit.app.house
        for screen in (
            PackageScreen(house, package_uid=uid),
            TaskFormScreen(house, package_uid=uid, task_id=(await house.desk.get(uid)).tasks[0].task_id),
        ):
            cockpit.app.push_screen(screen)
            await cockpit.wait_for("Instructions", "\u8abf", "xxxx")
            terminal = drawn(cockpit.app, color_system="truecolor")
            edges = {terminal.buffer[row][size[0] - 1].data for row in range(2, size[1] - 3)}
            assert edges <= {"\u2502", "\u2590"}, cockpit.text


async def test_an_empty_answer_of_a_later_role_is_not_even_asked_about(folder: Path) -> None:
    async with holding(folder, "alchemist", {"metal": "lead"}) as (cockpit, service, uid):
        house = cockpit.app.house
        cockpit.app.push_screen(PackageScreen(house, package_uid=uid))
        await cockpit.wait_for("lead")
        await cockpit.press("package.submit")
        await cockpit.wait_for("The answer is still empty")
        assert isinstance(cockpit.app.screen, TaskFormScreen)
        await cockpit.wait(lambda: cockpit.app.screen.query_one(ProseArea).has_focus)
        assert not service.seen("POST", "submissions")
