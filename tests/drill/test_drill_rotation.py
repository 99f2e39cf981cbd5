"""A service that changes the lease token with each renewal: a killed renewal may lose the new one, and says so."""

from __future__ import annotations

from pathlib import Path

from expb_tui.core.profiles.store import Profile, ProfileStore
from expb_tui.core.secret import SecretStr
from tests.support.drill import claim, in_a_thread, kept, save_draft
from tests.support.operators import environment
from tests.support.recorded import Forks, Place
from tests.support.upstream import ACCOUNT_ID, AGENT_ID, PROJECT_ID, Upstream


def test_a_token_that_is_lost_with_its_answer_is_said_to_be(tmp_path: Path, fork_server: Forks) -> None:
    with in_a_thread(Upstream()) as upstream:

        def place(name: str) -> Place:
            (tmp_path / name).mkdir()
            made = Place(tmp_path / name, fork_server, environment(tmp_path / name))
            ProfileStore(made.folder / "profiles.json").put(
                Profile(
                    "researcher",
                    "agent",
                    endpoint=upstream.url,
                    account_id=ACCOUNT_ID,
                    agent_id=AGENT_ID,
                    project_id=PROJECT_ID,
                    token=SecretStr("identity-token-of-the-agent"),
                )
            )
            return made

        first = place("first")
        assert claim(first).code == 0
        points = first.run("agent", "work", "renew").points
        assert f"before receive {RENEW}" in points
        lost = 0
        for number, point in enumerate(points):
            here = place(f"home-{number}")
            uid = claim(here).json()["resource"]["metadata"]["uid"]
            save_draft(here, uid, f"task-{uid}", {"typed": "x"})
            before = upstream.tokens[uid]
            assert here.run("agent", "work", "renew", uid, kill_at=point).killed, point
            again = here.run("agent", "work", "renew", uid)
            (shown,) = here.run("agent", "work", "list", "-o", "json").json()
            if again.code == 0:
                assert shown["state"] == "active", point
            else:
                lost += 1
                assert upstream.tokens[uid] != before, point  # nobody could have known it
                assert shown["state"] == "lost", (point, again.err)
                assert "no longer accepts its token" in shown["reason"]
            assert [draft.values for draft in kept(here)[1]] == [{"typed": "x"}]
        assert 0 < lost < len(points)


RENEW = "POST /v1/work-packages/*/renewals"
