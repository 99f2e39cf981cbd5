"""Sessions of the keeper: one for what a profile is now, none left open for what it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from expb_tui.core.keeper.tokens import Sessions
from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.desk import AGENT, SETTINGS, MovingClock, pin


def profile(endpoint: str) -> Profile:
    token = SecretStr("identity-token")
    return Profile(AGENT, "agent", endpoint=endpoint, account_id="acc-1", agent_id="agt-1", token=token)


async def test_a_lease_of_what_a_profile_was_opens_no_session_at_each_look(tmp_path: Path) -> None:
    clock = MovingClock()
    store, sessions = ProfileStore(tmp_path / "profiles.json"), Sessions(SETTINGS, clock)
    store.put(profile("http://127.0.0.1:9"))
    now = replace(pin(profile_file=str(store.path)), endpoint="http://127.0.0.1:9")
    before = replace(now, endpoint="http://127.0.0.1:8")
    assert await sessions.check(now) is None
    (serving,) = sessions._open.values()
    for _ in range(20):
        clock.ahead += 61.0
        assert await sessions.check(before) is not None
        assert await sessions.check(now) is None
    assert list(sessions._open.values()) == [serving]
    assert sessions._retired == []
    await sessions.aclose()


async def test_what_a_profile_was_is_closed_after_a_while_and_what_it_is_now_is_opened(tmp_path: Path) -> None:
    clock = MovingClock()
    store, sessions = ProfileStore(tmp_path / "profiles.json"), Sessions(SETTINGS, clock)
    store.put(profile("http://127.0.0.1:9"))
    first = replace(pin(profile_file=str(store.path)), endpoint="http://127.0.0.1:9")
    assert await sessions.check(first) is None
    (old,) = sessions._open.values()
    store.put(profile("http://127.0.0.1:8"))
    second = replace(first, endpoint="http://127.0.0.1:8")
    assert await sessions.check(second) is None
    assert await sessions.check(first) is not None
    (new,) = sessions._open.values()
    assert new is not old
    assert [session for _, session in sessions._retired] == [old]
    clock.ahead += 61.0
    await sessions.check(second)
    assert sessions._retired == []
    await sessions.aclose()
