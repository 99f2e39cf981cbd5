"""A disk that is full before a request, or by the time of its answer (hazards 5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from expb_tui.core.leases.unsaved import ClaimNotSaved
from tests.support import answers
from tests.support.desk import at_home
from tests.support.disk import Disk, small_disk
from tests.support.drill import Drill, claim, faulty_way, kept, save_draft
from tests.support.loopback import FaultyWay, Reply, Request, posts, problem
from tests.support.recorded import Place
from tests.support.server import LocalServer


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as made:
        yield made


@pytest.fixture
def way(drill: Drill) -> Iterator[FaultyWay]:
    with faulty_way(drill.server) as made:
        yield made


def operator(drill: Drill, disk: Disk, way: FaultyWay) -> Place:
    return drill.place(endpoint=way.url, EXPB_TUI_STATE_DIR=str(disk.folder / "state"))


def full_at(
    disk: Disk, where: Callable[[Request], bool], *, then: Callable[[Request], str | Reply] = lambda _: "pass"
) -> Callable[[Request], str | Reply]:
    """The disk is full when that request arrives; ``then`` judges the others."""

    def fault(request: Request) -> str | Reply:
        if where(request):
            disk.fill()
            return "pass"
        return then(request)

    return fault


def test_without_room_for_the_answer_nothing_is_asked(drill: Drill, disk: Disk, way: FaultyWay) -> None:
    place = operator(drill, disk, way)
    assert place.run("agent", "work", "list").code == 0
    disk.fill()
    done = claim(place)
    assert done.code == 1
    assert "no space is left on the disk" in done.err
    assert not way.seen("POST", "work-packages")
    disk.free()
    assert claim(place).code == 0
    disk.fill(reserve=False)
    assert [one["state"] for one in place.run("agent", "work", "list", "-o", "json").json()] == ["active"]


@pytest.mark.parametrize("refusals", [0, 2])
def test_a_claim_that_cannot_be_saved_is_given_back_by_a_command(
    drill: Drill, disk: Disk, way: FaultyWay, refusals: int
) -> None:
    place = operator(drill, disk, way)
    left = refusals

    def busy(request: Request) -> str | Reply:
        nonlocal left
        if request.method == "PATCH" and left:
            left -= 1
            return problem(503, "unavailable", retry_after="0")
        return "pass"

    way.fault = full_at(disk, posts("work-packages"), then=busy)
    done = claim(place)
    assert done.code == 1
    assert "it was given back: no space is left on the disk" in done.err
    assert len([one for one in way.requests if one.method == "PATCH"]) == refusals + 1
    assert drill.active() == set()
    way.fault = lambda _: "pass"
    disk.free()
    assert drill.truthful(place) == {}


def test_room_that_comes_back_before_the_release_gets_through_saves_the_claim(
    drill: Drill, disk: Disk, way: FaultyWay
) -> None:
    place = operator(drill, disk, way)

    def refused(request: Request) -> str | Reply:
        if request.method != "PATCH":
            return "pass"
        disk.free()
        return problem(503, "unavailable", retry_after="0")

    way.fault = full_at(disk, posts("work-packages"), then=refused)
    uid = claim(place).json()["resource"]["metadata"]["uid"]
    assert drill.truthful(place) == {uid: "active"}


async def test_a_person_gets_the_token_to_see_and_a_second_chance(disk: Disk, server: LocalServer) -> None:
    async with at_home(disk.folder, server) as home:
        session = home.session()
        await home.desk.held()
        api_claim = home.desk.api.claim

        async def filling(*given: object, **named: object) -> object:
            answer = await api_claim(*given, **named)  # type: ignore[arg-type]  # as given
            disk.fill()
            return answer

        home.desk.api.claim = filling  # type: ignore[method-assign,assignment]  # between answer and journal
        with pytest.raises(ClaimNotSaved) as caught:
            await home.desk.request(session, server.project_id, "ideator", keep_unsaved=True)
        unsaved = caught.value.unsaved
        assert unsaved is not None
        assert unsaved.token.get_secret_value() not in str(caught.value) + repr(unsaved)
        assert json.loads(unsaved.answer_text())["lease_token"] == unsaved.token.get_secret_value()
        assert await home.desk.held() == []
        disk.free()
        held = await home.desk.save_unsaved(unsaved)
        assert (held.uid, held.has_token) == (unsaved.package_id, True)
        assert (await home.desk.renew(session, held.uid)).kind == "renewed"
        assert await home.desk.pending() == []


@pytest.mark.parametrize("act", ["submissions", "release"])
def test_what_was_done_on_a_full_disk_is_known_afterwards(drill: Drill, disk: Disk, way: FaultyWay, act: str) -> None:
    place = operator(drill, disk, way)
    results = drill.results()
    package = claim(place).json()["resource"]
    uid, task = package["metadata"]["uid"], package["status"]["tasks"][0]
    save_draft(place, uid, task["taskId"], {"typed": "x"})
    body = json.dumps({"taskId": task["taskId"], "outcome": "completed", "output": answers.idea(task["input"])})
    if act == "submissions":
        way.fault = full_at(disk, posts(act))
        done = place.run("agent", "work", "submit", uid, "--file", "-", given=body)
    else:
        way.fault = full_at(disk, lambda request: request.method == "PATCH")
        done = place.run("agent", "work", "release", uid, "--yes")
    assert "internal error" not in done.err
    assert done.code in (0, 1)
    way.fault = lambda _: "pass"
    disk.free()
    assert drill.truthful(place) == {uid: "completed" if act == "submissions" else "released"}
    receipts, drafts = kept(place)
    assert drill.results() == results + len(receipts)
    assert len(receipts) == (act == "submissions")
    assert len(drafts) == 1 - len(receipts)
