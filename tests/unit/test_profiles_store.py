"""The shared profile file: its bytes, its errors, and writers that lose nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from expb_tui.core.errors import FileProblem, SignInNeeded, UsageError
from expb_tui.core.profiles.ledger import Ledger
from expb_tui.core.profiles.store import Profile, Profiles, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.stranger import entry, rewrite, write

AS_EXPBCTL_WRITES = """{
  "default": "owner",
  "profiles": {
    "owner": {
      "scope": "account",
      "endpoint": "https://bench.example.test",
      "type": "user",
      "account_id": "5d0c",
      "token": "access-token",
      "refresh_token": "refresh-token",
      "expires_at": "2026-10-05T08:15:00Z",
      "project_id": "7b9f",
      "project_name": "checkout \\u003c latency"
    },
    "researcher": {
      "scope": "account",
      "endpoint": "https://bench.example.test",
      "type": "agent",
      "account_id": "5d0c",
      "agent_id": "c1a4",
      "token": "agent-identity-token",
      "expires_at": "0001-01-01T00:00:00Z"
    }
  }
}"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exp-bench" / "profiles.json"


@pytest.fixture
def store(path: Path) -> ProfileStore:
    return ProfileStore(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def user(name: str, **changes: Any) -> Profile:
    return replace(
        Profile(name, endpoint="https://bench.example.test", account_id="acc-1", token=SecretStr("t")), **changes
    )


# Bytes


def test_a_change_touches_only_what_it_is_about(store: ProfileStore, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(AS_EXPBCTL_WRITES)
    os.utime(path, (1e9, 1e9))
    store.set_project("researcher", "p1", "one")
    added = '"expires_at": "0001-01-01T00:00:00Z",\n      "project_id": "p1",\n      "project_name": "one"\n'
    assert path.read_text() == AS_EXPBCTL_WRITES.replace('"expires_at": "0001-01-01T00:00:00Z"\n', added)
    store.set_project("researcher", None, None)
    assert path.read_text() == AS_EXPBCTL_WRITES
    assert mode(path) == 0o600


def test_a_new_file_is_as_expbctl_would_write_it(store: ProfileStore, path: Path) -> None:
    store.put(
        Profile(
            "owner",
            endpoint="https://bench.example.test",
            account_id="5d0c",
            token=SecretStr("access-token"),
            refresh_token=SecretStr("refresh-token"),
            expires_at=datetime(2026, 10, 5, 8, 15, tzinfo=UTC),
            project_id="7b9f",
            project_name="checkout < latency",
        )
    )
    agent = Profile("researcher", "agent", endpoint="https://bench.example.test", account_id="5d0c", agent_id="c1a4")
    store.put(replace(agent, token=SecretStr("agent-identity-token")))
    assert path.read_text() == AS_EXPBCTL_WRITES
    assert (mode(path), mode(path.parent), mode(store.side)) == (0o600, 0o700, 0o700)
    assert {mode(file) for file in store.side.iterdir()} == {0o600}
    assert not [name for name in os.listdir(path.parent) if name.startswith(".profiles-")]


def test_unknown_keys_and_their_order_survive_at_every_level(store: ProfileStore, path: Path) -> None:
    before = {
        "zeta": [1, {"deep": None}],
        "profiles": {
            "b": {"later": 1.5, **entry(), "project_id": "o", "nested": {"x": "\u2028"}},
            "a": entry(type="agent", agent_id="g"),
        },
        "default": "b",
        "alpha": True,
    }
    write(path, before, age=9)
    store.use("a")
    store.set_project("b", "p", None)
    expected = json.loads(json.dumps(before))
    expected["default"] = "a"
    expected["profiles"]["b"]["project_id"] = "p"
    assert json.dumps(document(path)) == json.dumps(expected)
    assert "\u2028" not in path.read_text()  # Go escapes it


def test_instants_of_every_spelling_are_read(store: ProfileStore, path: Path) -> None:
    spellings = {
        "year-one": "0001-01-01T00:00:00Z",
        "null": None,
        "empty": "",
        "offset": "2026-10-05T10:15:00.123456789+02:00",
        "lower": "2026-10-05t08:15:00z",
    }
    write(
        path,
        {
            "profiles": {name: entry(expires_at=text) for name, text in spellings.items()}
            | {"absent": {k: v for k, v in entry().items() if k != "expires_at"}}
        },
        age=9,
    )
    read = {name: profile.expires_at for name, profile in store.read().by_name.items()}
    assert read == {
        "year-one": None,
        "null": None,
        "empty": None,
        "absent": None,
        "offset": datetime(2026, 10, 5, 8, 15, 0, 123456, tzinfo=UTC),
        "lower": datetime(2026, 10, 5, 8, 15, tzinfo=UTC),
    }
    store.use("offset")
    assert document(path)["profiles"]["offset"]["expires_at"] == spellings["offset"]
    assert "expires_at" not in document(path)["profiles"]["absent"]


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "profiles.json"
    write(real, {"default": "a", "profiles": {"a": entry(), "b": entry()}}, age=9)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    ProfileStore(link).use("b")
    assert link.is_symlink()
    assert document(real)["default"] == "b"


def test_a_legacy_file_is_read_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPBENCH_PROFILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    legacy = tmp_path / "experibench" / "profiles.json"
    write(legacy, {"default": "old", "profiles": {"old": entry()}})
    before = legacy.read_bytes()
    store = ProfileStore()
    assert store.select().name == "old"
    store.put(user("new"))
    assert legacy.read_bytes() == before
    assert set(document(tmp_path / "exp-bench" / "profiles.json")["profiles"]) == {"old", "new"}
    monkeypatch.setenv("EXPBENCH_PROFILES", str(tmp_path / "other.json"))
    assert ProfileStore().read() == Profiles()


def test_the_folder_is_private_whoever_makes_it_first(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "config" / "exp-bench" / "profiles.json")
    with Ledger(store, "owner").locked():
        assert [mode(folder) for folder in (store.side, store.path.parent, store.path.parent.parent)] == [0o700] * 3


# Broken files


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{\n  "default": "a",\n  "profiles": {,}\n}', "line 3 column 16"),
        (b"", "line 1 column 1"),
        (b"[]", "line 1 column 1"),
        (b'{"profiles":\n{"a": "\xff"}}', "line 2 column 8"),
        (b'{"profiles": {"a": {"type": "robot"}}}', "profile 'a', key type"),
        (b'{"profiles": {"a": {"type": "user", "token": 5}}}', "profile 'a', key token"),
        (b'{"profiles": {"a": {"type": "user", "expires_at": "soon"}}}', "profile 'a', key expires_at"),
        (b'{"profiles": {"a": []}}', "profile 'a'"),
        (b'{"profiles": []}', "key profiles"),
        (b'{"default": 1}', "key default"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_reported_with_its_place_and_never_overwritten(
    store: ProfileStore, path: Path, content: bytes, place: str
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for attempt in (store.read, lambda: store.put(user("x")), lambda: store.use("a")):
        with pytest.raises(FileProblem) as caught:
            attempt()
        assert caught.value.code == "profiles-broken"
        assert place in str(caught.value)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    assert sorted(os.listdir(path.parent)) == [store.side.name, path.name]


def test_a_file_that_breaks_between_read_and_rename_stays_as_it_is(
    store: ProfileStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, {"profiles": {"a": entry()}})
    write_temp = store._write_temp

    def while_an_editor_saves(content: bytes) -> Any:
        made = write_temp(content)
        path.write_text("{ half")
        return made

    monkeypatch.setattr(store, "_write_temp", while_an_editor_saves)
    with pytest.raises(FileProblem):
        store.set_project("a", "p", "n")
    assert path.read_text() == "{ half"


# Selection


def test_selection_names_what_is_there(store: ProfileStore, path: Path) -> None:
    with pytest.raises(SignInNeeded) as none:
        store.select()
    assert none.value.code == "no-profile"
    write(path, {"default": "", "profiles": {"owner": entry(), "researcher": entry()}})
    with pytest.raises(UsageError, match="Did you mean owner"):
        store.select("ovner")
    assert store.select("owner").scope == "account"


def test_the_first_profile_becomes_the_default_and_removing_it_clears_it(store: ProfileStore, path: Path) -> None:
    store.put(user("first"))
    store.put(user("second"))
    assert store.read().default == "first"
    store.put(user("third"), make_default=True)
    assert store.read().default == "third"
    store.remove("third")
    assert store.read().default is None
    assert document(path)["default"] == ""
    assert store.clear_credentials("first").signed_in is False
    assert document(path)["profiles"]["first"]["expires_at"] == "0001-01-01T00:00:00Z"


def test_what_is_printed_holds_no_credential() -> None:
    profile = user(
        "a", refresh_token=SecretStr("r-secret"), token=SecretStr("t-secret"), extra={"id_token": "x", "n": 1}
    )
    assert profile.public() == {
        "scope": "account",
        "endpoint": "https://bench.example.test",
        "type": "user",
        "account_id": "acc-1",
        "expires_at": "0001-01-01T00:00:00Z",
        "n": 1,
    }
    assert "-secret" not in repr(profile)


# Several writers


def test_a_full_disk_changes_nothing(store: ProfileStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, {"profiles": {"a": entry()}}, age=9)
    before = path.read_bytes()

    def full(_descriptor: int, _content: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileProblem) as caught:
        store.set_project("a", "p", "n")
    assert caught.value.code == "disk-full"
    assert path.read_bytes() == before
    assert not [name for name in os.listdir(path.parent) if name.startswith(".profiles-e")]


@pytest.mark.parametrize("moment", ["before the rename", "at the rename"])
def test_an_unlocked_write_in_between_is_noticed_and_merged(
    store: ProfileStore, path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    write(path, {"default": "a", "profiles": {"a": entry(mine=1), "gone": entry()}})

    def theirs(told: dict[str, Any]) -> None:
        told["profiles"]["a"]["theirs"] = True
        told["profiles"]["b"] = entry(type="agent")
        told["profiles"].pop("gone")
        told["default"] = "b"

    if moment == "before the rename":

        def change(profiles: Profiles) -> Profiles:
            rewrite(path, theirs)
            return profiles.put(replace(profiles.by_name["a"], project_id="p"))

        store.edit(change)
    else:
        identity = ProfileStore._identity
        looked: list[int] = []

        def late(target: Path) -> Any:
            seen = identity(target)
            if target == path:
                looked.append(1)
                if len(looked) == 1:  # after the comparison, right before the swap
                    rewrite(path, theirs)
            return seen

        monkeypatch.setattr(ProfileStore, "_identity", staticmethod(late))
        store.set_project("a", "p", None)
    after = document(path)
    assert after["default"] == "b"
    assert set(after["profiles"]) == {"a", "b"}
    assert after["profiles"]["a"] == entry(mine=1, theirs=True, project_id="p")


def test_a_new_sign_in_by_expbctl_is_not_mixed_with_a_refresh_of_ours(store: ProfileStore, path: Path) -> None:
    write(path, {"profiles": {"a": entry()}})

    def change(profiles: Profiles) -> Profiles:
        rewrite(path, lambda told: told["profiles"]["a"].update(token="new", refresh_token="new-r", account_id="acc-2"))
        refreshed = replace(profiles.by_name["a"], token=SecretStr("ours"), refresh_token=SecretStr("ours-r"))
        return profiles.put(replace(refreshed, project_id="p"))

    store.edit(change, ours_wins=False)
    assert document(path)["profiles"]["a"] == entry(
        token="new", refresh_token="new-r", account_id="acc-2", project_id="p"
    )


def test_a_write_based_on_an_older_reading_does_not_undo_ours(store: ProfileStore, path: Path) -> None:
    write(path, {"profiles": {"a": entry()}})
    stranger = multiprocessing.get_context("fork").Process(
        target=rewrite, args=(path, lambda told: told.update(seen=True)), kwargs={"hold": 0.02}
    )
    stranger.start()
    time.sleep(0.005)
    store.put(user("new"))
    stranger.join()
    assert "new" in document(path)["profiles"]


def test_a_late_write_is_undone_though_the_last_to_write_before_was_one_of_ours(
    store: ProfileStore, path: Path
) -> None:
    write(path, {"profiles": {"a": entry()}})
    store.put(user("first"))
    stranger = multiprocessing.get_context("fork").Process(
        target=rewrite, args=(path, lambda told: told.update(seen=True)), kwargs={"hold": 0.12}
    )
    stranger.start()
    time.sleep(0.02)
    store.put(user("second"))
    stranger.join()
    assert {"first", "second"} <= set(document(path)["profiles"])
    assert document(path)["seen"] is True


def _ours(path: str, number: int, rounds: int) -> None:
    store = ProfileStore(Path(path))
    for turn in range(rounds):
        store.put(user(f"p{number}-{turn}"))
        store.set_project(f"p{number}-{turn}", f"project-{number}", None)
        store.use(f"p{number}-{turn}")


def _theirs(path: str, stop: Any, count: Any, late: Any) -> None:
    before = time.monotonic()
    while not stop.is_set():
        number = count.value

        def change(told: dict[str, Any], number: int = number) -> None:
            told["profiles"]["stranger"][f"k{number}"] = number
            told[f"top{number}"] = number

        start = time.monotonic()
        if rewrite(Path(path), change, within=0.025):
            count.value = number + 1
            after = time.monotonic()
            # Beyond the last look of ours nothing is promised: a disk that holds up the rename can make it that late.
            alone = after - before > 1.5
            late.value += after - start > (0.03 if alone else 0.4)
            before = after
        time.sleep(0.02)


def _sixteen_and_a_stranger(path: Path) -> tuple[list[int | None], int, bool]:
    """Exit codes, the stranger's writes, and whether one of these came later than any program is waited for."""
    write(path, {"default": "stranger", "profiles": {"stranger": entry(unknown={"kept": True})}})
    context = multiprocessing.get_context("fork")
    stop, count, late = context.Event(), context.Value("i", 0), context.Value("i", 0)
    stranger = context.Process(target=_theirs, args=(str(path), stop, count, late))
    ours = [context.Process(target=_ours, args=(str(path), number, 2)) for number in range(16)]
    stranger.start()
    for process in ours:
        process.start()
    for process in ours:
        process.join()
    stop.set()
    stranger.join()
    return [process.exitcode for process in (*ours, stranger)], count.value, late.value > 0


def test_sixteen_of_ours_and_an_unlocked_writer_lose_nothing(path: Path) -> None:
    for turn in range(10):
        place = path.parent / str(turn) / path.name
        codes, count, late = _sixteen_and_a_stranger(place)
        if not late:
            break
    else:
        pytest.fail("this machine held up the unlocked writer in ten runs out of ten: nothing can be said")
    assert codes == [0] * 17
    after = document(place)
    assert count > 3
    for number in range(16):
        for turn in range(2):
            assert after["profiles"][f"p{number}-{turn}"].get("project_id") == f"project-{number}"
    assert [n for n in range(count) if after["profiles"]["stranger"].get(f"k{n}") != n] == []
    assert [n for n in range(count) if after.get(f"top{n}") != n] == []
    assert after["profiles"]["stranger"]["unknown"] == {"kept": True}
    assert mode(place) == 0o600
