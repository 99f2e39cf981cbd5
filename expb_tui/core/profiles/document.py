"""The text of ``profiles.json``: reading, writing as ``expbctl`` does, and merging (contract, section 4).

Works on plain JSON objects, so that unknown keys and the order of keys survive. Part of the fast start: imports
neither pydantic nor anything of the network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from expb_tui.core.errors import FileProblem
from expb_tui.core.secret import SecretStr

Document = dict[str, Any]
Place = Literal["file", "keyring"]

MARKER = "expb_tui"
"""Our own key, an object, in a profile whose tokens live in the system keyring; it holds the expiry, too, so that
``expbctl`` sees a profile that is signed out."""
FILE: Final = "file"
KEYRING: Final = "keyring"
"""The two values of ``Profile.secret_place``."""
_KEYRING_SIGNED_OUT = "keyring-signed-out"
UNSET_INSTANT = "0001-01-01T00:00:00Z"
"""Go's zero time, which ``expbctl`` writes where there is no expiry."""
_ALWAYS = ("scope", "endpoint", "type", "expires_at")
_OPTIONAL = ("account_id", "agent_id", "token", "refresh_token", "project_id", "project_name")
_ORDER = (
    "scope", "endpoint", "type", "account_id", "agent_id", "token", "refresh_token", "expires_at", "project_id",
    "project_name", MARKER,
)  # fmt: skip
_CREDENTIAL = frozenset(_ORDER) - {"project_id", "project_name"}
"""Keys that only make sense together: a token is never merged with somebody else's endpoint or refresh token."""
_SECRET_WORDS = ("token", "secret", "password", "passphrase")
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Profile:
    """One saved profile. ``token`` is None where there is none in the file: signed out, or kept in the keyring."""

    name: str
    type: Literal["user", "agent"] = "user"
    scope: str = "account"
    endpoint: str = ""
    account_id: str | None = None
    agent_id: str | None = None
    token: SecretStr | None = None
    refresh_token: SecretStr | None = None
    expires_at: datetime | None = None
    project_id: str | None = None
    project_name: str | None = None
    secret_place: Place = FILE
    in_keyring: bool = False
    """The keyring holds this profile's credential now (``secret_place`` alone says only where the next one goes)."""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def signed_in(self) -> bool:
        """A credential is saved; whether the server still takes it is another question."""
        return bool(self.token) or self.in_keyring

    @property
    def kept_in(self) -> str:
        """The place of the secret in words."""
        return "system keyring" if self.secret_place == KEYRING else "0600 file"

    @property
    def is_agent(self) -> bool:
        return self.type == "agent"

    def signed_out(self) -> Profile:
        """The same profile without credentials; endpoint and context stay."""
        return replace(self, token=None, refresh_token=None, expires_at=None, in_keyring=False)

    def public(self) -> dict[str, object]:
        """The entry as it may be printed: the file's keys in the file's order, without anything secret."""
        entry = _entry_of(self)
        return {
            key: value
            for key, value in entry.items()
            if key in _ALWAYS or key == MARKER or not any(word in key.lower() for word in _SECRET_WORDS)
        }


@dataclass(frozen=True, slots=True)
class Profiles:
    """Every profile of the file, and the name of the default one."""

    default: str | None = None
    by_name: Mapping[str, Profile] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(self.by_name)

    def put(self, profile: Profile) -> Profiles:
        return replace(self, by_name={**self.by_name, profile.name: profile})

    def without(self, name: str) -> Profiles:
        """Without that profile; removing the default clears the default."""
        rest = {key: value for key, value in self.by_name.items() if key != name}
        return Profiles(None if self.default == name else self.default, rest)


def parse(text: str, place: str) -> Document:
    """The JSON object in ``text``; ``place`` names the file in the ``FileProblem`` that a broken one raises."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _broken(f"{place}, line {error.lineno} column {error.colno}", error.msg) from None
    except RecursionError:
        raise _broken(place, "it is nested too deeply") from None
    if not isinstance(document, dict):
        raise _broken(f"{place}, line 1 column 1", "the file must hold one JSON object")
    return document


def render(document: Document) -> bytes:
    """The bytes that ``expbctl`` would write: two spaces, Go's escapes of HTML characters, no trailing line feed."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can spell and UTF-8 cannot
        return json.dumps(document, indent=2).encode("ascii")


def profiles_in(document: Document, place: str, markers: Mapping[str, Any]) -> Profiles:
    """The profiles of a parsed file; ``markers`` stand in for those that a writer who does not know them dropped."""
    default = document.get("default")
    if default is not None and not isinstance(default, str):
        raise _broken(f"{place}, key default", "it must be a text")
    entries = document.get("profiles")
    if entries is None:
        entries = {}
    if not isinstance(entries, dict):
        raise _broken(f"{place}, key profiles", "it must be an object")
    return Profiles(default or None, {name: _profile(name, entry, place, markers) for name, entry in entries.items()})


def apply(document: Document, before: Profiles, after: Profiles) -> Document:
    """``document`` with the difference between ``before`` and ``after`` written into it, and nothing else touched."""
    result = dict(document) or {"default": ""}
    if after.default != before.default:
        result["default"] = after.default or ""
    old = document.get("profiles") or {}
    entries = {name: entry for name, entry in old.items() if name in after.by_name}
    for name, profile in after.by_name.items():
        entries[name] = _changed(old.get(name), before.by_name.get(name), profile)
    if entries != old or "profiles" not in result:
        result["profiles"] = entries
    return result


def merge(base: Document, theirs: Document, ours: Document, *, ours_wins: bool) -> Document:
    """Three-way merge of two descendants of ``base``, key by key inside each profile.

    Credential keys move together. Where both sides changed the same thing, ``ours_wins`` decides; a profile that
    they removed stays removed unless ours signs it in anew.
    """
    result = _merge_keys(base, theirs, ours, ours_wins, skip={"profiles"})
    base_entries, their_entries, our_entries = (side.get("profiles") or {} for side in (base, theirs, ours))
    entries: Document = {}
    for name in [*their_entries, *(name for name in our_entries if name not in their_entries)]:
        sides = [side.get(name, _MISSING) for side in (base_entries, their_entries, our_entries)]
        entry = _merge_entry(sides[0], sides[1], sides[2], ours_wins)
        if entry is not _MISSING:
            entries[name] = entry
    result["profiles"] = entries
    return result


def _merge_entry(base: Any, theirs: Any, ours: Any, ours_wins: bool) -> Any:
    if ours == base:
        return theirs
    if theirs == base:
        return ours
    if ours is _MISSING:
        return _MISSING if ours_wins else theirs
    base = {} if base is _MISSING else base
    ours_signs_in = _credential(ours) != _credential(base)
    if theirs is _MISSING:
        return ours if ours_signs_in and ours_wins else _MISSING
    take_ours = ours_signs_in and (ours_wins or _credential(theirs) == _credential(base))
    rest = _merge_keys(base, theirs, ours, ours_wins, skip=_CREDENTIAL)
    credential = ours if take_ours else theirs
    order = [*theirs, *(key for key in ours if key not in theirs)]
    return {key: source[key] for key in order if key in (source := credential if key in _CREDENTIAL else rest)}


def _merge_keys(
    base: Document, theirs: Document, ours: Document, ours_wins: bool, *, skip: set[str] | frozenset[str]
) -> Document:
    result: Document = {}
    for key in [*theirs, *(key for key in ours if key not in theirs)]:
        if key in skip:
            if key in theirs:
                result[key] = theirs[key]
            continue
        old, their, our = (side.get(key, _MISSING) for side in (base, theirs, ours))
        value = our if our != old and (ours_wins or their == old) else their
        if value is not _MISSING:
            result[key] = value
    return result


def _credential(entry: Document) -> Document:
    return {key: entry[key] for key in _CREDENTIAL if key in entry}


def _changed(raw: Document | None, before: Profile | None, after: Profile) -> Document:
    wanted = _entry_of(after)
    if raw is None or before is None:
        return wanted
    had = _entry_of(before)
    # The marker is compared with the raw entry: expbctl drops keys that it does not know, and then it is written again.
    had[MARKER] = raw.get(MARKER, _MISSING)
    entry = dict(raw)
    for key in [*wanted, *(key for key in had if key not in wanted)]:
        if key not in wanted:
            entry.pop(key, None)
        elif had.get(key, _MISSING) != wanted[key]:
            entry = _with(entry, key, wanted[key])
    return entry


def _with(entry: Document, key: str, value: Any) -> Document:
    """``entry`` with ``key``: in its old place, or in the place where ``expbctl`` writes it."""
    if key in entry or key not in _ORDER:
        return {**entry, key: value}
    ahead = [known for known in _ORDER[: _ORDER.index(key)] if known in entry]
    position = list(entry).index(ahead[-1]) + 1 if ahead else 0
    items = list(entry.items())
    return dict([*items[:position], (key, value), *items[position:]])


def _entry_of(profile: Profile) -> Document:
    entry: Document = {
        "scope": profile.scope,
        "endpoint": profile.endpoint,
        "type": profile.type,
        "account_id": profile.account_id,
        "agent_id": profile.agent_id,
        "token": profile.token.get_secret_value() if profile.token else None,
        "refresh_token": profile.refresh_token.get_secret_value() if profile.refresh_token else None,
        "expires_at": instant_text(profile.expires_at if profile.secret_place == FILE else None),
        "project_id": profile.project_id,
        "project_name": profile.project_name,
    }
    if profile.secret_place == KEYRING:
        entry[MARKER] = marker_of(profile)
    entry = {key: value for key, value in entry.items() if value or key in _ALWAYS}
    return entry | {key: value for key, value in profile.extra.items() if key not in entry}


def marker_of(profile: Profile) -> Document:
    """What our key holds for a profile whose place is the keyring."""
    marker: Document = {"secret": KEYRING if profile.in_keyring else _KEYRING_SIGNED_OUT}
    if profile.expires_at is not None:
        marker["expires_at"] = instant_text(profile.expires_at)
    return marker


def _profile(name: str, entry: Any, place: str, markers: Mapping[str, Any]) -> Profile:
    where = f"{place}, profile {name!r}"
    if not isinstance(entry, dict):
        raise _broken(where, "it must be an object")
    texts: dict[str, str | None] = {}
    for key in (*_ALWAYS, *_OPTIONAL):
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise _broken(f"{where}, key {key}", "it must be a text")
        texts[key] = value or None
    kind = texts["type"]
    if kind not in ("user", "agent"):
        raise _broken(f"{where}, key type", f"{kind or 'an empty text'} is not a type; user and agent are")
    token = texts["token"]
    marker = entry.get(MARKER, markers.get(name))
    marker = marker if isinstance(marker, dict) and token is None else {}
    in_keyring = marker.get("secret") == KEYRING
    outside = in_keyring or marker.get("secret") == _KEYRING_SIGNED_OUT
    expires_at = marker.get("expires_at") if outside else texts["expires_at"]
    refresh = texts["refresh_token"]
    return Profile(
        name=name,
        type="agent" if kind == "agent" else "user",
        scope=texts["scope"] or "account",
        endpoint=texts["endpoint"] or "",
        account_id=texts["account_id"],
        agent_id=texts["agent_id"],
        token=SecretStr(token) if token else None,
        refresh_token=SecretStr(refresh) if refresh else None,
        expires_at=_instant(expires_at, where),
        project_id=texts["project_id"],
        project_name=texts["project_name"],
        secret_place=KEYRING if outside else FILE,
        in_keyring=in_keyring,
        extra={key: value for key, value in entry.items() if key not in _ORDER},
    )


def instant_text(value: datetime | None) -> str:
    """RFC 3339 in UTC, or year 1 for no expiry."""
    return UNSET_INSTANT if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _instant(text: Any, where: str) -> datetime | None:
    """Year 1, null and absent all mean no expiry."""
    if text is None or text == "" or str(text).startswith("0001-"):
        return None
    try:
        value = datetime.fromisoformat(str(text).upper())
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _broken(f"{where}, key expires_at", f"{text!r} is not an RFC 3339 time") from None


def _broken(what: str, cause: str) -> FileProblem:
    return FileProblem(
        what,
        cause=cause,
        next_step="Nothing was written; repair the file, or name another one with EXPBENCH_PROFILES",
        code="profiles-broken",
    )
