"""How the cockpit looks: one picture for each size and theme that matters, on a scene that stands still.

``pytest tests/service/test_tui_snapshots.py --snapshot-update`` takes them anew after a change that was meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from expb_tui.tui.app import CockpitApp
from tests.support.cockpit import PilotCockpit
from tests.support.still_life import StillLife, still_life


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StillLife]:
    with still_life(tmp_path_factory.mktemp("still")) as found:
        yield found


LOOKS = {
    "mono-120x40": ((120, 40), "mono", "unicode", ["pane.leases", "list.mark"]),
    "ansi16-80x24": ((80, 24), "ansi16", "unicode", ["pane.work"]),
    "high-contrast-200x60": ((200, 60), "high-contrast", "unicode", ["pane.package"]),
    "ascii-80x24": ((80, 24), "dark", "ascii", ["pane.leases", "list.down"]),
    "parchment-help": ((120, 40), "parchment", "unicode", ["pane.leases", "app.help"]),
}


@pytest.mark.parametrize("name", LOOKS)
def test_it_looks_as_before(scene: StillLife, snap_compare: Any, name: str) -> None:
    size, theme, icons, actions = LOOKS[name]
    app = CockpitApp(scene.house(theme=theme, icons=icons))

    async def prepare(pilot: Pilot[None]) -> None:
        cockpit = PilotCockpit(app, pilot)
        await cockpit.wait(lambda: app.bridge.work is not None and bool(app.bridge.work.items), "work")
        await cockpit.wait(lambda: bool(app.bridge.held), "leases")
        for action in actions:
            # What a dialog covers goes on more slowly: it is to be as it should be before one opens.
            await cockpit.press(action)
            await pilot.pause(0.3)

    assert snap_compare(app, terminal_size=size, run_before=prepare)


def test_the_pictures_of_the_scene_are_kept_beside_this_file() -> None:
    kept = {path.stem for path in (Path(__file__).parent / "__snapshots__" / "test_tui_snapshots").iterdir()}
    assert kept == {f"test_it_looks_as_before[{name}]" for name in LOOKS}
