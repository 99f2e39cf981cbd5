"""The feed: fresh by events or by polling, honest about its age, and no busy retry (hazards 15)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.opportunities import FeedState, OpportunityFeed, Snapshot
from expb_tui.core.profiles.store import Profile
from expb_tui.core.secret import SecretStr
from tests.support.desk import MovingClock, at_home
from tests.support.loopback import FaultyWay, Loopback, Reply, Request, problem
from tests.support.server import LocalServer


@contextlib.asynccontextmanager
async def running(feed: OpportunityFeed) -> AsyncIterator[None]:
    task = asyncio.create_task(feed.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(feed: OpportunityFeed, right: Callable[[Snapshot], bool], *, seconds: float = 6.0) -> Snapshot:
    try:
        async with asyncio.timeout(seconds):
            while not right(feed.snapshot):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(feed.snapshot) from None
    return feed.snapshot


async def test_it_goes_from_loading_to_fresh_and_polls(tmp_path: Path, server: LocalServer) -> None:
    seen: list[Snapshot] = []
    async with at_home(tmp_path, server) as home:
        feed = OpportunityFeed(home.session(), interval=0.1, on_change=seen.append)
        assert (feed.snapshot.state, feed.snapshot.age(home.desk.clock)) == (FeedState.LOADING, None)
        async with running(feed):
            first = await until(feed, lambda now: now.state is FeedState.FRESH)
            assert {item.role for item in first.work} == {item.role for item in first.items if item.available}
            assert len(first.work) >= 5
            again = await until(feed, lambda now: now.serial > first.serial + 1)
            assert again.items is first.items, "nothing new, no new objects"
        assert feed.snapshot.source == "polling"
        assert [one.serial for one in seen] == sorted({one.serial for one in seen})
        age = feed.snapshot.age(home.desk.clock)
        assert age is not None
        assert age < 1


async def test_claimed_work_disappears_with_a_refresh(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        feed = OpportunityFeed(session, project_id=server.project_id, role="ideator", interval=600.0)
        async with running(feed):
            before = await until(feed, lambda now: now.state is FeedState.FRESH)
            await home.claim(session)
            feed.refresh()
            after = await until(feed, lambda now: now.serial > before.serial)
            assert after.items[0].active_packages == before.items[0].active_packages + 1
            assert after.items[0] is not before.items[0]


async def test_an_outage_keeps_the_data_says_so_and_backs_off(tmp_path: Path, server: LocalServer) -> None:
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        feed = OpportunityFeed(home.session(), interval=0.05)
        async with running(feed):
            good = await until(feed, lambda now: now.state is FeedState.FRESH)
            way.fault = lambda request: problem(500, "internal-error")
            await until(feed, lambda now: now.failures >= 1)
            await until(feed, lambda now: now.failures >= 3)
            bad = feed.snapshot
            assert (bad.state, bad.items) == (FeedState.STALE, good.items)
            assert bad.taken_at is not None
            assert bad.error is not None
            assert bad.error.code == "internal-error"
            before = len(way.requests)
            await asyncio.sleep(0.15)
            assert len(way.requests) - before <= 2
            way.fault = lambda request: "pass"
            feed.refresh()
            again = await until(feed, lambda now: now.state is FeedState.FRESH)
            assert (again.error, again.failures) == (None, 0)


async def test_without_any_data_it_is_an_error_in_words(tmp_path: Path, server: LocalServer) -> None:
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        way.fault = lambda request: problem(403, "forbidden")
        feed = OpportunityFeed(home.session(), interval=30.0)
        async with running(feed):
            bad = await until(feed, lambda now: now.state is FeedState.ERROR)
            assert bad.error is not None
            assert bad.error.next_step


async def test_retry_after_is_respected(tmp_path: Path, server: LocalServer) -> None:
    clock = MovingClock()
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        way.fault = lambda request: problem(429, "rate-limited", retry_after="40")
        feed = OpportunityFeed(home.session(), interval=0.05, clock=clock)
        async with running(feed):
            bad = await until(feed, lambda now: now.failures == 1)
            assert bad.next_try_ticks is not None
            assert bad.next_try_ticks - clock.ticks() > 39
            sent = len(way.requests)
            await asyncio.sleep(0.3)
            assert len(way.requests) == sent


async def opportunities_without_all(request: Request) -> Reply:
    if "all" in request.query:
        return problem(400, "invalid-query")
    return Reply(200, {"items": [{"project_id": "p", "role": "ideator", "available": 1, "retry_after_seconds": 0}]})


async def test_a_service_that_knows_only_work_is_asked_for_work(tmp_path: Path, server: LocalServer) -> None:
    async with (
        Loopback(opportunities_without_all).running() as upstream,
        at_home(tmp_path, server, endpoint=upstream.url) as home,
    ):
        feed = OpportunityFeed(home.session(), interval=0.05)
        async with running(feed):
            found = await until(feed, lambda now: now.state is FeedState.FRESH)
            assert [item.role for item in found.work] == ["ideator"]
            await until(feed, lambda now: now.serial > found.serial + 1)
        assert sum("all" in request.query for request in upstream.requests) == 1


async def test_work_that_may_be_asked_for_soon_is_looked_at_then(tmp_path: Path, server: LocalServer) -> None:
    async def handler(request: Request) -> Reply:
        return Reply(200, {"items": [{"project_id": "p", "role": "ideator", "retry_after_seconds": 3}]})

    clock = MovingClock()
    async with Loopback(handler).running() as upstream, at_home(tmp_path, server, endpoint=upstream.url) as home:
        feed = OpportunityFeed(home.session(), interval=600.0, clock=clock)
        async with running(feed):
            found = await until(feed, lambda now: now.state is FeedState.FRESH)
            assert found.next_try_ticks is not None
            assert 3 < found.next_try_ticks - clock.ticks() < 4


async def test_old_data_is_not_called_fresh_after_a_suspend(tmp_path: Path, server: LocalServer) -> None:
    clock = MovingClock()
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        feed = OpportunityFeed(home.session(), interval=20.0, clock=clock)
        async with running(feed):
            await until(feed, lambda now: now.state is FeedState.FRESH)
            way.fault = lambda request: "hold"
            clock.ahead = 4000.0
            feed._wake.set()
            stale = await until(feed, lambda now: now.state is FeedState.STALE)
            age = stale.age(clock)
            assert age is not None
            assert age > 3999
            way.open.set()
            await until(feed, lambda now: now.state is FeedState.FRESH)


def owner_of(home: Any, server: LocalServer) -> Any:
    tokens = server.sign_in()
    token = SecretStr(tokens["access_token"])
    home.store.put(Profile("owner", "user", endpoint=server.address, account_id=tokens["account_id"], token=token))
    return home.session("owner")


async def test_events_of_a_user_profile_bring_news_at_once(
    tmp_path: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expb_tui.core.opportunities._EVENT_GAP", 0.1)
    async with at_home(tmp_path, server) as home:
        session, owner = home.session(), owner_of(home, server)
        feed = OpportunityFeed(session, watcher=owner, interval=600.0)
        async with running(feed):
            await until(feed, lambda now: now.source == "events" and now.state is FeedState.FRESH)
            await asyncio.sleep(0.3)
            before = feed.snapshot
            held = await home.claim(session)
            after = await until(feed, lambda now: now.serial > before.serial, seconds=8.0)
            counts = {(item.project_id, item.role): item.active_packages for item in after.items}
            assert counts[server.project_id, "ideator"] == 1
            await home.desk.release(session, held.uid)
            await until(feed, lambda now: now.serial > after.serial, seconds=8.0)


async def test_without_events_it_polls(tmp_path: Path, server: LocalServer) -> None:
    async with at_home(tmp_path, server) as home:
        session = home.session()
        feed = OpportunityFeed(session, watcher=session, interval=0.1)  # an agent gets 403 there
        async with running(feed):
            first = await until(feed, lambda now: now.state is FeedState.FRESH)
            await until(feed, lambda now: now.serial > first.serial + 3)
            assert feed.snapshot.source == "polling"


GARBAGE = b"event: invalidate\ndata: {not json\n\nevent: novelty\ndata: x\n\n"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>hello</html>", {"content-type": "text/html"}),
        Reply(200, GARBAGE, {"content-type": "text/event-stream"}),
        Reply(404, b"nothing here"),
    ],
    ids=["html", "garbage", "absent"],
)
async def test_a_strange_event_stream_does_not_stop_the_feed(tmp_path: Path, server: LocalServer, reply: Reply) -> None:
    async with FaultyWay(server.address).running() as way, at_home(tmp_path, server, endpoint=way.url) as home:
        way.fault = lambda request: reply if request.path == "/v1/events" else "pass"
        session = home.session()
        feed = OpportunityFeed(session, watcher=session, interval=0.1)
        async with running(feed):
            first = await until(feed, lambda now: now.state is FeedState.FRESH)
            await until(feed, lambda now: now.serial > first.serial + 3 and now.source == "polling")
        assert len(way.seen("GET", "/v1/events")) <= 2
