"""The demo: seeded once, believable, with work for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from expb_tui.server.config import PasswordCost, ServerError, ServerSettings
from expb_tui.server.context import Services
from expb_tui.server.identity.authentication import authenticate
from expb_tui.server.identity.passwords import Passwords
from expb_tui.server.research.kinds import HYPOTHESES, RESULTS
from expb_tui.server.seed import seed_demo
from expb_tui.server.store.columns import metadata
from expb_tui.server.store.database import Database
from expb_tui.server.store.research_tables import holds, hypotheses, integrations, results, work_packages
from expb_tui.server.store.schema import credentials, projects, users
from tests.support.research import migrated_file


def open_services(path: Path) -> Services:
    path.write_bytes(migrated_file())
    settings = ServerSettings(
        database=f"sqlite:///{path}", synchronous="OFF", password_cost=PasswordCost(time=1, memory=64, lanes=1)
    )
    return Services(settings, Database(settings.database, synchronous="OFF"), Passwords(settings.password_cost))


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    made = open_services(tmp_path / "demo.sqlite")
    yield made
    made.passwords.close()
    made.database.close()


def rows(services: Services) -> dict[str, int]:
    with services.database.read() as conn:
        return {table.name: len(conn.execute(select(table)).all()) for table in metadata.sorted_tables}


def texts(services: Services) -> list[str]:
    """What people read in it, oldest first."""
    with services.database.read() as conn:
        found = [
            row.spec.get("statement") or row.spec.get("summary")
            for kind in (HYPOTHESES, RESULTS)
            for row in conn.execute(kind.select.order_by(kind.table.c.created_at))
        ]
        return [*found, *conn.execute(select(holds.c.reason)).scalars()]


async def test_a_second_seeding_adds_nothing_but_credentials(services: Services) -> None:
    first = seed_demo(services)
    before = rows(services)
    second = seed_demo(services, password="another pass phrase")
    after = rows(services)
    assert {name for name in after if after[name] != before[name]} == {
        "agent_identity_tokens",
        "credentials",
        "event_log",
    }
    assert (second.account_id, second.project_id, second.agent_id) == (
        first.account_id,
        first.project_id,
        first.agent_id,
    )
    with services.database.read() as conn:
        stored = conn.execute(select(users.c.password_hash)).scalar_one()
        for token in (first.agent_token, second.agent_token):
            assert authenticate(services.database, conn, token).caller.agent_id == first.agent_id
    assert await services.passwords.verify(stored, "another pass phrase")
    assert not await services.passwords.verify(stored, first.password)


def test_secrets_are_random_and_shown_to_nobody(services: Services) -> None:
    demo = seed_demo(services)
    assert demo.password not in repr(demo)
    assert demo.agent_token not in repr(demo)
    assert len(demo.agent_token) == 43
    with services.database.read() as conn:
        assert demo.agent_token.encode() not in conn.execute(select(credentials.c.verifier)).scalars().all()


def test_the_story_is_the_same_every_time(services: Services, tmp_path: Path) -> None:
    seed_demo(services)
    again = open_services(tmp_path / "again.sqlite")
    seed_demo(again)
    assert texts(services) == texts(again)
    assert rows(services) == rows(again)
    again.passwords.close()
    again.database.close()


def test_the_history_has_every_kind_of_end(services: Services) -> None:
    demo = seed_demo(services)
    with services.database.read() as conn:
        now = services.database.clock(conn)
        phases = set(conn.execute(select(hypotheses.c.phase)).scalars())
        assert phases == {"proposed", "ready", "in-experiment", "tested", "rejected", "combined"}
        assert set(conn.execute(select(results.c.phase)).scalars()) == {"reported", "evidence-requested", "accepted"}
        assert conn.execute(select(integrations.c.phase)).scalar_one() == "proposed"
        assert set(conn.execute(select(work_packages.c.phase)).scalars()) == {"completed"}
        created = conn.execute(select(hypotheses.c.created_at)).scalars().all()
        assert all(1 < (now - moment).total_seconds() / 3600 < 24 * 12 for moment in created)
        assert conn.execute(select(projects.c.name)).scalars().all() == [demo.project_name, "search-relevance"]
    assert services.database.clock_offset.total_seconds() == 0


def test_a_demo_that_was_renamed_is_told_apart(services: Services) -> None:
    demo = seed_demo(services)
    with services.database.write() as conn:
        conn.execute(update(projects).where(projects.c.id == demo.project_id).values(name="ours"))
    with pytest.raises(ServerError) as refused:
        seed_demo(services)
    assert refused.value.code == "demo-changed"
