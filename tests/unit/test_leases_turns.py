"""Turns at a package's token: one at a time, in one process and across processes, until the holder ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from expb_tui.core.errors import FileProblem
from expb_tui.core.leases import turns
from expb_tui.core.leases.turns import Turns, package_turn

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["ranges", "files"], autouse=True)
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of lock do the same; the second one is for systems without the first."""
    monkeypatch.setattr(turns, "_RANGES", request.param == "ranges")


def test_one_user_at_a_time_and_each_package_by_itself(tmp_path: Path) -> None:
    one, two = Turns(tmp_path), Turns(tmp_path)
    assert one.take(1)
    assert not one.take(1)
    assert not two.take(1)
    assert 1 in one
    assert 1 not in two
    assert two.take(2)
    assert one.take(1025)
    one.give_back(1)
    one.give_back(1)
    assert two.take(1)
    two.close()
    assert one.take(1)
    one.close()
    assert two.take(1025)
    two.close()
    assert all(not file.read_bytes() for file in (tmp_path / "locks").iterdir())


async def test_waiting_for_a_turn_ends_in_words(tmp_path: Path) -> None:
    holder = Turns(tmp_path)
    assert holder.take(7)
    with pytest.raises(FileProblem) as caught:
        async with package_turn(tmp_path, 7, patience=0.05):
            raise AssertionError("it is taken")
    assert caught.value.code == "locked"
    holder.close()
    async with package_turn(tmp_path, 7, patience=0.0):
        assert not holder.take(7)
    assert holder.take(7)
    holder.close()


def test_a_turn_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from expb_tui.core.leases import turns\n"
        f"turns._RANGES = {turns._RANGES}\n"
        "mine = turns.Turns(Path(sys.argv[1])); print(mine.take(3), flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    ours = Turns(tmp_path)
    assert not ours.take(3)
    child.kill()
    child.communicate()
    assert ours.take(3)
    ours.close()
