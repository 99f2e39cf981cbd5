"""The command tree without a server: options in every place, errors in one or two lines, exit codes, help."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from expb_tui import __version__
from expb_tui.cli import examples
from expb_tui.cli.options import GLOBALS, scan
from expb_tui.cli.tree import Noun, root
from expb_tui.core.profiles.store import ProfileStore
from expb_tui.wire.research import OUTPUTS
from expb_tui.wire.work import ROLES, Submission, WorkRequest
from tests.support.commands import PROGRAM, Commands

ENTRY = {"scope": "account", "endpoint": "https://bench.example.test", "type": "agent", "token": "planted-token"}


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    path = tmp_path / "profiles.json"
    path.write_text(json.dumps({"default": "a", "profiles": {"a": {**ENTRY, "project_name": "shop"}, "b": ENTRY}}))
    path.chmod(0o600)
    return Commands(tmp_path, capsys, monkeypatch)


def every_command(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, Noun):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                found = command.get_command(ctx, name)
                assert found is not None
                yield from every_command(found, (*path, name))


COMMANDS = dict(every_command(root))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--profile", "b", "-o", "json", "profile", "show"],
        ["--profile=b", "--format=json", "profile", "show"],
        ["profile", "--profile=b", "show", "--output", "json"],
        ["profile", "show", "--profile", "b", "-o=json"],
        ["profile", "show", "--profile", "b", "-ojson"],
        ["--profile", "a", "-o", "yaml", "profile", "show", "--profile", "b", "--format", "json"],
    ],
    ids=" ".join,
)
def test_global_options_stand_anywhere_and_the_right_most_wins(arguments: list[str], commands: Commands) -> None:
    assert commands(*arguments).json()["name"] == "b"


def test_options_are_not_looked_for_behind_two_dashes(commands: Commands) -> None:
    done = commands("profile", "show", "--", "-o=json")
    assert done.code == 80
    assert "'-o=json'" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["profiel"], "did you mean 'profile'?"),
        (["profile", "lst"], "did you mean 'list'?"),
        (["profile", "show", "--nope"], "--nope"),
        (["profile", "list", "extra"], "extra"),
        (["profile", "list", "-o", "xml"], "unknown output format"),
        (["profile", "list", "--profile"], "--profile"),
        (["auth", "status", "--timeout", "soon"], "'soon' is not a time"),
        (["auth", "status", "--token", ""], "--token is empty"),
        (["profile", "show", "nobody"], "nobody"),
        (["--read-only", "profile", "list"], "--read-only belongs to the cockpit"),
        (["agent", "work", "request"], "one of --file and --role is needed"),
        (["agent", "work", "request", "--role", "ideator", "--file", "-"], "one of --file and --role is needed"),
        (["agent", "work", "request", "--file", "-", "--max-tasks", "2"], "--max-tasks and --file"),
        (["agent", "work", "submit"], "--file"),
        (["agent", "work", "submit", "--file", "-", "--package", "-"], "cannot both be standard input"),
        (["completion", "tcsh"], "tcsh"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_exit_code_80(arguments: list[str], words: str, commands: Commands) -> None:
    done = commands(*arguments)
    assert (done.code, done.out) == (80, "")
    assert done.err.startswith("expb-tui: error: ")
    assert words in done.err
    assert len(done.err.splitlines()) <= 2


def test_a_broken_profile_file_is_told_with_its_place_and_left_alone(commands: Commands) -> None:
    broken = '{"default": "a",\n "profiles": {'
    (commands.home / "profiles.json").write_text(broken)
    for command in (["profile", "list"], ["profile", "use", "a"], ["auth", "status"]):
        done = commands(*command)
        assert done.code == 1
        assert "profiles.json, line 2" in done.err
    assert (commands.home / "profiles.json").read_text() == broken


def test_a_defect_is_one_error_without_traceback_or_secret(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_store: ProfileStore) -> object:
        raise RuntimeError("planted-token")

    monkeypatch.setattr(ProfileStore, "read", fail)
    done = commands("profile", "list")
    assert done.code == 1
    assert "internal error: RuntimeError at profile.py:" in done.err
    assert "planted" not in done.err
    assert "Traceback" not in done.err


def test_a_reader_that_goes_away_ends_it_quietly(commands: Commands) -> None:
    script = f"set -o pipefail; {PROGRAM} agent work submit --help | true; {PROGRAM} profile list >&- ; echo $?"
    done = subprocess.run(
        ["bash", "-c", script], env=commands.full_environ(), capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert "Broken" not in done.stderr


def test_no_secret_is_ever_printed(commands: Commands) -> None:
    for form in ("table", "wide", "json", "yaml"):
        for command in (["profile", "list"], ["profile", "show"], ["context"]):
            done = commands(*command, "-o", form)
            assert done.code == 0
            assert "planted" not in done.out + done.err


def test_profile_commands_change_the_file(commands: Commands) -> None:
    assert commands("profile", "use", "b", "-o", "json").json()["default"] is True
    assert commands.profiles()["default"] == "b"
    assert commands("context", "clear", "--profile", "a").code == 0
    assert "project_name" not in commands.profiles()["profiles"]["a"]
    removed = commands("profile", "remove", "b")
    assert removed.code == 0, removed.err
    assert "was not revoked" in removed.err
    assert list(commands.profiles()["profiles"]) == ["a"]
    assert not commands.profiles()["default"]
    assert commands("profile", "list", "-o", "json").json()[0]["profile"]["endpoint"] == ENTRY["endpoint"]


def test_without_a_usable_keyring_a_secret_stays_in_the_file(commands: Commands) -> None:
    done = commands("profile", "secure", "a")
    assert done.code == 1
    assert "keyring" in done.err
    assert commands.profiles()["profiles"]["a"]["token"] == "planted-token"
    assert commands("profile", "unsecure", "a").code == 0


def test_an_empty_listing_is_its_footer(commands: Commands) -> None:
    (commands.home / "profiles.json").unlink()
    assert commands("profile", "list").out == "0 resources shown\n"
    assert commands("profile", "list", "-o", "json").out == "[]\n"
    assert commands("agent", "work", "list").out == "0 resources shown\n"


@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_every_command_and_option_is_explained(path: tuple[str, ...], commands: Commands) -> None:
    command = COMMANDS[path]
    assert command.help, path
    for param in command.params:
        assert not isinstance(param, click.Option) or param.help, (path, param.name)
    done = commands(*path, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: expb-tui")
    assert done.err == ""
    assert max(len(line) for line in done.out.splitlines()) <= 120


def test_the_lazy_nouns_are_summed_up_as_they_are() -> None:
    for path, command in COMMANDS.items():
        if isinstance(command, Noun):
            for name, (_, summary) in command.lazy.items():
                full = " ".join((COMMANDS[(*path, name)].help or "").split("\n\n", 1)[0].split())
                assert summary == full or full.startswith(summary.rstrip(".")), (path, name)


def test_help_of_the_root_lists_every_global_option(commands: Commands) -> None:
    text = commands("--help").out
    for option in GLOBALS:
        for name in option.names:
            assert name in text


@pytest.mark.parametrize("role", ROLES)
def test_the_examples_are_what_the_contract_asks_for(role: str) -> None:
    request = json.loads(examples.REQUEST.format(role=role))
    assert WorkRequest.model_validate(request, extra="forbid").role == role
    body = yaml.safe_load(examples.SUBMISSIONS[role])
    submission = Submission.model_validate(body, extra="forbid")
    OUTPUTS[role].model_validate(submission.output, extra="forbid")
    assert tuple(examples.SUBMISSIONS) == ROLES
    Submission.model_validate(yaml.safe_load(examples.FAILED), extra="forbid")


def test_scan_tells_words_options_and_flags_apart() -> None:
    found = scan(["--profile", "a", "--api-server-address=https://x", "agent", "-o", "json", "--help", "-", "--all"])
    assert found.options == {"profile": "a", "endpoint": "https://x", "output": "json"}
    assert found.words == ["agent", "-"]
    assert found.flags == ["--help", "--all"]


def test_the_version_is_the_package_s() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert __version__ == project["version"]
    done = subprocess.run(
        [PROGRAM, "--version"], capture_output=True, text=True, env=os.environ, timeout=30, check=True
    )
    assert done.stdout == f"expb-tui {__version__}\n"
