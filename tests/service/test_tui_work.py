"""Claiming, answering and submitting from the cockpit on a real server, by keys alone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.leases.desk import Desk
from expb_tui.core.leases.model import HeldPackage, Receipt
from expb_tui.launch import House
from expb_tui.tui.screens.claim import ClaimScreen
from expb_tui.tui.screens.cockpit import CockpitScreen
from expb_tui.tui.screens.package import PackageScreen
from expb_tui.tui.screens.submit import ReceiptScreen, SubmitScreen
from expb_tui.tui.screens.task_form import TaskFormScreen
from expb_tui.tui.widgets.form import FormView
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.wire.work import output_digest
from tests.support.cockpit import PilotCockpit, environment, house_in, piloted, profiles_file
from tests.support.filling import fill, press_button, question
from tests.support.server import LocalServer

PATCH = """--- a/cache/lookup.py
+++ b/cache/lookup.py
@@ -1 +1,2 @@
 import shop
+import cache
"""
ANSWERS: dict[str, dict[str, Any]] = {
    "ideator": {
        "statement": "A cache lowers p95.",
        "rationale": "Lookups cost 22%.",
        "expected_effect": "415",
        "plan": "Switch it on.\nReplay the load.",
        "risks": "stale prices\nmore memory",
    },
    "hypothesis-reviewer": {
        "verdict": "refine",
        "rationale": "Too broad.",
        "refined_statement": "A price cache lowers p95 to 410 ms.",
    },
    "experimenter": {"conclusion": "supported", "summary": "Three runs.", "value": "401.5", "samples": "3"},
    "results-reviewer": {
        "verdict": "request-evidence",
        "rationale": "One replica only.",
        "evidence_requests": "Repeat on two replicas.",
    },
    "integrator": {"summary": "A flag.", "base_revision": "9f2c1ab"},
}
RECORDS = {
    "ideator": "hypotheses",
    "hypothesis-reviewer": "hypothesis-reviews",
    "experimenter": "results",
    "results-reviewer": "result-reviews",
    "integrator": "integrations",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("EXPB", "SSH_", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
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


async def choose(cockpit: PilotCockpit, role: str) -> None:
    """Go to the row of that role in the claim dialog."""
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, ClaimScreen))
    await cockpit.wait_for("OBJECTIVES", role)
    table = cockpit.app.screen.query_one("#claim-table", LineTable)
    for _ in range(12):
        row = table.current
        assert row is not None
        if {cell.text for cell in row.cells} >= {role, "checkout-latency"}:
            return
        await cockpit.press("list.down")
    raise AssertionError(cockpit.text)


async def claimed(cockpit: PilotCockpit, role: str) -> HeldPackage:
    """Claim through the dialog; the package's own screen is open afterwards."""
    await cockpit.press("work.claim")
    await choose(cockpit, role)
    await cockpit.press("claim.ask")
    await cockpit.wait_for("Assigned: 1 task", "in the journal")
    await cockpit.press("claim.open")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, PackageScreen))
    (held,) = await cockpit.app.house.desk.held()
    return held


async def opened(cockpit: PilotCockpit, role: str) -> HeldPackage:
    """Claim as the dialog does, and go into the form of the task."""
    house = cockpit.app.house
    session = await house.session("researcher")
    assert session.profile.project_id is not None
    outcome = await house.desk.request(session, session.profile.project_id, role, project_name="checkout-latency")
    assert outcome.held is not None
    await cockpit.app.bridge.leases_changed()
    await cockpit.press("pane.leases", "lease.submit")
    await in_form(cockpit)
    return outcome.held


async def in_form(cockpit: PilotCockpit) -> None:
    """The form is there and has the focus."""
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, TaskFormScreen))
    await cockpit.wait_for("Outcome")
    await cockpit.press("task.fill")
    await cockpit.wait(lambda: question(cockpit) is not None)


async def receipts(cockpit: PilotCockpit) -> list[Receipt]:
    return await cockpit.app.house.desk.receipts()


def on_server(server: LocalServer, uid: str) -> dict[str, Any]:
    with server.client(server.agent_token) as http:
        found: dict[str, Any] = http.get(f"/v1/work-packages/{uid}").json()
        return found


@pytest.mark.parametrize("role", ANSWERS)
async def test_a_task_of_each_role_is_claimed_filled_in_and_submitted(
    cockpit: PilotCockpit, server: LocalServer, folder: Path, role: str
) -> None:
    held = await claimed(cockpit, role)
    await cockpit.press("package.open")
    await in_form(cockpit)
    await fill(cockpit, ANSWERS[role])
    if role == "experimenter":
        report = folder / "report.json"
        report.write_text('{"p95": 401.5}')
        await fill(cockpit, {"constraint_1": "0.5", "constraint_2": "870"})
        await cockpit.wait_for("! not satisfied", "\u2713 satisfied")
        await cockpit.press("form.add")
        await fill(cockpit, {"path": "report.json"})
        await cockpit.key("tab")
        await cockpit.wait_for("14 bytes, application/json, sha256")
    if role == "integrator":
        (folder / "change.diff").write_text(PATCH)
        await fill(cockpit, {"patch_file": "change.diff"})
    await cockpit.press("form.review")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, SubmitScreen))
    # Exactly what is sent, where and as whom.
    await cockpit.wait_for("What is sent", server.address, "researcher", "checkout-latency")
    assert not await receipts(cockpit)
    assert on_server(server, held.uid)["status"]["phase"] == "active"
    await cockpit.press("submit.send")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, ReceiptScreen))
    (receipt,) = await receipts(cockpit)
    await cockpit.wait_for("confirmed", receipt.record_id, RECORDS[role], receipt.output_sha256)
    if role == "experimenter":
        with server.client(server.agent_token) as http:
            result = http.get(f"/v1/results/{receipt.record_id}").json()["spec"]
        (item,) = result["evidence"]
        assert item == {
            "kind": "artifact",
            "name": "report.json",
            "mediaType": "application/json",
            "sizeBytes": 14,
            "sha256": hashlib.sha256(b'{"p95": 401.5}').hexdigest(),
        }
        assert [answer["satisfied"] for answer in result["constraints"]] == [False, True]
    task = on_server(server, held.uid)["status"]["tasks"][0]
    assert (task["phase"], task["recordId"], task["outputSha256"]) == (
        "submitted",
        receipt.record_id,
        receipt.output_sha256,
    )
    # The receipt stays and is reachable from the package.
    await cockpit.press("receipt.done")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, PackageScreen))
    await cockpit.wait_for("completed")
    await cockpit.press("package.receipts")
    await cockpit.wait_for("Receipts", receipt.record_id[:12])


async def test_a_file_that_cannot_be_used_is_said_at_its_field(cockpit: PilotCockpit) -> None:
    await opened(cockpit, "integrator")
    await fill(cockpit, {"summary": "s", "base_revision": "1", "patch_file": "no-such-file"})
    await cockpit.press("form.review")
    await cockpit.wait_for("no-such-file cannot be read: No such file")
    here = question(cockpit)
    assert here is not None
    assert here.field.key == "patch_file"
    assert isinstance(cockpit.app.screen, TaskFormScreen)
    assert not await receipts(cockpit)


async def test_what_is_missing_is_said_at_the_field_and_nothing_is_sent(cockpit: PilotCockpit) -> None:
    await opened(cockpit, "ideator")
    await fill(cockpit, {"statement": "A cache.", "expected_effect": "fast"})
    await cockpit.press("form.review")
    await cockpit.wait_for("answers to look at", "is needed", "a number such as")
    here = question(cockpit)
    assert here is not None
    assert here.field.key == "rationale"
    assert not isinstance(cockpit.app.screen, SubmitScreen)


async def test_failed_with_a_reason_is_a_submission_too(cockpit: PilotCockpit, server: LocalServer) -> None:
    held = await claimed(cockpit, "ideator")
    await cockpit.press("package.fail")
    await cockpit.wait_for("Reason")
    await cockpit.wait(lambda: (here := question(cockpit)) is not None and here.field.key == "reason")
    assert "Statement" not in cockpit.text.split("Answer")[1]
    await cockpit.type("The rig is down.")
    await cockpit.press("form.review")
    await cockpit.wait_for("Report this task as failed?", "reason: The rig is down.")
    await cockpit.press("submit.send")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, ReceiptScreen))
    (receipt,) = await receipts(cockpit)
    assert (receipt.outcome, receipt.record_id) == ("failed", "")
    assert on_server(server, held.uid)["status"]["tasks"][0]["phase"] == "submitted"


async def test_a_secret_blocks_the_submission_and_names_the_field(cockpit: PilotCockpit, server: LocalServer) -> None:
    held = await opened(cockpit, "ideator")
    secret = server.agent_token
    await fill(cockpit, {"statement": "s", "rationale": "r", "plan": f"Use {secret} for it."})
    await cockpit.press("form.review")
    await cockpit.wait_for("What is sent")
    await cockpit.press("submit.send")
    await cockpit.wait_for("output.hypothesis.plan", "not submitted", "draft stays")
    await cockpit.press("dialog.close")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, TaskFormScreen))
    await cockpit.wait(lambda: (here := question(cockpit)) is not None and here.field.key == "plan")
    assert on_server(server, held.uid)["status"]["phase"] == "active"
    assert not await receipts(cockpit)


async def test_a_lost_lease_keeps_the_draft_and_says_so(cockpit: PilotCockpit, server: LocalServer) -> None:
    held = await opened(cockpit, "ideator")
    await fill(cockpit, {"statement": "A cache.", "rationale": "r", "plan": "p"})
    server.pass_time(3_600)
    await cockpit.press("form.review")
    await cockpit.wait_for("What is sent")
    await cockpit.press("submit.send")
    await cockpit.wait_for("It is not submitted. The draft stays on this host.")
    await cockpit.press("dialog.close")
    await cockpit.wait_for("A cache.")
    draft = await cockpit.app.house.desk.draft(held.uid, held.tasks[0].task_id)
    assert draft is not None
    assert draft.values["statement"] == "A cache."
    assert not await receipts(cockpit)


async def test_a_server_that_is_gone_keeps_the_draft_and_says_the_next_step(
    cockpit: PilotCockpit, server: LocalServer
) -> None:
    house = cockpit.app.house
    house.desk = Desk(house.journal, house.store, patience=0.5)
    held = await opened(cockpit, "ideator")
    await fill(cockpit, {"statement": "A cache.", "rationale": "r", "plan": "p"})
    await cockpit.press("form.review")
    await cockpit.wait_for("What is sent")
    await asyncio.to_thread(server.stop)
    await cockpit.press("submit.send")
    await cockpit.wait_for("It is not submitted. The draft stays on this host.")
    draft = await cockpit.app.house.desk.draft(held.uid, held.tasks[0].task_id)
    assert draft is not None
    assert draft.values["plan"] == "p"


async def test_a_draft_is_there_again_in_the_next_cockpit(house: House, folder: Path) -> None:
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling")
        await opened(cockpit, "ideator")
        await fill(cockpit, {"statement": "Half an idea"})
        await cockpit.wait(lambda: cockpit.app.screen._keeper.saved)  # type: ignore[attr-defined]  # the task screen's
        await cockpit.type(" more")
        # Closing at once must not lose the last letters.
        await cockpit.press("form.leave")
        await cockpit.press("dialog.close")
        await cockpit.wait(lambda: isinstance(cockpit.app.screen, CockpitScreen))
    async with piloted(house_in(folder)) as again:
        await again.wait_for("polling", "ideator")
        await again.press("pane.leases", "lease.submit")
        await again.wait_for("Half an idea more")


async def test_a_draft_is_offered_when_the_task_comes_again(cockpit: PilotCockpit) -> None:
    house = cockpit.app.house
    before = await opened(cockpit, "ideator")
    await fill(cockpit, {"statement": "My first idea"})
    await cockpit.press("form.leave", "dialog.close")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, CockpitScreen))
    session = await house.session("researcher")
    await house.desk.release(session, before.uid)
    assert session.profile.project_id is not None
    outcome = await house.desk.request(session, session.profile.project_id, "ideator")
    assert outcome.held is not None
    (task,) = outcome.held.tasks
    assert (task.task_id, task.draft_before) == (before.tasks[0].task_id, True)
    await cockpit.app.bridge.leases_changed()
    await cockpit.press("pane.leases", "list.top", "lease.submit")
    await cockpit.wait_for("Which draft of this task goes on?", "of when it was held before", "My first idea")
    await cockpit.key("escape")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, TaskFormScreen))
    assert await house.desk.draft(outcome.held.uid, task.task_id) is None
    await cockpit.press("task.versions")
    await cockpit.wait_for("Which draft of this task goes on?")
    await cockpit.key("enter")
    await cockpit.wait_for("Statement", "My first idea", without="Which draft")
    await in_form(cockpit)
    await cockpit.type("again")  # into the first answer that is missing
    await cockpit.press("form.leave", "dialog.close")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, CockpitScreen))
    drafts = [await house.desk.draft(uid, task.task_id) for uid in (before.uid, outcome.held.uid)]
    words = [(draft.values["statement"], draft.values["rationale"]) for draft in drafts if draft is not None]
    assert words == [("My first idea", ""), ("My first idea", "again")]


async def test_two_windows_on_one_task_are_told_and_lose_nothing(cockpit: PilotCockpit) -> None:
    desk = cockpit.app.house.desk
    held = await opened(cockpit, "ideator")
    uid, task_id = held.uid, held.tasks[0].task_id
    await fill(cockpit, {"statement": "Begun"})
    await cockpit.wait(lambda: cockpit.app.screen._keeper.saved)  # type: ignore[attr-defined]  # the task screen's
    draft = await desk.draft(uid, task_id)
    assert draft is not None
    other = {**draft.values, "statement": "Typed for an hour"}
    await desk.save_draft(uid, task_id, other, based_on=draft)
    await cockpit.type("!")
    await cockpit.wait_for("Which draft of this task goes on?", "of another window", "Typed for an hour", "typed here")
    told = cockpit.app.notices.last
    assert told is not None
    assert told.text == "This draft was changed in another window"
    await cockpit.key("escape")
    await cockpit.wait_for("saved beside another window's draft", "Begun!")
    await cockpit.press("form.leave", "task.versions")
    await cockpit.wait_for("Which draft of this task goes on?")
    await cockpit.press("list.down")  # the version of this window is the newest
    await cockpit.key("enter")
    await cockpit.wait_for("saved as you type", "Typed for an hour", without="Begun")
    draft, (mine,) = await desk.draft(uid, task_id), await desk.other_drafts(uid, task_id)
    assert draft is not None
    assert (draft.values["statement"], mine.values["statement"]) == ("Typed for an hour", "Begun!")


async def test_leaving_the_cockpit_in_the_middle_of_a_word_keeps_it(house: House, folder: Path) -> None:
    async with piloted(house) as cockpit:
        await cockpit.wait_for("polling")
        held = await opened(cockpit, "ideator")
        await fill(cockpit, {"statement": "Half a wor"})
        cockpit.app.exit()
    draft = await house_in(folder).desk.draft(held.uid, held.tasks[0].task_id)
    assert draft is not None
    assert draft.values["statement"] == "Half a wor"


async def test_an_untouched_form_is_no_draft(cockpit: PilotCockpit) -> None:
    held = await opened(cockpit, "experimenter")
    await cockpit.key("tab", "tab", "tab")
    await cockpit.press("form.leave")
    await cockpit.press("dialog.close")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, CockpitScreen))
    assert await cockpit.app.house.desk.draft(held.uid, held.tasks[0].task_id) is None


async def test_an_answer_that_is_changed_and_changed_back_loses_nothing(cockpit: PilotCockpit) -> None:
    await opened(cockpit, "hypothesis-reviewer")
    await fill(cockpit, {"verdict": "refine", "rationale": "r", "refined_statement": "Better."})
    await cockpit.key("shift+tab", "shift+tab")
    here = question(cockpit)
    assert here is not None
    assert here.field.key == "verdict"
    await cockpit.key("right", "right")  # reject
    assert "New statement" not in cockpit.text
    await cockpit.key("left", "left")
    await cockpit.wait_for("New statement", "Better.")


async def test_an_entry_is_added_and_taken_out(cockpit: PilotCockpit) -> None:
    await opened(cockpit, "experimenter")
    await cockpit.press("form.add")
    await fill(cockpit, {"name": "first"})
    await press_button(cockpit, "Add one")
    await fill(cockpit, {"name": "second"})
    assert [row["name"] for row in _evidence(cockpit)] == ["first", "second"]
    await cockpit.key("shift+tab")
    await cockpit.press("form.remove")
    await cockpit.wait(lambda: [row["name"] for row in _evidence(cockpit)] == ["first"])


def _evidence(cockpit: PilotCockpit) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cockpit.app.screen.query_one(FormView).values()["evidence"]
    return rows


async def test_no_work_is_a_normal_answer_with_its_causes(cockpit: PilotCockpit, server: LocalServer) -> None:
    with server.client(server.sign_in()["access_token"]) as http:
        roles = http.get(f"/v1/projects/{server.project_id}/research-roles").json()["items"]
        (role,) = [item for item in roles if item["spec"].get("role") == "ideator"]
        answer = http.patch(
            f"/v1/research-roles/{role['metadata']['uid']}",
            json={"spec": {"enabled": False}},
            headers={"If-Match": f'"{role["metadata"]["version"]}"'},
        )
        assert answer.status_code == 200, answer.text
    await cockpit.press("work.claim")
    await choose(cockpit, "ideator")
    await cockpit.press("claim.ask")
    await cockpit.wait_for("No work just now. That is a normal answer.", "blocks", "switched off")
    assert not await cockpit.app.house.desk.held()
    await cockpit.press("claim.again")
    await cockpit.wait_for("Tasks, at most")


async def test_an_impossible_number_of_tasks_is_refused_in_the_form(cockpit: PilotCockpit) -> None:
    await cockpit.press("work.claim")
    await cockpit.wait_for("OBJECTIVES")
    await cockpit.key("tab", "backspace", "0", "enter")
    await cockpit.wait_for("A whole number of at least 1")
    assert not await cockpit.app.house.desk.held()


async def test_the_digest_shown_is_the_digest_that_the_server_keeps(cockpit: PilotCockpit) -> None:
    await opened(cockpit, "ideator")
    await fill(cockpit, {"statement": "Grüße \u2192 p95", "rationale": "r", "plan": "p"})
    await cockpit.press("form.review")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, SubmitScreen))
    screen = cockpit.app.screen
    assert isinstance(screen, SubmitScreen)
    digest = output_digest(json.loads(json.dumps(screen._body["output"])))
    await cockpit.wait_for(digest)
    await cockpit.press("submit.send")
    await cockpit.wait(lambda: isinstance(cockpit.app.screen, ReceiptScreen))
    assert (await receipts(cockpit))[0].output_sha256 == digest
