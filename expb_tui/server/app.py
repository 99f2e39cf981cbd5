"""The ASGI application: the gate in front, the operations of every module behind, what runs beside them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from expb_tui.server import event_stream
from expb_tui.server.config import ServerSettings
from expb_tui.server.context import Services
from expb_tui.server.dispatch import Endpoint, send_problem
from expb_tui.server.gate import Gate
from expb_tui.server.identity import accounts, agents, authorizations, invitations, people, projects
from expb_tui.server.identity.passwords import Passwords
from expb_tui.server.oauth import discovery, tokens
from expb_tui.server.openapi import document_operations
from expb_tui.server.pages import device, pages
from expb_tui.server.problems import not_found
from expb_tui.server.pruning import background
from expb_tui.server.research import holds, integrations, objectives, records, settings_routes
from expb_tui.server.routing import Operation
from expb_tui.server.store.database import Database
from expb_tui.server.work import routes as work

MODULES = (
    discovery,
    tokens,
    device,
    work,
    people,
    accounts,
    invitations,
    agents,
    projects,
    authorizations,
    objectives,
    records,
    integrations,
    settings_routes,
    holds,
    event_stream,
)


def all_operations() -> list[Operation]:
    """Every operation of the server, in the order of the document."""
    operations = [operation for module in MODULES for operation in module.operations.all]
    return [*operations, *document_operations(operations).all]


def build_app(settings: ServerSettings) -> Starlette:
    """The application over its database, whose file it locks; ``app.state.services`` holds what it stands on.

    The database must be migrated and ``services.issuer`` set before the first request. Raises ``ServerError``.
    """
    settings.check()
    services = Services(
        settings=settings,
        database=Database(settings.database, workers=settings.workers, synchronous=settings.synchronous),
        passwords=Passwords(settings.password_cost),
        issuer=settings.issuer or "",
    )
    by_path: dict[str, list[Operation]] = {}
    for operation in all_operations():
        by_path.setdefault(operation.path, []).append(operation)
    app = Starlette(
        routes=[Route(path, Endpoint(services, operations)) for path, operations in by_path.items()],
        middleware=[Middleware(Gate, services=services, refuse_page=pages.refusal)],
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.router.default = _unknown_path
    app.state.services = services
    return app


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send_problem(send, not_found(), scope["path"], scope["expb.facts"].request_id)


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    services: Services = app.state.services
    tasks = [asyncio.create_task(work) for work in background(services)]
    try:
        yield
    finally:
        services.stopping = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        services.close()
