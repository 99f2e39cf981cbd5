"""The page on which a person lets a terminal sign in (contract, section 2.9; hazards 13).

Two steps: sign in, then decide with everything about the request in view. A program that posts credentials and an
explicit ``decision`` together is served too; the page itself never offers that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import HTMLResponse

from expb_tui.server.context import Exchange, Services, Unit
from expb_tui.server.identity.passwords import Busy
from expb_tui.server.oauth.approval import (
    Decided,
    Question,
    Refused,
    count_try,
    find_user,
    normal_code,
    note_sign_in,
    proceed,
    take_ticket,
)
from expb_tui.server.oauth.forms import FormError, read_form
from expb_tui.server.oauth.tokens import DEVICE_PAGE
from expb_tui.server.pages import pages
from expb_tui.server.routing import HTML_TYPE, Operations, Param, Who
from expb_tui.wire.base import SnakeModel

operations = Operations("approval")

_WRONG = "The e-mail address or the password is wrong."
_TOO_MANY = "Too many tries for this address. Wait a quarter of an hour."


class ApprovalForm(SnakeModel):
    user_code: str = ""
    email: str = ""
    password: str = ""
    auth_ticket: str = ""
    authority_context: str = ""
    account_id: str = ""
    scope: str = ""
    decision: str = ""


def _failure(status: int) -> HTMLResponse:
    return pages.refusal(status, "Something went wrong", "The server cannot answer now. Try again in a moment.")


@operations.get(
    DEVICE_PAGE,
    "showApproval",
    "The approval page",
    who=Who.ANYONE,
    raw=True,
    failure=_failure,
    media=HTML_TYPE,
    query=(Param("user_code", description="Fills in the code; anything else in the query is ignored."),),
    answers={200: None},
)
async def show(exchange: Exchange) -> HTMLResponse:
    return pages.sign_in(code=normal_code(exchange.request.query_params.get("user_code", "")))


@operations.post(
    DEVICE_PAGE,
    "decideApproval",
    "Sign in on the approval page, then approve or deny",
    who=Who.ANYONE,
    raw=True,
    failure=_failure,
    media=HTML_TYPE,
    body=ApprovalForm,
    answers={200: None},
)
async def submit(exchange: Exchange) -> HTMLResponse:
    services = exchange.services
    try:
        fields = await read_form(exchange)
    except FormError as error:
        page = pages.refusal(error.refusal.status, "Not understood", error.refusal.description)
        page.headers.update(error.refusal.headers)
        return page
    code, email = normal_code(fields.get("user_code", "")), fields.get("email", "").strip()
    if fields.get("auth_ticket"):
        outcome = await services.database.run_write(_with_ticket, services, fields, code, email)
        if outcome is None:
            return pages.sign_in(code=code, email=email, error="This step has expired; sign in again.", status=400)
        return _show(outcome, code, email)
    if not fields.get("password") or not email:
        return pages.sign_in(code=code, email=email)
    if services.passwords.busy:
        return _busy(code, email)
    admitted, stored = await services.database.run_write(_try, services, email)
    if not admitted:
        return pages.sign_in(code=code, email=email, error=_TOO_MANY, status=429)
    try:
        right = await services.passwords.verify(stored, fields["password"])
    except Busy:
        return _busy(code, email)
    if not right:
        return pages.sign_in(code=code, email=email, error=_WRONG, status=400)
    outcome = await services.database.run_write(_signed_in, services, fields, email)
    if outcome is None:
        return pages.sign_in(code=code, email=email, error=_WRONG, status=400)
    return _show(outcome, code, email)


def _busy(code: str, email: str) -> HTMLResponse:
    return pages.sign_in(code=code, email=email, error="Too many people are signing in; try again.", status=503)


def _show(outcome: Question | Decided | Refused, code: str, email: str) -> HTMLResponse:
    if isinstance(outcome, Question):
        return pages.decide(outcome)
    if isinstance(outcome, Decided):
        return pages.decided(outcome)
    return pages.sign_in(code=code, email=email, error=outcome.reason, status=400)


def _try(services: Services, email: str) -> tuple[bool, str | None]:
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        if not count_try(unit, services.settings.limits, email):
            return False, None
        user = find_user(unit, email)
        return True, None if user is None else user.password_hash


def _signed_in(services: Services, fields: Mapping[str, str], email: str) -> Any:
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        user = find_user(unit, email)
        if user is None:
            return None
        note_sign_in(unit, user)
        return proceed(unit, services.settings.lifetimes, fields, user, unit.now)


def _with_ticket(services: Services, fields: Mapping[str, str], code: str, email: str) -> Any:
    with services.database.write() as conn:
        unit = Unit(conn, services.database)
        user = take_ticket(unit, fields["auth_ticket"], code, email)
        if user is None:
            return None
        return proceed(unit, services.settings.lifetimes, fields, user, user.authenticated_at)
