"""Which of several versions of one draft goes on: typed when the task was held before, or in two windows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Column, Row, Table, Tone
from expb_tui.present.times import moment
from expb_tui.tui.screens.row_menu import MenuScreen

if TYPE_CHECKING:
    from datetime import datetime

    from expb_tui.core.leases.drafts import Draft
    from expb_tui.tui.app import CockpitApp
    from expb_tui.tui.screens.draft_keeper import DraftKeeper

_COLUMNS = (Column("SAVED", 12), Column("VERSION", 30), Column("BEGINS WITH", 40))
_EMPTY = "empty"


async def choose(app: CockpitApp, keeper: DraftKeeper, *, asked: bool) -> Draft | None:
    """The version that the operator takes, which is the draft from then on; None where nothing changes.

    Unless ``asked`` for, only a version that is newer than the draft is worth the question. Raises ``ExpbError``.
    """
    draft, others = await keeper.versions()
    if not others or not (asked or draft is None or others[0].updated_at > draft.updated_at):
        return None
    now = app.house.clock.now()
    rows = [_row(keeper, one, now) for one in others]
    if draft is not None:
        rows.append(_row(keeper, draft, now))
    else:
        rows.append(Row(_EMPTY, (Cell("-"), Cell("an empty form"), Cell("what is kept stays kept", Tone.DIM))))
    title = "Which draft of this task goes on? The others stay on this host"
    taken = await app.push_screen_wait(MenuScreen(title, Table(_COLUMNS, tuple(rows)), width=96))
    versions = [*others, *([draft] if draft is not None else [])]
    version = next((one for one in versions if one.package_id == taken), None)
    if version is not None:
        await keeper.choose(version)
    return version


def _row(keeper: DraftKeeper, version: Draft, now: datetime) -> Row:
    words = version.text
    if words is None:
        words = " ".join(value for value in version.values.values() if isinstance(value, str) and value)
    return Row(
        version.package_id,
        (
            Cell(moment(version.updated_at, now)),
            Cell(keeper.origin(version), Tone.INFO),
            Cell(clean(words[:200]), Tone.DIM),
        ),
    )
