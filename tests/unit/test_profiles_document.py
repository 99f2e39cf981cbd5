"""Reading, writing and merging the text of the profile file, for any content that it may have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from expb_tui.core.profiles.document import apply, merge, parse, profiles_in, render
from expb_tui.core.secret import SecretStr

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
OPTIONAL = st.none() | st.just("") | st.text(min_size=1, max_size=5)
ENTRIES = st.builds(
    lambda known, unknown: {**unknown, **known},
    st.fixed_dictionaries(
        {"type": st.sampled_from(["user", "agent"])},
        optional={
            **dict.fromkeys(("scope", "endpoint", "account_id", "token", "refresh_token", "project_id"), OPTIONAL),
            "expires_at": st.sampled_from([None, "", "0001-01-01T00:00:00Z", "2026-10-05T08:15:00+02:00"]),
        },
    ),
    st.dictionaries(st.text(max_size=4), ANYTHING, max_size=2),
)
DOCUMENTS = st.builds(
    lambda profiles, default, rest: {**rest, "default": default, "profiles": profiles},
    st.dictionaries(st.sampled_from("abc"), ENTRIES, max_size=3),
    st.sampled_from(["", "a", "b"]),
    st.dictionaries(st.text(max_size=4), ANYTHING, max_size=2),
)


@given(st.dictionaries(st.text(max_size=4), ANYTHING, max_size=4))
def test_what_is_written_is_read_again(document: dict[str, Any]) -> None:
    assert parse(render(document).decode(), "file") == document


def test_lone_surrogates_survive() -> None:
    text = '{"name": "\\ud800 <&>"}'
    assert parse(render(parse(text, "file")).decode(), "file") == json.loads(text)


@given(DOCUMENTS)
def test_writing_what_was_read_changes_nothing(document: dict[str, Any]) -> None:
    profiles = profiles_in(document, "file", {})
    assert json.dumps(apply(document, profiles, profiles)) == json.dumps(document)


@given(DOCUMENTS, st.sampled_from("abc"))
def test_a_change_of_one_profile_leaves_everything_else(document: dict[str, Any], name: str) -> None:
    before = profiles_in(document, "file", {})
    if name not in before.by_name:
        return
    changed = replace(before.by_name[name], token=SecretStr("new"), project_id="new")
    after = apply(document, before, before.put(changed))
    assert profiles_in(after, "file", {}).by_name[name].token == SecretStr("new")
    for side in (document, after):
        for key in ("token", "project_id"):
            side["profiles"][name].pop(key, None)
    assert after == document


@given(DOCUMENTS, DOCUMENTS, st.booleans())
def test_a_merge_with_one_side_unchanged_is_the_other(
    base: dict[str, Any], other: dict[str, Any], ours_wins: bool
) -> None:
    assert merge(base, base, other, ours_wins=ours_wins) == other
    assert merge(base, other, base, ours_wins=ours_wins) == other
    assert merge(base, other, other, ours_wins=ours_wins) == other


@settings(max_examples=200)
@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_credentials_of_a_merged_profile_come_from_one_side(
    base: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    for ours_wins in (True, False):
        merged = merge(base, theirs, ours, ours_wins=ours_wins)
        profiles_in(merged, "file", {})
        for name, entry in merged["profiles"].items():
            credential = {key: entry.get(key) for key in ("token", "refresh_token", "endpoint", "type", "account_id")}
            sides = [side["profiles"].get(name, {}) for side in (theirs, ours)]
            assert credential in [{key: side.get(key) for key in credential} for side in sides]
