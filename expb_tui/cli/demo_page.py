"""The approval page as a browser without scripts sees it: forms are read, filled in and posted, page after page."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin

from expb_tui.core.errors import ExpbError

_PAGES = 6
"""Pages until the decision at most: the code, the sign-in, the choice of an account, the decision."""


@dataclass
class _Form:
    action: str
    values: dict[str, str] = field(default_factory=dict)
    """Hidden and visible inputs and the chosen options, as the page gives them."""
    options: dict[str, list[str]] = field(default_factory=dict)
    buttons: set[tuple[str, str]] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self.text: list[str] = []
        self._inside: _Form | None = None
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = _Form(given.get("action", ""))
            self.forms.append(self._inside)
        form, name = self._inside, given.get("name", "")
        if form is None:
            return
        if tag == "select":
            self._select = name
            form.options[name] = []
        elif tag == "option":
            form.options.setdefault(self._select, []).append(given.get("value", ""))
        elif tag == "button" or (tag == "input" and given.get("type") == "submit"):
            form.buttons.add((name, given.get("value", "")))
        elif tag == "input" and name and (given.get("type") not in ("radio", "checkbox") or "checked" in given):
            form.values[name] = given.get("value", "")
        elif tag == "input" and given.get("type") == "radio":
            form.options.setdefault(name, []).append(given.get("value", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = None

    def handle_data(self, data: str) -> None:
        self.text.append(data.strip())


def approve(address: str, email: str, password: str, account_id: str) -> None:
    """Open the page at ``address``, sign in, decide ``approve``. Blocks. Raises ``ExpbError`` where it is refused."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    page, said = address, _open(browser, address, None)
    for _ in range(_PAGES):
        if not said.forms:
            return
        form = said.forms[0]
        page = urljoin(page, form.action)
        said = _open(browser, page, _filled(form, email, password, account_id))
    raise ExpbError("The approval page goes on asking", cause=" ".join(filter(None, said.text))[:200])


def _filled(form: _Form, email: str, password: str, account_id: str) -> Mapping[str, str]:
    values = dict(form.values)
    for name, options in form.options.items():
        values[name] = account_id if account_id in options else next(filter(None, options), "")
    if "password" in values:
        values |= {"email": email, "password": password}
    if ("decision", "approve") in form.buttons:
        values["decision"] = "approve"
    return values


def _open(browser: urllib.request.OpenerDirector, address: str, form: Mapping[str, str] | None) -> _Reader:
    if not address.startswith(("http://", "https://")):
        raise ExpbError("The approval page is not on the web", cause=address)
    body = urlencode(form).encode() if form is not None else None
    request = urllib.request.Request(address, data=body)  # noqa: S310 - the scheme is checked above
    reader = _Reader()
    try:
        with browser.open(request, timeout=30) as answer:
            reader.feed(answer.read().decode())
    except urllib.error.HTTPError as error:
        reader.feed(error.read().decode(errors="replace"))
        words = " ".join(filter(None, reader.text))
        raise ExpbError(f"The approval page answers {error.code}", cause=words[:200]) from None
    return reader
