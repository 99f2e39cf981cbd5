"""Forms from a description: values survive the round trip, keys do what people expect, nothing else is typed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from expb_tui.core.errors import ExpbError, FileProblem
from expb_tui.core.leases.drafts import Draft
from expb_tui.core.submissions.fields import Choice, Condition, Field, Kind
from expb_tui.present.cells import Cell, Tone
from expb_tui.tui import theme
from expb_tui.tui.screens.draft_keeper import PAUSE, DraftKeeper
from expb_tui.tui.widgets.controls import ChoiceLine, LineInput, PickLines, ProseArea
from expb_tui.tui.widgets.form import FormView
from expb_tui.tui.widgets.look import Look
from expb_tui.tui.widgets.question import list_text, text_list
from expb_tui.tui.widgets.words import Words, line
from tests.support.picture import drawn

FIELDS = (
    Field(
        "verdict",
        "Verdict",
        Kind.CHOICE,
        required=True,
        choices=(Choice("accept", "accept", "As it is."), Choice("combine", "combine", "With others.")),
    ),
    Field("why", "Why", Kind.PROSE, required=True, help="In a sentence."),
    Field(
        "others",
        "Others",
        Kind.LIST,
        choices=(Choice("hyp-1", "first"), Choice("hyp-2", "second")),
        visible_when=(Condition("verdict", frozenset({"combine"})),),
    ),
    Field("risks", "Risks", Kind.LIST),
    Field("value", "p95", Kind.NUMBER, unit="ms", group="Measurement"),
    Field("ok", "Certain", Kind.BOOL),
    Field(
        "evidence",
        "Evidence",
        Kind.FILES,
        columns=(Field("name", "Name", Kind.TEXT), Field("path", "File", Kind.FILE), Field("note", "Note", Kind.PROSE)),
    ),
    Field("patch", "Patch", Kind.FILE),
)
VALUES: dict[str, Any] = {
    "verdict": "combine",
    "why": "Because.\nTwice.",
    "others": ["hyp-2", "hyp-gone"],
    "risks": ["one", "two\nlines", "three"],
    "value": "396.40",
    "ok": True,
    "evidence": [
        {"name": "a", "path": "a.log", "note": "x\ny", "sha256": "f" * 64},
        {"name": "b", "path": "", "note": ""},
    ],
    "patch": "change.diff",
}


class OneForm(App[None]):
    """A form and nothing around it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        palette = theme.find("dark")
        self.look = Look.of(palette, ascii_only=False)
        self.register_theme(palette.textual())
        self.theme = palette.textual().name
        self._values = values
        self.form: FormView
        self.changes = 0

    def compose(self) -> ComposeResult:
        self.form = FormView(FIELDS, self._values)
        with VerticalScroll(can_focus=False):
            yield self.form

    def on_form_view_changed(self) -> None:
        self.changes += 1

    @property
    def text(self) -> str:
        return "\n".join(drawn(self, color_system="truecolor").display)


@asynccontextmanager
async def shown(values: Mapping[str, Any]) -> AsyncIterator[tuple[OneForm, Pilot[None]]]:
    app = OneForm(values)
    async with app.run_test(size=(100, 60)) as pilot:
        await pilot.pause()
        yield app, pilot


async def test_values_come_back_as_they_went_in() -> None:
    async with shown(VALUES) as (app, pilot):
        assert app.form.values() == VALUES
        app.form.set_values({})
        await pilot.pause()
        assert app.form.values()["evidence"] == []
        app.form.set_values(VALUES)
        await pilot.pause()
        assert app.form.values() == VALUES


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1)))
def test_one_item_a_line_loses_no_item(items: list[str]) -> None:
    kept = [item.strip() for item in items if item.strip()]
    assert text_list(list_text(kept)) == kept


def test_items_of_several_lines_stay_one_item() -> None:
    assert text_list(list_text(["one\ntwo", "three"])) == ["one\ntwo", "three"]
    assert text_list("one\n\n  two\nthree\n") == ["one\ntwo", "three"]


async def test_a_field_says_what_is_wrong_once_it_was_touched() -> None:
    async with shown({}) as (app, pilot):
        problems = {"why": "is needed", "value": "a number is expected"}
        app.form.show([field.key for field in FIELDS], {}, problems)
        await pilot.pause()
        assert "is needed" not in app.text
        app.form.questions["why"].focus_control()
        await pilot.pause()
        await pilot.press("tab")
        app.form.show([field.key for field in FIELDS], {}, problems)
        await pilot.pause()
        assert "\u2717 is needed" in app.text
        assert "a number is expected" not in app.text
        app.form.touch_all()
        app.form.show([field.key for field in FIELDS], {}, problems)
        await pilot.pause()
        assert "\u2717 a number is expected" in app.text


async def test_notes_stand_beside_their_fields_with_a_sign() -> None:
    async with shown(VALUES) as (app, pilot):
        keys = [field.key for field in FIELDS]
        app.form.show(
            keys,
            {"value": "not satisfied", "ok": "satisfied"},
            {},
            row_notes={"evidence": [(Cell("14 bytes", Tone.OK),)]},
            lines={"patch": (Cell("3 files", Tone.OK),)},
        )
        await pilot.pause()
        assert "! not satisfied" in app.text
        assert "\u2713 satisfied" in app.text
        assert "14 bytes" in app.text
        assert "3 files" in app.text


async def test_hidden_fields_keep_their_values_and_take_no_focus() -> None:
    async with shown(VALUES) as (app, pilot):
        app.form.show(["verdict", "why"], {}, {})
        await pilot.pause()
        assert "Others" not in app.text
        assert app.form.values()["others"] == ["hyp-2", "hyp-gone"]
        app.form.focus_first()
        await pilot.press("tab", "tab")
        assert app.focused is app.form.questions["verdict"].control, "the focus goes round over what is shown"


async def test_choices_are_made_with_arrows_digits_and_space() -> None:
    async with shown({}) as (app, pilot):
        control = app.form.questions["verdict"].control
        assert isinstance(control, ChoiceLine)
        control.focus()
        await pilot.press("right")
        assert control.value == "accept"
        await pilot.press("space")
        assert control.value == "combine"
        await pilot.press("1")
        assert control.value == "accept"
        await pilot.press("left")
        assert control.value == "combine"
        assert "With others." in app.text
        assert app.changes == 4


async def test_lines_are_picked_with_space_and_left_with_arrows() -> None:
    async with shown({"others": ["hyp-2"]}) as (app, pilot):
        control = app.form.questions["others"].control
        assert isinstance(control, PickLines)
        control.focus()
        await pilot.press("space", "down", "space")
        assert control.value == ["hyp-1"]
        await pilot.press("down")
        assert app.focused is app.form.questions["risks"].control


async def test_arrows_leave_a_text_only_at_its_ends() -> None:
    async with shown({"why": "one\ntwo"}) as (app, pilot):
        control = app.form.questions["why"].control
        control.focus()
        await pilot.press("down")
        assert app.focused is control
        await pilot.press("down")
        assert app.focused is not control
        await pilot.press("up", "up", "up", "up")
        assert app.focused is not control


@pytest.mark.parametrize("key", ["why", "value"])
async def test_what_is_pasted_is_text(key: str) -> None:
    async with shown({}) as (app, pilot):
        control = app.form.questions[key].control
        control.focus()
        await pilot.pause()
        control.post_message(events.Paste("a\x1b[31mb\u202e\x07\r\nc"))
        await pilot.pause()
        assert app.form.values()[key] == ("a b".replace(" ", "") + ("\nc" if key == "why" else " c"))
        control.post_message(events.Paste(""))
        await pilot.pause()
        assert app.form.values()[key].startswith("ab")


async def test_mouse_reports_that_a_terminal_types_are_taken_out() -> None:
    async with shown({}) as (app, pilot):
        control = app.form.questions["value"].control
        control.focus()
        await pilot.press(*"3[<35;2;1M9")
        assert app.form.values()["value"] == "39"


async def test_no_cursor_blinks() -> None:
    async with shown(VALUES) as (app, _):
        # For mypy: both are inputs.
        blinking = [one for one in app.query("LineInput, ProseArea") if one.cursor_blink]  # type: ignore[attr-defined]
        assert not blinking
        assert app.query(LineInput)
        assert app.query(ProseArea)


async def test_a_link_goes_where_its_text_says_also_when_it_is_broken_over_lines() -> None:
    address = "https://bench.example.test/oauth/device?user_code=" + "K" * 60

    class OneLink(OneForm):
        def compose(self) -> ComposeResult:
            yield Words(line("Open this:"), (Cell(address, Tone.LINK),), (Cell("javascript:alert(1)", Tone.LINK),))

    app = OneLink({})
    async with app.run_test(size=(50, 10)) as pilot:
        await pilot.pause()
        links = [
            (segment.text, segment.style.link)
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None and segment.style.link
        ]
        assert {link for _, link in links} == {address}
        assert "".join(text for text, _ in links) == address


# Keeping drafts


class Drafts:
    """The desk's part for drafts, which can be slow or refuse."""

    def __init__(self) -> None:
        self.saved: list[dict[str, Any]] = []
        self.delay = 0.0
        self.refuses = False

    async def save_draft(
        self, package: str, task: str, values: dict[str, Any], *, text: str | None, based_on: Draft | None, mark: str
    ) -> Draft:
        await asyncio.sleep(self.delay)
        if self.refuses:
            raise FileProblem("The journal cannot be written", cause="the disk is full")
        self.saved.append({**values, **({"text": text} if text is not None else {})})
        return Draft(package, task, values, text, datetime.now(UTC))

    async def drop_draft(self, package: str, task: str) -> None:
        self.saved.append({"dropped": True})


def keeper_of(drafts: Drafts) -> tuple[DraftKeeper, list[tuple[bool, ExpbError | None]]]:
    told: list[tuple[bool, ExpbError | None]] = []
    # For mypy: the test's own store.
    return DraftKeeper(drafts, "wp-1", "task-1", lambda saved, error: told.append((saved, error))), told  # type: ignore[arg-type]


async def test_a_burst_of_typing_is_one_write_within_the_promised_time() -> None:
    assert PAUSE <= 0.3
    drafts = Drafts()
    keeper, told = keeper_of(drafts)
    for count in range(20):
        keeper.note({"value": count})
    await asyncio.sleep(PAUSE + 0.1)
    assert drafts.saved == [{"value": 19}]
    assert told[-1] == (True, None)
    assert keeper.saved


async def test_writes_keep_the_order_of_typing_and_a_flush_waits_for_the_last() -> None:
    drafts = Drafts()
    drafts.delay = 0.05
    keeper, _ = keeper_of(drafts)
    keeper.note({"value": 1})
    first = asyncio.ensure_future(keeper.flush())
    await asyncio.sleep(0.01)
    keeper.note({"value": 2})
    await keeper.flush()
    await first
    assert drafts.saved == [{"value": 1}, {"value": 2}]


async def test_a_refused_write_is_told_and_tried_again() -> None:
    drafts = Drafts()
    drafts.refuses = True
    keeper, told = keeper_of(drafts)
    keeper.note({"value": 1})
    with pytest.raises(FileProblem):
        await keeper.flush()
    assert not keeper.saved
    assert isinstance(told[-1][1], FileProblem)
    drafts.refuses = False
    await keeper.flush()
    assert drafts.saved == [{"value": 1}]


async def test_a_submitted_draft_is_forgotten_and_not_written_again() -> None:
    drafts = Drafts()
    keeper, _ = keeper_of(drafts)
    keeper.note({"value": 1})
    await keeper.drop()
    await asyncio.sleep(PAUSE + 0.05)
    assert drafts.saved == [{"dropped": True}]
