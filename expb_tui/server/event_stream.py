"""``GET /v1/events``: invalidations as server-sent events (contract, section 6.2.9; hazards 15).

A stream holds nothing but its place in the log. Woken by the bell, it reads a few events, waits until its client takes
data, asks whether its session is still valid and of which projects its user is a member, and sends at once what the
answer allows. Questions of all streams that come up together are one transaction, and no connection is held while a
stream waits. On PostgreSQL the log is also looked at every second, for the news of other processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from expb_tui.server.context import Exchange, Services
from expb_tui.server.events import Event, events_after, knows_event, last_event_id
from expb_tui.server.identity.access import session_authority
from expb_tui.server.problems import Problem, forbidden, not_found
from expb_tui.server.routing import EVENT_STREAM_TYPE, Operations, Param, Who
from expb_tui.server.store.database import Database

operations = Operations("events")

POLL_SECONDS = 1.0
"""How late another process's news, and the end of this process, may be noticed."""
GATHER_SECONDS = 0.05
"""A stream waits so long after the bell, so that what belongs together comes in one batch."""
BATCH = 100
"""Events that are sent on one look at the session."""
_ADMINS = ("owner", "admin")
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Authority:
    """What a session may see at one moment: an account and, in it, these projects."""

    account_id: str
    account_role: str
    project_ids: frozenset[str]

    def may_see(self, event: Event) -> bool:
        """Members see their projects; what belongs to the account alone is for its administrators."""
        if event.account_id != self.account_id:
            return False
        if event.project_id is None:
            return self.account_role in _ADMINS
        return event.project_id in self.project_ids


class Together(Generic[KeyT, ValueT]):
    """Answers questions that are asked in the same moment by one call of ``look``, which begins after all of them."""

    def __init__(self, database: Database, look: Callable[[Sequence[KeyT]], Mapping[KeyT, ValueT]]) -> None:
        self._database = database
        self._look = look
        self._asked: dict[KeyT, asyncio.Future[ValueT | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, key: KeyT) -> ValueT | None:
        """The value for ``key``, None where ``look`` has none."""
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
            if len(self._asked) == 1:
                task = asyncio.create_task(self._answer())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(future)

    async def _answer(self) -> None:
        asked, self._asked = self._asked, {}
        try:
            found = await self._database.run_read(self._look, list(asked))
        except Exception as error:  # the streams that asked end with it; their clients come again
            for future in asked.values():
                future.set_exception(error)
            return
        for key, future in asked.items():
            future.set_result(found.get(key))


class Streams:
    """The event streams of one process."""

    def __init__(self, services: Services) -> None:
        self._settings = services.settings
        self._database = services.database
        self._open: Counter[str] = Counter()
        self._waiting: dict[asyncio.Event, str] = {}
        self._loop = asyncio.get_running_loop()
        self.sessions = Together[str, Authority](services.database, self._look_at_sessions)
        self.log = Together[tuple[str, int], Sequence[Event]](services.database, self._look_at_log)
        services.database.bell.listen(self._rung)

    def _rung(self, accounts: frozenset[str]) -> None:
        # In the thread that committed, perhaps after the loop has ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake, accounts)

    def _wake(self, accounts: frozenset[str]) -> None:
        for news, account_id in self._waiting.items():
            if account_id in accounts:
                news.set()

    def _look_at_sessions(self, session_ids: Sequence[str]) -> Mapping[str, Authority]:
        with self._database.read() as conn:
            found = session_authority(conn, self._database.clock(conn), session_ids)
        return {uid: Authority(*entry) for uid, entry in found.items()}

    def _look_at_log(self, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], Sequence[Event]]:
        with self._database.read() as conn:
            return {(account, after): events_after(conn, account, after, BATCH) for account, after in places}

    def beginning(self, account_id: str, last_id: str | None) -> tuple[int, bool]:
        """The place at which a stream begins, and whether its client must read everything again. Blocking."""
        known = int(last_id) if last_id and last_id.isascii() and last_id.isdigit() and len(last_id) < 19 else None
        with self._database.read() as conn:
            if known is not None and knows_event(conn, account_id, known):
                return known, False
            return last_event_id(conn, account_id), last_id is not None

    def enter(self, session_id: str) -> None:
        """Count a stream in. Raises 429 where the session has as many as it may."""
        if self._open[session_id] >= self._settings.event_streams_per_session:
            detail = "The session has too many open event streams."
            raise Problem(429, "rate-limited", detail, headers={"Retry-After": "15"})
        self._open[session_id] += 1

    def leave(self, session_id: str) -> None:
        """Count a stream out."""
        self._open[session_id] -= 1
        if not self._open[session_id]:
            del self._open[session_id]

    @contextlib.contextmanager
    def listening(self, account_id: str) -> Iterator[asyncio.Event]:
        """Gives an event that is set when the account has news."""
        news = asyncio.Event()
        self._waiting[news] = account_id
        try:
            yield news
        finally:
            del self._waiting[news]


class Stream:
    """One open stream: ``frames`` are its bytes."""

    def __init__(
        self, services: Services, streams: Streams, session_id: str, account_id: str, project_id: str | None
    ) -> None:
        self._services = services
        self._streams = streams
        self._session_id = session_id
        self._account_id = account_id
        self._project_id = project_id
        self._place = 0

    async def frames(self, place: int, *, reset: bool) -> AsyncIterator[bytes]:
        """Comments, invalidations, at last ``end``; without it where the database is away: the client comes again."""
        self._place = place
        yield _frame("reset", {}) if reset else b": open\n\n"
        try:
            with self._streams.listening(self._account_id) as news:
                async for frame in self._live(news):
                    yield frame
            yield _END
        except SQLAlchemyError:
            return

    async def _live(self, news: asyncio.Event) -> AsyncIterator[bytes]:
        """What comes until the stream's time is over, its session ends or the server stops."""
        loop = asyncio.get_running_loop()
        heartbeat = self._services.settings.event_heartbeat_seconds
        end = loop.time() + self._services.settings.event_stream_seconds
        beat = loop.time() + heartbeat
        look = True
        while loop.time() < end and not self._services.stopping:
            events = (await self._streams.log.ask((self._account_id, self._place)) or ()) if look else ()
            if events:
                yield b""  # waits for a slow client, so that the session is looked at after that
            is_due = loop.time() >= beat
            if events or is_due:
                authority = await self._authority()
                if authority is None:
                    return
                if events:
                    self._place = events[-1].id
                    yield b"".join(_invalidation(event) for event in events if self._shows(authority, event))
                if is_due:
                    beat = loop.time() + heartbeat
                    yield b": still here\n\n"
            look = len(events) == BATCH  # more may be there already
            if not look:
                look = await self._wait(news, min(beat, end) - loop.time())

    async def _authority(self) -> Authority | None:
        """What the session may see now; None where the stream must end."""
        authority = await self._streams.sessions.ask(self._session_id)
        if authority is None or authority.account_id != self._account_id:
            return None
        if self._project_id is not None and self._project_id not in authority.project_ids:
            return None
        return authority

    def _shows(self, authority: Authority, event: Event) -> bool:
        return authority.may_see(event) and self._project_id in (None, event.project_id)

    async def _wait(self, news: asyncio.Event, longest: float) -> bool:
        """Wait for news, for ``longest`` seconds or until the next full one; True where the log may have some."""
        # All streams wake at the same moment, so that their questions are one.
        pause = min(longest, POLL_SECONDS - asyncio.get_running_loop().time() % POLL_SECONDS)
        try:
            await asyncio.wait_for(news.wait(), max(pause, 0.0))
        except TimeoutError:
            return self._services.database.postgres
        await asyncio.sleep(GATHER_SECONDS)
        news.clear()
        return True


class _CountedResponse(StreamingResponse):
    """Counts its stream out whatever happens to the connection."""

    def __init__(self, frames: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(frames, media_type=EVENT_STREAM_TYPE, headers=_HEADERS)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


@operations.get(
    "/v1/events",
    "streamEvents",
    "Invalidations of the account's records, as server-sent events",
    who=Who.USER | Who.SYSTEM,
    raw=True,
    media=EVENT_STREAM_TYPE,
    query=(Param("project_id", description="Only of this project."),),
    headers=(Param("Last-Event-ID", description="Go on after this event; an unknown one is answered by `reset`."),),
    answers={200: None},
    problems=(429,),
)
async def stream_events(exchange: Exchange) -> Response:
    services, caller = exchange.services, exchange.caller
    assert caller is not None  # the operation is not for anonymous callers
    if caller.is_system:
        raise forbidden("Events are an account's; a system session has none.")
    if services.event_streams is None:
        services.event_streams = Streams(services)
    streams = services.event_streams
    project_id = exchange.query.get("project_id")
    project_id = project_id.lower() if project_id is not None else None
    stream = Stream(services, streams, caller.credential_id, caller.account_id, project_id)
    authority = await streams.sessions.ask(caller.credential_id)
    if project_id is not None and (authority is None or project_id not in authority.project_ids):
        raise not_found()
    last_id = exchange.request.headers.get("last-event-id")
    place, reset = await services.database.run_read(streams.beginning, caller.account_id, last_id)
    streams.enter(caller.credential_id)
    return _CountedResponse(stream.frames(place, reset=reset), lambda: streams.leave(caller.credential_id))


def _frame(event: str, data: dict[str, Any], number: int | None = None) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _invalidation(event: Event) -> bytes:
    return _frame("invalidate", event.invalidation(), event.id)


_END = _frame("end", {})
