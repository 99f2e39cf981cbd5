"""Make the screenshots from the running cockpit; the same commit makes the same bytes.

``python screenshots/make.py`` writes the SVGs, ``--check`` writes nothing and exits with 1 where one is not current.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.support.cockpit import PilotCockpit, piloted  # noqa: E402 - found only now
from tests.support.still_life import StillLife, still_life  # noqa: E402


class Shot(NamedTuple):
    """One picture: size, theme, and what is done before it is taken."""

    name: str
    size: tuple[int, int]
    theme: str
    prepare: Callable[[PilotCockpit], Awaitable[None]]


async def _leases(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.leases")
    await cockpit.wait_for("3 leases")


async def _work(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.work")


async def _help(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.leases")
    await cockpit.wait_for("Instructions")
    await cockpit.press("app.help")
    await cockpit.wait_for("How to read it")


async def _release(cockpit: PilotCockpit) -> None:
    await cockpit.press("pane.leases", "list.down", "lease.release")
    await cockpit.wait_for("Release the")


SHOTS = (
    Shot("cockpit-120x40", (120, 40), "dark", _leases),
    Shot("cockpit-80x24", (80, 24), "dark", _leases),
    Shot("cockpit-200x60", (200, 60), "fjord", _leases),
    Shot("cockpit-light", (120, 40), "light", _work),
    Shot("help-120x40", (120, 40), "dark", _help),
    Shot("confirm-120x40", (120, 40), "ember", _release),
)


async def _take(scene: StillLife, shot: Shot) -> str:
    async with scene.cockpit(shot.size, theme=shot.theme) as cockpit:
        await shot.prepare(cockpit)
        await cockpit.pilot.pause(0.3)
        return cockpit.app.export_screenshot(title="expb-tui")


async def _take_login(scene: StillLife) -> str:
    house = scene.house(profiles="signed-out.json")
    async with piloted(house, size=(120, 40), settled="signed out") as cockpit:
        await cockpit.pilot.pause(0.3)
        scene.reseed()
        await cockpit.press("profile.login")
        await cockpit.wait_for("/oauth/device")
        await cockpit.pilot.pause(0.5)
        return cockpit.app.export_screenshot(title="expb-tui")


def make() -> dict[str, str]:
    """Every picture by its file name."""
    with tempfile.TemporaryDirectory() as folder, still_life(Path(folder)) as scene:
        pictures = {f"{shot.name}.svg": asyncio.run(_take(scene, shot)) for shot in SHOTS}
        pictures["login-120x40.svg"] = asyncio.run(_take_login(scene))
    return pictures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a picture is not current")
    check = parser.parse_args().check
    stale = []
    pictures = make()
    for name, picture in pictures.items():
        path = HERE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != picture:
            stale.append(name)
            if not check:
                path.write_text(picture, encoding="utf-8")
    strays = sorted({path.name for path in HERE.glob("*.svg")} - pictures.keys())
    verb = "not current" if check else "made"
    lines = [f"{len(stale)} of {len(pictures)} pictures {verb}: {', '.join(stale) or 'none'}"]
    lines += [f"{name} is made by nobody" for name in strays]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if strays or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
