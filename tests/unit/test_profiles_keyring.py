"""Where secrets are kept: keyrings that work, hang, ask, refuse and forget, through the real keyring library."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from expb_tui.core.errors import ExpbError, SignInNeeded, UsageError
from expb_tui.core.profiles import secrets
from expb_tui.core.profiles.session import Session
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.raw_server import Request, raw_server, response
from tests.support.stranger import entry, rewrite, write

SUPPORT = Path(__file__).parents[1] / "support" / "keyrings"


class Vault:
    """The test keyring: choose its temper, look into it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._environ = monkeypatch
        monkeypatch.setenv("EXPB_TEST_KEYRING", str(path))
        monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
        monkeypatch.setenv("EXPB_TUI_STATE_DIR", str(path.parent / "state"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent / "config"))
        monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
        monkeypatch.delenv("EXPB_TUI_KEYRING", raising=False)

    def is_(self, temper: str) -> None:
        self._environ.setenv("PYTHON_KEYRING_BACKEND", f"keyring_backends.{temper}")

    def content(self) -> dict[str, str]:
        told: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return told

    def asked(self) -> list[str]:
        log = Path(f"{self._path}.log")
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vault:
    return Vault(tmp_path / "vault", monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles.json")


USER = Profile(
    "owner",
    endpoint="https://bench.example.test",
    account_id="acc-1",
    token=SecretStr("planted-access"),
    refresh_token=SecretStr("planted-refresh"),
)
AGENT = replace(USER, name="researcher", type="agent", agent_id="agt-1", refresh_token=None)


def test_a_new_profile_goes_to_a_working_keyring_and_comes_back(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    saved = secrets.keep(store, USER)
    assert (saved.in_keyring, saved.signed_in, saved.token) == (True, True, None)
    assert "planted" not in store.path.read_text()
    assert [key for key in vault.content() if key.startswith("expb-tui owner@")] == list(vault.content())
    again = secrets.reveal(store, store.select())
    assert (again.token, again.refresh_token) == (USER.token, USER.refresh_token)
    # expbctl, which does not know our key, sees a profile that is signed out.
    told = json.loads(store.path.read_text())["profiles"]["owner"]
    assert ("token" in told, "refresh_token" in told, told["expires_at"]) == (False, False, "0001-01-01T00:00:00Z")


def test_an_agent_goes_to_the_keyring_only_where_a_keeper_could_read_it(
    vault: Vault, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.is_("OnDesktop")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
    state = secrets.probe()
    assert (state.usable, state.unattended) == (True, False)
    assert secrets.keep(store, USER).in_keyring
    agent = secrets.keep(store, AGENT)
    assert not agent.in_keyring
    assert secrets.readable_unattended(agent)
    assert not secrets.readable_unattended(store.select("owner"))


@pytest.mark.parametrize(
    ("temper", "words"),
    [
        ("Hanging", "no answer in time"),
        ("Prompting", "EOFError"),
        ("Locked", "Failed to unlock"),
        ("Forgetful", "did not give back"),
        ("PlaintextKeyring", "does not keep secrets encrypted"),
        ("NoSuchClass", "NoSuchClass"),
    ],
)
def test_a_keyring_that_does_not_work_costs_two_seconds_once_and_falls_back_to_the_file(
    vault: Vault, store: ProfileStore, temper: str, words: str
) -> None:
    vault.is_(temper)
    began = time.monotonic()
    saved = secrets.keep(store, USER)
    took = time.monotonic() - began
    assert took < 60  # the keyring itself would take five minutes
    assert (saved.secret_place, store.select().token) == ("file", USER.token)
    asked = vault.asked()
    assert words in secrets.whereabouts(saved)
    secrets.keep(store, AGENT)
    assert vault.asked() == asked


@pytest.mark.parametrize("backend", ["keyring.backends.null.Keyring", "keyring.backends.fail.Keyring"])
def test_keyrings_that_keep_nothing_are_not_secure(vault: Vault, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    assert not secrets.probe().usable


def test_a_chain_of_installed_plaintext_keyrings_is_not_secure(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "python_keyring" / "keyringrc.cfg"
    config.parent.mkdir(parents=True)
    config.write_text(f"[backend]\ndefault-keyring=keyring.backends.chainer.ChainerBackend\nkeyring-path={SUPPORT}\n")
    state = secrets.probe()
    assert (state.usable, "encrypted" in state.reason or "no keyring" in state.reason) == (False, True)


@pytest.mark.skipif(sys.platform != "linux", reason="D-Bus is Linux's")
def test_without_a_session_bus_nothing_is_even_started(
    vault: Vault, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
    monkeypatch.setattr("subprocess.Popen", None)  # a child process would be an error
    assert not secrets.keep(store, USER).in_keyring
    assert "no session bus" in secrets.probe().reason


@pytest.mark.skipif(sys.platform != "linux", reason="D-Bus is Linux's")
@pytest.mark.parametrize("bus", ["gone", "silent", "hangs after the greeting"])
def test_a_session_bus_that_does_not_work(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: str
) -> None:
    """The system's own backends, found by keyring itself, on a bus that is gone or never answers."""
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path / 'bus'}")

    def greet(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                while told := connection.recv(4096):
                    if b"AUTH" in told:
                        connection.sendall(b"OK 1234deadbeef\r\n")
                    elif b"NEGOTIATE_UNIX_FD" in told:
                        connection.sendall(b"AGREE_UNIX_FD\r\n")

    with socket.socket(socket.AF_UNIX) as listener:
        if bus != "gone":
            listener.bind(str(tmp_path / "bus"))
            listener.listen()
        if bus.startswith("hangs"):
            threading.Thread(target=greet, args=(listener,), daemon=True).start()
        began = time.monotonic()
        state = secrets.probe()
    assert not state.usable
    assert ("no answer in time" if bus.startswith("hangs") else "no keyring works") in state.reason
    assert time.monotonic() - began < 60


def test_it_can_be_switched_off(vault: Vault, store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.is_("Working")
    monkeypatch.setenv("EXPB_TUI_KEYRING", "off")
    assert not secrets.keep(store, USER).in_keyring
    assert vault.asked() == []
    assert "EXPB_TUI_KEYRING" in secrets.probe().reason


def test_what_expbctl_made_stays_in_the_file_until_it_is_moved(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    write(store.path, {"default": "owner", "profiles": {"owner": entry(extra_key=1)}}, age=9)
    assert not secrets.keep(store, replace(store.select(), token=SecretStr("newer"))).in_keyring
    secrets.secure(store, "owner")
    moved = store.select("owner")
    assert (moved.in_keyring, moved.token) == (True, None)
    assert moved.expires_at is not None
    assert "newer" not in store.path.read_text()
    assert "refresh-0" not in store.path.read_text()
    assert [name for name in store.side.iterdir() if "newer" in name.read_text()] == []
    # signing in again keeps to the keyring
    assert secrets.keep(store, replace(moved, token=SecretStr("third"))).in_keyring
    secrets.unsecure(store, "owner")
    back = store.select("owner")
    assert (back.secret_place, back.token, back.extra) == ("file", SecretStr("third"), {"extra_key": 1})
    assert vault.content() == {}


def test_moving_fails_whole_where_the_keyring_does_not_work(vault: Vault, store: ProfileStore) -> None:
    write(store.path, {"profiles": {"owner": entry()}}, age=9)
    before = store.path.read_bytes()
    vault.is_("Locked")
    with pytest.raises(ExpbError, match="Failed to unlock"):
        secrets.secure(store, "owner")
    assert store.path.read_bytes() == before


def test_expbctl_that_drops_our_key_loses_nothing(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    secrets.keep(store, replace(USER, expires_at=None))
    rewrite(store.path, lambda told: told["profiles"]["owner"].pop("expb_tui"))
    assert secrets.reveal(store, store.select()).token == USER.token
    store.set_project("owner", "p", None)
    assert "expb_tui" in json.loads(store.path.read_text())["profiles"]["owner"]
    # a sign-in by expbctl wins over what the keyring holds
    rewrite(store.path, lambda told: told["profiles"]["owner"].update(token="theirs"))
    assert secrets.reveal(store, store.select()).token == SecretStr("theirs")


def test_a_credential_of_the_keyring_goes_to_its_own_endpoint_only(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    secrets.keep(store, USER)
    rewrite(store.path, lambda told: told["profiles"]["owner"].update(endpoint="https://evil.example.test"))
    with pytest.raises(SignInNeeded, match="another endpoint"):
        secrets.reveal(store, store.select())


def test_reading_from_a_keyring_that_has_locked_is_bounded(
    vault: Vault, store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.is_("Working")
    secrets.keep(store, USER)
    vault.is_("Hanging")
    monkeypatch.setattr("expb_tui.core.profiles.keyring_door.READ_LIMIT", 0.5)
    began = time.monotonic()
    with pytest.raises(SignInNeeded) as caught:
        secrets.reveal(store, store.select())
    assert time.monotonic() - began < 60
    assert "--profile=owner auth login" in caught.value.next_step
    assert "locked" in caught.value.cause


def test_signing_out_and_removing_leave_no_trace(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    secrets.keep(store, USER)
    cleared = secrets.clear(store, "owner")
    assert (cleared.signed_in, cleared.secret_place, vault.content()) == (False, "keyring", {})
    secrets.keep(store, USER)
    secrets.forget(store, "owner")
    assert (vault.content(), store.read().by_name) == ({}, {})
    assert "planted" not in "".join(path.read_text() for path in store.path.parent.rglob("*") if path.is_file())


async def test_a_refresh_of_what_the_keyring_holds_stays_there_and_survives_a_keyring_that_locks(
    vault: Vault, store: ProfileStore
) -> None:
    turn = 0

    def handler(request: Request, connection: socket.socket) -> None:
        nonlocal turn
        if request.target == "/oauth/token":
            turn += 1
            told = {"access_token": f"planted-a{turn}", "refresh_token": f"planted-r{turn}", "expires_in": 900}
            body = json.dumps(told | {"scope": "account", "account_id": "acc-1"})
        else:
            body = json.dumps({"type": "user", "as": request.headers["authorization"]})
        connection.sendall(response("200 OK", body.encode()))

    async def acting() -> str:
        session = Session.open(store)
        answer = await session.request("GET", "/v1/principal")
        await session.aclose()
        return str(answer.body["as"])

    def about_to_expire() -> None:
        soon = datetime.now(UTC) + timedelta(seconds=5)
        store.edit(lambda profiles: profiles.put(replace(profiles.by_name["owner"], expires_at=soon)))

    with raw_server(handler) as server:
        vault.is_("Working")
        secrets.keep(store, replace(USER, endpoint=server.address))
        about_to_expire()
        assert await acting() == "Bearer planted-a1"
        assert "planted" not in every_file_beside(store)
        assert await acting() == "Bearer planted-a1"
        about_to_expire()
        vault.is_("Locked")
        assert await acting() == "Bearer planted-a2"
        assert store.select().in_keyring
        assert await acting() == "Bearer planted-a2"  # from the ledger: the keyring still holds what was spent
        vault.is_("Working")
        assert await acting() == "Bearer planted-a2"
        assert "planted-a2" in "".join(vault.content().values())
        assert "planted" not in every_file_beside(store)
        assert [
            one.body.decode().partition("refresh_token=planted-")[2][:7] for one in server.requests if one.body
        ] == [
            "refresh",
            "r1",
        ]


def every_file_beside(store: ProfileStore) -> str:
    files = [store.path, *store.side.iterdir()]
    return "".join(path.read_text() for path in files)


def test_what_was_deleted_here_is_brought_back_where_it_was(vault: Vault, store: ProfileStore) -> None:
    vault.is_("Working")
    secrets.keep(store, USER)
    before, content = store.read(), vault.content()
    for undone in (secrets.forget, secrets.clear):
        kept = secrets.remember(store, "owner")
        undone(store, "owner")
        assert vault.content() == {}
        secrets.bring_back(store, kept)
        assert (store.read(), vault.content()) == (before, content)
    with pytest.raises(UsageError, match="stays as it is"):
        secrets.bring_back(store, kept)
    secrets.forget(store, "owner")
    vault.is_("Locked")
    back = secrets.bring_back(store, kept)
    assert (back.in_keyring, bool(back.token)) == (False, True)
    assert "planted" not in repr(kept)
