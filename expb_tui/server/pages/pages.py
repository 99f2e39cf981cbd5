"""HTML: rendered with autoescaping, styled without script, and fenced in by its headers (contract, section 2.9)."""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from expb_tui.server.config import is_loopback
from expb_tui.server.oauth.approval import Decided, Question

_FOLDER = Path(__file__).parent / "templates"
_STYLE = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
}


def words(span: timedelta) -> str:
    """A span for people: ``40 seconds``, ``9 minutes``."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    minutes = seconds // 60
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


_ENVIRONMENT = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True)
_ENVIRONMENT.filters["words"] = words
_ENVIRONMENT.tests["loopback"] = is_loopback
_ENVIRONMENT.globals["style"] = Markup(_STYLE)  # noqa: S704 - our own file


def sign_in(*, code: str = "", email: str = "", error: str = "", status: int = 200) -> HTMLResponse:
    """The first step: code, e-mail address and password."""
    return _page("sign_in.html", status, code=code, email=email, error=error)


def decide(question: Question) -> HTMLResponse:
    """The second step: what is asked, and the two buttons."""
    return _page("decide.html", 200, question=question)


def decided(outcome: Decided) -> HTMLResponse:
    """The end."""
    return _page("decided.html", 200, outcome=outcome)


def refusal(status: int, title: str, text: str) -> HTMLResponse:
    """A page that only says why not."""
    return _page("refusal.html", status, title=title, text=text)


def _page(template: str, status: int, **values: Any) -> HTMLResponse:
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(values), status, _HEADERS)
