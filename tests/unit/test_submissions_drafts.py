"""YAML drafts: nothing that comes from outside can become a live key, and what a person wrote is never lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from expb_tui.core.submissions.draft import DraftError, parse, render
from expb_tui.core.submissions.fields import Form
from expb_tui.core.submissions.task_view import sections
from expb_tui.core.submissions.yamlio import items_of, node_of
from tests.unit.test_submissions_forms import FILLED, INPUTS, ROLES, form_of

ESCAPES = [
    "\n{}: x",
    "\r{}: x",
    "\r\n{}: x",
    "\x85{}: x",
    "\u2028{}: x",
    "\u2029{}: x",
    "\x0b{}: x",
    "\x0c{}: x",
    "\x1c{}: x",
    "\x1d{}: x",
    "\x1e{}: x",
    "\n---\n{}: x",
    "\n...\n---\n{}: x",
    "\n? {}\n: x",
    "\n\u2028\x85{}: x",
    "\ufeff{}: x",
    "\x1b[2K\x1b[1A{}: x",
    "\u202e{}: x",
    "\ud800{}: x",
    "\x00{}: x",
    "\n%YAML 1.1\n---\n{}: x",
    "\n&a {}: x",
    "\n<<: {{{}: x}}",
    "# \n{}: x",
    '"\n{}: "x',
    "'\n{}: 'x",
    "|\n{}: x",
    "\n  {}: x",
    "\t\n{}: x",
]
"""Attempts to end a comment or a value and to start a key; ``{}`` is the key."""


def hostile_input(role: str, text: str) -> dict[str, Any]:
    """The role's task with every text of it replaced."""

    def spoil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoil(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [spoil(item, key) for item in value]
        return text if isinstance(value, str) and key not in ("operator", "direction") else value

    spoiled: dict[str, Any] = spoil(INPUTS[role])
    return spoiled | {text or "key": text}


def keys_of(text: str) -> list[str]:
    node = node_of(text)
    assert node is not None
    return [key for key, _, _ in items_of(node)]  # type: ignore[arg-type]  # a mapping, or the test fails


def check(role: str, task_input: dict[str, Any]) -> None:
    form = form_of(role, task_input)
    text = render(form, form.defaults(), sections(role, task_input), problems={"": "x\u2028outcome: failed"})
    assert keys_of(text) == [field.key for field in form.fields]
    assert parse(form, text) == form.defaults()
    for line in text.split("\n"):
        assert line.startswith(("#", " ", "- ")) or not line or ":" in line


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("escape", ESCAPES)
def test_hostile_tasks_give_the_empty_draft(role: str, escape: str) -> None:
    check(role, hostile_input(role, "Caching helps." + escape.format("outcome")))
    check(role, hostile_input(role, escape.format("verdict")))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ROLES), st.text(max_size=60))
@example("integrator", "\r")
def test_any_text_gives_the_empty_draft(role: str, text: str) -> None:
    check(role, hostile_input(role, text))


def typed_text() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=80).filter(lambda text: bool(text.strip()))


@settings(max_examples=60, deadline=None)
@given(typed_text(), typed_text(), st.lists(typed_text(), max_size=3))
def test_what_a_person_types_comes_back_word_for_word(statement: str, plan: str, risks: list[str]) -> None:
    form = form_of("ideator")
    values = form.defaults() | {"statement": statement, "plan": plan, "risks": risks, "expected_effect": "1e3"}
    assert parse(form, render(form, values, [])) == values


@pytest.mark.parametrize("role", ROLES)
def test_a_filled_form_survives_the_editor(role: str) -> None:
    form = form_of(role)
    values = form.defaults() | FILLED[role]
    text = render(form, values, sections(role, INPUTS[role]))
    assert form.to_body(parse(form, text)) == form.to_body(values)


def edited(form: Form, old: str, new: str) -> str:
    text = render(form, form.defaults(), [])
    assert old in text
    return text.replace(old, new)


def test_plain_words_are_texts_as_typed() -> None:
    form = form_of("integrator")
    values = parse(
        form, edited(form, "base_revision:\n", "base_revision: 0012\n").replace("summary: |\n  \n", "summary: yes\n")
    )
    assert values["base_revision"] == "0012"
    assert values["summary"] == "yes"


@pytest.mark.parametrize(
    ("new", "words", "line_offset"),
    [
        ("statment: x\nstatement: |\n", "did you mean statement", 0),
        ("statement: [a\nx: |\n", "", 1),
        ("statement: x\nstatement: |\n", "twice", 1),
        ("statement: {a: b}\nrisky: |\n", "text is expected", 0),
        ("outcome: failed\nstatement: |\n", "twice", 0),
    ],
)
def test_a_mistake_is_told_with_its_place_and_keeps_the_text(new: str, words: str, line_offset: int) -> None:
    form = form_of("ideator")
    text = edited(form, "statement: |\n", new)
    with pytest.raises(DraftError) as caught:
        parse(form, text)
    first = text[: text.index(new)].count("\n") + 1
    assert caught.value.text == text
    assert words in caught.value.message
    assert caught.value.line >= first + line_offset
    assert caught.value.exit_code == 80


@pytest.mark.parametrize("text", ["", "# nothing\n", "statement: x\n"])
def test_deleted_fields_count_as_empty(text: str) -> None:
    form = form_of("ideator")
    assert parse(form, text)["plan"] == ""


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "risks: words\n", "risks:\n  a: b\n"])
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(DraftError):
        parse(form_of("ideator"), text)


def test_problems_stand_above_their_fields() -> None:
    form = form_of("ideator")
    lines = render(form, form.defaults(), [], problems={"plan": "is needed", "": "the server\u2028said no"}).split("\n")
    at = lines.index("# !! is needed")
    assert lines[at + 1].startswith("plan:")
    assert "# !! the server" in " ".join(lines)


def test_an_untouched_evidence_template_is_no_evidence() -> None:
    form = form_of("experimenter")
    text = render(form, form.defaults(), [])
    assert parse(form, text)["evidence"] == []
    filled = text.replace("    path:", "    path: report.json")
    assert parse(form, filled)["evidence"] == [{"kind": "artifact", "path": "report.json"}]
