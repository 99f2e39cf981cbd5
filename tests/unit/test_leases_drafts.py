"""Drafts in the journal: no window overwrites what another has saved, and what was typed for a task is found again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from expb_tui.core.leases.drafts import Draft, DraftMoved
from expb_tui.core.leases.journal import Journal
from tests.support.desk import package_row, pin
from tests.unit.test_leases_journal import receipt


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "journal.db")
    await journal.merge(package_row())
    yield journal
    await journal.aclose()


async def save(journal: Journal, words: str, based_on: Draft | None = None, mark: str = "") -> Draft:
    return await journal.save_draft(
        "wp-1", "task-1", {"words": words, "lines": ("a",)}, None, based_on=based_on, mark=mark
    )


async def words_of(journal: Journal) -> tuple[str, list[str]]:
    """The draft, and what is kept beside it, newest first."""
    draft = await journal.draft("wp-1", "task-1")
    assert draft is not None
    return draft.values["words"], [one.values["words"] for one in await journal.other_drafts("wp-1", "task-1")]


async def test_two_windows_lose_nothing_of_each_other(journal: Journal) -> None:
    first = await save(journal, "begun", mark="a")
    hour = await save(journal, "typed for an hour", first, "b")
    with pytest.raises(DraftMoved) as told:
        await save(journal, "begun!", first, "a")
    assert told.value.draft.values["words"] == "typed for an hour"
    with pytest.raises(DraftMoved):
        await save(journal, "begun!!", first, "a")
    assert await words_of(journal) == ("typed for an hour", ["begun!!"]), "both are there, and only the latest of each"
    await save(journal, "typed for two hours", hour, "b")  # who was not overtaken is not disturbed

    (mine,) = await journal.other_drafts("wp-1", "task-1")
    chosen = await journal.take_draft("wp-1", mine)
    assert await words_of(journal) == ("begun!!", ["typed for two hours"])
    await save(journal, "begun!!!", chosen, "a")
    with pytest.raises(DraftMoved):
        await save(journal, "typed for three hours", hour, "b")


async def test_the_same_words_are_no_conflict_and_a_draft_that_is_gone_is_none_either(journal: Journal) -> None:
    first = await save(journal, "begun")
    await save(journal, "more", first)
    same = await save(journal, "more", first)
    await journal.drop_draft("wp-1", "task-1")
    await save(journal, "and more", same)
    assert await words_of(journal) == ("and more", [])


async def test_what_was_typed_for_a_task_is_found_under_its_next_package_of_that_service(
    journal: Journal,
) -> None:
    await save(journal, "of then")
    await journal.merge(package_row("wp-2"))
    elsewhere = replace(pin(), endpoint="https://other.example")
    await journal.merge(package_row("wp-3", pin=elsewhere))
    assert [one.values["words"] for one in await journal.other_drafts("wp-2", "task-1")] == ["of then"]
    assert await journal.other_drafts("wp-3", "task-1") == []
    (then,) = await journal.other_drafts("wp-2", "task-1")
    await journal.take_draft("wp-2", then)
    assert {one.package_id for one in await journal.drafts()} == {"wp-1", "wp-2"}, "nothing is taken away"


async def test_what_is_kept_beside_a_draft_has_served_its_purpose_with_it(journal: Journal) -> None:
    await save(journal, "begun")
    with pytest.raises(DraftMoved):
        await save(journal, "other", mark="b")
    await journal.merge(package_row("wp-10"))
    await journal.save_draft("wp-10", "task-1", {"words": "of another package"}, None)
    await journal.settle_submission(None, receipt(), package_row(version=2, phase="completed", token=None))
    assert [one.package_id for one in await journal.drafts()] == ["wp-10"]
