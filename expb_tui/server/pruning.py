"""What must not grow without bound, deleted in small batches (hazards 14), and the other work beside the requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, or_, select

from expb_tui.server.config import Lifetimes
from expb_tui.server.context import Services
from expb_tui.server.events import prune_events
from expb_tui.server.store.schema import (
    credentials,
    device_requests,
    idempotency_records,
    sessions,
    sign_in_failures,
    sign_in_tickets,
)
from expb_tui.server.work.expiry import sweep

log = logging.getLogger("expb_tui.server")

_SWEEP_INTERVAL = 1.0
"""Seconds between two looks for leases that ran out."""

BATCH = 500
"""Rows in one transaction: small enough that a claim never waits noticeably."""


def _keys(conn: Connection, now: datetime, keep: Lifetimes) -> int:
    return _delete(conn, idempotency_records, idempotency_records.c.expires_at <= now)


def _events(conn: Connection, now: datetime, keep: Lifetimes) -> int:
    return prune_events(conn, now - timedelta(seconds=keep.event), BATCH)


def _tokens(conn: Connection, now: datetime, keep: Lifetimes) -> int:
    return _delete(conn, credentials, credentials.c.expires_at <= now)


def _sign_ins(conn: Connection, now: datetime, keep: Lifetimes) -> int:
    removed = _delete(conn, sign_in_tickets, sign_in_tickets.c.expires_at <= now)
    removed += _delete(conn, sign_in_failures, sign_in_failures.c.window_ends_at <= now)
    # A little longer, so that a late poll still hears `expired_token`.
    over = now - timedelta(seconds=keep.device_code)
    return removed + _delete(conn, device_requests, device_requests.c.expires_at <= over)


def _sessions(conn: Connection, now: datetime, keep: Lifetimes) -> int:
    over = now - timedelta(seconds=keep.ended_session)
    revoked = and_(sessions.c.phase == "revoked", sessions.c.updated_at <= over)
    return _delete(conn, sessions, or_(sessions.c.refresh_expires_at <= over, revoked))


PARTS: tuple[Callable[[Connection, datetime, Lifetimes], int], ...] = (_keys, _events, _tokens, _sign_ins, _sessions)


def prune(services: Services, part: Callable[[Connection, datetime, Lifetimes], int]) -> int:
    """One batch of one part, in a transaction of its own; returns how many rows went."""
    database = services.database
    with database.write() as conn:
        return part(conn, database.clock(conn), services.settings.lifetimes)


def _delete(conn: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    key = next(iter(table.primary_key))
    # Rows that another server is pruning at the moment are left to it.
    old = select(key).where(condition).limit(BATCH).with_for_update(skip_locked=True)
    return conn.execute(delete(table).where(key.in_(old))).rowcount


def background(services: Services) -> list[Coroutine[Any, Any, None]]:
    """What runs as long as the server does."""
    return [_prune_always(services), _sweep_always(services)]


async def _prune_always(services: Services) -> None:
    while not services.stopping:
        await asyncio.sleep(services.settings.prune_interval)
        for part in PARTS:
            while await _quietly(services, prune, part) >= BATCH and not services.stopping:
                pass


async def _sweep_always(services: Services) -> None:
    while not services.stopping:
        await asyncio.sleep(_SWEEP_INTERVAL)
        await _quietly(services, sweep)


async def _quietly(services: Services, work: Callable[..., int], *args: Any) -> int:
    """Run work that writes; a failure is logged and the next round tries again."""
    try:
        return await services.database.run_write(work, services, *args)
    except Exception as error:  # the work goes on with the next round, whatever happened to this one
        _log(work, error)
        return 0


def _log(work: Callable[..., int], error: Exception) -> None:
    log.error("%s: %s", work.__name__, type(error).__name__)
