"""A damaged journal: set aside whole, and everything that can be read is in the new one (hazards 5)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.journal import Journal
from tests.support.desk import package_row
from tests.unit.test_leases_journal import intent

PACKAGES = 30
PAGE = 4096


@contextlib.asynccontextmanager
async def journal_at(path: Path) -> AsyncIterator[Journal]:
    journal = Journal(path)
    try:
        yield journal
    finally:
        await journal.aclose()


async def filled(path: Path) -> None:
    """Packages, drafts and a request under way, a few pages of each."""
    async with journal_at(path) as journal:
        for number in range(PACKAGES):
            document = {"status": {"tasks": [{"taskId": f"task-{number}", "input": {"text": "word " * 200}}]}}
            await journal.merge(package_row(f"wp-{number}", document=document))
            await journal.save_draft(f"wp-{number}", f"task-{number}", {"statement": f"Idea {number} " * 40}, None)
        await journal.intend(intent())


async def counts(journal: Journal) -> tuple[int, int, int, int]:
    """Packages, tokens, drafts, open requests."""
    packages, drafts, intents = await journal.packages(), await journal.drafts(), await journal.open_intents()
    return len(packages), sum(one.token is not None for one in packages), len(drafts), len(intents)


def at_offset(offset: int, garbage: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with open(path, "r+b") as handle:
            handle.seek(offset)
            handle.write(garbage)

    return damage


def cut(path: Path) -> None:
    with open(path, "r+b") as handle:
        handle.truncate(path.stat().st_size * 3 // 4 // PAGE * PAGE)


@pytest.mark.parametrize(
    ("damage", "least"),
    [
        pytest.param(at_offset(0, b"\0" * PAGE), PACKAGES, id="first page gone"),
        pytest.param(at_offset(0, b"x"), PACKAGES, id="one byte of the header"),
        pytest.param(at_offset(60, b"\0\0\0\0"), PACKAGES, id="format forgotten"),
        pytest.param(at_offset(60, b"\0\x7f\0\2"), PACKAGES, id="format beyond all sense"),
        pytest.param(at_offset(20 * PAGE, b"\xa5" * PAGE), PACKAGES // 2, id="a page in the middle"),
        pytest.param(cut, PACKAGES // 2, id="cut short"),
    ],
)
async def test_what_can_be_read_is_saved(tmp_path: Path, damage: Callable[[Path], None], least: int) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    damage(path)
    damaged = path.read_bytes()
    async with journal_at(path) as journal:
        packages, tokens, drafts, _ = await counts(journal)
        assert min(packages, tokens, drafts) >= least
        told = journal.salvaged()
        assert told is not None
        assert (told.packages, told.tokens, told.drafts) == (packages, tokens, drafts)
        assert (told.folder / "journal.db").read_bytes() == damaged
        assert oct(told.folder.stat().st_mode)[-3:] == "700"
        await journal.merge(package_row("wp-new"))
        assert await journal._door.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith("journal")) == ["journal.db"]


async def test_a_file_that_is_empty_is_damage_and_no_new_journal(tmp_path: Path) -> None:
    """What a power cut leaves on some file systems."""
    path = tmp_path / "journal.db"
    await filled(path)
    with open(path, "r+b") as handle:
        handle.truncate(0)
    async with journal_at(path) as journal:
        assert await counts(journal) == (0, 0, 0, 0)
        told = journal.salvaged()
        assert told is not None
        assert told.cause == "the file is empty"
        assert (told.folder / path.name).exists()


async def test_of_an_empty_file_the_log_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with journal_at(path) as journal:
        for number in range(PACKAGES):
            await journal.merge(package_row(f"wp-{number}"))
        with open(path, "r+b") as handle:
            handle.truncate(0)
        async with asyncio.timeout(20):
            while (await counts(journal))[:2] != (PACKAGES, PACKAGES):
                await asyncio.sleep(0.05)
        assert journal.salvaged() is not None


async def test_many_who_come_first_make_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journals = [Journal(path) for _ in range(8)]
    await asyncio.gather(*(one.merge(package_row(f"wp-{number}")) for number, one in enumerate(journals)))
    assert {row.uid for row in await journals[0].packages()} == {f"wp-{number}" for number in range(8)}
    assert journals[0].salvaged() is None
    assert not path.with_name("journal.db.new").exists()
    assert path.stat().st_mode & 0o777 == 0o600
    for one in journals:
        await one.aclose()


async def test_whatever_byte_is_flipped_nothing_but_words_come_of_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    sound = path.read_bytes()
    dice = random.Random(5)
    saved, losses = 0, 0
    for round_ in range(60):
        folder = tmp_path / f"round-{round_}"
        folder.mkdir()
        damaged = bytearray(sound)
        for _ in range(dice.choice((1, 3, 20))):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        (folder / "journal.db").write_bytes(damaged)
        async with journal_at(folder / "journal.db") as journal:
            with contextlib.suppress(ExpbError):
                packages, _, drafts, _ = await counts(journal)
                losses += 2 * PACKAGES - packages - drafts
                saved += journal.salvaged() is not None
                await journal.merge(package_row("wp-new"))
    assert saved > 20
    assert losses < 60 * PACKAGES // 10
