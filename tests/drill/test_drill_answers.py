"""Each request of a claim, a renewal, a submission and a release in turn is lost, cut or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support import answers
from tests.support.drill import Drill, claim, faulty_way, kept, save_draft
from tests.support.loopback import FaultyWay, Reply, Request, problem
from tests.support.recorded import Ran

FAULTS: dict[str, str | Reply] = {
    "never arrives": "drop",
    "answer lost": "lose",
    "answer cut": "cut",
    "refused for now": problem(503, "unavailable", retry_after="0"),
}


class Operator:
    """One operator on a way that can be broken, and the act that is drilled."""

    def __init__(self, drill: Drill, way: FaultyWay, kind: str) -> None:
        self.drill = drill
        self.kind = kind
        self.place = drill.place(endpoint=way.url)
        self.results = drill.results()
        self.body = ""
        self.uid = ""
        if kind != "claim":
            package = claim(self.place).json()["resource"]
            task = package["status"]["tasks"][0]
            self.uid = package["metadata"]["uid"]
            output = answers.idea(task["input"])
            self.body = json.dumps({"taskId": task["taskId"], "outcome": "completed", "output": output})
            save_draft(self.place, self.uid, task["taskId"], {"typed": "x"})

    def act(self) -> Ran:
        more = {
            "renew": (),
            "submit": ("--file", "-"),
            "release": ("--yes",),
        }
        if self.kind == "claim":
            return claim(self.place)
        return self.place.run("agent", "work", self.kind, self.uid, *more[self.kind], given=self.body)

    def check(self, done: Ran, what: str) -> None:
        """What a command said, and what is on the server, agree after the next one at the latest."""
        shown = self.drill.truthful(self.place)
        assert "Traceback" not in done.err
        assert "internal error" not in done.err, (what, done.err)
        assert len(shown) <= 1, what
        receipts, drafts = kept(self.place)
        if self.kind == "claim":
            assert done.code == 0 or "error" in done.err
            return
        if self.kind != "submit":
            assert len(drafts) == 1
            if done.code == 0:
                assert shown[self.uid] == ("active" if self.kind == "renew" else "released"), what
            return
        assert self.drill.results() == self.results + len(receipts), what
        assert len(receipts) + len(drafts) == 1, what
        assert done.code != 0 or receipts, what
        again = self.act()
        assert again.code == 0, (what, again.err)
        assert self.drill.results() == self.results + 1, what


@pytest.fixture
def way(drill: Drill) -> Iterator[FaultyWay]:
    with faulty_way(drill.server) as made:
        yield made


def nth(number: int, verdict: str | Reply) -> Callable[[Request], str | Reply]:
    """The request of that number gets ``verdict``."""
    count = -1

    def fault(_: Request) -> str | Reply:
        nonlocal count
        count += 1
        return verdict if count == number else "pass"

    return fault


@pytest.mark.parametrize("kind", ["claim", "renew", "submit", "release"])
def test_one_answer_is_lost(drill: Drill, way: FaultyWay, kind: str) -> None:
    first = Operator(drill, way, kind)
    before = len(way.requests)
    assert first.act().code == 0
    requests = len(way.requests) - before
    assert requests >= 1
    drill.clear()
    for number in range(requests):
        for word, verdict in FAULTS.items():
            operator = Operator(drill, way, kind)
            way.fault = nth(number, verdict)
            done = operator.act()
            way.fault = lambda _: "pass"
            operator.check(done, f"{kind}, request {number}: {word}")
            drill.clear()
