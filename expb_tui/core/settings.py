"""Settings: built in, then ``config.toml``, then the environment; each remembers where it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from expb_tui.core import paths
from expb_tui.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting is a top-level key of ``config.toml``, and all but tables can be set as ``EXPB_TUI_<KEY>``."""

    client_id: str = "expbctl"
    """The OAuth client id that the server registers for its command line."""
    lease_header: str = "X-Lease-Token"
    """The header that carries a lease token."""
    insecure_http: bool = False
    """Allow plain http to hosts other than this one."""
    timeout: float = 60.0
    """Seconds for one request with its retries."""
    keyring: Literal["auto", "off"] = "auto"
    keeper: Literal["auto", "off"] = "auto"
    """``auto``: the cockpit and claims start the keeper where none runs; ``off``: only a person starts it."""
    theme: str = ""
    """Empty: chosen by the terminal."""
    icons: Literal["unicode", "ascii"] = "unicode"
    mouse: Literal["auto", "on", "off"] = "auto"
    """``auto``: on locally, off over SSH."""
    clipboard: Literal["auto", "tmux", "osc52"] = "auto"
    """``auto``: inside tmux through ``tmux load-buffer -w``, otherwise OSC 52; the others force one of the two."""
    editor: str = ""
    """Empty: ``$VISUAL``, ``$EDITOR``."""
    pager: str = ""
    """Empty: ``$PAGER``."""
    plain: bool = False
    """Lines instead of screens, for screen readers and terminals that cannot move their cursor."""
    read_only: bool = False
    """Hide every action that changes remote state."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Action id to key."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """Overrides of the work API's paths (contract, section 7, item 1)."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value that is not built in came from, in words."""

    def source(self, name: str) -> str:
        return self.sources.get(name, "built in")


def load_settings(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read ``config.toml`` of ``paths.config_dir()`` (or ``path``) and the environment.

    Raises ``UsageError`` (code ``settings``) that names the file, the line and, for a misspelt key, what was meant.
    """
    path = path or paths.config_dir() / "config.toml"
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    written, text = _read(path)
    for key, value in written.items():
        values[key] = _checked(key, value, f"{path}, line {_line_of(text, key)}")
        sources[key] = str(path)
    for key, default in _BUILT_IN.items():
        name = f"EXPB_TUI_{key.upper()}"
        if environ.get(name) and not isinstance(default, Mapping):
            values[key] = _checked(key, _from_text(default, environ[name]), name)
            sources[key] = name
    return replace(Settings(), **values, sources=sources)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        raise _wrong(f"{path} cannot be read", error.strerror or str(error)) from error
    import tomllib

    try:
        text = content.decode()
        return tomllib.loads(text), text
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(str(path), str(error)) from None


def _checked(key: str, value: Any, place: str) -> Any:
    if key not in _BUILT_IN:
        import difflib

        close = difflib.get_close_matches(key, _BUILT_IN, 1)
        raise _wrong(
            f"{place}: there is no setting {key!r}",
            f"did you mean {close[0]}?" if close else f"there are {', '.join(_BUILT_IN)}",
        )
    default = _BUILT_IN[key]
    choices = _CHOICES.get(key)
    if choices is not None and value not in choices:
        raise _wrong(f"{place}: {key} cannot be {value!r}", f"it is one of {', '.join(choices)}")
    if isinstance(default, Mapping):
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise _wrong(f"{place}: {key} must be a table of texts", f"{value!r} is none")
    elif isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST:
            raise _wrong(f"{place}: {key} must be a number of seconds up to {_LONGEST:.0f}", f"{value!r} is none")
        return float(value)
    elif type(value) is not type(default):
        raise _wrong(f"{place}: {key} must be {_KINDS[type(default)]}", f"{value!r} is none")
    return value


def _from_text(default: object, text: str) -> object:
    if isinstance(default, bool):
        return _SWITCHES.get(text.lower(), text)
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _line_of(text: str, key: str) -> int:
    pattern = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)


def _wrong(what: str, cause: str) -> UsageError:
    return UsageError(what, cause=cause, next_step="Correct the setting and try again", code="settings")


_KINDS = {str: "a text", bool: "true or false"}
_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_LONGEST = 3600.0
_CHOICES = {
    "keyring": ("auto", "off"),
    "clipboard": ("auto", "tmux", "osc52"),
    "keeper": ("auto", "off"),
    "icons": ("unicode", "ascii"),
    "mouse": ("auto", "on", "off"),
}
_BUILT_IN: dict[str, object] = {
    name.name: getattr(Settings(), name.name) for name in fields(Settings) if name.name != "sources"
}
