"""Settings: built in, file, environment, each with its source, and words for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from expb_tui.core.errors import UsageError
from expb_tui.core.settings import Settings, load_settings


def test_nothing_set_is_what_is_built_in(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "none.toml", {}) == Settings()


def test_the_file_and_then_the_environment_win(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('theme = "paper"\ntimeout = 5\nmouse = "off"\nread_only = true\n[keys]\n"lease.renew" = "ctrl+r"\n')
    settings = load_settings(
        path, {"EXPB_TUI_THEME": "ink", "EXPB_TUI_INSECURE_HTTP": "yes", "EXPB_TUI_TIMEOUT": "7.5"}
    )
    assert (settings.theme, settings.timeout, settings.mouse) == ("ink", 7.5, "off")
    assert (settings.read_only, settings.insecure_http) == (True, True)
    assert settings.keys == {"lease.renew": "ctrl+r"}
    assert settings.source("theme") == "EXPB_TUI_THEME"
    assert settings.source("mouse") == str(path)
    assert settings.source("icons") == "built in"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('client_id = "x"\ntheem = "a"\n', "line 2: there is no setting 'theem': did you mean theme?"),
        ("timeout = true", "line 1: timeout must be a number"),
        ("timeout = -1", "line 1: timeout must be a number"),
        ("timeout = inf", "line 1: timeout must be a number"),
        ('\n\nmouse = "left"', "line 3: mouse cannot be 'left': it is one of auto, on, off"),
        ("mouse = []", "line 1: mouse cannot be []"),
        ("insecure_http = 1", "line 1: insecure_http must be true or false"),
        ("theme = 3", "line 1: theme must be a text"),
        ('theme = "a"\n[keys]\n"x.y" = 3', "line 2: keys must be a table of texts"),
        ('theme = "a"\n"theme" = "b"\nx = 1', "at line 2"),
        ("theme = 'a", "end of document"),
        (b"theme = '\xff'", "utf-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageError) as caught:
        load_settings(path, {})
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.code == "settings"


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="EXPB_TUI_ICONS: icons cannot be 'emoji'"):
        load_settings(tmp_path / "none.toml", {"EXPB_TUI_ICONS": "emoji"})
