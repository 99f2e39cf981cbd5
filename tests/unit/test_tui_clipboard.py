"""Copies go to tmux or, as one bounded escape sequence, to the terminal."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

from expb_tui.core.clipboard import LIMIT, Choice, Route, osc52, route, send
from expb_tui.core.errors import ExpbError
from tests.support.require import missing


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)


def _payload(sequence: str) -> str:
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\a")
    return base64.b64decode(sequence[7:-1]).decode()


async def test_text_goes_to_the_terminal_and_nothing_more_is_claimed() -> None:
    written: list[str] = []
    words = await send("K7Q2M-W9_XPA", written.append)
    assert [_payload(text) for text in written] == ["K7Q2M-W9_XPA"]
    assert words.startswith("Sent to the terminal")
    assert "copied" not in words.lower()


async def test_what_is_copied_cannot_steer_the_terminal_it_is_pasted_into() -> None:
    written: list[str] = []
    await send("one\r\ntwo\x1b[31m\x07\u202e", written.append)
    assert "\x1b" not in _payload(written[0])
    assert _payload(written[0]).startswith("one\ntwo")


@pytest.mark.parametrize("extra", [0, 1])
async def test_the_sequence_never_grows_beyond_what_terminals_take(extra: int) -> None:
    written: list[str] = []
    if extra:
        with pytest.raises(ExpbError, match="not copied") as caught:
            await send("ä" * (LIMIT // 2) + "b" * extra, written.append)
        assert caught.value.code == "too-long"
        assert not written
    else:
        await send("ä" * (LIMIT // 2), written.append)
        assert len(written[0]) <= 100_000


def test_screen_gets_short_pieces() -> None:
    wrapped = osc52("x" * 500, within="screen")
    pieces = wrapped.split("\x1b\\")
    assert all(piece.startswith("\x1bP") and len(piece) <= 78 for piece in pieces if piece)
    assert "".join(piece.removeprefix("\x1bP") for piece in pieces) == osc52("x" * 500)


async def test_without_a_working_tmux_the_terminal_gets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/no-such-socket,1,0")
    written: list[str] = []
    assert (await send("text", written.append)).startswith("Sent to the terminal")
    own, _, passed = written[0].partition("\x1bPtmux;")
    assert _payload(own) == "text"
    assert _payload(passed.removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")) == "text"
    with pytest.raises(ExpbError, match=r"tmux 3\.2") as caught:
        await send("text", written.append, "tmux")
    assert caught.value.code == "no-tmux"
    assert len(written) == 1


@pytest.mark.parametrize(
    ("environ", "choice", "way"),
    [
        ({}, "auto", Route.TERMINAL),
        ({"TMUX": "s,1,0"}, "auto", Route.TMUX),
        ({"TMUX": "s,1,0"}, "osc52", Route.TERMINAL),
        ({"STY": "1.tty"}, "auto", Route.SCREEN),
        ({"STY": "1.tty", "TMUX": "s,1,0"}, "auto", Route.TMUX),
        ({}, "tmux", Route.TMUX),
    ],
)
def test_one_setting_forces_the_way(environ: dict[str, str], choice: Choice, way: Route) -> None:
    assert route(environ, choice) is way


async def test_tmux_gets_it_in_its_buffer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        missing("tmux", "it is not installed")
    socket = tmp_path / f"tmux-{uuid.uuid4().hex[:8]}"
    base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
    subprocess.run([*base, "new-session", "-d", "-x", "80", "-y", "24", "sleep 30"], check=True)
    try:
        monkeypatch.setenv("TMUX", f"{socket},1,0")
        written: list[str] = []
        words = await send("prj-1\nprj-2", written.append)
        assert "tmux" in words
        assert not written
        shown = subprocess.run([*base, "show-buffer"], check=True, capture_output=True, text=True)
        assert shown.stdout == "prj-1\nprj-2"
    finally:
        subprocess.run([*base, "kill-server"], check=False)
