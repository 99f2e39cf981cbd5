"""The README is true: its commands parse, its key table is the registry's, its pictures exist.

``EXPB_UPDATE_README=1`` writes the key table anew instead of comparing it.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click
import pytest

from expb_tui.cli.tree import root
from expb_tui.tui.actions import markdown_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def _commands() -> list[str]:
    lines = "\n".join(_blocks("sh")).replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        for part in re.split(r"\s(?:\|\||&&|\|)\s", line):
            part = re.sub(r"\s<\s*\S+", "", part)
            words = shlex.split(part, comments=True)
            if words and words[0].rpartition("/")[2] == "expb-tui":
                found.append(part.strip())
    return found


def _between(mark: str) -> str:
    match = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", README, re.DOTALL)
    assert match, f"README.md has no section between <!-- {mark} --> and <!-- /{mark} -->"
    return match[1].strip()


def test_the_readme_shows_commands_at_all() -> None:
    assert len(_commands()) >= 15


@pytest.mark.parametrize("line", _commands())
def test_each_command_of_the_readme_is_a_command(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = root
    context = click.Context(root, info_name="expb-tui", resilient_parsing=True)
    options, arguments, _order = root.make_parser(context).parse_args(list(words))
    while isinstance(command, click.Group) and arguments:
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None, f"{name} is no command"
        command = found
        context = click.Context(command, info_name=name, parent=context, resilient_parsing=True)
        options, arguments, _order = command.make_parser(context).parse_args(list(arguments))
    if isinstance(command, click.Group):
        assert not arguments, f"{arguments} is left over"
        assert options is not None


def test_the_key_table_is_the_registry_s() -> None:
    if os.environ.get("EXPB_UPDATE_README"):
        before, _, rest = README.partition("<!-- keys -->\n")
        after = rest.partition("<!-- /keys -->")[2]
        text = f"{before}<!-- keys -->\n{markdown_table().strip()}\n<!-- /keys -->{after}"
        (ROOT / "README.md").write_text(text, encoding="utf-8")
        return
    assert _between("keys") == markdown_table().strip()


def test_every_picture_exists_and_every_screenshot_is_shown() -> None:
    shown = set(re.findall(r"!\[[^\]]+\]\((screenshots/[^)]+)\)", README))
    there = {f"screenshots/{path.name}" for path in (ROOT / "screenshots").glob("*.svg")}
    assert shown == there


def test_every_picture_says_what_it_shows() -> None:
    assert all(len(alt) > 20 for alt in re.findall(r"!\[([^\]]*)\]\(screenshots/", README))


def test_the_command_lines_for_a_fresh_machine_are_one_line_each() -> None:
    for mark in ("demo-command", "test-command"):
        match = re.search(rf"<!-- {mark} -->\n```sh\n(.+)\n```", README)
        assert match, f"README.md has no single line after <!-- {mark} -->"
        assert "\n" not in match[1]
