"""``expb-tui agent opportunity``: work on offer, and why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from expb_tui.cli import diagnostics
from expb_tui.cli.acting import act
from expb_tui.cli.roles import role_option
from expb_tui.cli.tree import Noun, given
from expb_tui.present import opportunities as rows
from expb_tui.present.cells import Cell, Column, Glyphs, Row, Table, cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expb_tui.core.api.offers import Offer, OfferPage
    from expb_tui.core.opportunities import Cause
    from expb_tui.core.profiles.session import Session
    from expb_tui.launch import House


@click.group(cls=Noun)
def opportunity() -> None:
    """Work on offer, per project and role."""


class _Explained(NamedTuple):
    item: Offer
    causes: list[Cause]


@opportunity.command("list")
@role_option("Only this role.")
@click.option("--empty", is_flag=True, help="Also roles without work, with what blocks them.")
@click.option("--explain", is_flag=True, help="For each role without work, go through the six possible causes.")
@click.option("--limit", type=click.IntRange(1, 1024), default=100, help="The size of a page (100).")
@click.option("--cursor", metavar="CURSOR", help="Go on where an earlier page ended.")
@click.option("--fields", metavar="SELECTOR", help="Only items that match, such as role=ideator.")
@click.option("--all", "every", is_flag=True, help="Follow every page.")
@click.pass_context
def list_opportunities(
    ctx: click.Context,
    role: str | None,
    empty: bool,
    explain: bool,
    limit: int,
    cursor: str | None,
    every: bool,
    fields: str | None,
) -> None:
    """List work that can be requested now. An empty list is normal.

    --project narrows it to one project. Nothing is reserved by looking.
    """
    output = given(ctx).output()

    async def work(house: House) -> None:
        session = await house.session()
        project_id = await project_of(house, session)
        page = await house.desk.api.opportunities(
            session,
            project_id=project_id,
            role=role,
            every=empty or explain,
            limit=limit,
            cursor=cursor,
            fields=fields,
            follow=every or explain,
        )
        if explain:
            _print_causes(await _explain(house, session, page.items))
        elif output.structured:
            output.data(list(page.raw_items))
        else:
            output.table(_table(page))
            if not page.items:
                diagnostics.note("No work now, which is normal. Why: expb-tui agent opportunity list --explain")

    async def _explain(house: House, session: Session, items: Sequence[Offer]) -> list[_Explained]:
        from expb_tui.core.opportunities import explain as causes_of

        watcher = await house.watcher(session)
        idle = [item for item in items if item.available == 0]
        return [
            _Explained(item, await causes_of(session, item.project_id, item.role, watcher=watcher)) for item in idle
        ]

    def _table(page: OfferPage) -> Table:
        table = rows.table(page.items, wide=output.wide, total=page.total, noun="resources", glyphs=output.glyphs)
        if page.next:
            return table._replace(footer=f"{table.footer}\nmore: --cursor {page.next} (or --all)")
        return table

    def _print_causes(explained: list[_Explained]) -> None:
        output.show(lambda: [_cause_data(one) for one in explained], lambda: _causes_table(explained, output.glyphs))

    act(ctx, work)


async def project_of(house: House, session: Session) -> str | None:
    """The id of the project that ``--project`` names by id or name; None without the option."""
    if house.chosen.project is None:
        return None
    from expb_tui.core.api import identity

    return (await identity.find_project(session, house.chosen.project)).uid


def _cause_data(explained: _Explained) -> dict[str, Any]:
    return {
        "project_id": explained.item.project_id,
        "project_name": explained.item.project_name,
        "role": explained.item.role,
        "causes": [
            {
                "name": cause.name,
                "title": cause.title,
                "answer": cause.answer.value,
                "detail": cause.detail,
                "next_step": cause.next_step,
            }
            for cause in explained.causes
        ],
    }


def _causes_table(explained: list[_Explained], glyphs: Glyphs) -> Table:
    columns = (Column("PROJECT"), Column("ROLE"), *rows.CAUSE_COLUMNS)
    lines: list[Row] = []
    for one in explained:
        head = (cell(one.item.project_name or one.item.project_id), cell(one.item.role))
        for row in rows.causes_table(one.causes, glyphs=glyphs).rows:
            # A blank, not a dash: project and role stand in the first line of their block.
            lines.append(Row(f"{rows.key(one.item)}/{row.key}", (*head, *row.cells)))
            head = (Cell(""), Cell(""))
    return Table(columns, tuple(lines), f"{len(explained)} role{'' if len(explained) == 1 else 's'} without work")
