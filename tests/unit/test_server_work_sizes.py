"""What one agent writes within all rules stays readable for the next one, and for lists (contract, section 1.9)."""

from __future__ import annotations

from pydantic_core import to_json

from expb_tui.server.work.inputs import FURTHER_BYTES, LONGEST_BRIEF, PACKAGE_BYTES
from tests.support import answers
from tests.support.research import Lab, lab

__all__ = ["lab"]

LONG = "long " * 13_000


def size(value: object) -> int:
    return len(to_json(value))


def test_lists_of_hypotheses_hold_their_beginnings(lab: Lab) -> None:
    desk = lab.project(hypothesisReview=True)
    desk.objective()
    desk.limit("open-hypotheses", 100)
    agent = lab.agent("a", desk)
    for _ in range(20):
        desk.work(agent, "ideator", statement=LONG)
    known = desk.must_claim(agent, "ideator").tasks[0]["input"]["knownHypotheses"]
    assert len(known) == 20
    assert {len(entry["statement"]) for entry in known} == {LONGEST_BRIEF}
    assert known[0]["statement"].endswith("…")
    review = desk.must_claim(agent, "hypothesis-reviewer").tasks[0]["input"]
    assert size(review["candidates"]) < 20 * (LONGEST_BRIEF + 200)
    assert review["hypothesis"]["spec"]["statement"] == LONG, "what the task is about is whole"


def test_a_package_carries_as_many_tasks_as_fit(lab: Lab) -> None:
    desk = lab.project(resultReview=True)
    objective = desk.objective()
    desk.role("experimenter", concurrentExperiments=20)
    desk.role("results-reviewer", maxTasks=16)
    agent = lab.agent("a", desk)
    desk.experiments(objective, 6)
    note = [{"kind": "note", "name": f"n{number}", "note": LONG} for number in range(13)]
    for _ in range(6):
        held = desk.must_claim(agent, "experimenter")
        output = answers.report(held.tasks[0]["input"])
        output["result"]["evidence"] = note
        desk.submit(held, output)
    held = desk.must_claim(agent, "results-reviewer", 16)
    assert len(held.tasks) == 2
    assert size(held.tasks) < PACKAGE_BYTES + 64 * 1024
    assert len(desk.must_claim(agent, "results-reviewer", 16).tasks) == 2


def test_further_results_are_left_out_where_there_is_no_room(lab: Lab) -> None:
    desk = lab.project()
    objective = desk.objective()
    agent = lab.agent("a", desk)
    desk.experiments(objective, 6)
    for _ in range(6):
        held = desk.must_claim(agent, "experimenter")
        output = answers.report(held.tasks[0]["input"])
        output["result"]["summary"] = LONG
        desk.submit(held, output)
    shown = desk.must_claim(agent, "integrator").tasks[0]["input"]["results"]
    assert len(shown) == 1 + FURTHER_BYTES // (len(LONG) + 1000)
