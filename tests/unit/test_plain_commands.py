"""The plain session's commands, its voice and its ear."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from expb_tui.core.errors import UsageError
from expb_tui.plain.commands import COMMANDS, help_lines, parse
from expb_tui.plain.ear import Ear
from expb_tui.plain.voice import Voice


def test_a_command_is_known_by_each_of_its_names_and_near_misses_are_named() -> None:
    assert parse("L").command.name == "list"
    asked = parse("  submit 2.1  my file.yaml ")
    assert (asked.command.name, asked.words, asked.rest) == ("submit", ["2.1", "my", "file.yaml"], "2.1  my file.yaml")
    assert parse("fail 1 it's \"broken").words == ["1", "it's", '"broken']
    with pytest.raises(UsageError, match="no command relaese") as caught:
        parse("relaese 1")
    assert "release" in caught.value.cause


def test_help_names_every_command_and_hides_what_read_only_forbids() -> None:
    lines = list(help_lines())
    assert all(any(line.startswith(command.usage) for line in lines) for command in COMMANDS)
    allowed = " ".join(help_lines(read_only=True))
    assert "claim ROLE" not in allowed
    assert "keep LEASE" in allowed
    assert list(help_lines("q")) == ["quit. Leave; says what goes on and what does not. Also: q, exit."]


def _read(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1 << 20).decode()
    except BlockingIOError:
        return ""


def test_the_voice_writes_clean_lines_in_the_characters_of_the_terminal() -> None:
    reading, writing = os.pipe()
    voice = Voice(writing, ascii_only=True, gone=lambda: None)
    voice.say("a\x1b[31m \u00fcber\u2026", "two\nlines \u5b57")
    voice.close()
    assert _read(reading) == "a?[31m uber~\ntwo lines ??\n"
    os.close(reading)
    os.close(writing)


def test_a_terminal_that_takes_nothing_never_holds_up_who_speaks() -> None:
    reading, writing = os.pipe()
    voice = Voice(writing, ascii_only=False, gone=lambda: None)
    # A pipe holds 64 KiB, and nobody reads.
    speaking = threading.Thread(target=voice.say, args=["x" * 200] * 5000, daemon=True)
    speaking.start()
    speaking.join(20.0)
    assert not speaking.is_alive()
    text, deadline = "", time.monotonic() + 20.0
    while "skipped" not in text and time.monotonic() < deadline:
        text += _read(reading)
        voice.say("")
    assert "lines were skipped: the terminal took nothing." in text
    os.close(reading)
    voice.close()
    os.close(writing)


def test_what_is_said_while_an_editor_has_the_terminal_waits() -> None:
    reading, writing = os.pipe()
    voice = Voice(writing, ascii_only=False, gone=lambda: None)
    voice.say("before")
    voice.hold()
    assert _read(reading) == "before\n"
    voice.say("meanwhile")
    assert _read(reading) == ""
    voice.go_on()
    voice.close()
    assert _read(reading) == "meanwhile\n"
    os.close(reading)
    os.close(writing)


def test_a_reader_that_is_gone_is_told_once() -> None:
    reading, writing = os.pipe()
    told: list[int] = []
    voice = Voice(writing, ascii_only=False, gone=lambda: told.append(1))
    os.close(reading)
    voice.say("one", "two", "three")
    voice.close()
    os.close(writing)
    assert told == [1]


async def _heard(descriptor: int) -> list[str | None]:
    heard: list[str | None] = []
    ended = asyncio.Event()

    def end() -> None:
        heard.append(None)
        ended.set()

    ear = Ear(descriptor, "utf-8", heard=heard.append, ended=end, gone=end)
    ear.open()
    await asyncio.wait_for(ended.wait(), 10)
    return heard


async def test_lines_come_whole_from_pipes_and_files(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, "list\nsh\u00fc".encode()[:-1])
    os.write(writing, "\u00fc".encode()[-1:] + b" 1\x1b[A\nlast")
    os.close(writing)
    assert await _heard(reading) == ["list", "sh\u00fc 1", "last", None]
    os.close(reading)
    (tmp_path / "commands").write_text("one\ntwo\n")
    with open(tmp_path / "commands", "rb") as handle:
        assert await _heard(handle.fileno()) == ["one", "two", None]
