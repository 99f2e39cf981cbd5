"""The approval page in a real Chromium: keyboard, labels, contrast, a phone, and no script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.require import missing
from tests.support.server import CLIENT_ID, DEVICE_GRANT, LocalServer

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True}
CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const f = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => {
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const ground = node => { for (; node; node = node.parentElement) {
    const c = parse(getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  return [...document.querySelectorAll("h1,p,label,dt,dd,button,input:not([type=hidden]),select")].map(node => {
    const a = light(parse(getComputedStyle(node).color)), b = light(ground(node));
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.outerHTML.slice(0, 80)]; });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        missing("chromium", "no chromium on the path")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


class Device:
    """A terminal that waits for approval."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        with server.client() as http:
            started = http.post("/oauth/device_authorization", data={"client_id": CLIENT_ID}).json()
        self.code: str = started["user_code"]
        self.device_code: str = started["device_code"]
        self.page_address: str = started["verification_uri_complete"]

    def hears(self) -> str:
        self.server.pass_time(20)
        form = {"client_id": CLIENT_ID, "grant_type": DEVICE_GRANT, "device_code": self.device_code}
        with self.server.client() as http:
            answer = http.post("/oauth/token", data=form)
        return "approved" if answer.status_code == 200 else str(answer.json()["error"])


def open_page(browser: Browser, address: str, **options: Any) -> Page:
    # Without script the page must do all that it does; and it must not even try to run any.
    page = browser.new_context(java_script_enabled=False, **options).new_page()
    page.goto(address)
    return page


def sign_in(page: Page, server: LocalServer, password: str | None = None) -> None:
    page.get_by_label("E-mail address").fill(server.email)
    page.get_by_label("Password").fill(password or server.password)
    page.get_by_role("button", name="Sign in").click()


def test_approve_by_keyboard_without_script(browser: Browser, server: LocalServer) -> None:
    device = Device(server)
    page = open_page(browser, device.page_address)
    assert page.get_by_label("Code from your terminal").input_value() == device.code
    # The code is filled in, so the cursor waits in the address.
    page.keyboard.type(server.email)
    page.keyboard.press("Tab")
    page.keyboard.type(server.password)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Allow this sign-in?").wait_for()
    for words in (device.code, CLIENT_ID, "127.0.0.1", "ago, expires in", "Approve only if you started this yourself."):
        assert page.get_by_text(words).first.is_visible()
    assert device.hears() == "authorization_pending"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Approved").wait_for()
    assert device.hears() == "approved"
    page.goto(device.page_address)
    sign_in(page, server)
    assert "used already" in page.get_by_role("alert").inner_text()
    page.context.close()


def test_deny_on_a_phone_in_the_dark(browser: Browser, server: LocalServer) -> None:
    device = Device(server)
    page = open_page(browser, device.page_address, color_scheme="dark", **PHONE)
    sign_in(page, server, "wrong")
    alert = page.get_by_role("alert")
    assert alert.inner_text() == "The e-mail address or the password is wrong."
    assert page.title().startswith("Error: ")
    sign_in(page, server)
    for name in ("Approve", "Deny"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    page.get_by_role("button", name="Deny").tap()
    page.get_by_role("heading", name="Denied").wait_for()
    assert device.hears() == "access_denied"
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Browser, server: LocalServer, scheme: Any) -> None:
    device = Device(server)
    context = browser.new_context(color_scheme=scheme, **PHONE)
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    page.goto(device.page_address)
    for _ in range(3):
        poor = [entry for entry in page.evaluate(CONTRAST) if entry[0] < 4.5]
        assert not poor
        wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide
        unnamed = page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]),select')].filter(n => !n.labels.length).length"
        )
        assert unnamed == 0
        if page.get_by_role("button", name="Sign in").count():
            sign_in(page, server, "wrong" if not page.get_by_role("alert").count() else None)
    assert page.get_by_role("button", name="Approve").is_visible()
    # The only complaint is the browser's about the 400 that a wrong password gets.
    assert [text for text in refused if "400" not in text] == []
    context.close()
